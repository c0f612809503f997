/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the daemon's supervisor and its session processes: each is one
 * SOCK_SEQPACKET message with a struct of this file, in some cases followed by bytes.
 *
 * A session process runs with the rights of the user who asked for it. The supervisor trusts it
 * only about its own session, and checks every length.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_SESSION_WIRE_H
#define HEAPPROFD_RECORDER_SERVICE_SESSION_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/session/session.h"
#include "recorder/sockets/request.h"
#include "wire/handshake.h"

enum session_wire_type {
    /* To the session process. */
    SESSION_WIRE_HELLO = 1, /* struct session_wire_hello, with the peer's connection */
    SESSION_WIRE_CLAIMED,   /* struct session_wire_claimed */
    SESSION_WIRE_SNAPSHOT,  /* struct session_wire_number: a ticket */
    SESSION_WIRE_STOP,      /* struct session_wire_number: ControlReply.End.Reason */
    SESSION_WIRE_SHARE,     /* struct session_wire_number: its share_ppm (attach_budget.h) */
    SESSION_WIRE_INVITED, /* only a type: the processes it awaited in its first state are invited */
    SESSION_WIRE_LEND,    /* struct session_wire_lend: another session asks for a process */
    SESSION_WIRE_TAKE_BACK,      /* struct session_wire_lend: the borrower has ended; no pid */
    SESSION_WIRE_POLICY,         /* the type, then names (access_policy_pack) */
    SESSION_WIRE_CLAIM_ANSWERED, /* struct session_wire_number: the pid that was claimed */
    /* To the supervisor. */
    SESSION_WIRE_ANSWER,  /* struct session_wire_answer */
    SESSION_WIRE_STATE,   /* struct session_wire_state, then a packed ControlSession */
    SESSION_WIRE_AWAITED, /* struct session_wire_number: a count, then as many struct invited */
    SESSION_WIRE_DUMPED,  /* struct session_wire_number: the snapshot's ticket */
    SESSION_WIRE_ALIVE,   /* only a type: the process is busy with long work */
    SESSION_WIRE_LEAVING, /* only a type: it accepts no more processes */
    SESSION_WIRE_ENDED,   /* struct session_wire_ended */
    SESSION_WIRE_CLAIM,   /* struct session_wire_number: a pid that another session has */
    SESSION_WIRE_LENT,    /* struct session_wire_lend: it was lent, or is not profiled */
};

/* A process asks to be profiled. If the session process accepts it, it answers the peer itself. */
struct session_wire_hello {
    uint32_t type, ticket;
    int32_t pid;
    uint32_t uid;
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; later answers come too late */
    struct handshake_hello hello;
};

/* A process belongs to another session. */
struct session_wire_claimed {
    uint32_t type;
    int32_t pid;
    uint32_t origin; /* enum handshake_origin */
    char whose[SESSION_NAME_BYTES];
};

/* A process that goes from a session of continuous mode to another one, the borrower. */
struct session_wire_lend {
    uint32_t type;
    int32_t pid;
    uint64_t borrower; /* its order */
    char whose[SESSION_NAME_BYTES];
};

struct session_wire_number {
    uint32_t type, number;
};

struct session_wire_answer {
    uint32_t type, ticket;
    int32_t verdict; /* 1: taken; 0: not wanted; negative errno: refused */
};

struct session_wire_state {
    uint32_t type;
    uint32_t wants_new; /* whether the session wants processes from their start */
};

/* The session is over, and its trace is written. The process ends after this message. */
struct session_wire_ended {
    uint32_t type;
    int32_t code;   /* 0, or a negative errno with a message */
    uint32_t began; /* 0: the session was refused */
    uint32_t profiled, not_profiled;
    uint64_t samples, lost;
    char message[256];
};

/* Number of invitations of one session on the control page. */
#define SESSION_WIRE_AWAITED_MAX CONTROL_PAGE_INVITED_MAX

/* The longest message to a session process. */
#define SESSION_WIRE_TO_SESSION_MAX (ACCESS_POLICY_PACKED_MAX + 512)

/* The sender cuts a larger status. */
#define SESSION_WIRE_BYTES_MAX REQUEST_BYTES_MAX

/* Send head, then rest, as one message with a descriptor (-1: none). `waits`: wait for room for up
 * to a second. Return 0 or a negative errno. */
int session_wire_send(int fd, const void *head, size_t head_bytes, const void *rest,
                      size_t rest_bytes, int passed_fd, bool waits);

/* Receive a message and the descriptor that came with it (-1: none) from the supervisor, without
 * waiting. Return its length; 0: the supervisor is gone; or a negative errno. */
ssize_t session_wire_receive(int fd, void *bytes, size_t size, int *passed_fd);

/* Send a message of that type with a number. */
int session_wire_send_number(int fd, enum session_wire_type type, uint32_t number, bool waits);

/* Copy the head of a message that starts with its type. Return false if it is too short. */
bool session_wire_read(void *head, size_t head_bytes, const void *bytes, size_t length);

#endif
