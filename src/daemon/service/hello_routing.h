/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that say hello to the daemon: finds the session that takes each. Sessions are asked in
 * the order of their start, and only those whose owner may profile the process at all, so that
 * nobody's session delays another user's programs. None is waited for in the loop: a session that
 * does not answer in time is passed over.
 */
#ifndef HEAPPROFD_DAEMON_SERVICE_HELLO_ROUTING_H
#define HEAPPROFD_DAEMON_SERVICE_HELLO_ROUTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/service/supervisor.h"
#include "wire/handshake.h"

/* Processes that wait for an answer at once; one user's at most a quarter. */
#define HELLO_ROUTING_MAX 1024
#define HELLO_ROUTING_OF_A_USER_MAX (HELLO_ROUTING_MAX / 4)

struct hello_routing {
    struct supervisor *supervisor;
    struct rendezvous *rendezvous;
    uint32_t last_ticket;
    struct routed_hello {
        uint32_t ticket;
        int fd; /* connection of the process */
        pid_t pid;
        uid_t uid;
        struct handshake_hello hello;
        uint64_t asked;  /* order of the session that is asked */
        bool heard;      /* a session has answered that it does not want the process */
        uint64_t ask_ms; /* when the next session is asked; CLOCK_MONOTONIC */
        uint64_t end_ms; /* when the process has its answer at the latest */
    } hellos[HELLO_ROUTING_MAX];
    size_t count;
};

/* Take up a hello. Return true if the connection is ours from now on, or false if there is no
 * session to ask, with the answer in *reply. */
bool hello_routing_take(struct hello_routing *routing, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply);

/* Take a session's answer (struct supervisor_user). */
void hello_routing_answer(struct hello_routing *routing, const struct supervised *session,
                          uint32_t ticket, int verdict);

/* Ask other sessions in place of this one, which will not answer. */
void hello_routing_leave(struct hello_routing *routing, const struct supervised *session);

/* Pass over sessions that did not answer in time. Return when to call it again. */
uint64_t hello_routing_do_due(struct hello_routing *routing, uint64_t now_ms);

void hello_routing_close(struct hello_routing *routing);

#endif
