/* SPDX-License-Identifier: Apache-2.0 */
/* The words of ends and causes. */
#include "trace/process_end.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "util/format_bytes.h"

static bool has_risen(const struct process_end *end)
{
    return end->oom_kills == OOM_KILLS_CGROUP_ROSE || end->oom_kills == OOM_KILLS_MACHINE_ROSE;
}

bool process_end_is_oom(const struct process_end *end)
{
    return end->how == PROCESS_END_SIGNALED && end->code == SIGKILL && has_risen(end);
}

const char *process_end_signal_name(const struct process_end *end)
{
    static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
        [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
        [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
        [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM", [SIGXCPU] = "SIGXCPU",
        [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS",
    };
    size_t count = sizeof(names) / sizeof(names[0]);
    return end->how == PROCESS_END_SIGNALED && end->code > 0 && (size_t)end->code < count
               ? names[end->code]
               : NULL;
}

const char *process_end_words(const struct process_end *end, char words[PROCESS_END_WORDS])
{
    const char *rose =
        end->oom_kills == OOM_KILLS_CGROUP_ROSE    ? ", the cgroup's oom_kill counter rose"
        : end->oom_kills == OOM_KILLS_MACHINE_ROSE ? ", the machine's oom_kill counter rose"
                                                   : "";
    const char *name = process_end_signal_name(end);
    if (end->how == PROCESS_END_EXITED)
        snprintf(words, PROCESS_END_WORDS, "exit code %d", end->code);
    else if (process_end_is_oom(end))
        snprintf(words, PROCESS_END_WORDS, "signal %d%s", end->code, rose);
    else if (end->how == PROCESS_END_SIGNALED && name != NULL)
        snprintf(words, PROCESS_END_WORDS, "signal %d (%s)%s", end->code, name,
                 end->core_dumped ? ", core dumped" : "");
    else if (end->how == PROCESS_END_SIGNALED)
        snprintf(words, PROCESS_END_WORDS, "signal %d%s", end->code,
                 end->core_dumped ? ", core dumped" : "");
    else
        snprintf(words, PROCESS_END_WORDS, "unknown%s", rose);
    return words;
}

const char *process_end_how_name(const struct process_end *end)
{
    return end->how == PROCESS_END_EXITED     ? "exit"
           : end->how == PROCESS_END_SIGNALED ? "signal"
                                              : "unknown";
}

const char *process_end_oom_kills_name(const struct process_end *end)
{
    static const char *const names[OOM_KILLS_VALUES] = {
        [OOM_KILLS_UNKNOWN] = "unknown",
        [OOM_KILLS_UNCHANGED] = "unchanged",
        [OOM_KILLS_CGROUP_ROSE] = "cgroup_rose",
        [OOM_KILLS_MACHINE_ROSE] = "machine_rose",
    };
    return names[end->oom_kills < OOM_KILLS_VALUES ? end->oom_kills : OOM_KILLS_UNKNOWN];
}

const char *dump_cause_name(uint32_t kind)
{
    static const char *const names[DUMP_CAUSES] = {
        [DUMP_CAUSE_NEAR_LIMIT] = "near_limit",
        [DUMP_CAUSE_MEMORY_HIGH] = "memory_high",
        [DUMP_CAUSE_PRESSURE] = "pressure",
    };
    return kind < DUMP_CAUSES ? names[kind] : NULL;
}

const char *dump_cause_words(uint32_t kind, uint64_t used_bytes, uint64_t limit_bytes,
                             char words[DUMP_CAUSE_WORDS])
{
    const struct formatted used = format_bytes((double)used_bytes);
    const struct formatted limit = format_bytes((double)limit_bytes);
    words[0] = '\0';
    if (kind == DUMP_CAUSE_NEAR_LIMIT)
        snprintf(words, DUMP_CAUSE_WORDS,
                 "the cgroup used %s besides file cache, of its limit of %s", used.bytes,
                 limit.bytes);
    else if (kind == DUMP_CAUSE_MEMORY_HIGH)
        snprintf(words, DUMP_CAUSE_WORDS,
                 "the cgroup used %s besides file cache, and its memory.high is %s", used.bytes,
                 limit.bytes);
    else if (kind == DUMP_CAUSE_PRESSURE)
        snprintf(words, DUMP_CAUSE_WORDS, "tasks of the cgroup waited for memory");
    return words;
}
