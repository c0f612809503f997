/* SPDX-License-Identifier: Apache-2.0 */
/* Fill in and send the status of a profiler and its sessions. */
#ifndef HEAPPROFD_RECORDER_SERVICE_CONTROL_STATUS_H
#define HEAPPROFD_RECORDER_SERVICE_CONTROL_STATUS_H

#include <control.pb-c.h>

#include "recorder/server/server.h"
#include "recorder/sockets/control_messages.h"

/* Fill in a session without its processes. Nothing in it needs to be freed. */
void control_status_fill_session(Heapprofd__ControlSession *to, const struct session *session,
                                 uint64_t now_ms);

/* Remove processes until the session fits into `bytes_max`: their names may be long. */
void control_status_fit(Heapprofd__ControlSession *session, size_t bytes_max);

/* Pack a session with as many of its processes as fit into `bytes_max`. Return malloced bytes, or
 * NULL. */
void *control_status_pack_session(const struct session *session, size_t bytes_max, size_t *length);

/* The profiler whose status is sent. */
struct control_status_profiler {
    const char *socket_path;
    uint64_t start_ms;
    bool own_session_alone; /* serves only its own session, and begins none for others */
    bool has_exec_events;   /* whether the kernel reports programs that begin; else why_not is the
                               reason */
    const char *why_not;
};

/* Send the status of a profiler with these sessions. */
void control_status_send(int fd, const struct control_status_profiler *profiler,
                         Heapprofd__ControlSession *const *sessions, size_t count);

/* Send the status of this process and its session. */
void control_status_send_own(int fd, const struct server *server, uint64_t start_ms);

/* Send the figures of a session with all its processes to the collector of continuous mode. */
void control_status_send_progress(int fd, const struct session *session);

#endif
