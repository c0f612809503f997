/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back of a thread that makes system calls for us: on its stack lies a frame as the kernel
 * makes it for a signal handler, which holds all that the thread was about. Should we be killed in
 * the middle, the thread runs from the call's `ret` into the return from that handler, and
 * goes on as if it had handled a signal.
 */
#ifndef HEAPPROFD_ATTACH_RETURN_FRAME_H
#define HEAPPROFD_ATTACH_RETURN_FRAME_H

#include <stdint.h>
#include <sys/user.h>

#include "attach/tracee.h"

/*
 * Lays the frame on the stack of a stopped thread. The stack pointer with which its `ret` finds
 * it; 0: there is none (no room on the stack), and the thread is only as safe as we are.
 * sigreturn: the address of code that makes that system call.
 */
uint64_t return_frame_put(const struct tracee *tracee, pid_t tid,
                          const struct user_regs_struct *registers, uint64_t signal_mask,
                          uint64_t sigreturn);

#endif
