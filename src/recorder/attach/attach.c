/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach to a process and detach from it. The steps are ordered so that the process is intact after
 * each of them. Attach: prepare everything while the process runs, stop all threads, map memory
 * that nothing refers to yet, patch the entries, and let the threads continue. Detach: restore the
 * entries and, once no thread is in the client, unmap the memory.
 */
#include "recorder/attach/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/attempt.h"
#include "recorder/attach/image.h"
#include "recorder/attach/inject.h"
#include "recorder/attach/installed_client.h"
#include "recorder/attach/locate.h"
#include "recorder/attach/memory_sharers.h"
#include "recorder/attach/permission.h"
#include "recorder/attach/process.h"
#include "recorder/attach/python_heap.h"
#include "recorder/attach/remove_client.h"
#include "recorder/attach/seccomp_filter.h"
#include "recorder/attach/stop_checks.h"
#include "recorder/attach/tracee.h"
#include "util/clock.h"
#include "util/process_files.h"
#include "wire/sampling.h"

/* Attempts to find no thread in a signal handler that interrupted a replaced entry. */
#define ENTRY_ATTEMPTS 20

/* Return when the process started, in the kernel's ticks, or 0 if it has ended. */
static uint64_t start_time_of(pid_t pid)
{
    struct process_stat stat;
    return process_stat_read(pid, &stat) ? stat.start_ticks : 0;
}

bool attempt_is_same_process(const struct attach *attach)
{
    return attach->start_time != 0 && start_time_of(attach->pid) == attach->start_time;
}

bool attempt_has_client(const struct attach *attach, struct process *process)
{
    if (process_read_regions(process) < 0)
        return false;
    const struct process_region *region = process_region_of(process, attach->client.params_address);
    return region != NULL && strstr(region->path, ATTACHED_MEMFD_NAME) != NULL;
}

/* Report that a process has ended instead of the step that failed because of it. A process that
 * ends meanwhile makes any of our steps fail. */
static int explain_end(pid_t pid, int code, struct attach_outcome *outcome, struct error *error)
{
    if (code == 0 || outcome->refusal == ATTACH_NO_PROCESS || !process_has_ended(pid))
        return code;
    outcome->refusal = ATTACH_NO_PROCESS;
    return error_set(error, -ESRCH, "pid %d has ended", (int)pid);
}

/* --- preparations, while it runs --- */

void attempt_note_refused(struct attach_outcome *outcome, const char *name, const char *why)
{
    size_t used = strlen(outcome->refused);
    outcome->functions_refused++;
    snprintf(outcome->refused + used, sizeof(outcome->refused) - used, "%s%s (%s)",
             used > 0 ? ", " : "", name, why);
}

/* Return the number of patched functions that are not the allocator's. */
static size_t patched_of_libc(const struct attached_params *params)
{
    size_t count = 0;
    for (unsigned i = ATTACHED_DLCLOSE; attached_is_of_libc(i); i++)
        count += params->real[i] != 0;
    return count;
}

/* Return whether the functions that can be patched are enough: malloc, and free if there is one;
 * or, if the allocator has neither, any others. */
static bool can_profile(const struct attempt *attempt)
{
    const struct located_function *functions = attempt->located.functions;
    const struct attached_params *params = attempt->params;
    bool has_malloc = functions[ATTACHED_MALLOC].address != 0;
    bool has_free = functions[ATTACHED_FREE].address != 0;
    return has_malloc ? params->real[ATTACHED_MALLOC] != 0 &&
                            (params->real[ATTACHED_FREE] != 0 || !has_free)
                      : attempt->attach->entries.count > patched_of_libc(params);
}

/* A hook may call another function than its own in place of it (one that does not throw). Give it
 * the addresses of those, too, that are aliases or cannot be patched. */
static void name_all_functions(struct attempt *attempt)
{
    struct attached_params *params = attempt->params;
    const struct located_function *functions = attempt->located.functions;
    for (int i = ATTACHED_CXX; i < ATTACHED_FUNCTIONS; i++) {
        for (int j = 0; j < i && functions[i].is_alias && params->real[i] == 0; j++) {
            if (functions[j].address == functions[i].address)
                params->real[i] = params->real[j];
        }
        if (params->real[i] == 0)
            params->real[i] = functions[i].address;
    }
}

