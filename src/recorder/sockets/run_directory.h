/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's run directory (wire/control_page.h): its path, its lock, and the page that announces
 * sessions to dormant processes.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_RUN_DIRECTORY_H
#define HEAPPROFD_RECORDER_SOCKETS_RUN_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "recorder/processes/invited.h"
#include "util/error.h"
#include "wire/control_page.h"

#define RUN_DIRECTORY_PATH_MAX 96

struct run_directory {
    char path[RUN_DIRECTORY_PATH_MAX];
    int lock; /* held while it is open; -1: not ours */
    struct control_page *page;
};

/* Choose the directory that a daemon of this user would serve. Return 0 or a negative errno with a
 * message. */
int run_directory_choose(char path[RUN_DIRECTORY_PATH_MAX], struct error *error);

/* Set the n-th path (from 0) at which a daemon that serves us may be. Return false after the last.
 */
bool run_directory_candidate(unsigned n, char path[RUN_DIRECTORY_PATH_MAX]);

/* Make the directory and its page if they are missing, so that processes that start now can be
 * invited later. Return 0 or a negative errno with a message. */
int run_directory_prepare(const char *path, struct error *error);

/*
 * Make the directory if it is missing, take its lock, and map its control page without sessions.
 * Remove a socket that nobody serves, unless `keep_socket` (systemd listens there for us). Return
 * 0, -EBUSY if another daemon serves it, or another negative errno. Errors come with a message.
 */
int run_directory_open(struct run_directory *directory, const char *path, bool keep_socket,
                       struct error *error);
void run_directory_close(struct run_directory *directory);

/* Announce whether a session wants processes from their start. */
void run_directory_announce(struct run_directory *directory, bool asks_newcomers);

/* Invite these processes, instead of those that were invited before. */
void run_directory_invite(struct run_directory *directory, const struct invited *invited,
                          size_t count);

/* Unmap the page in a fork of the process that writes it. */
void run_directory_leave_page(struct run_directory *directory);

#endif
