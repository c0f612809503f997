/* SPDX-License-Identifier: Apache-2.0 */
/* One function for each kind of problem; each appends its sentences. */
#include "recorder/processes/diagnosis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recorder/processes/program.h"
#include "recorder/ring/ring_reader.h"
#include "util/remark.h"
#include "wire/handshake.h"

/* Append a sentence to the text that the function writes. */
#define say(...) remark_add(text, size, __VA_ARGS__)

static bool is_set(const char *words)
{
    return words != NULL && words[0] != 0;
}

static void explain_silence(const struct diagnosis_facts *facts, char *text, size_t size)
{
    const char *path = facts->executable != NULL ? facts->executable : "";
    struct program program = {0};
    char reason[PROGRAM_REASON_BYTES];
    if (path[0] != 0)
        program_read(&program, path);

    if (facts->library != NULL && access(facts->library, R_OK) != 0)
        say("The profiling library %s cannot be read: reinstall heapprofd.", facts->library);
    else if (program_way(&program, path, reason, sizeof(reason)) != PROGRAM_BY_PRELOADING)
        say("%s", reason);
    else
        say("The profiling library did not report from %s: it allocated nothing, ended before it "
            "could, or its environment lost LD_PRELOAD on the way.",
            facts->name);
}

static void explain_end(const struct diagnosis_facts *facts, char *text, size_t size)
{
    if (facts->corrupted)
        say("The process overwrote the memory that it shares with the profiler; the profile ends "
            "there.");
    if (facts->out_of_memory)
        say("The profiler ran out of memory for this process; the profile ends there. A larger "
            "interval (-i) needs less.");
    if (facts->hit_guardrail)
        say("The profiler used more memory or CPU time than max_heapprofd_memory_kb or "
            "max_heapprofd_cpu_secs allow, and ended the session; the profile ends there. A larger "
            "interval (-i) needs less of both.");
    switch (facts->totals.client_state) {
    case RING_CLIENT_OVERRAN:
        say("The process allocated faster than the profiler could read, and did not wait for it: "
            "the profile ends there. Use --block-client, a larger --shmem-size, or a larger "
            "interval (-i).");
        break;
    case RING_CLIENT_TIMED_OUT:
        say("The process waited longer for the profiler than --block-client-timeout allows: the "
            "profile ends there. Allow more, or use a larger --shmem-size or interval (-i).");
        break;
    case RING_CLIENT_HELD:
        say("A thread of the process was kept from running for %d s while it wrote a record, and "
            "others waited for it (a debugger stopped it, or the machine was overloaded): the "
            "profile ends there.",
            RING_UNSCHEDULED_MS / 1000);
        break;
    case RING_CLIENT_DAEMON_GONE:
        say("The profiler gave no sign of life for 5 s while the process waited for it (it was "
            "stopped, or the machine was overloaded): the profile ends there. Do not stop the "
            "profiler; on an overloaded machine use a larger interval (-i).");
        break;
    case RING_CLIENT_AWAITED:
    case RING_CLIENT_RUNNING:
    case RING_CLIENT_EXITED:
        break;
    }
    if (facts->became != NULL && facts->became_target)
        say("This is what the process allocated before it became %s by exec.", facts->became);
    else if (facts->became != NULL)
        say("It became %s by exec %.2f s after the profile began. Nothing since then is in this "
            "profile: %s.",
            facts->became, (double)facts->became_after_ms / 1e3, facts->became_hint);
    if (facts->running)
        say("%s when the session ended%s: what is live is not necessarily leaked.",
            "The process was still running", facts->interrupted ? " on a signal" : "");
}

/* Return whether the file could be read. A file that is gone now was readable then. */
static bool is_readable(const char *path)
{
    return is_set(path) && (access(path, R_OK) == 0 || errno != EACCES);
}

/* Return why an allocator of the program's own would not be found, as the end of a sentence. */
static const char *why_not_found(const char *path, char *text, size_t size)
{
    struct program program;
    char missing[PROGRAM_MISSING_BYTES];
    if (!is_readable(path))
        return " (the profiler may not read its file: run it as root, or make the file readable)";
    if (program_read(&program, path) < 0)
        return ", which was not found";
    program_debug_file_explain(&program.file, program.debug_file, missing, sizeof(missing));
    snprintf(text, size, ", which was not found: %s", missing);
    return text;
}

/* Explain a profile without calls. Nothing may be concluded about its contents. */
static void explain_no_calls(const struct diagnosis_facts *facts, char *text, size_t size)
{
    char reason[PROGRAM_REASON_BYTES];
    if (is_set(facts->unseen_reason) && !facts->attached)
        say("%s", facts->unseen_reason);
    else if (facts->attached)
        say("No call of the allocator in %s was seen while the profiler was attached: the process "
            "allocated nothing, or by other functions.",
            is_set(facts->allocator) ? facts->allocator : "it");
    else
        say("No call of malloc or a related function was seen: the process allocated nothing, or "
            "has its own allocator%s.",
            why_not_found(facts->executable, reason, sizeof(reason)));
}

