/* SPDX-License-Identifier: Apache-2.0 */
/* Talks to a running daemon (proto/control.proto): finds it, sends requests, waits for replies. */
#ifndef HEAPPROFD_RECORDER_SOCKETS_DAEMON_CLIENT_H
#define HEAPPROFD_RECORDER_SOCKETS_DAEMON_CLIENT_H

#include <control.pb-c.h>

#include "util/error.h"

/* Return a connection to the first daemon that answers at its possible places
 * (recorder/sockets/run_directory.h), -ENOENT if none runs, or another negative errno with *error
 * set. With SOCK_NONBLOCK in `flags` no call on it waits, nor does this one. */
int daemon_connect(int flags, struct error *error);

/* Return a connection to the socket at `path`, or a negative errno with *error set. A read or write
 * on it fails after patience_s; 0: no limit. `flags` as above. */
int daemon_connect_to(const char *path, int flags, unsigned patience_s, struct error *error);

/* Send a request with a descriptor (-1: none). Return 0, or a negative errno with *error set. */
int daemon_send(int fd, const Heapprofd__ControlRequest *request, int passed_fd,
                struct error *error);

/* Wait for the next reply; heapprofd__control_reply__free_unpacked() frees it. Return NULL with
 * *error set if the daemon is gone, sends no valid reply, or replies with an error. */
Heapprofd__ControlReply *daemon_receive(int fd, struct error *error);

#endif
