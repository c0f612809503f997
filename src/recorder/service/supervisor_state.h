/* SPDX-License-Identifier: Apache-2.0 */
/* What supervisor.c and supervisor_start.c share. */
#ifndef HEAPPROFD_RECORDER_SERVICE_SUPERVISOR_STATE_H
#define HEAPPROFD_RECORDER_SERVICE_SUPERVISOR_STATE_H

#include "recorder/service/supervisor.h"

/* Announce on the control page whether a session wants processes from their start. */
void supervisor_announce(const struct supervisor *supervisor);

/* Wipe a session's state, so that no other session's process inherits it in its memory. */
void supervisor_wipe_state(struct supervised *session);

/* Close a session's descriptors. Those left in its sockets may be slow to close. */
void supervisor_close_descriptors(struct supervisor *supervisor, struct supervised *session);

#endif
