/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protects a thread that makes system calls for us, in case we are killed meanwhile. A frame like
 * the kernel's for a signal handler contains the thread's complete state. If we are killed, the
 * thread runs from the `ret` after the call into the return from that handler, and continues as if
 * it had handled a signal.
 *
 * This, and all that tracee_call.c does, relies on one thing: the thread returns to user mode. Only
 * there does it begin our calls, and run the `ret`. So threads of the kernel's in a process, which
 * never do, are not used (tracee.h).
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_RETURN_FRAME_H
#define HEAPPROFD_RECORDER_ATTACH_RETURN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "recorder/attach/tracee.h"

/* With tiles (AMX); else less than 4 KiB. */
#define RETURN_FRAME_BYTES_MAX (13u << 10)

struct return_frame {
    uint64_t entry; /* stack pointer at which the thread's `ret` finds it */
    uint64_t start; /* address of the first byte */
    size_t count;
    uint8_t bytes[RETURN_FRAME_BYTES_MAX];
};

/*
 * Make the frame of a stopped thread for the place below `end`. Return false if that is impossible.
 * `sigreturn`: the address of code that makes that system call. `with_tiles`: include the tiles
 * that the thread uses (AMX).
 */
bool return_frame_make(struct return_frame *frame, const struct tracee *tracee, pid_t tid,
                       const struct user_regs_struct *registers, uint64_t signal_mask,
                       uint64_t sigreturn, uint64_t end, bool with_tiles);

#endif
