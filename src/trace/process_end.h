/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a profiled process ended, and what the kernel's OOM killer had to do with it; and why a dump
 * was taken before that. The daemon finds it out, and the trace contains it unchanged.
 *
 * The kernel does not say which process its OOM killer has killed. It counts them: in each memory
 * cgroup and for the machine. So a process that died of signal 9 while the count of its cgroup rose
 * was killed by the OOM killer, unless somebody else killed it in the same moment.
 */
#ifndef HEAPPROFD_TRACE_PROCESS_END_H
#define HEAPPROFD_TRACE_PROCESS_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_writer;

/* The values of ProcessEnd.How. */
enum process_end_how { PROCESS_END_UNKNOWN, PROCESS_END_EXITED, PROCESS_END_SIGNALED };

/* The values of ProcessEnd.OomKills. */
enum process_end_oom_kills {
    OOM_KILLS_UNKNOWN,      /* no counter could be read */
    OOM_KILLS_UNCHANGED,    /* of its cgroup, or of the machine */
    OOM_KILLS_CGROUP_ROSE,  /* the counter of its cgroup rose */
    OOM_KILLS_MACHINE_ROSE, /* that of its cgroup cannot be read; the machine's rose */
    OOM_KILLS_VALUES,
};

/* Sizes in bytes; 0: unknown, or unlimited. */
struct process_end {
    int32_t pid;
    uint64_t boottime_ns;
    uint32_t how; /* enum process_end_how */
    int32_t code; /* exit code, or signal */
    bool core_dumped;
    uint32_t oom_kills;   /* enum process_end_oom_kills */
    const char *cgroup;   /* of its memory, as /proc/PID/cgroup names it; NULL: unknown */
    uint64_t limit_bytes; /* the lowest limit of the cgroup and those around it */
    uint64_t
        used_bytes; /* by the cgroup with that limit: the most that was read in the last seconds */
    uint64_t peak_bytes; /* its highest use, with all that ran in it before */
    /* Resident memory, as last read before the end: the program's, and the profiler's own beside
     * it, with what was written of the ring since. If that is unknown, rss_bytes includes it. */
    uint64_t rss_bytes, profiler_rss_bytes;
    uint64_t most_rss_bytes; /* by the kernel's own count, with the profiler's own */
};

/* Take how, code and core_dumped from a status of waitpid; -1: unknown. */
void process_end_set_status(struct process_end *end, int32_t wait_status);

/* Return whether the process died of the OOM killer's signal while the counter rose. */
bool process_end_is_oom(const struct process_end *end);

#define PROCESS_END_WORDS 128
/* Write how it ended, in words for people: "exit code 1", "signal 11 (SIGSEGV), core dumped",
 * "signal 9, the cgroup's oom_kill counter rose", "unknown". Return `words`. */
const char *process_end_words(const struct process_end *end, char words[PROCESS_END_WORDS]);

/* Names for scripts: "exit", "signal", "unknown"; "cgroup_rose" and the like. */
const char *process_end_how_name(const struct process_end *end);
const char *process_end_oom_kills_name(const struct process_end *end);
/* Return "SIGKILL" and the like; NULL if it is no signal or has no name. */
const char *process_end_signal_name(const struct process_end *end);

/* Write an end. Return 0 or a negative errno, like all of trace_writer.h. */
int trace_writer_process_end(struct trace_writer *writer, const struct process_end *end);

/* The values of ProcessHeapSamples.DumpCause: why a dump was taken that nobody asked for. */
enum dump_cause_kind {
    DUMP_CAUSE_NONE,
    DUMP_CAUSE_NEAR_LIMIT,  /* the cgroup's use came near its limit */
    DUMP_CAUSE_MEMORY_HIGH, /* it came to memory.high, above which the kernel slows it down */
    DUMP_CAUSE_PRESSURE,    /* tasks of the cgroup waited for memory */
    DUMP_CAUSES,
};

/* Names for scripts: "near_limit", "memory_high", "pressure"; NULL: none. */
const char *dump_cause_name(uint32_t kind);

#define DUMP_CAUSE_WORDS 160
/* Write a dump's cause in words for people. Return `words`; "": none. */
const char *dump_cause_words(uint32_t kind, uint64_t used_bytes, uint64_t limit_bytes,
                             char words[DUMP_CAUSE_WORDS]);

#endif
