/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a daemon for a place in a session (wire/handshake.h). Only raw system calls; two descriptors
 * are open for some tens of microseconds; every wait has a time limit.
 */
#ifndef HEAPPROFD_CLIENT_JOIN_HANDSHAKE_H
#define HEAPPROFD_CLIENT_JOIN_HANDSHAKE_H

#include <stdint.h>

#include "wire/handshake.h"

/* Copy the socket's path from the environment, before the program overwrites that with its title.
 */
void handshake_init(void);

/* Return the path of the socket of the command's profiler; "": none. */
const char *handshake_socket_of_command(void);

/*
 * Say hello at this socket. Return 0 if the process is accepted: *ring_fd is then the ring's
 * descriptor, which the caller closes, and *daemon_pid the daemon's pid in this namespace (0: it is
 * in another one). Return a negative errno if it is not; reply->flags is set if there was a reply.
 */
int handshake_ask(const char *socket_path, enum handshake_origin origin,
                  struct handshake_reply *reply, int *ring_fd, int32_t *daemon_pid);

#endif
