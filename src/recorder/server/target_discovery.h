/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes that a session of the machine wants, and makes them join: processes with the
 * library preloaded join by themselves, the others are attached to.
 *
 * New processes: if the kernel reports programs that begin (exec_events.h), each is examined at
 * once. Otherwise a scan of /proc finds them, ten times a second. If a process cannot be attached
 * to yet, it is tried again, for seconds. If it never can be, the trace says why.
 */
#ifndef HEAPPROFD_RECORDER_SERVER_TARGET_DISCOVERY_H
#define HEAPPROFD_RECORDER_SERVER_TARGET_DISCOVERY_H

#include "recorder/server/server.h"
#include "recorder/session/session.h"

/* Attach to or invite all wanted processes that run now. */
void discovery_running(struct server *server);

/* Return whether an awaited process can be invited, by entry->invited. That is read again every
 * second, since the process may begin another program. */
bool discovery_invites(struct discovery_entry *entry, uint64_t now_ms);

/* Return whether the session wants processes from their start. */
bool discovery_wants_new(const struct session *session);

/* Open or close the descriptor of exec events, as the server's session needs it. */
void discovery_listen(struct server *server);

/* Return whether the kernel reports programs that begin, or would; else set *why_not. */
bool discovery_gets_exec_events(const struct server *server, struct error *why_not);

/* Handle a readable descriptor. Return false if it is not ours. */
bool discovery_serve(struct server *server, int fd);

/* Look for new processes. Call it ten times a second, with the server's clock. */
void discovery_new(struct server *server);

/* End the profiles of programs that their processes have replaced by exec, and profile the new
 * programs if wanted. Call it ten times a second. */
void discovery_follow_execs(struct server *server);

/* Attach to a process of the command's session that has begun a program which cannot load the
 * library, and has run since began_us (CLOCK_MONOTONIC; 0: unknown). Try again later if it fails
 * for the moment. */
void discovery_begun(struct server *server, pid_t pid, uint64_t began_us);

/* A process that continuous mode was asked for is free now, or will not be. */
void discovery_claim_answered(struct server *server, pid_t pid);

/* Profile again the processes that were lent to that session. */
void discovery_take_back(struct server *server, uint64_t borrower);

/* The configuration has changed: look at all processes again. */
void discovery_begin_anew(struct server *server);

/* Try again what failed and is due. Return when more is due (CLOCK_MONOTONIC); UINT64_MAX:
 * never. */
uint64_t discovery_retry(struct server *server, uint64_t now_ms);

/* Return whether the session wants only processes that ran when it began, and all of them have
 * ended. */
bool discovery_is_done(const struct session *session);

/* At the session's end: write to the trace why wanted processes never joined. */
void discovery_explain(struct session *session);

#endif
