/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the command as if we were not there: same descriptors, signal mask and
 * dispositions, same environment but for the library, its socket and an option of
 * AddressSanitizer.
 */
#ifndef HEAPPROFD_DAEMON_HOST_LAUNCHER_H
#define HEAPPROFD_DAEMON_HOST_LAUNCHER_H

#include <signal.h>
#include <sys/types.h>

#include "util/error.h"

/*
 * AddressSanitizer's shared run time ends a program at its start if another library precedes it in
 * link order, because calls might not reach it. Our calls reach it, as the next malloc in link
 * order. This option, added to the existing ones, tells it to go on.
 */
#define LAUNCHER_ASAN_ENV "ASAN_OPTIONS"
#define LAUNCHER_ASAN_OPTION "verify_asan_link_order=0"

struct launch {
    char *const *command;   /* argv, NULL-terminated */
    const char *library;    /* for LD_PRELOAD, before what stands there */
    const char *socket;     /* for HEAPPROFD_SOCKET */
    sigset_t signal_mask;   /* of the command */
    struct sigaction child; /* its disposition of SIGCHLD */
    sigset_t *missed;       /* filled with the signals that were pending before it existed */
};

/* The command's pid; *exec_errno is 0 once it runs, else why it does not (it has
 * been waited for then). Negative errno with a message: there is no process. */
pid_t launcher_start(const struct launch *launch, int *exec_errno, struct error *error);

#endif
