/*
 * The processes that a command starts, as they are seen from outside. Those that load the library
 * report by themselves; of the others this is all that is known. Each program that cannot report,
 * or did not, comes into the session's list of what was not profiled, with the reason.
 *
 * Learns of them from the kernel's process events (exec_events.h), where it misses none. Elsewhere
 * it looks through /proc ten times a second: what ends sooner is not seen, and the list says so.
 */
#ifndef HEAPPROFD_DAEMON_DESCENDANTS_H
#define HEAPPROFD_DAEMON_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/session.h"
#include "daemon/silence.h"
#include "util/error.h"

struct descendants {
    struct session *session;
    const char *library, *socket; /* what the command has in its environment */
    int events;                   /* readable when something has happened; -1: none are told */
    struct error why_not_told;
    bool lost; /* events, because there were too many at once */
    bool any;  /* the command has started a process */

    /* The command and what descends from it, by pid; ended ones, too. */
    struct descendant {
        pid_t pid;
        char comm[16]; /* at the last look through /proc */
    } * known;
    size_t count, capacity;
    pid_t *strangers; /* other processes at the last look, by pid */
    size_t stranger_count;
    struct silence_cache files;
};

/* Begins to listen; to be called before the command starts. `library` and `socket` are to outlive
 * it. */
void descendants_open(struct descendants *descendants, struct session *session, const char *library,
                      const char *socket);
void descendants_close(struct descendants *descendants);

/* The command runs. */
void descendants_begin(struct descendants *descendants, pid_t command);

/* The descriptor is readable. */
void descendants_read(struct descendants *descendants);

/* Whether that process is the command or descends from it, as the kernel told: false where it tells
 * of nothing. `descendants` is a struct descendants. */
bool descendants_tell(void *descendants, pid_t pid);

/* To be called ten times a second. */
void descendants_look(struct descendants *descendants);

/* The command has ended, and is a zombie still. */
void descendants_command_ended(struct descendants *descendants);

/* To be called once the command is over, while its processes are still targets: takes in what has
 * happened last. */
void descendants_take_rest(struct descendants *descendants);

/* To be called once no process is a target any more: says in the list what it may lack. */
void descendants_finish(struct descendants *descendants);

#endif
