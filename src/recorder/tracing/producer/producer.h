/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapprofd as a producer of Perfetto's tracing service: serves its commands on one connection.
 * Each data source instance that the service starts is a session of the daemon (instance.h), whose
 * packets go into the service's memory (chunk_writer.h) and are committed in batches (commit.h).
 *
 *     service ── commands ──▸ producer ── Start, stop ──▸ daemon's supervisor and session process
 *        ▴                      │   ▴                                          │
 *        └── chunks, commits ───┘   └────────────── packets (pipe) ────────────┘
 *
 * producer_run() keeps connecting. It is a process of its own, so the daemon never waits for the
 * service.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_PRODUCER_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_PRODUCER_H

#include "util/error.h"

/* Serve the tracing service at this socket (NULL: the default one) until SIGTERM or SIGINT. `log`
 * takes one line for each event. Return the exit code. */
int producer_run(const char *socket, void (*log)(const char *line));

#endif
