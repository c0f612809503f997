/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes heap profiles as Chrome's MemoryInfra JSON, for the trace viewer's memory columns and for
 * symbolize_trace and diff_heap_profiler: docs/memory_infra.md has what becomes of what.
 *
 * The text goes out as it is made. In memory stands an index of the nodes and sites of one
 * process's dump, never the text.
 *
 * The file is ASCII: diff_heap_profiler takes no other. Beside what Chrome writes, strings and
 * frames may carry `heapprofd_name` (frame_name.h), nodes `file_sid` and `line`, regions of code
 * `heapprofd_bias` (what of `fo` is no offset in the file), and the file's `metadata` these keys,
 * so that what is read back is the same profile; their values are objects of plain values, or plain
 * values: heapprofd-stack-mode, heapprofd-prune-bytes, heapprofd-prune-count
 * heapprofd-boottime-to-realtime-ns heapprofd-process-PID        name, command, parent-pid, uid
 * heapprofd-heap-PID-N         name, allocator (its key in the dumps), allocator-frame (the
 * innermost frame that its stacks were given; left out: none), interval-bytes,
 * first-interval-bytes, start-boottime-ns heapprofd-dump-PID-N-ID      of heap N in the event with
 * the `id` ID: boottime-ns, exact-bytes, exact-calls, final, incomplete, ended (the process had;
 * left out: it had not)
 */
#ifndef HEAPPROFD_MEMORY_INFRA_WRITE_H
#define HEAPPROFD_MEMORY_INFRA_WRITE_H

#include <stdio.h>

#include "export/view.h"
#include "trace/config/trace_config.h"

/* Frames on a stack, all included: diff_heap_profiler descends by recursion, and Python ends that
 * at 1,000. Of a deeper stack the middle is left out, and a frame of this name stands there. */
#define MEMORY_INFRA_FRAMES_MAX 900
#define MEMORY_INFRA_CUT_FRAME "[frames left out]"

/* By enum heap_stack_mode: native, native-with-thread-names, pseudo, mixed. */
extern const char *const memory_infra_stack_modes[HEAP_STACK_MODES];

struct memory_infra_write_options {
    enum heap_stack_mode stack_mode;
    /* What was live when each heap was largest, in place of what was at the dump. It is so of heaps
     * that were profiled for that (dump_at_max) in any case. */
    bool at_peak;
    /* Sites under both become part of `<other>`; both 0: none. */
    uint64_t prune_bytes, prune_count;
};

/* Errors of `out` itself are the caller's to look for. How many sites were written, or -ENOMEM. */
int64_t memory_infra_write(const struct profile *profile, const struct export_dump *dumps,
                           size_t dump_count, const struct memory_infra_write_options *options,
                           FILE *out);

#endif