static int make_trampolines(struct attempt *attempt)
{
    struct attach *attach = attempt->attach;
    struct attached_params *params = attempt->params;
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        const struct located_function *function = &attempt->located.functions[i];
        if (function->address == 0 || function->is_alias)
            continue;
        if (function->only_throws) {
            attempt_note_refused(attempt->outcome, function->name,
                                 "its form that does not throw is missing");
            continue;
        }
        const struct entry_function patch = {.address = function->address,
                                             .size = function->size,
                                             .hook = params->hooks[i],
                                             .number = (uint32_t)i};
        const char *why = "";
        params->real[i] = entries_add(&attach->entries, &attempt->tracee, &patch, &why);
        /* Without these two, the daemon notices a restriction a moment later. */
        bool is_needed = i != ATTACHED_PRCTL && i != ATTACHED_SYSCALL;
        if (params->real[i] == 0 && is_needed)
            attempt_note_refused(attempt->outcome, function->name, why);
    }
    params->real_syscall = params->real[ATTACHED_SYSCALL];
    if (attempt->options != NULL && attempt->options->wants_families)
        attempt_patch_families(attempt);
    if (can_profile(attempt))
        return 0;
    attempt->outcome->refusal = ATTACH_UNSUPPORTED;
    return error_set(attempt->error, -ENOTSUP,
                     "process %d: its allocator (%s) cannot be patched: %s; start it under "
                     "heap_profile host",
                     (int)attach->pid, attempt->located.allocator, attempt->outcome->refused);
}

static uint64_t first_address(const struct located *located)
{
    uint64_t address = 0;
    for (int i = 0; i < ATTACHED_FUNCTIONS && address == 0; i++) {
        if (!attached_is_of_libc((unsigned)i))
            address = located->functions[i].address;
    }
    return address;
}

/* Find the allocator, choose the image's address, and make the trampolines. This only reads the
 * process. */
static int prepare(struct attempt *attempt)
{
    struct located *located = &attempt->located;
    struct attach_outcome *outcome = attempt->outcome;
    struct entries *entries = &attempt->attach->entries;
    int code = attempt_note_libraries(attempt);
    if (code == 0)
        code =
            locate_functions(located, &attempt->process, &attempt->tracee, outcome, attempt->error);
    if (code < 0)
        return code;
    snprintf(outcome->allocator, sizeof(outcome->allocator), "%s", located->allocator);
    outcome->allocator_is_shared = located->is_shared;
    outcome->allocator_has_others = located->has_others;
    if (attempt->options == NULL || attempt->options->wants_python)
        python_heap_locate(&attempt->python, &attempt->process, &attempt->tracee);
    outcome->python = attempt->python.state;
    entries->image = inject_find_place(&attempt->process, first_address(located), image_total());
    if (entries->image == 0)
        return error_set(attempt->error, -ENOMEM,
                         "process %d has no free address space within %u MiB of its allocator",
                         (int)attempt->attach->pid, (unsigned)(PROCESSOR_JUMP_REACH >> 20));
    code = image_make(&attempt->image, entries->image, attempt->error);
    if (code < 0)
        return code;
    entries->image_end = entries->image + attempt->image.total;
    entries->room = entries->image + attempt->image.trampolines_start;
    attempt->params = image_params(&attempt->image);
    attempt_place_annex(attempt);
    return make_trampolines(attempt);
}

/* Write the program's path as the process sees it. /proc shows it as we do, from our root. */
static void write_program(char path[ATTACHED_PROGRAM_BYTES], const struct process *process)
{
    char link[64], root[ATTACHED_PROGRAM_BYTES];
    const char *file = process->program.file;
    snprintf(link, sizeof(link), "/proc/%d/root", (int)process_living_thread(process->pid));
    ssize_t length = readlink(link, root, sizeof(root) - 1);
    root[length > 0 ? length : 0] = 0;
    if (length > 1 && strncmp(file, root, (size_t)length) == 0 && file[length] == '/')
        file += length;
    if (strlen(file) < ATTACHED_PROGRAM_BYTES)
        strcpy(path, file);
}

