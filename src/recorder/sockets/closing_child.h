/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors whose last close may take as long as a stranger likes, in a child that nobody
 * waits for.
 *
 * The child keeps only these descriptors: however long it takes, it holds no connection, lock or
 * listener of others. It ends as soon as this process has closed its own copies, so the last close
 * is the kernel's while the child ends, which does not wait for a socket with SO_LINGER. A file on
 * FUSE can keep the child in the kernel until its server answers.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_CLOSING_CHILD_H
#define HEAPPROFD_RECORDER_SOCKETS_CLOSING_CHILD_H

#include <sys/types.h>

/* Start a child that closes the descriptors (sorted by this call), and close them here. Return its
 * pid, for waitpid() with __WALL: its end sends no SIGCHLD, because programs that embed the
 * profiler wait for that signal. Return -1, with all of them still open, if no child can be
 * started. */
pid_t closing_child_start(int *fds, unsigned count);

#endif
