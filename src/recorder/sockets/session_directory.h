/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory with the user's profilers that run without a daemon. No other user can read or change
 * it. It has a symbolic link for each profiler, named by its pid, to the profiler's socket.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_SESSION_DIRECTORY_H
#define HEAPPROFD_RECORDER_SOCKETS_SESSION_DIRECTORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "util/error.h"

#define SESSION_LINK_MAX 128

/* Link this process's socket. Write the link's path, or "" if no directory can be used. */
void session_directory_add(const char *socket, char link[SESSION_LINK_MAX]);
void session_directory_remove(char link[SESSION_LINK_MAX]);

/* Return whether no directory can be used, because somebody else has its name. */
bool session_directory_has_problem(struct error *problem);

/* Examine a profiler's socket. Return false if nobody listens there any more: then the user's own
 * link to it is removed. */
typedef bool session_directory_visitor(void *context, pid_t pid, uid_t owner, const char *socket);

/* Visit this user's profilers, and for root those of all users. */
void session_directory_visit(session_directory_visitor *visit, void *context);

#endif
