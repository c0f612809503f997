/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of continuous mode that another session asks for: continuous mode lends them to it, and
 * takes them back when that session has ended. A process can be in one session at a time, and a
 * user who asks for one comes before a session that is always there.
 *
 *   borrower ─ claim ─▸ supervisor ─ lend ─▸ continuous mode
 *   borrower ◂─ claim answered ─ supervisor ◂─ lent ─ continuous mode
 *   (the borrower's process ends)   supervisor ─ take back ─▸ continuous mode
 *
 * The supervisor keeps no list: the session of continuous mode knows what it has lent to whom.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_HANDOVER_H
#define HEAPPROFD_RECORDER_SERVICE_HANDOVER_H

#include <sys/types.h>

#include "recorder/service/supervisor.h"

/* Return whether continuous mode has a session, so that a claim can succeed. */
bool handover_has_lender(const struct supervisor *supervisor);

/* A session claims a process that another session has. */
void handover_claim(struct supervisor *supervisor, struct supervised *borrower, pid_t pid);

/* A session of continuous mode has answered. */
void handover_lent(struct supervisor *supervisor, const struct session_wire_lend *lend);

/* A session has ended: continuous mode takes back what it lent to it. */
void handover_end(struct supervisor *supervisor, const struct supervised *borrower);

#endif
