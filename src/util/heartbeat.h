/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs of life during long work.
 *
 * Profiled processes that wait for the profiler end their profile if it seems to be dead. So work
 * that may take seconds calls heartbeat_send() several times a second, wherever it is: waiting for
 * another process, or reading long files of /proc. Code that does so does not know who listens.
 */
#ifndef HEAPPROFD_UTIL_HEARTBEAT_H
#define HEAPPROFD_UTIL_HEARTBEAT_H

/* Set what heartbeat_send() does in this process. NULL: nothing. */
void heartbeat_set(void (*give)(void));

/* Give a sign of life. Cheap: the listener acts only several times a second. */
void heartbeat_send(void);

#endif
