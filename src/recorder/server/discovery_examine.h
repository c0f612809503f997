/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examine one process: whether the session wants it and may profile it, and how. The result is its
 * state in the session's list (enum discovery_state).
 */
#ifndef HEAPPROFD_RECORDER_SERVER_DISCOVERY_EXAMINE_H
#define HEAPPROFD_RECORDER_SERVER_DISCOVERY_EXAMINE_H

#include "recorder/server/server.h"
#include "recorder/session/session.h"

/* Take in what the rings hold, if that was not done lately. Call it between many processes. */
void discovery_read_rings(struct session *session, uint64_t now_ms);

/* Examine a process, do what can be done now, and set when to continue. */
void discovery_examine(struct server *server, struct discovery_entry *entry);

/* Find out, from outside, how this process would be profiled. Return 0 with the way as a message,
 * 1 if calls of some functions would not be seen, or a negative errno with the reason why it cannot
 * be. */
int discovery_check(const struct process_info *info, struct error *how);

#endif
