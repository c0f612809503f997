/*
 * Serves those who ask something of a profiler that has a session of its own (heap_profile host,
 * -n and -p without a daemon): status, snapshot and stop, of the same user or root, who find it by
 * session_directory.h. A request a connection.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_REQUESTS_H
#define HEAPPROFD_DAEMON_SESSION_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/server.h"
#include "daemon/session_directory.h"

/* Who waits for the session's end beyond these is not told of it. */
#define SESSION_REQUESTS_WAITING_MAX 16

struct session_requests {
    struct server *server;
    uint64_t start_ms;
    char link[SESSION_LINK_MAX];
    int waiting[SESSION_REQUESTS_WAITING_MAX];
    unsigned waiting_count;
};

/* Let others find the server's sessions, which are known by the number of this process. */
void session_requests_open(struct session_requests *requests, struct server *server);

/* Serve a request; as rendezvous_request. A session that is stopped is SESSION_OVER_STOPPED. */
void session_requests_serve(struct session_requests *requests, int fd, const void *bytes,
                            size_t length, int passed_fd);

/* Tell those who wait that the session has ended and its trace is whole. */
void session_requests_close(struct session_requests *requests);

#endif
