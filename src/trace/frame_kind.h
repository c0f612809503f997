/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of code of a frame, as traces record it.
 */
#ifndef HEAPPROFD_TRACE_FRAME_KIND_H
#define HEAPPROFD_TRACE_FRAME_KIND_H

/* The values of Frame.Kind. */
enum trace_frame_kind {
    TRACE_FRAME_UNKNOWN = 0, /* native, or unknown */
    TRACE_FRAME_NATIVE = 1,
    TRACE_FRAME_KERNEL = 2,
    TRACE_FRAME_INTERPRETED = 3,
    TRACE_FRAME_JIT = 4,
    TRACE_FRAME_GC = 5,
    TRACE_FRAME_RUNTIME = 6,
};

/* The mappings of interpreted languages' frames, which are not machine code. */
#define TRACE_PYTHON_PATH "[python]"
#define TRACE_RUBY_PATH "[ruby]"
#define TRACE_PHP_PATH "[php]"

/* Names of frames that are not code: an outermost frame that replaces missing ones. */
#define TRACE_TRUNCATED_FRAME "[truncated stack]"
#define TRACE_NO_UNWINDING_FRAME "[no unwind information]"

#endif
