/*
 * Finds the processes that a session of the machine is after, and sees to it that they join:
 * those with the library preloaded do so by themselves, the others are attached to.
 */
#ifndef HEAPPROFD_DAEMON_REACH_H
#define HEAPPROFD_DAEMON_REACH_H

#include "daemon/server.h"
#include "daemon/session.h"

/* How this process would be reached, by what can be seen from outside: the message says how, or,
 * with a negative errno, why it cannot be. */
int reach_check(const struct process_info *info, struct error *how);

/* Reaches all that run now. */
void reach_running(struct server *server, struct session *session);

/* Whether it wants processes from their start. */
bool reach_wants_new(const struct session *session);

/* Looks for what has started since; to be called now and then (server's clock does). */
void reach_new(struct server *server, struct session *session);

/* At the session's end: says of what was wanted and never came why. */
void reach_explain(struct session *session);

#endif
