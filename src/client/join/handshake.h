/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a daemon for a place in a session (wire/handshake.h): raw system calls only, two
 * descriptors open for some tens of microseconds, a time limit on every wait.
 */
#ifndef HEAPPROFD_CLIENT_JOIN_HANDSHAKE_H
#define HEAPPROFD_CLIENT_JOIN_HANDSHAKE_H

#include <stdint.h>

#include "wire/handshake.h"

/* Copies what the environment says, before the program writes its title over it. */
void handshake_init(void);

/* Where the command's profiler listens; "": nowhere. */
const char *handshake_socket_of_command(void);

/*
 * Says hello at that socket. 0: accepted, with the ring's descriptor in *ring_fd (to be closed)
 * and what the daemon's process is called here in *daemon_pid (0: in another namespace). A
 * negative errno: there is no place; reply->flags is set then, too, if there was a reply.
 */
int handshake_ask(const char *socket_path, enum handshake_origin origin,
                  struct handshake_reply *reply, int *ring_fd, int32_t *daemon_pid);

#endif
