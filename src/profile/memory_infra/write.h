/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes heap profiles as Chrome's MemoryInfra JSON, for the trace viewer's memory columns and for
 * symbolize_trace and diff_heap_profiler. docs/memory_infra.md has the mapping.
 *
 * Text is written as it is made. Only an index of the nodes and sites of one process's dump is in
 * memory.
 *
 * The file is ASCII: diff_heap_profiler takes nothing else. Our additions, which make the file read
 * back as the same profile: strings may have `heapprofd_name` (frame_name.h), nodes `file_sid` and
 * `line`, regions of code `heapprofd_bias` (the part of `fo` that is no offset in the file), and
 * `metadata` these keys, with plain values or objects of plain values:
 *
 *   heapprofd-stack-mode, heapprofd-prune-bytes, heapprofd-prune-count,
 *   heapprofd-boottime-to-realtime-ns
 *   heapprofd-process-PID    name, command, parent-pid, uid
 *   heapprofd-heap-PID-N     name, allocator (its key in the dumps), allocator-frame (the innermost
 *                            frame that its stacks got; missing: none), interval-bytes,
 *                            first-interval-bytes, start-boottime-ns, unseen-allocator, samples
 *                            and weighed-samples (if the program drew some itself), unfinished
 *                            (its last dump is missing), and loss-NAME: the amount of a loss by its
 *                            name in trace/losses.h
 *   heapprofd-dump-PID-N-ID  of heap N in the event with the `id` ID: boottime-ns, exact-bytes,
 *                            exact-calls, final, incomplete, disagrees (totals and samples;
 *                            missing: they agree), ended (the process had; missing: it had not)
 */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_WRITE_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_WRITE_H

#include <stdio.h>

#include "profile/view.h"
#include "trace/config/trace_config.h"

/* Most frames of a stack, all included: diff_heap_profiler descends by recursion, which Python ends
 * at 1,000. The middle of a deeper stack is replaced by a frame of this name. */
#define MEMORY_INFRA_FRAMES_MAX 900
#define MEMORY_INFRA_CUT_FRAME "[frames left out]"

/* By enum heap_stack_mode: native, native-with-thread-names, pseudo, mixed. */
extern const char *const memory_infra_stack_modes[HEAP_STACK_MODES];

struct memory_infra_write_options {
    enum heap_stack_mode stack_mode;
    /* Write the live memory at each heap's peak, instead of at the dump. Heaps that were profiled
     * with dump_at_max are always written so. */
    bool at_peak;
    /* Sites below both are summed up in `<other>`; both 0: none. */
    uint64_t prune_bytes, prune_count;
    /* Write what Chrome's dumps report without backtraces, too: the sizes of other allocators, and
     * processes without a heap. */
    bool reported;
};

/* The caller checks `out` for errors. Return the number of sites written, or -ENOMEM. */
int64_t memory_infra_write(const struct profile *profile, const struct export_dump *dumps,
                           size_t dump_count, const struct memory_infra_write_options *options,
                           FILE *out);

#endif
