/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a function of this thread was left without returning: a signal handler's siglongjmp, an
 * exception out of one. What such a function held is then nobody's, and its own thread may take it
 * back.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_ABANDONED_FRAME_H
#define HEAPPROFD_CLIENT_SAMPLE_ABANDONED_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/unwind.h"

/*
 * `frame` is the frame address of the function in question, `here` that of one of the same thread
 * that runs now and is not its caller. True only if it is certain, which it can be on the thread's
 * own stack alone (bounds): whoever still runs there stands further out than what it calls.
 * One system call, and only where the answer may be true.
 */
bool abandoned_frame(const struct unwind_stack_bounds *bounds, uintptr_t frame, uintptr_t here);

#endif