/* Note where the dormant library is: its mappings follow each other. */
static void note_preloaded(struct attached_params *params, const struct process *process)
{
    for (size_t i = 0; i < process->region_count; i++) {
        const struct process_region *region = &process->regions[i];
        if (!process_region_is(region, PROCESS_CLIENT_NAME))
            continue;
        if (params->preloaded == 0)
            params->preloaded = region->start;
        params->preloaded_bytes = region->end - params->preloaded;
    }
}

static void fill_params(struct attempt *attempt)
{
    struct attached_params *params = attempt->params;
    const struct attach_options *options = attempt->options;
    const struct located *located = &attempt->located;
    params->data_bytes = options->data_bytes;
    params->interval_bytes =
        options->interval_bytes != 0 ? options->interval_bytes : SAMPLING_NEVER_BYTES;
    params->certain_bytes = sampling_certain_bytes(params->interval_bytes);
    params->block_client_timeout_us = options->block_client_timeout_us;
    params->adaptive_threshold_bytes = options->adaptive_threshold_bytes;
    params->adaptive_max_interval_bytes = options->adaptive_max_interval_bytes;
    params->start_ms = options->start_ms;
    params->flags = options->flags;
    params->max_overhead_percent = options->max_overhead_percent;
    params->wide_interval_bytes = options->wide_interval_bytes;
    params->daemon_pid = options->daemon_pid;
    params->clock_gettime = located->clock_gettime;
    params->stack_end = located->stack_end;
    /* At its first instruction the program has not set up what this function reads. */
    if (options->moment != ATTACH_AT_ENTRY)
        params->dl_find_object = located->dl_find_object;
    params->exit = located->exit;
    params->pthread_exit = located->pthread_exit;
    params->at_entry = options->moment == ATTACH_AT_ENTRY;
    params->heap_visit = located->heap_visit;
    note_preloaded(params, &attempt->process);
    write_program(params->program, &attempt->process);
    name_all_functions(attempt);
    entries_list(&attempt->attach->entries, params);
    entries_fill(&attempt->attach->entries, attempt->image.bytes + attempt->image.trampolines_start,
                 attempt->image.bytes + attempt->image.total);
    if (getrandom(&params->seed, sizeof(params->seed), GRND_NONBLOCK) !=
        (ssize_t)sizeof(params->seed))
        params->seed = clock_read_us(CLOCK_MONOTONIC) ^ ((uint64_t)attempt->attach->pid << 40);
}

/* --- with all threads stopped --- */

/* Map the client and patch the entries. The process is stopped before and after. */
static int enter_stopped(struct attempt *attempt)
{
    struct attach *attach = attempt->attach;
    struct tracee *tracee = &attempt->tracee;
    const struct image *image = &attempt->image;
    struct attached_params *params = attempt->params;
    struct error *error = attempt->error;
    uint64_t ring = 0, base = attach->entries.image, data_bytes = attempt->options->data_bytes;
    int code = tracee_work_begin(tracee, NULL);
    if (code < 0)
        return error_set(error, code, "cannot make system calls in process %d: %s",
                         (int)attach->pid, strerror(-code));
    params->image = base;
    params->image_bytes = image->total;
    params->annex = attach->entries.annex;
    params->marker = base + image->marker_start;
    params->ring_bytes = RING_DATA_OFFSET + 2 * data_bytes;
    code = inject_map(tracee, image, base, attempt->options->ring_fd, data_bytes, &ring, error);
    attempt->has_no_annex = code == -EADDRNOTAVAIL;
    /* Beside the marker, in a page of ours. */
    if (code == 0)
        python_heap_place_calls(&attempt->python, tracee, params->marker + 64, &params->python);
    attempt->outcome->python = attempt->python.state;
    int ended = tracee_work_end(tracee);
    if (code == 0 && ended < 0)
        code = error_set(error, ended, "process %d ended meanwhile", (int)attach->pid);
    if (code < 0)
        return code;

    params->ring = ring;
    params->annex_bytes = params->annex != 0 ? image->annex_bytes : 0;
    attach->client.params_address = base + image->params_offset;
    attach->client.trampolines = attach->entries.trampolines;
    attach->client.trampoline_count = attach->entries.count;
    attach->client.params = *params;
    code = tracee_write(tracee, attach->client.params_address, params, sizeof(*params));
    if (code == 0) {
        tracee_move(tracee);
        code = entries_patch(&attach->entries, tracee);
        if (code == 0)
            code = python_heap_enter(&params->python, tracee);
    }
    if (code < 0) {
        installed_client_restore(&attach->client, tracee);
        /* No thread has run since then, so this check only moves the threads back. */
        if (installed_client_is_unused(&attach->client, tracee)) {
            tracee_move(tracee);
            installed_client_remove(&attach->client, tracee);
        }
        return error_set(error, code, "cannot write the code of process %d: %s", (int)attach->pid,
                         strerror(-code));
    }
    return 0;
}

