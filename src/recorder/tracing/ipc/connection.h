/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to one port of the tracing service.
 *
 * Nothing here waits, except tracing_connection_wait(). The owner polls tracing_connection_fd() for
 * tracing_connection_events() and calls tracing_connection_serve(), which sends what is queued,
 * receives, and calls back for each reply. Methods can be invoked when the port is bound: some time
 * after tracing_connection_open(), when the service has sent its methods.
 *
 * The service is not trusted. Replies to requests that were never made are ignored, as Perfetto's
 * own client does; unknown fields are skipped; anything else that the protocol does not allow ends
 * the connection with a message.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_IPC_CONNECTION_H
#define HEAPPROFD_RECORDER_TRACING_IPC_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "recorder/tracing/ipc/socket_names.h"
#include "util/error.h"

/* Bytes that may wait to be sent, and requests that may wait for a reply. */
#define TRACING_QUEUE_BYTES_MAX ((size_t)4 << 20)
#define TRACING_REQUESTS_MAX 1024

struct tracing_connection;

/* A reply to an invocation. */
struct tracing_reply {
    bool success;         /* false: the service refused or failed; no bytes */
    bool has_more;        /* more replies to the same invocation follow */
    const char *refusal;  /* the service's reason, or NULL */
    const uint8_t *bytes; /* the method's response, serialized */
    size_t length;
    int descriptor; /* -1: none. A callback that keeps it sets it to -1; else it is closed. */
};

/* Called in tracing_connection_serve(). It may invoke methods, but not close the connection. Return
 * 0, or a negative errno with a message, which ends the connection. */
typedef int tracing_reply_handler(void *context, struct tracing_reply *reply, struct error *error);

/* Begin to connect to a socket and to bind its port. Return NULL with a message if that fails at
 * once. `to->name` must live as long as the connection. */
struct tracing_connection *tracing_connection_open(const struct tracing_socket *to,
                                                   struct error *error);
void tracing_connection_close(struct tracing_connection *connection); /* may be NULL */

int tracing_connection_fd(const struct tracing_connection *connection);

/* Return the events to poll for: EPOLLIN and EPOLLOUT, which are POLLIN and POLLOUT. */
uint32_t tracing_connection_events(const struct tracing_connection *connection);

/* Return whether methods can be invoked. */
bool tracing_connection_is_bound(const struct tracing_connection *connection);

/* Return the name of the socket. */
const char *tracing_connection_name(const struct tracing_connection *connection);

/* Do all that can be done without waiting; a service that never stops sending is left in between.
 * Return 0, or a negative errno with a message: the connection is over. -ECONNRESET: the service
 * closed it. */
int tracing_connection_serve(struct tracing_connection *connection, struct error *error);

/* Wait for events until deadline_ms (CLOCK_MONOTONIC; UINT64_MAX: for ever), and serve. Return 0
 * also after a signal; -ETIMEDOUT if nothing happened until then; or as
 * tracing_connection_serve(). */
int tracing_connection_wait(struct tracing_connection *connection, uint64_t deadline_ms,
                            struct error *error);

/* Return whether the service has a method of this name. */
bool tracing_connection_has_method(const struct tracing_connection *connection, const char *method);

/* Invoke a method of the bound port. `descriptor` (-1: none) is duplicated and sent with it. A NULL
 * handler wants no reply. Return 0, or a negative errno with a message; the connection stays as it
 * was: -ENOSYS if the service has no such method, -ENOBUFS if it does not read or does not reply,
 * -EMSGSIZE if the request is too long for a frame. */
int tracing_connection_invoke(struct tracing_connection *connection, const char *method,
                              const ProtobufCMessage *request, int descriptor,
                              tracing_reply_handler *handler, void *context, struct error *error);

/* Fill *error for a reply without success. Return -EREMOTEIO. `what` failed: "EnableTracing". */
int tracing_reply_refused(const struct tracing_connection *connection, const char *what,
                          const struct tracing_reply *reply, struct error *error);

#endif
