/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page by which processes that have the library preloaded learn of sessions: the file
 * `control` in the daemon's run directory, beside its socket. Written by the daemon alone,
 * mapped read-only by a process when it starts, and never again (the process may have forbidden
 * itself system calls by then). The file outlives the daemon and is never replaced or made
 * shorter, so that those who map it see the next one's sessions, too.
 *
 * The run directory is $HEAPPROFD_RUN_DIR, else /run/heapprofd, else
 * $XDG_RUNTIME_DIR/heapprofd; the latter two are both looked at.
 *
 * A process that starts says hello where startup_sessions is not 0. One that runs does so when
 * it is invited: the daemon has looked at it before, and knows that it may.
 */
#ifndef HEAPPROFD_WIRE_CONTROL_PAGE_H
#define HEAPPROFD_WIRE_CONTROL_PAGE_H

#include <stdint.h>

#define CONTROL_PAGE_MAGIC UINT32_C(0x48504347) /* "HPCG" */
#define CONTROL_PAGE_VERSION 1
#define CONTROL_PAGE_BYTES 4096u

#define RUN_DIRECTORY_ENV "HEAPPROFD_RUN_DIR"
#define RUN_DIRECTORY_OF_SYSTEM "/run/heapprofd"
#define RUN_DIRECTORY_NAME "heapprofd" /* below $XDG_RUNTIME_DIR */
#define RUN_DIRECTORY_SOCKET "socket"
#define RUN_DIRECTORY_CONTROL "control"
#define RUN_DIRECTORY_LOCK "lock"

#define CONTROL_PAGE_INVITED_MAX 1000u

struct control_page {
    uint32_t magic;            /* CONTROL_PAGE_MAGIC, once the rest is set */
    uint32_t version;          /* CONTROL_PAGE_VERSION */
    uint32_t generation;       /* goes up after somebody was invited */
    uint32_t startup_sessions; /* that want processes from their start */
    /* Processes that are to say hello, each by its number in its own namespace; 0: none. */
    int32_t invited[CONTROL_PAGE_INVITED_MAX];
};

_Static_assert(sizeof(struct control_page) <= CONTROL_PAGE_BYTES, "fits its page");

#endif