/* Stop the process at a moment when no thread is inside an entry that will be replaced, or move the
 * threads out of it. Return 0; or a negative errno, with all threads running. */
static int stop_outside_entries(struct attempt *attempt)
{
    const struct attach *attach = attempt->attach;
    struct tracee *tracee = &attempt->tracee;
    struct error *error = attempt->error;
    for (int stops = 0;; stops++) {
        int code = tracee_stop(tracee);
        if (code < 0)
            return stop_explain(tracee, code, attempt->outcome, error);
        pid_t in_the_way = entries_clear(&attach->entries, tracee);
        if (in_the_way == 0)
            return 0;
        tracee_forget_moves(tracee);
        tracee_resume(tracee);
        if (stops == ENTRY_ATTEMPTS) {
            attempt->outcome->refusal = ATTACH_BUSY;
            return error_set(error, -EAGAIN,
                             "a thread of process %d is at the entry of its allocator: try again",
                             (int)attach->pid);
        }
        tracee_wait_turn(tracee, in_the_way);
    }
}

/* --- attaching and detaching --- */

/* Check which system calls the stopped process may make, and note what that means for the client.
 */
static int check_calls(struct attempt *attempt)
{
    struct attached_params *params = attempt->params;
    struct client_filter_verdict verdict;
    unsigned makers = CALL_LEAVES | CALL_ATTACHED;
    if (attempt->options->moment == ATTACH_AT_ENTRY)
        makers |= CALL_AT_ENTRY;
    int code = stop_check_calls(&attempt->tracee, makers, &verdict, attempt->error);
    params->avoid_copying = verdict.forbids_copying;
    params->avoid_unlocking = verdict.forbids_unlocking;
    if (code < 0)
        attempt->outcome->refusal = ATTACH_SECCOMP;
    return code;
}

int attempt_check_sharers(struct attempt *attempt)
{
    pid_t pid = attempt->attach->pid, sharer = memory_sharers_look(&attempt->sharers);
    if (sharer == 0)
        return 0;
    attempt->outcome->refusal = ATTACH_BUSY;
    return error_set(attempt->error, -EAGAIN,
                     "process %d shares its memory with process %d (vfork before an exec, or clone "
                     "with CLONE_VM), which would run while code is changed: try again when one of "
                     "them has ended or become another program",
                     (int)pid, (int)sharer);
}