static void explain_amount(const struct diagnosis_facts *facts, char *text, size_t size)
{
    if (is_set(facts->unseen_reason) && facts->attached)
        say("%s", facts->unseen_reason);
    else if (is_set(facts->unseen_reason) && facts->totals.calls > 0)
        say("Only its libraries' allocations from %s are in this profile. %s",
            is_set(facts->allocator) ? facts->allocator : "the shared malloc",
            facts->unseen_reason);
    if (facts->samples > 0 || facts->corrupted)
        return;
    if (facts->totals.client_state == RING_CLIENT_AWAITED && !facts->attached)
        say("None of its allocations is in this profile: it waited %d s for the profiler's answer "
            "in vain (the machine was overloaded, or the profiler stopped), or ended earlier, or "
            "is linked to the client library of another version of heapprofd: link it again then.",
            HANDSHAKE_TIMEOUT_MS / 1000);
    else if (facts->interval_bytes == 0 && facts->heaps_reported == 0)
        say("No other heap reported anything, and malloc's heap, libc.malloc, was not requested.");
    else if (facts->interval_bytes == 0 || facts->heaps_reported > 0)
        say("No allocation in the requested heaps was sampled.");
    else if (facts->totals.calls == 0)
        explain_no_calls(facts, text, size);
    else if (facts->interval_bytes > 1)
        say("Nothing was sampled of what it allocated (%" PRIu64 " bytes in %" PRIu64
            " call%s): use a smaller interval than %" PRIu64 " (-i 1 takes every allocation).",
            facts->totals.bytes, facts->totals.calls, facts->totals.calls == 1 ? "" : "s",
            facts->interval_bytes);
}

/* Always mention requested heaps that are missing, whatever else there is. */
static void explain_unreported(const struct diagnosis_facts *facts, char *text, size_t size)
{
    if (facts->unreported != NULL && facts->unreported[0] != 0)
        say("Nothing was reported to %s: the process registered no heap of that name (check its "
            "spelling, and that the program is linked to the client, not to the no-op library), or "
            "did not allocate in it. --all-heaps shows the existing heaps.",
            facts->unreported);
    if (facts->mmap_unreported && !facts->attached)
        say("The program mapped nothing by itself: there is no libc.mmap.");
    if (facts->python_unreported && !facts->hides_python_objects)
        say("There is no python.object: the program is not CPython, allocated nothing by CPython's "
            "own allocator, or has one that cannot be counted (docs/heaps.md).");
}

const char diagnosis_of_attached[] =
    "In a program that the profiler attached to, only malloc and CPython's objects are seen: "
    "libc.mmap needs heap_profile host or shell to start it. So do the program's own heaps, unless "
    "it is linked to the client library and started when the run directory existed (heapprofd "
    "prepare makes it).";

const char *diagnosis_of_python(enum attach_python python)
{
    switch (python) {
    case ATTACH_PYTHON_HAS_OTHER:
        return "the interpreter has another allocator for them than pymalloc "
               "(PYTHONMALLOC=malloc_debug, or a build without pymalloc or without a GIL)";
    case ATTACH_PYTHON_PRINTS:
        return "PYTHONMALLOCSTATS is set, and the interpreter prints no statistics while they are "
               "counted";
    case ATTACH_PYTHON_FAILED:
        return "the process could not map a page for it";
    case ATTACH_PYTHON_ABSENT:
        return "the profiler did not find the interpreter when it attached (the program opened it "
               "later, or its library exports no symbols)";
    default:
        return "no request has reached CPython's own allocator (PYTHONMALLOC=malloc or mimalloc, "
               "or one that the program has set)";
    }
}

static void explain_attaching(const struct diagnosis_facts *facts, char *text, size_t size)
{
    if (facts->is_complete)
        say("The program %s: the profiler attached to it before %s, so the profile begins with its "
            "first allocation.",
            facts->attach_moment == ATTACH_AT_ENTRY ? "is statically linked"
                                                    : "has its own allocator",
            facts->attach_moment == ATTACH_AT_ENTRY ? "its first instruction"
                                                    : "its first constructor");
    else if (facts->attach_moment == ATTACH_AT_HELLO)
        say("The program has its own allocator, so the profiler attached to it at its "
            "start:");
    else if (facts->attach_missed_us == 0)
        say("The profiler attached while it ran:");
    else if (facts->start_was_reported)
        say("The profiler attached %.1f ms after it began, of the %.0f ms that it ran:",
            (double)facts->attach_missed_us / 1e3, (double)facts->known_us / 1e3);
    else
        say("Its start was missed: the profiler found it by a scan of /proc and attached up to "
            "%.0f ms after it began, of up to %.0f ms that it ran (heap_profile doctor explains "
            "why the kernel does not report new programs):",
            (double)facts->attach_missed_us / 1e3, (double)facts->known_us / 1e3);
    if (!facts->is_complete)
        say("earlier allocations are not part of this profile.");
    say("Its threads were stopped for %.1f ms then, and for %.1f ms at the end.",
        facts->attach_stopped_us / 1e3, (double)facts->detach_stopped_us / 1e3);
    if (facts->calls_cut > 0)
        say("%u of its system calls failed with EINTR because of that.", facts->calls_cut);
    if (facts->others_wanted)
        say("%s", diagnosis_of_attached);
    else if (facts->is_linked)
        say("It is linked to the client library: heaps of its own, if it has any, are missing. "
            "%sheap_profile host records all.",
            facts->may_join ? "--all-heaps records them, without malloc; " : "");
}

