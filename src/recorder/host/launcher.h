/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the command as if the profiler were not there: with the same descriptors, signal mask and
 * dispositions, and the same environment except for the library, its socket and an option of
 * AddressSanitizer.
 */
#ifndef HEAPPROFD_RECORDER_HOST_LAUNCHER_H
#define HEAPPROFD_RECORDER_HOST_LAUNCHER_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "util/error.h"

/*
 * AddressSanitizer's shared run time ends a program at its start if another library precedes it in
 * link order, because calls might not reach it. Ours do, as the next malloc in link order. This
 * option, added to the existing ones, makes it go on.
 */
#define LAUNCHER_ASAN_ENV "ASAN_OPTIONS"
#define LAUNCHER_ASAN_OPTION "verify_asan_link_order=0"

struct launch {
    char *const *command;   /* argv, NULL-terminated */
    const char *program;    /* its file; NULL: execvp() finds it, and passes scripts to the shell */
    const char *library;    /* for LD_PRELOAD, before its old value; NULL: not loaded */
    const char *socket;     /* for HEAPPROFD_SOCKET */
    sigset_t signal_mask;   /* the command's */
    struct sigaction child; /* its disposition of SIGCHLD */
    sigset_t *missed;       /* receives the signals that were pending before the command existed */
    bool holds; /* hold the command at its first instruction (recorder/attach/entry.h) */
};

/* Start the command and return its pid. *exec_errno is 0 once it runs, else the reason why it does
 * not, and it has been waited for. A negative errno with a message: there is no process. If the
 * command could not be held, *not_held has the reason, and it runs. */
pid_t launcher_start(const struct launch *launch, int *exec_errno, struct error *not_held,
                     struct error *error);

#endif
