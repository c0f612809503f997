/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's session processes as the daemon sees them: starts one for each session that is asked
 * for, reads what they publish, and learns of their ends.
 *
 * Each runs with the rights of its owner, and is believed about its own session alone. The
 * supervisor never waits for one: a session that should end and is silent is killed; one whose
 * socket is full misses messages.
 *
 * Shares: a user has a quarter of all sessions at most, and some are kept for root.
 */
#ifndef HEAPPROFD_DAEMON_SERVICE_SUPERVISOR_H
#define HEAPPROFD_DAEMON_SERVICE_SUPERVISOR_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/processes/access.h"
#include "daemon/service/session_wire.h"
#include "daemon/sockets/rendezvous.h"
#include "daemon/sockets/run_directory.h"
#include "util/error.h"

#define SUPERVISOR_SESSIONS_MAX 64
#define SUPERVISOR_SESSIONS_OF_A_USER_MAX (SUPERVISOR_SESSIONS_MAX / 4)
#define SUPERVISOR_SESSIONS_OF_ROOT 8

/* A session that should end is killed after this time without a message and without work. It is
 * longer than the session waits for the file reader. */
#define SUPERVISOR_SILENCE_MS 12000
/* Processor time that counts as work. On a loaded machine a session computes for long between two
 * messages; one that is blocked or stopped uses none, and one that waits some 5 ms in that time. */
#define SUPERVISOR_WORK_NS UINT64_C(10000000)
/* A session that takes this long to end is killed, too. */
#define SUPERVISOR_END_MS 120000

struct supervised {
    uint64_t id;    /* random, of seven digits: no pid, and no count of sessions */
    uint64_t order; /* ascends with each start */
    struct access_requester owner;
    pid_t requester;   /* process that asked for it */
    pid_t pid;         /* of the session process */
    int pidfd, socket; /* socket -1: closed by it */
    int client;        /* for the case that the process dies */
    uint64_t start_ms; /* all times: CLOCK_MONOTONIC */
    uint64_t heard_ms; /* its last message */
    /* While it should end: its processor time when it was last looked at, and when it was last seen
     * to have used some. */
    uint64_t used_ns, worked_ms;
    uint64_t end_ms;   /* it was told to end, ends by itself, or was killed; else UINT64_MAX */
    bool began, leaving, is_over, was_killed;
    bool wants_new;
    Heapprofd__ControlSession *state; /* the last one that it sent; NULL: none yet */
    struct invited awaited[SESSION_WIRE_AWAITED_MAX];
    size_t awaited_count;
};

/* Callbacks of the supervisor's user. */
struct supervisor_user {
    /* It has answered the hello with that ticket; 1: taken; 0: not wanted; a negative errno:
     * refused. */
    void (*answered)(void *context, struct supervised *session, uint32_t ticket, int verdict);
    /* It has taken the dump of that ticket. */
    void (*dumped)(void *context, struct supervised *session, uint32_t ticket);
    /* It takes no more processes. */
    void (*leaving)(void *context, struct supervised *session);
    /* Its process has ended, or was killed and cannot end. It will answer nothing. */
    void (*ended)(void *context, struct supervised *session);
    /* A line for the log, without its end, about a session of this user. */
    void (*log)(void *context, uid_t uid, const char *line);
    void *context;
};

struct supervisor {
    const struct supervisor_user *user;
    int epoll;
    struct rendezvous *rendezvous;
    struct run_directory *directory;
    struct supervised *sessions[SUPERVISOR_SESSIONS_MAX]; /* in the order of their start */
    size_t count;
    uint64_t last_order;
    bool invites;                  /* the invitations have changed */
    uint64_t invite_ms, remind_ms; /* not before then again */
};

/* A request for a session, and its sender. */
struct supervisor_request {
    struct access_requester requester;
    pid_t pid;
    int client; /* connection, watched by the supervisor's epoll; the request is still in it */
    const Heapprofd__ControlRequest__Start *start;
    struct access_policy *policy;
    const char *socket_path;
};

/* Start a session process, which takes the request and answers the client itself. The connection is
 * the supervisor's then. NULL with a message. */
struct supervised *supervisor_start(struct supervisor *supervisor,
                                    const struct supervisor_request *request, struct error *error);

/* Deal with a readable descriptor. Return false if it is not ours. */
bool supervisor_serve(struct supervisor *supervisor, int fd);

/* Do what is due. Return when there is more to do (CLOCK_MONOTONIC); UINT64_MAX: never. */
uint64_t supervisor_do_due(struct supervisor *supervisor, uint64_t now_ms);

/* Have the session take a dump. 0, or a negative errno: it takes no messages. */
int supervisor_snapshot(struct supervised *session, uint32_t ticket);

/* Have the session end. It is killed if it does not. */
void supervisor_stop(struct supervised *session, Heapprofd__ControlReply__End__Reason reason);

/* Whether its process was killed and cannot end: the kernel holds it. */
bool supervisor_is_held(const struct supervised *session);

/* Whether requests of this user reach the session. */
bool supervisor_reaches(const struct access_requester *requester, const struct supervised *session);

/* Send the status of the sessions that the requester may see. */
void supervisor_send_status(const struct supervisor *supervisor, int fd,
                            const struct access_requester *requester, const char *socket_path,
                            uint64_t start_ms, const struct error *not_told);

/* End all sessions. Kill those that do not end by themselves. */
void supervisor_close(struct supervisor *supervisor);

#endif
