/* SPDX-License-Identifier: Apache-2.0 */
/* The options of verbs that record a profile: sampling, the choice of heaps, and the form of
 * callsites. */
#ifndef HEAPPROFD_TOOLS_CLI_OPTIONS_HEAP_OPTIONS_H
#define HEAPPROFD_TOOLS_CLI_OPTIONS_HEAP_OPTIONS_H

#include <stdbool.h>

#include "tools/cli/options/options.h"
#include "trace/config/trace_config.h"

/* The member is a struct heap_config. */
#define HEAP_OPTIONS(type, member)                                                                 \
    OPTION_ENTRY_CALL("heaps", 0, type, member.heaps, take_heaps),                                 \
        OPTION_ENTRY("all-heaps", 0, OPTION_SET, type, member.all_heaps),                          \
        OPTION_ENTRY_CALL("exclude-heaps", 0, type, member.exclude_heaps, take_heaps),             \
        OPTION_ENTRY_CALL("heap-intervals", 0, type, member, take_heap_intervals),                 \
        OPTION_ENTRY_CHOICE("stack-mode", type, member.stack_mode, stack_mode_names),              \
        OPTION_ENTRY("context-slices", 0, OPTION_SET, type, member.context_slices)
option_take take_heaps, take_heap_intervals;
extern const char *const stack_mode_names[]; /* by enum heap_stack_mode, NULL at the end */

/* Recording options of all verbs that profile. The member is a struct heap_config. */
#define RECORDING_OPTIONS(type, member)                                                            \
    OPTION_ENTRY("interval", 'i', OPTION_BYTES, type, member.sampling_interval_bytes),             \
        OPTION_ENTRY("duration", 'd', OPTION_MS, type, member.duration_ms),                        \
        OPTION_ENTRY("continuous-dump", 'c', OPTION_MS, type, member.dump_interval_ms),            \
        OPTION_ENTRY("dump-at-max", 0, OPTION_SET, type, member.dump_at_max),                      \
        OPTION_ENTRY_CALL("shmem-size", 0, type, member.shmem_size_bytes, take_ring_bytes),        \
        OPTION_ENTRY("block-client", 0, OPTION_SET, type, member.block_client),                    \
        OPTION_ENTRY("no-block-client", 0, OPTION_CLEAR, type, member.block_client),               \
        OPTION_ENTRY("block-client-timeout", 0, OPTION_US, type, member.block_client_timeout_us),  \
        OPTION_ENTRY_CALL("max-overhead", 0, type, member.max_overhead_percent,                    \
                          take_max_overhead),                                                      \
        OPTION_ENTRY_CALL("timeline", 0, type, member.timeline, take_timeline),                    \
        OPTION_ENTRY_CALL("near-limit", 0, type, member.near_limit_percent, take_near_limit),      \
        HEAP_OPTIONS(type, member)
option_take take_ring_bytes;
option_take take_max_overhead; /* call heap_options_settle() after it */
option_take take_timeline;     /* the member is a struct heap_timeline */
option_take take_near_limit;   /* the member is a uint32_t, in percent */
option_take take_names;        /* appends A,B to a char ** */

#define RECORDING_OPTIONS_HELP                                                                     \
    "      --max-overhead N%|off   record every allocation while that costs less than this\n"      \
    "                         share of the program's processor time, then sample (5%; with\n"      \
    "                         -i, off)\n"                                                          \
    "      --heaps A,B        heaps to profile (libc.malloc,python.object), for instance\n"        \
    "                         libc.mmap, or heaps that programs register\n"                        \
    "      --all-heaps        all heaps except libc.mmap, unless --heaps names it\n"               \
    "      --exclude-heaps A,B        all heaps but these\n"                                       \
    "      --heap-intervals 4k,1      sampling intervals in bytes, one for each heap of --heaps\n" \
    "      --stack-mode MODE  form of a callsite: native (the stack), native-with-thread-names,\n" \
    "                         pseudo (the program's contexts), mixed (the stack below these)\n"    \
    "      --context-slices   the program's contexts also become slices of its threads\n"          \
    "      --shmem-size BYTES size of each process's ring (8M), a power of two\n"                  \
    "      --block-client     if the ring is full, make the process wait (default)\n"              \
    "      --no-block-client  if the ring is full, end the process's profile\n"                    \
    "      --block-client-timeout TIME end the profile after waiting this long (bare: us)\n"       \
    "      --timeline TIME|off  period of the counters beside the heap (100ms): memory, faults\n"  \
    "                         and threads of each process, memory of the machine\n"                \
    "      --near-limit N%|off   dump when a cgroup has used this share of its memory (90%)\n"
/* Options for what is written after the recording. */
#define FINISH_OPTIONS_HELP                                                                        \
    "      --no-symbols       do not search debug files: names only from the programs' own "       \
    "files\n"                                                                                      \
    "      --no-pprof         no pprof files; traceconv profile makes them from the trace\n"       \
    "      --memory-infra     also write memory_infra.json.gz, for Chromium's trace viewer\n"      \
    "      --summary FILE     write the summary there (-: standard output); it goes to standard\n" \
    "                         error otherwise\n"                                                   \
    "  -q, --quiet            print only errors\n"

/* Set the options' defaults. After them, call heap_options_settle(). */
void heap_options_init(struct heap_config *config);

/* If no option gave an interval, every allocation is recorded as long as the limit of overhead
 * allows. Options that give an interval get just that one. */
void heap_options_settle(struct heap_config *config);

/* Print the configuration as text. Return false without memory. */
bool heap_options_print(const struct heap_config *config);

/* Warn of each heap in --exclude-heaps that would not be profiled anyway. Call it after all options
 * are parsed. */
void heap_options_warn(const struct heap_config *config);

#endif
