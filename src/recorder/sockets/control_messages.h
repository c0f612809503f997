/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a profiler and its replies on its control socket (proto/control.proto after a header
 * of recorder/sockets/request.h).
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_CONTROL_MESSAGES_H
#define HEAPPROFD_RECORDER_SOCKETS_CONTROL_MESSAGES_H

#include <stddef.h>

#include <control.pb-c.h>

/* Send one reply. A peer that does not read loses it. */
void control_send_reply(int fd, const Heapprofd__ControlReply *reply);

/* Send a negative errno and a message as the reply. */
void control_send_error(int fd, int code, const char *message);

/* Send the number of sessions that a request reached. */
void control_send_count(int fd, unsigned sessions);

/* Decode a request. The caller frees it with heapprofd__control_request__free_unpacked. Return NULL
 * if the bytes are not a request. */
Heapprofd__ControlRequest *control_read_request(const void *bytes, size_t length);

#endif
