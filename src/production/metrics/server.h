/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server with two pages, /metrics and an index, on a socket. It has no thread: the caller
 * waits for its descriptor, and gives it the time to answer what has come.
 *
 * Clients cannot make it wait or grow. It serves SERVER_CONNECTIONS_MAX at once; others wait in the
 * kernel's backlog. Each connection takes one request with at most SERVER_HEADER_BYTES of header
 * lines, and is cut SERVER_CONNECTION_MS after its start. While all are in use, others may wait:
 * then the oldest one is cut SERVER_CROWDED_MS after its start, so that connections that ask for
 * nothing delay nobody for long. A text is made at most once in SERVER_FRESH_MS for each format,
 * however many ask for it.
 */
#ifndef HEAPPROFD_PRODUCTION_METRICS_SERVER_H
#define HEAPPROFD_PRODUCTION_METRICS_SERVER_H

#include <stdbool.h>
#include <stdio.h>

#include "util/error.h"

#define SERVER_CONNECTIONS_MAX 16u
#define SERVER_HEADER_BYTES 8192u
#define SERVER_CONNECTION_MS 5000u
#define SERVER_CROWDED_MS 100u
#define SERVER_FRESH_MS 1000u

struct server_text {
    /* Write the metrics. Return 0 or a negative errno. */
    int (*write)(void *context, FILE *out, bool is_open_metrics);
    void *context;
};

struct metrics_server;

/* Serve on a listening socket, which is owned from now on. Return NULL with a message. */
struct metrics_server *metrics_server_open(int listener, const struct server_text *text,
                                           struct error *error);

/* Return the descriptor that is readable when there is something to do. */
int metrics_server_descriptor(const struct metrics_server *server);

/* Do what can be done without waiting. Lower *timeout_ms to the time of the next call. */
void metrics_server_work(struct metrics_server *server, unsigned *timeout_ms);

void metrics_server_close(struct metrics_server *server);

#endif
