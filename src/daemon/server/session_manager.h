/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the machine: begun on somebody's behalf with a configuration and a trace,
 * ended with all data written. The daemon has a manager for all who ask; heap_profile has
 * one of its own where no daemon runs.
 *
 * A process that has the library preloaded is told of a session by the control page and joins
 * it. One that has not is attached to. Both are found by looking through /proc: once when the
 * session begins, and then again and again for what starts meanwhile.
 */
#ifndef HEAPPROFD_DAEMON_SERVER_SESSION_MANAGER_H
#define HEAPPROFD_DAEMON_SERVER_SESSION_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/processes/access.h"
#include "daemon/server/server.h"
#include "daemon/sockets/run_directory.h"
#include "trace/config/trace_config.h"
#include "util/error.h"

struct session_manager {
    struct server server;
    struct run_directory directory;
    struct access_policy policy;
    uint64_t start_ms;
    uint64_t last_id;
    struct invited invited[CONTROL_PAGE_INVITED_MAX]; /* on the page in the run directory */
    size_t invited_count;
};

/*
 * Takes the run directory at `path`; NULL: none, so that no preloaded process can join. `listener`
 * as for server_open. 0 or a negative errno with a message; -EBUSY: another daemon is there.
 */
int session_manager_open(struct session_manager *manager, const char *path, int listener,
                         const struct server_user *user, struct error *error);

/*
 * A manager of a session process: hellos come from the daemon's supervisor, which has the run
 * directory. Takes over what *policy holds, and exec_events (-1: none).
 */
int session_manager_open_in_session(struct session_manager *manager, const struct server_user *user,
                                    const char *socket_path, struct access_policy *policy,
                                    int exec_events, struct error *error);
void session_manager_close(struct session_manager *manager);

/*
 * Begins a session for the requester. Takes over what *config holds in any case; trace_fd stays
 * the caller's and must stay open. Processes that run are reached before it returns, and where
 * none of them could be, the session is over by then. NULL with a message.
 */
struct session *session_manager_start(struct session_manager *manager, struct heap_config *config,
                                      bool follow_children, const struct access_requester *owner,
                                      int trace_fd, struct error *error);

/* Tells processes that have the library and are wanted that they are; to be called now and
 * then, as new ones come. */
void session_manager_invite(struct session_manager *manager);

/* List the processes that session_manager_invite() would invite, up to `max`. Return their number.
 */
size_t session_manager_awaited(struct session_manager *manager, struct invited *awaited,
                               size_t max);

/* What a session came to. */
struct session_manager_outcome {
    unsigned profiled; /* processes with a profile */
    unsigned absent;   /* wanted, and without one */
    uint64_t samples, lost;
};

/* Ends it, writes the rest of its trace, and frees it. *outcome may be NULL. 0, or the first error
 * of writing the trace. */
int session_manager_finish(struct session_manager *manager, struct session *session,
                           struct session_manager_outcome *outcome);

#endif
