/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapprofd as a service: serves its run directory until SIGTERM or SIGINT, and logs one line an
 * event to standard error. For systemd it takes over a socket and reports when it is ready.
 */
#ifndef HEAPPROFD_DAEMON_SERVICE_SERVE_H
#define HEAPPROFD_DAEMON_SERVICE_SERVE_H

/* Run the service. Return the exit code: 0, or 1 with a message if it could not begin. */
int serve(void);

/* Make the run directory and its control page, so that processes that start before the daemon can
 * learn of sessions, too. Return the exit code. */
int serve_prepare(void);

#endif
