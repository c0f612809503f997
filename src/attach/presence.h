/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attached client as its parameters in the process describe it: restores its patches, checks
 * whether a thread is in its code, and removes it. Also for a client that another attacher left.
 * The process is stopped during all calls except presence_is_busy().
 */
#ifndef HEAPPROFD_ATTACH_PRESENCE_H
#define HEAPPROFD_ATTACH_PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/process.h"
#include "attach/tracee.h"
#include "attach/trampoline.h"
#include "wire/attached_params.h"

struct presence {
    uint64_t params_address;
    struct attached_params params; /* as last read */
    /* Of our own client. 0 for another's: then no thread is moved out of a trampoline. */
    const struct trampoline *trampolines;
    unsigned trampoline_count;
};

/* Find a client in the process. Return false if there is none. */
bool presence_find(struct presence *presence, const struct process *process,
                   const struct tracee *tracee);

/* Read the parameters again. Return 0; -ENOENT: they no longer exist. */
int presence_read(struct presence *presence, const struct tracee *tracee);

/* Restore the original bytes and read them back. Return 0; -EUCLEAN: other bytes were there, which
 * somebody else wrote, and they were left; or a negative errno. */
int presence_restore(const struct presence *presence, struct tracee *tracee);

/* Return whether no thread is in the client's code or will return to it. Threads in a trampoline
 * are moved to the corresponding place in the function. */
bool presence_is_deserted(const struct presence *presence, struct tracee *tracee);

/* Return whether a signal handler of this thread will return to an address in [start, end). It
 * searches the top of the stack for the frames that the kernel makes for handlers. */
bool presence_handler_returns_to(const struct tracee *tracee,
                                 const struct user_regs_struct *registers, uint64_t start,
                                 uint64_t end);

/* Return whether the client's own counters show a thread inside. Call it while the process runs,
 * before stopping it to make sure. */
bool presence_is_busy(struct presence *presence, const struct tracee *tracee);

/* Unmap the client, all that it mapped, and its ring. */
int presence_remove(const struct presence *presence, struct tracee *tracee);

#endif
