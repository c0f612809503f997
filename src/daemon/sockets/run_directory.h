/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's run directory (wire/control_page.h): where it is, who holds it, and the page in
 * it that tells dormant processes of sessions.
 */
#ifndef HEAPPROFD_DAEMON_SOCKETS_RUN_DIRECTORY_H
#define HEAPPROFD_DAEMON_SOCKETS_RUN_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/processes/invited.h"
#include "util/error.h"
#include "wire/control_page.h"

#define RUN_DIRECTORY_PATH_MAX 96

struct run_directory {
    char path[RUN_DIRECTORY_PATH_MAX];
    int lock; /* held as long as it is open; -1: not ours */
    struct control_page *page;
};

/* The one that a daemon of ours would serve. 0, or a negative errno with a message. */
int run_directory_choose(char path[RUN_DIRECTORY_PATH_MAX], struct error *error);

/* The n-th place (from 0) where somebody's daemon may be that serves us; false: no more. */
bool run_directory_candidate(unsigned n, char path[RUN_DIRECTORY_PATH_MAX]);

/* Makes the directory and its page if they are missing, so that processes that start now can be
 * told of sessions later. 0 or a negative errno with a message. */
int run_directory_prepare(const char *path, struct error *error);

/*
 * Makes the directory if it is missing, takes its lock, removes a socket that nobody serves any
 * more unless `keep_socket` (somebody else listens there for us), and maps its control page with
 * no session in it. -EBUSY: another daemon serves it; else a negative errno. All with a message.
 */
int run_directory_open(struct run_directory *directory, const char *path, bool keep_socket,
                       struct error *error);
void run_directory_close(struct run_directory *directory);

/* Whether a session wants processes from their start. */
void run_directory_announce(struct run_directory *directory, bool asks_newcomers);

/* Invite these processes, in place of those that were invited before. */
void run_directory_invite(struct run_directory *directory, const struct invited *invited,
                          size_t count);

/* Give up the page in a fork of the process that writes it. */
void run_directory_leave_page(struct run_directory *directory);

#endif
