/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attached client is in its process, as its parameters there say: taking its patches out,
 * seeing whether anybody is in its code, removing it. Works for one that another attacher left
 * behind, too. All with the process stopped.
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
    struct attached_params params; /* as read last */
    /* Of a client of our own; else 0: then nobody is moved out of a trampoline. */
    const struct trampoline *trampolines;
    unsigned trampoline_count;
};

/* Finds a client in the process; false: there is none. */
bool presence_find(struct presence *presence, const struct process *process,
                   const struct tracee *tracee);

/* Reads the parameters again. 0; -ENOENT: they are not there any more. */
int presence_read(struct presence *presence, const struct tracee *tracee);

/* Puts the original bytes back and reads them again. 0; -EUCLEAN: somebody else has changed them
 * meanwhile, they were left; or a negative errno. */
int presence_restore(const struct presence *presence, struct tracee *tracee);

/* Whether no thread stands in, or will return to, the client's code; threads that stand in a
 * trampoline are moved to where they would have come. */
bool presence_is_deserted(const struct presence *presence, struct tracee *tracee);

/* Whether a signal handler of this thread will return to an address of [start, end): looks for the
 * frames that the kernel makes for handlers, in so many bytes of the stack. */
bool presence_handler_returns_to(const struct tracee *tracee,
                                 const struct user_regs_struct *registers, uint64_t start,
                                 uint64_t end);

/* Whether the client's own accounts say that somebody is in it: to be asked while the process runs,
 * before it is stopped to be sure. */
bool presence_is_busy(struct presence *presence, const struct tracee *tracee);

/* Unmaps it and all that it mapped, and its ring. */
int presence_remove(const struct presence *presence, struct tracee *tracee);

#endif
