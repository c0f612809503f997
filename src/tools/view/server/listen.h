/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of the view's servers. Only this machine reaches them. */
#ifndef HEAPPROFD_VIEW_LISTEN_H
#define HEAPPROFD_VIEW_LISTEN_H

#include <stdint.h>

#include "util/error.h"

/* Listen on a port of 127.0.0.1; 0: a free one, written to *chosen. Return a descriptor or a
 * negative errno. */
int view_listen_on_port(uint16_t port, uint16_t *chosen, struct error *error);
/* Listen on a new unix socket, to which only this user may connect. */
int view_listen_on_path(const char *path, struct error *error);

#endif
