/* SPDX-License-Identifier: Apache-2.0 */
/* Fill in and send the status of a profiler and its sessions. */
#ifndef HEAPPROFD_DAEMON_SERVICE_CONTROL_STATUS_H
#define HEAPPROFD_DAEMON_SERVICE_CONTROL_STATUS_H

#include <control.pb-c.h>

#include "daemon/processes/access.h"
#include "daemon/server/server.h"
#include "daemon/sockets/control_messages.h"

/* A session without its processes; nothing in it need be freed. */
void control_status_fill_session(Heapprofd__ControlSession *to, const struct session *session,
                                 uint64_t now_ms);

/* Leave processes out until the session fits `bytes_max`: their names may be long. */
void control_status_fit(Heapprofd__ControlSession *session, size_t bytes_max);

/* Pack a session with as many of its processes as fit `bytes_max`. Return malloced bytes, or NULL.
 */
void *control_status_pack_session(const struct session *session, size_t bytes_max, size_t *length);

/* The profiler whose status is sent. */
struct control_status_profiler {
    const char *socket_path;
    uint64_t start_ms;
    bool own_session_alone; /* it begins no sessions for others */
    bool is_told;           /* of programs that begin; else why_not */
    const char *why_not;
};

/* Send the status of a profiler with these sessions. */
void control_status_send(int fd, const struct control_status_profiler *profiler,
                         Heapprofd__ControlSession *const *sessions, size_t count);

/* The same for the sessions of this process. */
void control_status_send_own(int fd, const struct server *server, uint64_t start_ms);

#endif