/* The client knows how to cross to Go's stacks on x86-64 (go_call.h). */
#ifdef __x86_64__
static const bool stacks_end_before_go = false;
#else
static const bool stacks_end_before_go = true;
#endif

static void explain_unmentioned_heaps(const struct diagnosis_facts *facts, char *text, size_t size)
{
    uint32_t count = facts->totals.unmentioned_heaps;
    char name[RING_HEAP_NAME_BYTES + sizeof(" ( and others)")] = "";
    if (is_set(facts->totals.unmentioned_heap))
        snprintf(name, sizeof(name), " (%s%s)", facts->totals.unmentioned_heap,
                 count > 1 ? " and others" : "");
    if (count == 1)
        say("The program has a heap of its own%s, which was not asked for and is missing: "
            "--all-heaps shows it.",
            name);
    else if (count > 1)
        say("The program has %" PRIu32 " heaps of its own%s, which were not asked for and are "
            "missing: --all-heaps shows them.",
            count, name);
}

/* Allocations and samples that the profile lacks, although the process was profiled. */
static void explain_missing(const struct diagnosis_facts *facts, char *text, size_t size)
{
    if (facts->is_go)
        say("%s is a Go program: Go code allocates from Go's own heap, which is not in this "
            "profile. Use Go's profiler (runtime/pprof); heap_profile report opens its files.%s",
            facts->name,
            stacks_end_before_go ? " Stacks of C code that Go calls end at runtime.asmcgocall, "
                                   "which changes the stack."
                                 : "");
    if (facts->hides_python_objects)
        say("There is no python.object: %s.", diagnosis_of_python(facts->python));
    if (facts->totals.has_deepbind)
        say("It opened a library with RTLD_DEEPBIND (as PHP opens its extensions): the preloaded "
            "library does not see the allocations of such libraries, so they are missing. "
            "heap_profile -n NAME or -p PID attaches to the process and sees it.");
    if (facts->totals.unseen_family[0] != 0 && facts->attached)
        say("The profiler had no memory in the process to count an allocator under another name "
            "(%s), or was not allowed to map any: that allocator's memory is missing.",
            facts->totals.unseen_family);
    else if (facts->totals.unseen_family[0] != 0)
        say("A library of it has an allocator of its own (%s), whose calls inside the library the "
            "preloaded library does not see: its memory is missing.%s",
            facts->totals.unseen_family,
            facts->mmap_wanted ? "" : " --heaps libc.mmap shows what it maps.");
    explain_unmentioned_heaps(facts, text, size);
    if (facts->totals.restricted)
        say("The process restricted its own system calls (seccomp, or Syscall User Dispatch), and "
            "the "
            "profiler's library has made none since: threads that began later, and some stacks, "
            "are "
            "missing.");
    if (facts->busy_bytes > 0)
        say("%" PRIu64
            " bytes of samples were begun and never finished (the process died, or a signal "
            "handler left by longjmp), and are lost.",
            facts->busy_bytes);
    if (facts->unknown_stacks > 0)
        say("Samples without a call stack: %" PRIu64 ".", facts->unknown_stacks);
    if (facts->lost_frees > 0)
        say("%" PRIu64 " samples could not be followed to their free, and are counted as freed.",
            facts->lost_frees);
}

void diagnosis_write(const struct diagnosis_facts *facts, char *text, size_t size)
{
    text[0] = 0;
    if (facts->refused != NULL)
        say("%s", facts->refused);
    else if (!facts->said_hello)
        explain_silence(facts, text, size);
    else {
        explain_unreported(facts, text, size);
        explain_amount(facts, text, size);
    }

    if (facts->attached)
        explain_attaching(facts, text, size);
    if (facts->attach_remark != NULL && facts->attach_remark[0] != 0)
        say("%s", facts->attach_remark);
    if (facts->forked && facts->samples > 0)
        say("The process began as a copy of its parent: what it inherited is not part of this "
            "profile.");
    if (facts->replaced != NULL && facts->replaced_kept)
        say("Before its exec this process was %s; its allocations are in a separate heap.",
            facts->replaced);
    else if (facts->replaced != NULL && facts->replaced_samples == 0)
        say("Before its exec this process was %s; none of its allocations was sampled.",
            facts->replaced);
    else if (facts->replaced != NULL)
        say("Before its exec this process was %s; its allocations (samples: %" PRIu64
            ") are not part of this profile.",
            facts->replaced, facts->replaced_samples);
    explain_end(facts, text, size);
    if (facts->totals.silent_children > 0)
        say("Its forked children that allocate (%" PRIu32 ") are not in this profile: the "
            "profiler attached to this process only; heap_profile -p attaches to a child.",
            facts->totals.silent_children);
    explain_missing(facts, text, size);
    if (facts->code_remark != NULL && facts->code_remark[0] != 0)
        say("%s", facts->code_remark);
}
