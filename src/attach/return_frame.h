/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protects a thread that makes system calls for us, in case we are killed meanwhile. Its stack gets
 * a frame like the kernel's for a signal handler, with the thread's complete state. If we are
 * killed, the thread runs from the `ret` after the call into the return from that handler, and
 * continues as if it had handled a signal.
 */
#ifndef HEAPPROFD_ATTACH_RETURN_FRAME_H
#define HEAPPROFD_ATTACH_RETURN_FRAME_H

#include <stdint.h>
#include <sys/user.h>

#include "attach/tracee.h"

/*
 * Write the frame on the stack of a stopped thread. Return the stack pointer at which its `ret`
 * finds the frame. Return 0 if there is no frame (no room on the stack): then the thread does not
 * survive our death. `sigreturn`: the address of code that makes that system call.
 */
uint64_t return_frame_put(const struct tracee *tracee, pid_t tid,
                          const struct user_regs_struct *registers, uint64_t signal_mask,
                          uint64_t sigreturn);

#endif
