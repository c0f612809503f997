/* SPDX-License-Identifier: Apache-2.0 */
/* Names the program that listens on a port, for the message that the port is taken. */
#ifndef HEAPPROFD_VIEW_PORT_OWNER_H
#define HEAPPROFD_VIEW_PORT_OWNER_H

#include <stdint.h>

struct port_owner {
    char words[96]; /* " (python3, process 123)", " (of user 1000)"; "": unknown */
};

/* Find the program with the TCP port, by /proc. Of other users' programs only the user is known. */
void port_owner_find(uint16_t port, struct port_owner *owner);

#endif
