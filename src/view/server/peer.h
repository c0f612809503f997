/* SPDX-License-Identifier: Apache-2.0 */
/* Whose program is at the other end of a connection to this machine's loopback address. */
#ifndef HEAPPROFD_VIEW_PEER_H
#define HEAPPROFD_VIEW_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>

/* Ask the kernel for the user of the socket at `from` that is connected to `to`. Return 0, or a
 * negative errno if it cannot be known, for example without the kernel's sock_diag. */
int peer_find_user(const struct sockaddr_in *from, const struct sockaddr_in *to, uid_t *user);

/* Return whether a client at this address may connect to our port: its user is ours or root, or
 * unknown. */
bool peer_may_connect(const struct sockaddr *from, socklen_t length, uint16_t port);

#endif
