/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of the machine, with its server. It begins for a requester, with a configuration and a
 * trace, and ends with all data written. Each session process of the daemon has a manager, and
 * heap_profile has its own if no daemon runs.
 *
 * A process that has the library preloaded learns of the session from the control page, and joins
 * it. The manager attaches to other processes. Scans of /proc find both: once when the session
 * begins, then repeatedly for new processes.
 */
#ifndef HEAPPROFD_RECORDER_SERVER_SESSION_MANAGER_H
#define HEAPPROFD_RECORDER_SERVER_SESSION_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/processes/access.h"
#include "recorder/server/server.h"
#include "recorder/sockets/run_directory.h"
#include "trace/config/trace_config.h"
#include "util/error.h"

struct session_manager {
    struct server server;
    struct run_directory directory;
    struct access_policy policy;
    struct session session;
    struct heap_config config;                        /* of the session */
    struct invited invited[CONTROL_PAGE_INVITED_MAX]; /* on the control page now */
    size_t invited_count;
};

/*
 * Open a manager that serves the run directory at `path`; NULL: none, so that no preloaded process
 * can join. `listener`: as for server_open(). Return 0 or a negative errno with a message; -EBUSY:
 * another daemon serves the directory.
 */
int session_manager_open(struct session_manager *manager, const char *path, int listener,
                         const struct server_user *user, struct error *error);

/*
 * Open the manager of a session process. The daemon's supervisor has the run directory and passes
 * hellos on. Takes ownership of the contents of *policy, and of exec_events (-1: none).
 */
int session_manager_open_in_session(struct session_manager *manager, const struct server_user *user,
                                    const char *socket_path, struct access_policy *policy,
                                    int exec_events, struct error *error);
void session_manager_close(struct session_manager *manager);

/*
 * Begin the session for the requester; the caller sets its id. Takes ownership of the contents of
 * *config in any case. The caller keeps trace_fd, and must keep it open. Running processes are
 * attached to or invited before it returns; if none of them could be, the session is already over.
 * Return NULL with a message on errors.
 */
struct session *session_manager_start(struct session_manager *manager, struct heap_config *config,
                                      bool follow_children, const struct access_requester *owner,
                                      enum session_trace trace, int trace_fd, struct error *error);

/* Invite the wanted processes that have the library and have not joined. Call it now and then,
 * since new ones appear. */
void session_manager_invite(struct session_manager *manager);

/* List the processes that session_manager_invite() would invite, up to `max`. Return their number.
 */
size_t session_manager_awaited(struct session_manager *manager, struct invited *awaited,
                               size_t max);

/* Choose the session's processes by other rules, whose contents it takes. Processes that they do
 * not choose leave the session with a last dump; others go on. */
void session_manager_change_rules(struct session_manager *manager, struct target_rules *rules);

/* Replace the names of never_profile by packed ones (access_policy_unpack). */
void session_manager_change_policy(struct session_manager *manager, const void *bytes,
                                   size_t length);

/* The result of the session. */
struct session_manager_outcome {
    unsigned profiled;     /* processes with a profile */
    unsigned not_profiled; /* processes that were wanted but have no profile */
    uint64_t samples, lost;
};

/* End the session and write the rest of its trace. Return 0, or the first error of writing it. */
int session_manager_finish(struct session_manager *manager,
                           struct session_manager_outcome *outcome);

#endif
