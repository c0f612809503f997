/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for a socket in the file system to appear: by inotify in its directory or, as long as that
 * is not there, in the nearest one above it.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_SOCKET_WATCH_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_SOCKET_WATCH_H

#include <limits.h>
#include <stdbool.h>

struct socket_watch {
    int inotify;                /* -1: none; readable after a change */
    int watch;                  /* -1: none */
    char awaited[NAME_MAX + 1]; /* the name that must appear in the watched directory */
};

/* Return whether there can be watches. */
bool socket_watch_open(struct socket_watch *watch);
void socket_watch_close(struct socket_watch *watch);

/* Watch for the socket with this name (socket_names.h). Other names than paths are not watched.
 * Call it before each attempt to connect, so that no appearance goes unseen. */
void socket_watch_begin(struct socket_watch *watch, const char *name);
void socket_watch_end(struct socket_watch *watch);

/* Read what has changed. Return whether to try again. */
bool socket_watch_read(struct socket_watch *watch);

#endif
