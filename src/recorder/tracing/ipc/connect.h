/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to the tracing service, and explains why that fails. */
#ifndef HEAPPROFD_RECORDER_TRACING_IPC_CONNECT_H
#define HEAPPROFD_RECORDER_TRACING_IPC_CONNECT_H

#include "recorder/tracing/ipc/socket_names.h"

/* Begin to connect, without waiting. Return a non-blocking socket, or a negative errno with a
 * message. A TCP socket is connected when it becomes writable (tracing_connect_finish()). */
int tracing_connect(const struct tracing_socket *to, struct error *error);

/* Return 0 if a socket that became writable is connected, or a negative errno with a message. */
int tracing_connect_finish(int socket, const struct tracing_socket *to, struct error *error);

#endif
