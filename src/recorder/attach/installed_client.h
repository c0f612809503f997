/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that is attached to a process, ours or one that another attacher left. Its parameters in
 * the process's memory describe it (wire/attached_params.h). Restores the patched code, checks
 * whether a thread is in the client, and removes it. The process is stopped during all calls except
 * installed_client_is_busy().
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_INSTALLED_CLIENT_H
#define HEAPPROFD_RECORDER_ATTACH_INSTALLED_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/attach/process.h"
#include "recorder/attach/tracee.h"
#include "recorder/attach/trampoline.h"
#include "wire/attached_params.h"

struct installed_client {
    uint64_t params_address;
    struct attached_params params; /* as last read */
    /* Of our own client; none for another's, whose threads cannot be moved out of trampolines. */
    const struct trampoline *trampolines;
    unsigned trampoline_count;
};

/* Find a client in the process. Return whether the process has one. */
bool installed_client_find(struct installed_client *client, const struct process *process,
                           const struct tracee *tracee);

/* Read the parameters again. Return 0, or -ENOENT if they no longer exist. */
int installed_client_read(struct installed_client *client, const struct tracee *tracee);

/* Restore the original code and read it back. Return 0; -EUCLEAN if somebody else has changed the
 * patched code, which is then left as it is; or another negative errno. */
int installed_client_restore(const struct installed_client *client, struct tracee *tracee);

/* Return whether no thread is in the client's code or will return to it. Threads in a trampoline
 * are moved to the corresponding place in the function. */
bool installed_client_is_unused(const struct installed_client *client, struct tracee *tracee);

/* Return whether a signal handler of this thread will return to an address in [start, end). It
 * searches the top of the stack for the frames that the kernel makes for handlers. */
bool handler_returns_to(const struct tracee *tracee, const struct user_regs_struct *registers,
                        uint64_t start, uint64_t end);

/* Return whether the client's own counters show a thread inside. A hint, for a running process:
 * stop it to be sure. */
bool installed_client_is_busy(struct installed_client *client, const struct tracee *tracee);

/* Unmap the client, all that it mapped, and its ring. */
int installed_client_remove(const struct installed_client *client, struct tracee *tracee);

#endif
