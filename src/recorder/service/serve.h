/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapprofd as a service: serves its run directory until SIGTERM or SIGINT, and logs one line an
 * event to standard error. For systemd it takes over a socket and reports when it is ready.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_SERVE_H
#define HEAPPROFD_RECORDER_SERVICE_SERVE_H

/* Run the service. `producer`: also run a producer for the tracing service at this socket ("": the
 * default one; NULL: none). Return the exit code: 0, or 1 with a message if it could not begin. */
int serve(const char *producer);

/* Write a line of the log to standard error. Never wait for its reader. */
void serve_log(const char *line);

/* Make the run directory and its control page, so that processes that start before the daemon can
 * learn of sessions, too. Return the exit code. */
int serve_prepare(void);

#endif
