/* SPDX-License-Identifier: Apache-2.0 */
/* Whose program is at the other end of a connection to this machine's loopback address. */
#ifndef HEAPPROFD_VIEW_PEER_H
#define HEAPPROFD_VIEW_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>

/* Return whether a client at this address may connect to our port: its user is ours or root, or
 * unknown, for example without the kernel's sock_diag. */
bool peer_may_connect(const struct sockaddr *from, socklen_t length, uint16_t port);

#endif
