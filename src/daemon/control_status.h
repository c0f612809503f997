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

/* Leave processes out until the session fits `bytes_max`: their names may be long. */
void control_status_fit(Heapprofd__ControlSession *session, size_t bytes_max);

/* Pack a session with as many of its processes as fit `bytes_max`. Return malloced bytes, or NULL. */
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
