/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observes from outside the processes that a command starts. Programs that load the library report
 * by themselves. Static ones cannot, and are attached to as soon as they are seen. Each program
 * that cannot report, or did not, is added to the session's list of unprofiled processes, with the
 * reason.
 *
 * The kernel's process events (exec_events.h) report all processes. On a machine that starts many
 * others, only the events of the command's processes wake us; all events are read then, and ten
 * times a second. If there are no events, /proc is scanned ten times a second. That misses
 * processes that end sooner, and the list says so.
 */
#ifndef HEAPPROFD_RECORDER_SERVER_DESCENDANTS_H
#define HEAPPROFD_RECORDER_SERVER_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "recorder/processes/preload_obstacle.h"
#include "recorder/server/server.h"
#include "recorder/session/session.h"
#include "util/error.h"

struct descendants {
    struct server *server;
    struct session *session;      /* the server's */
    const char *library, *socket; /* as in the command's environment */
    int events;                   /* of all processes; -1: the kernel sends none */
    int waker;                    /* of the known processes, if only these wake us; else -1 */
    struct error why_no_events;
    uint64_t read_us; /* time of the event that was read last (CLOCK_MONOTONIC) */
    unsigned strange; /* number of events of other processes since the last turn */
    bool changed;     /* the set of processes, since the last turn */
    bool lost;        /* events were lost, because there were too many at once */
    bool behind;      /* there were too many events to read the last ones */
    bool any;         /* the command has started a process */

    /* The command and its descendants by pid, ended ones included. */
    struct descendant {
        pid_t pid;
        bool ended;
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

/* Call descendants_read() when one of the descriptors is readable that descendants_watches() knows.
 * Watch them from now on. */
void descendants_watch(struct descendants *descendants);
bool descendants_watches(const struct descendants *descendants, int fd);

/* Note the pid of the command, which runs now. */
void descendants_begin(struct descendants *descendants, pid_t command);

/* Read events. */
void descendants_read(struct descendants *descendants);

/* Return whether the process is the command or descends from it, according to the kernel's events;
 * false without them. */
bool descendants_include(struct descendants *descendants, pid_t pid);

/* Read what woke nobody, or scan /proc. Call it ten times a second. */
void descendants_tick(struct descendants *descendants);

/* Note that the command has ended. Call it while the command is still a zombie. */
void descendants_command_ended(struct descendants *descendants);

/* Take in the events until now. Call it after the command's end, while its processes are still
 * targets. */
void descendants_read_rest(struct descendants *descendants);

/* Add to the list why it may be incomplete. Call it when no process is a target any more. */
void descendants_finish(struct descendants *descendants);

#endif
