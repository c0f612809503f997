/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of the metrics, from the section `[metrics]`:
 *
 *     listen = 127.0.0.1:9464     an address and a port (0: a free one), [::1]:9464, or unix:/PATH
 *     allow_remote = no           whether the address may be another than loopback's
 *     socket_mode = 0600          who may connect to the unix socket
 */
#ifndef HEAPPROFD_PRODUCTION_METRICS_LISTEN_H
#define HEAPPROFD_PRODUCTION_METRICS_LISTEN_H

#include "util/settings.h"

#define METRICS_LISTEN_DEFAULT "127.0.0.1:9464"
#define METRICS_ADDRESS_BYTES 160

/* Listen. Write "http://127.0.0.1:9464/metrics" or "unix:/PATH" to `address`. Return a descriptor
 * or a negative errno with a message. */
int metrics_listen(struct settings_section *section, char address[METRICS_ADDRESS_BYTES],
                   struct error *error);

/* Check that metrics_listen() would succeed, as far as that can be told beside a collector that
 * runs. Return 0 or a negative errno with a message. */
int metrics_listen_check(struct settings_section *section, struct error *error);

/* Remove the unix socket of an address, if it is one. */
void metrics_listen_end(const char *address);

#endif
