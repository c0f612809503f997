/* What the daemon says of itself and its sessions. */
#ifndef HEAPPROFD_DAEMON_CONTROL_STATUS_H
#define HEAPPROFD_DAEMON_CONTROL_STATUS_H

#include <control.pb-c.h>

#include "daemon/station.h"

/* Sends one reply. A peer that does not read loses it. */
void control_send_reply(int fd, const Heapprofd__ControlReply *reply);

/* A session without its processes; nothing in it need be freed. */
void control_status_fill_session(Heapprofd__ControlSession *to, const struct session *session,
                                 uint64_t now_ms);

/* Sends the status: of all sessions how they stand, of the requester's own also their
 * processes. */
void control_status_send(int fd, const struct station *station,
                         const struct access_requester *requester);

#endif
