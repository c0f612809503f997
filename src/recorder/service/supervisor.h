/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's session processes from outside: starts one for each requested session, reads their
 * messages, and notices their ends.
 *
 * Each runs with the rights of its owner, and is trusted only about its own session. The supervisor
 * never waits for one: a session that should end and is silent is killed; one whose socket is full
 * misses messages. user_limits.h limits the sessions of each user.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_SUPERVISOR_H
#define HEAPPROFD_RECORDER_SERVICE_SUPERVISOR_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/processes/access.h"
#include "recorder/service/control_status.h"
#include "recorder/service/event_log.h"
#include "recorder/service/session_wire.h"
#include "recorder/sockets/rendezvous.h"
#include "recorder/sockets/run_directory.h"
#include "util/error.h"

#define SUPERVISOR_SESSIONS_MAX 64 /* of all users */

/* A session that should end is killed after this time without a message and without work. The time
 * is longer than a session waits for the file reader. */
#define SUPERVISOR_SILENCE_MS 12000
/* CPU time that counts as work. On a loaded machine a session may compute for a long time between
 * two messages. A blocked or stopped session uses no CPU time, and a waiting one about 5 ms in that
 * time. */
#define SUPERVISOR_WORK_NS UINT64_C(10000000)
/* A session that takes this long to end is killed, even if it works. */
#define SUPERVISOR_END_MS 120000

/* Room for the name of a data source. */
#define SUPERVISOR_DATA_SOURCE_BYTES 32

struct supervised {
    uint64_t id;    /* random, seven digits: neither a pid nor a count of sessions */
    uint64_t order; /* increases with each start; those of continuous mode come after all others */
    bool is_continuous;
    struct access_requester owner;
    pid_t requester;                                /* process that asked for it */
    uint64_t service_session;                       /* of Perfetto's tracing service */
    char data_source[SUPERVISOR_DATA_SOURCE_BYTES]; /* "": the service did not ask for it */
    pid_t pid;                                      /* of the session process */
    int pidfd, socket;                              /* socket -1: the session closed it */
    int client;                                     /* used if the process dies */
    uint64_t start_ms;                              /* all times: CLOCK_MONOTONIC */
    uint64_t last_message_ms;                       /* time of its last message */
    uint64_t last_turn_ms;  /* of the last one from its event loop, which answers hellos */
    uint64_t unanswered_ms; /* when it was sent the last hello that it let pass; 0: never */
    /* Only while it should end: its CPU time at the last check, and the last time at which it had
     * used some. */
    uint64_t used_ns, worked_ms;
    uint64_t end_ms; /* when it was asked to end, began to end, or was killed; else UINT64_MAX */
    bool began, leaving, is_over, was_killed;
    bool wants_new;
    bool policy_is_old;               /* the policy was replaced since it has read it */
    uint32_t share_ppm;               /* last one sent to the process: attach_budget.h */
    Heapprofd__ControlSession *state; /* last one received from it; NULL: none */
    struct invited awaited[SESSION_WIRE_AWAITED_MAX];
    size_t awaited_count;
};

/* Callbacks of the supervisor's user. */
struct supervisor_user {
    /* The session has answered the hello with that ticket. 1: taken; 0: not wanted; a negative
     * errno: refused. */
    void (*answered)(void *context, struct supervised *session, uint32_t ticket, int verdict);
    /* The session has taken the dump of that ticket. */
    void (*dumped)(void *context, struct supervised *session, uint32_t ticket);
    /* The session accepts no more processes. */
    void (*leaving)(void *context, struct supervised *session);
    /* The session's process has ended, or was killed and cannot end. It will not answer. */
    void (*ended)(void *context, struct supervised *session);
    void *context;
};

struct supervisor {
    const struct supervisor_user *user;
    struct event_log *log;
    int epoll;
    struct rendezvous *rendezvous;
    struct run_directory *directory;
    struct supervised *sessions[SUPERVISOR_SESSIONS_MAX]; /* in the order of their start */
    size_t count;
    uint64_t last_order;
    bool invitations_changed;
    const struct access_policy *policy;
    bool policy_changed;           /* a session may have an old one */
    bool shares_changed;           /* a session may have another share than it was sent */
    uint64_t invite_ms, remind_ms; /* earliest times of the next change and the next reminder */
};

/* A request for a session, and its sender. */
struct supervisor_request {
    struct access_requester requester;
    pid_t pid;
    int client; /* the connection, watched by the supervisor's epoll; it still holds the request */
    const Heapprofd__ControlRequest__Start *start;
    struct access_policy *policy;
    const char *socket_path;
};

/* Start a session process, which reads the request and answers the client itself. The supervisor
 * takes ownership of the connection. Return NULL with a message on errors. */
struct supervised *supervisor_start(struct supervisor *supervisor,
                                    const struct supervisor_request *request, struct error *error);

/* Write the name of a session as the user of another one may see it. */
void supervisor_name(const struct supervised *session, const struct supervised *reader,
                     char name[SESSION_NAME_BYTES]);

/* Handle a readable descriptor. Return false if it is not ours. */
bool supervisor_serve(struct supervisor *supervisor, int fd);

/* Do what is due. Return when more is due (CLOCK_MONOTONIC); UINT64_MAX: never. */
uint64_t supervisor_do_due(struct supervisor *supervisor, uint64_t now_ms);

/* The policy has changed: pass it to all sessions. */
void supervisor_pass_policy(struct supervisor *supervisor);

/* Make the session take a dump. Return 0, or a negative errno if it accepts no messages. */
int supervisor_snapshot(struct supervised *session, uint32_t ticket);

/* Make the session end. If it does not, it is killed. */
void supervisor_stop(struct supervised *session, Heapprofd__ControlReply__End__Reason reason);

/* Return whether the session's process was killed and cannot end, because the kernel holds it. */
bool supervisor_is_stuck(const struct supervised *session);

/* Return whether requests of this user reach the session. */
bool supervisor_reaches(const struct access_requester *requester, const struct supervised *session);

/* Send the status of the sessions that the requester may see. */
void supervisor_send_status(const struct supervisor *supervisor, int fd,
                            const struct access_requester *requester,
                            const struct control_status_profiler *self);

/* End all sessions. Kill those that do not end by themselves. */
void supervisor_close(struct supervisor *supervisor);

#endif