int attempt_stop_and_enter(struct attempt *attempt, int (*enter)(struct attempt *attempt))
{
    struct tracee *tracee = &attempt->tracee;
    struct attach_outcome *outcome = attempt->outcome;
    struct error *error = attempt->error;
    pid_t pid = attempt->attach->pid;
    int code = stop_outside_entries(attempt);
    if (code < 0)
        return code;
    outcome->threads = (unsigned)tracee->thread_count;
    code = permission_check_stopped(pid, outcome, error);
    if (code == 0)
        code = attempt_check_sharers(attempt); /* it may have made one until it was stopped */
    if (code == 0)
        code = check_calls(attempt);
    if (code == 0 && !entries_are_unchanged(&attempt->attach->entries, tracee)) {
        outcome->refusal = ATTACH_BUSY;
        code = error_set(error, -EAGAIN, "the code of process %d changed meanwhile: try again",
                         (int)pid);
    }
    if (code == 0)
        code = enter(attempt);
    if (code == 0)
        entries_settle(&attempt->attach->entries);
    else
        tracee_forget_moves(tracee);
    tracee_resume(tracee);
    outcome->stopped_us = tracee->resumed_us - tracee->stopped_us;
    outcome->calls_cut = tracee->calls_cut;
    return code;
}

static int prepare_and_enter(struct attempt *attempt)
{
    int code = prepare(attempt);
    if (code < 0)
        return code;
    fill_params(attempt);
    return attempt_stop_and_enter(attempt, enter_stopped);
}

/* Forget what prepare_and_enter() has found and made. */
static void start_over(struct attempt *attempt)
{
    struct attach *attach = attempt->attach;
    const pid_t pid = attach->pid;
    const uint64_t start_time = attach->start_time;
    free(attach->links);
    memset(attach, 0, sizeof(*attach));
    attach->pid = pid;
    attach->start_time = start_time;
    image_free(&attempt->image);
    *attempt->outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
}

static int attach_to(struct attempt *attempt)
{
    struct tracee *tracee = &attempt->tracee;
    struct attach_outcome *outcome = attempt->outcome;
    struct error *error = attempt->error;
    pid_t pid = attempt->attach->pid;
    if (attempt->options->patience_ms > 0)
        tracee->patience_ms = attempt->options->patience_ms;
    if (locate_system_call(&attempt->process, tracee) < 0) {
        outcome->refusal = ATTACH_UNSUPPORTED;
        return error_set(error, -ENOTSUP, "no system call instruction was found in process %d",
                         (int)pid);
    }
    int code = attempt_check_sharers(attempt);
    if (code == 0)
        code = remove_orphans(&attempt->process, tracee, outcome, error);
    if (code < 0)
        return code;
    code = prepare_and_enter(attempt);
    /* A process that stood at its entry has been released. */
    if (attempt->has_no_annex && attempt->options->moment != ATTACH_AT_ENTRY) {
        start_over(attempt);
        code = prepare_and_enter(attempt);
    }
    if (code == -ETIMEDOUT)
        code = stop_explain(tracee, code, outcome, error);
    if (code == -EEXIST || code == -EADDRNOTAVAIL) {
        outcome->refusal = ATTACH_BUSY;
        code = error_set(error, -EAGAIN,
                         "process %d has meanwhile mapped memory at the client's address: try "
                         "again",
                         (int)pid);
    }
    return code;
}

static void attach_free(struct attach *attach)
{
    if (attach != NULL)
        free(attach->links);
    free(attach);
}

/* Begin an attempt: read the process, and open its memory. Call end_attempt() in any case. */
static int begin_attempt(struct attempt *attempt, pid_t pid, enum attach_moment moment)
{
    attempt->tracee.memory_fd = -1;
    *attempt->outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
    attempt->attach = calloc(1, sizeof(*attempt->attach));
    if (attempt->attach == NULL)
        return error_set(attempt->error, -ENOMEM, "out of memory");
    attempt->attach->pid = pid;
    attempt->attach->start_time = start_time_of(pid);
    attempt->sharers.pid = pid;
    int code = process_read(&attempt->process, pid, moment, attempt->outcome, attempt->error);
    if (code < 0)
        return code;
    attempt->process.symbols = executable_symbols_open(pid);
    code = tracee_open(&attempt->tracee, pid);
    if (code < 0)
        stop_explain(&attempt->tracee, code, attempt->outcome, attempt->error);
    attempt->tracee.is_held = moment == ATTACH_AT_ENTRY;
    return code;
}

