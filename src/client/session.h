/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's part in a session: joining it at the first allocation, leaving
 * it, and beginning anew in a forked child.
 */
#ifndef HEAPPROFD_CLIENT_SESSION_H
#define HEAPPROFD_CLIENT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/sample/sampler.h"

/*
 * What the first allocation of an image or of a forked child leads to: sets the
 * client up, says hello to the daemon if there is one, and joins the session or
 * stays dormant. On return the state is ACTIVE, DORMANT or ENDED, or CONNECTING
 * while another thread is at it.
 */
void session_join(void);

/*
 * To be called now and then by a thread that is not in the middle of a sample: leaves a session
 * that is over, and joins one that this process is invited to. Cheap where neither is the case.
 */
void session_tick(void);

/* Either of them, whichever is due, by a thread that is not inside yet. */
void session_look(void);

/* Tell the daemon, in this session and later ones, that a library is opened whose calls of malloc
 * do not come here. Call it before opening the library. It makes no system call and takes no lock.
 */
void session_note_bound_apart(void);

/* The sampling rule in force. */
const struct sampler_rule *session_rule(void);

#endif
