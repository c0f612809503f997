/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory in which the user's profilers without a daemon are found. No other user can read or
 * change it. It has a symbolic link for each profiler, named by its pid, to the profiler's socket.
 */
#ifndef HEAPPROFD_DAEMON_SOCKETS_SESSION_DIRECTORY_H
#define HEAPPROFD_DAEMON_SOCKETS_SESSION_DIRECTORY_H

#include <stdbool.h>
#include <sys/types.h>

#define SESSION_LINK_MAX 128

/* Link this process's socket. Write the link's path, or "" if no directory can be used. */
void session_directory_add(const char *socket, char link[SESSION_LINK_MAX]);
void session_directory_remove(char link[SESSION_LINK_MAX]);

/*
 * Call `visit` with the link of each of this user's profilers, and for root of all users'. The
 * caller removes links to sockets that are gone.
 */
void session_directory_visit(void (*visit)(void *context, pid_t pid, uid_t owner, const char *link),
                             void *context);

#endif
