/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observes from outside the processes that a command starts. Programs that load the library report
 * by themselves. Static ones cannot, and are attached to as soon as they are seen. Each program
 * that cannot report, or did not, is added to the session's list of unprofiled processes, with the
 * reason.
 *
 * The kernel's process events (exec_events.h) report all processes. If they are not available,
 * descendants_scan() scans /proc ten times a second. That misses processes that end sooner, and the
 * list says so.
 */
#ifndef HEAPPROFD_DAEMON_SERVER_DESCENDANTS_H
#define HEAPPROFD_DAEMON_SERVER_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/processes/preload_obstacle.h"
#include "daemon/server/server.h"
#include "daemon/session/session.h"
#include "util/error.h"

struct descendants {
    struct server *server;
    struct session *session;      /* the server's */
    const char *library, *socket; /* as in the command's environment */
    int events;                   /* readable when there are events; -1: the kernel sends none */
    struct error why_no_events;
    bool lost; /* events were lost, because there were too many at once */
    bool any;  /* the command has started a process */

    /* The command and its descendants by pid, ended ones included. */
    struct descendant {
        pid_t pid;
        char comm[16]; /* at the last scan of /proc */
    } * known;
    size_t count, capacity;
    pid_t *strangers; /* other processes at the last scan, by pid */
    size_t stranger_count;
    struct preload_obstacle_cache files;
};

/* Begin to listen. Call it before the command starts. `library` and `socket` must outlive it. */
void descendants_open(struct descendants *descendants, struct server *server, const char *library,
                      const char *socket);
void descendants_close(struct descendants *descendants);

/* Note the pid of the command, which runs now. */
void descendants_begin(struct descendants *descendants, pid_t command);

/* Read events. Call it when the descriptor is readable. */
void descendants_read(struct descendants *descendants);

/* Return whether the process is the command or descends from it, according to the kernel's events;
 * false without them. */
bool descendants_include(struct descendants *descendants, pid_t pid);

/* Scan /proc if needed. Call it ten times a second. */
void descendants_scan(struct descendants *descendants);

/* Note that the command has ended. Call it while the command is still a zombie. */
void descendants_command_ended(struct descendants *descendants);

/* Take in the last events. Call it after the command's end, while its processes are still targets.
 */
void descendants_read_rest(struct descendants *descendants);

/* Add to the list why it may be incomplete. Call it when no process is a target any more. */
void descendants_finish(struct descendants *descendants);

#endif
