/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of code a frame is in, as traces say it.
 */
#ifndef HEAPPROFD_TRACE_FRAME_KIND_H
#define HEAPPROFD_TRACE_FRAME_KIND_H

/* The numbers are Frame.Kind's. */
enum trace_frame_kind {
    TRACE_FRAME_UNKNOWN = 0, /* native, or unknown */
    TRACE_FRAME_NATIVE = 1,
    TRACE_FRAME_KERNEL = 2,
    TRACE_FRAME_INTERPRETED = 3,
    TRACE_FRAME_JIT = 4,
    TRACE_FRAME_GC = 5,
    TRACE_FRAME_RUNTIME = 6,
};

/* Names of frames that are no code: an outermost one in place of frames that are missing. */
#define TRACE_TRUNCATED_FRAME "[truncated stack]"
#define TRACE_NO_UNWINDING_FRAME "[no unwind information]"

#endif
