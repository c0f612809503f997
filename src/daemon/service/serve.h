/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapprofd as a service: serves its run directory until SIGTERM or SIGINT, logs one line an event
 * to standard error. Ready for systemd: takes over its socket, tells it when it is ready.
 */
#ifndef HEAPPROFD_DAEMON_SERVICE_SERVE_H
#define HEAPPROFD_DAEMON_SERVICE_SERVE_H

/* The exit code: 0, or 1 with a message where it could not begin. */
int serve(void);

/* Makes the run directory and its control page, so that processes that start before the daemon
 * can be told of sessions, too. The exit code. */
int serve_prepare(void);

#endif
