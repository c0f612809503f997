/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes that a session of the machine is after, and sees to it that they join:
 * those with the library preloaded do so by themselves, the others are attached to.
 *
 * Newcomers: where the kernel tells of programs that begin (exec_events.h) each is looked at
 * there and then; elsewhere by a look through /proc ten times a second. What cannot be
 * attached to yet is tried again, for seconds, and what never can be is told of in the trace.
 */
#ifndef HEAPPROFD_DAEMON_SERVER_TARGET_DISCOVERY_H
#define HEAPPROFD_DAEMON_SERVER_TARGET_DISCOVERY_H

#include "daemon/server/server.h"
#include "daemon/session/session.h"

/* How this process would be reached, by what can be seen from outside: the message says how, or,
 * with a negative errno, why it cannot be. */
int discovery_check(const struct process_info *info, struct error *how);

/* Reaches all that run now. */
void discovery_running(struct server *server, struct session *session);

/* Whether a process that is awaited can be invited: by entry->invited, which is read anew every
 * second, since the process may begin another program. */
bool discovery_invites(struct discovery_entry *entry, uint64_t now_ms);

/* Whether it wants processes from their start. */
bool discovery_wants_new(const struct session *session);

/* Begins to be told of programs that begin, or ends it, as the server's sessions want it. */
void discovery_listen(struct server *server);

/* Whether the kernel tells of them, or would: else why not. */
bool discovery_is_told(const struct server *server, struct error *why_not);

/* A descriptor is readable: true if it was ours, and is dealt with. */
bool discovery_serve(struct server *server, int fd);

/* Looks for what has started since; to be called ten times a second (server's clock does). */
void discovery_new(struct server *server, struct session *session);

/* End the profiles of programs that their processes have replaced by exec, and profile the new
 * programs if wanted. Call it ten times a second. */
void discovery_follow_execs(struct server *server, struct session *session);

/* Tries again what was not possible yet and is due; when there is more to do (CLOCK_MONOTONIC),
 * UINT64_MAX: never. */
uint64_t discovery_retry(struct server *server, struct session *session, uint64_t now_ms);

/* Whether the session wants only processes that ran when it began, and all of them have ended. */
bool discovery_is_spent(const struct session *session);

/* At the session's end: says of what was wanted and never came why. */
void discovery_explain(struct session *session);

#endif
