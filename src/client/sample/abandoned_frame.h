/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects functions of this thread that were left without returning, by siglongjmp or an exception
 * out of a signal handler. Nobody owns what such a function held, and its thread may take it back.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_ABANDONED_FRAME_H
#define HEAPPROFD_CLIENT_SAMPLE_ABANDONED_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/unwind.h"

/*
 * Return whether the function with frame address `frame` was certainly left. `here` is the frame
 * address of a function of the same thread that runs now and does not call the other. Only frames
 * on the thread's own stack (bounds) can be judged: there a running function lies further out than
 * its callees. Makes one system call, and only if the answer may be true.
 */
bool abandoned_frame(const struct unwind_stack_bounds *bounds, uintptr_t frame, uintptr_t here);

#endif
