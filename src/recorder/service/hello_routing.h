/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the session for each process that says hello to the daemon. Sessions are asked in the order
 * of their start, and only if their owner may profile the process at all, so that no session delays
 * another user's programs. The loop waits for none of them: a session that does not answer in time
 * is skipped. If it sent no other message meanwhile either, but signs of life (it is stopped, waits
 * in the kernel, or writes a long dump), it is not asked again before it sends one: it delays one
 * program, not each that begins.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_HELLO_ROUTING_H
#define HEAPPROFD_RECORDER_SERVICE_HELLO_ROUTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/service/supervisor.h"
#include "wire/handshake.h"

/* Number of processes that wait for an answer at once; a quarter of them for one user. */
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
        uint64_t asked;    /* order of the session that is being asked */
        bool was_declined; /* a session answered that it does not want the process */
        uint64_t sent_ms;  /* CLOCK_MONOTONIC; when that session was asked */
        uint64_t ask_ms;   /* time to ask the next session */
        uint64_t end_ms;   /* latest time of the answer to the process */
    } hellos[HELLO_ROUTING_MAX];
    size_t count;
};

/* Take a hello. Return true if the connection is ours from now on. Return false, with the answer in
 * *reply, if there is no session to ask. */
bool hello_routing_take(struct hello_routing *routing, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply);

/* Handle a session's answer (struct supervisor_user). */
void hello_routing_answer(struct hello_routing *routing, const struct supervised *session,
                          uint32_t ticket, int verdict);

/* Ask other sessions instead of this one, which will not answer. */
void hello_routing_skip_session(struct hello_routing *routing, const struct supervised *session);

/* Skip sessions that did not answer in time. Return when to call it again. */
uint64_t hello_routing_do_due(struct hello_routing *routing, uint64_t now_ms);

void hello_routing_close(struct hello_routing *routing);

#endif
