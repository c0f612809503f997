/* Encode and decode requests and replies, and fill in the status of a profiler and its sessions. */
#ifndef HEAPPROFD_DAEMON_CONTROL_STATUS_H
#define HEAPPROFD_DAEMON_CONTROL_STATUS_H

#include <control.pb-c.h>

#include "daemon/access.h"
#include "daemon/server.h"

/* Sends one reply. A peer that does not read loses it. */
void control_send_reply(int fd, const Heapprofd__ControlReply *reply);

void control_send_error(int fd, int code, const char *message);

/* Send the number of sessions that a request reached. */
void control_send_count(int fd, unsigned sessions);

/* Decode a request. The caller frees it with heapprofd__control_request__free_unpacked. Return NULL
 * if the bytes are not a request. */
Heapprofd__ControlRequest *control_read_request(const void *bytes, size_t length);

/* A session without its processes; nothing in it need be freed. */
void control_status_fill_session(Heapprofd__ControlSession *to, const struct session *session,
                                 uint64_t now_ms);

/* Sends the status: of all sessions how they stand, of the requester's own also their
 * processes. `own_session_alone`: it begins no sessions for others. */
void control_status_send(int fd, const struct server *server, uint64_t start_ms,
                         const struct access_requester *requester, bool own_session_alone);

#endif
