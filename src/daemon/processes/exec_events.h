/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's word for each program that begins, moments after its exec: its connector of process
 * events (a netlink socket). Needs the initial namespaces of users, processes and network, and
 * before Linux 6.6 CAP_NET_ADMIN. Says what happened; what follows from it is target_discovery.c's
 * business.
 *
 * Events may be lost where they come faster than they are read: the reader is told, and has to look
 * for itself.
 */
#ifndef HEAPPROFD_DAEMON_PROCESSES_EXEC_EVENTS_H
#define HEAPPROFD_DAEMON_PROCESSES_EXEC_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

enum exec_event_kind {
    EXEC_EVENT_FORKED,  /* a new process, still the same program as its parent */
    EXEC_EVENT_BEGAN,   /* a process began a program */
    EXEC_EVENT_RENAMED, /* a process has another name */
};

struct exec_event {
    enum exec_event_kind kind;
    pid_t pid;
    pid_t parent;     /* of a fork */
    uint64_t time_us; /* CLOCK_MONOTONIC */
};

typedef void exec_event_handler(void *context, const struct exec_event *event);

/* The descriptor, readable when something has happened; or a negative errno with the reason. */
int exec_events_open(struct error *error);
void exec_events_close(int fd);

/* Return whether exec_events_open would succeed, or would have within the last minute; else the
 * reason. */
bool exec_events_are_there(struct error *why_not);

/* What has happened since, up to some hundreds of events: the descriptor stays readable while there
 * are more. 0; -ENOBUFS: some were lost. */
int exec_events_read(int fd, exec_event_handler *handler, void *context);

/* Whether there are events to read. */
bool exec_events_pending(int fd);

/* Of one datagram, which need not be sound. */
void exec_events_parse(const void *bytes, size_t length, exec_event_handler *handler,
                       void *context);

#endif
