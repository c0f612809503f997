/*
 * The page by which dormant processes learn that there are sessions: the file
 * `control` in the daemon's run directory, beside its socket. Written by the daemon
 * alone, mapped read-only by whoever has the library preloaded. The file outlives the daemon and
 * is never replaced or made shorter, so that those who map it also see the next one's
 * sessions.
 *
 * The run directory is $HEAPPROFD_RUN_DIR, else /run/heapprofd, else
 * $XDG_RUNTIME_DIR/heapprofd.
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

struct control_page {
    uint32_t magic;      /* CONTROL_PAGE_MAGIC, once the rest is set */
    uint32_t version;    /* CONTROL_PAGE_VERSION */
    uint32_t generation; /* goes up when a session begins; released after `sessions` is set */
    uint32_t sessions;   /* of the machine, running now; 0: nobody need say hello */
};

_Static_assert(sizeof(struct control_page) <= CONTROL_PAGE_BYTES, "fits its page");

#endif
