/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to a daemon that runs: finding it, asking it (proto/control.proto), waiting for its
 * answer.
 */
#ifndef HEAPPROFD_CLI_RECORD_DAEMON_CLIENT_H
#define HEAPPROFD_CLI_RECORD_DAEMON_CLIENT_H

#include <control.pb-c.h>
#include <stdbool.h>

#include "util/error.h"

/* A connection to the first daemon that answers in one of the places where it may be (see
 * daemon/sockets/run_directory.h); -ENOENT: none runs; else a negative errno with a message. */
int daemon_connect(struct error *error);

/* Return a connection to the socket at that path, or a negative errno with a message. No read or
 * write on it takes longer than patience_s; 0: no limit. */
int daemon_connect_to(const char *path, unsigned patience_s, struct error *error);

/* Sends a request and a descriptor with it (-1: none). 0 or a negative errno with a message. */
int daemon_send(int fd, const Heapprofd__ControlRequest *request, int passed_fd,
                struct error *error);

/* The next reply, waited for; to be freed with heapprofd__control_reply__free_unpacked. NULL with
 * a message: the daemon is gone, or what it sends is no reply. An error that the reply carries is
 * turned into a message, too. */
Heapprofd__ControlReply *daemon_receive(int fd, struct error *error);

#endif