/* Free everything but attempt->attach. Return the attempt's result. */
static int end_attempt(struct attempt *attempt, pid_t pid, int code)
{
    tracee_close(&attempt->tracee);
    memory_sharers_clear(&attempt->sharers);
    image_free(&attempt->image);
    executable_symbols_close(attempt->process.symbols);
    process_clear(&attempt->process);
    return explain_end(pid, code, attempt->outcome, attempt->error);
}

struct attach *attach_open(const struct attach_options *options, struct attach_outcome *outcome,
                           struct error *error)
{
    struct attempt attempt = {.options = options, .outcome = outcome, .error = error};
    int code = begin_attempt(&attempt, options->pid, options->moment);
    if (code == 0)
        code = attach_to(&attempt);
    if (end_attempt(&attempt, options->pid, code) == 0)
        return attempt.attach;
    attach_free(attempt.attach);
    return NULL;
}

int attach_close(struct attach *attach, struct attach_outcome *outcome, struct error *error)
{
    struct tracee tracee = {.memory_fd = -1};
    struct process process = {.pid = attach->pid};
    *outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
    int code = -ESRCH;
    if (attempt_is_same_process(attach) && attempt_has_client(attach, &process))
        code = tracee_open(&tracee, attach->pid);
    if (code == 0) {
        code = locate_system_call(&process, &tracee);
        if (code == 0)
            code = remove_client(&attach->client, &tracee, outcome);
    }
    tracee_close(&tracee);
    process_clear(&process);
    outcome->process_gone = code == -ESRCH || code == -ENOENT;
    if (outcome->process_gone)
        code = 0;
    if (code == -ETIMEDOUT && outcome->code_restored)
        snprintf(outcome->left, sizeof(outcome->left),
                 "thread %d did not make the profiler's system calls in time, so its memory stays "
                 "mapped until the next session attaches",
                 (int)tracee.stuck);
    if ((code == -EBUSY || code == -ETIMEDOUT) && outcome->code_restored) {
        outcome->left_mapped = true;
        if (outcome->left[0] == 0)
            snprintf(outcome->left, sizeof(outcome->left),
                     "a thread still runs code of the profiler, so its memory stays mapped until "
                     "the next "
                     "session attaches");
        code = 0;
    }
    pid_t pid = attach->pid;
    attach_free(attach);
    if (code < 0)
        return error_set(error, code, "cannot take the profiler out of process %d: %s", (int)pid,
                         outcome->left[0] != 0 ? outcome->left : strerror(-code));
    return 0;
}

void attach_serve_meanwhile(void (*serve)(void *context), void *context)
{
    tracee_serve_meanwhile(serve, context);
}

unsigned attach_tidy(void)
{
    return tracee_release_pending();
}

int attach_check_released(pid_t pid, struct error *error)
{
    pid_t tid = tracee_pending_of(pid);
    if (tid == 0)
        return 0;
    return error_set(error, -EAGAIN,
                     "thread %d of process %d could not be stopped (it waits in the kernel): try "
                     "again later",
                     (int)tid, (int)pid);
}

int attach_check(pid_t pid, struct attach_outcome *outcome, struct error *error)
{
    struct attempt attempt = {.outcome = outcome, .error = error};
    int code = begin_attempt(&attempt, pid, ATTACH_WHILE_IT_RUNS);
    if (code == 0)
        code = attempt_check_sharers(&attempt);
    if (code == 0)
        code = prepare(&attempt);
    code = end_attempt(&attempt, pid, code);
    attach_free(attempt.attach);
    return code;
}

int attach_check_loaded(pid_t pid)
{
    struct process process;
    struct tracee tracee;
    struct attach_outcome outcome;
    int code = process_read(&process, pid, ATTACH_WHILE_IT_RUNS, &outcome, NULL);
    if (code == 0) {
        code = tracee_open(&tracee, pid);
        struct remote_memory memory = {&tracee, REMOTE_READS_MAX};
        if (code == 0 && !remote_is_loaded(&process, &memory))
            code = -EAGAIN;
        tracee_close(&tracee);
    }
    process_clear(&process);
    return code;
}
