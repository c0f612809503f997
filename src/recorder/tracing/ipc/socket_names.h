/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the tracing service's two sockets, chosen as Perfetto's own programs choose them: the
 * environment, then /run/perfetto if that directory is there, then /tmp.
 *
 * A name is a path, "@NAME" (an abstract socket) or "ADDRESS:PORT" (TCP, numbers only; IPv6 in
 * brackets).
 */
#ifndef HEAPPROFD_RECORDER_TRACING_IPC_SOCKET_NAMES_H
#define HEAPPROFD_RECORDER_TRACING_IPC_SOCKET_NAMES_H

#include <stdbool.h>
#include <sys/socket.h>

#include "util/error.h"

enum tracing_port {
    TRACING_PRODUCER_PORT, /* for programs that write traces: open to everybody */
    TRACING_CONSUMER_PORT, /* for programs that start and read traces: open to a group */
};

struct tracing_socket {
    enum tracing_port port;
    const char *name;
    /* The default in /tmp. Any user could listen there first. */
    bool anybody_may_own;
};

/* Choose a socket: `given` (not copied), unless that is NULL, or the default. */
struct tracing_socket tracing_socket_choose(enum tracing_port port, const char *given);

/* Return the name of the service behind a port, and the environment variable with its socket. */
const char *tracing_port_service(enum tracing_port port);
const char *tracing_port_variable(enum tracing_port port);

/* Make the address of a name. Return its length, or a negative errno with a message. */
int tracing_socket_address(const char *name, struct sockaddr_storage *address, struct error *error);

#endif
