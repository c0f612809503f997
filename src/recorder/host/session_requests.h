/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves requests to a profiler that has its own session (heap_profile host, -n and -p without a
 * daemon): status, snapshot and stop. They come from the same user or root, who find the profiler
 * with session_directory.h. A connection carries one request.
 */
#ifndef HEAPPROFD_RECORDER_HOST_SESSION_REQUESTS_H
#define HEAPPROFD_RECORDER_HOST_SESSION_REQUESTS_H

#include <stdint.h>

#include "recorder/server/server.h"
#include "recorder/sockets/session_directory.h"

/* Clients that can wait for the session's end; others are not notified. */
#define SESSION_REQUESTS_WAITING_MAX 16

struct session_requests {
    struct server *server;
    uint64_t start_ms;
    char link[SESSION_LINK_MAX];
    int waiting[SESSION_REQUESTS_WAITING_MAX];
    unsigned waiting_count;
};

/* Publish the server's sessions under this process's pid. */
void session_requests_open(struct session_requests *requests, struct server *server);

/* Serve a request, as struct rendezvous_user describes. A stopped session becomes
 * SESSION_OVER_STOPPED. */
void session_requests_serve(struct session_requests *requests, int fd,
                            const struct peer_message *message);

/* Notify waiting clients that the session has ended and its trace is complete. */
void session_requests_close(struct session_requests *requests);

#endif
