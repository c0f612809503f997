/*
 * Where the sessions of a user are found that no daemon has: a directory of the user's own, which
 * nobody else can look into or change, with a symbolic link for each profiler, of its pid, to the
 * socket that it listens at.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_DIRECTORY_H
#define HEAPPROFD_DAEMON_SESSION_DIRECTORY_H

#include <stdbool.h>
#include <sys/types.h>

#define SESSION_LINK_MAX 128

/* Link this process's socket. Writes the link's path, "" if there is no place for one. */
void session_directory_add(const char *socket, char link[SESSION_LINK_MAX]);
void session_directory_remove(char link[SESSION_LINK_MAX]);

/*
 * Call `visit` with the link of each profiler: of this user's, and for root of all users'. Links to
 * sockets that are gone are the caller's to remove.
 */
void session_directory_visit(void (*visit)(void *context, pid_t pid, uid_t owner, const char *link),
                             void *context);

#endif
