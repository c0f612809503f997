/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of the kernel about each program that begins, moments after its exec, from its connector
 * of process events (a netlink socket). It needs the initial user, pid and network namespaces, and
 * before Linux 6.6 CAP_NET_ADMIN. target_discovery.c and descendants.c act on the events.
 *
 * If events come faster than they are read, some are lost. exec_events_read() reports that, and the
 * caller must scan /proc itself.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_EXEC_EVENTS_H
#define HEAPPROFD_RECORDER_PROCESSES_EXEC_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

enum exec_event_kind {
    EXEC_EVENT_FORKED,  /* a new process, still the same program as its parent */
    EXEC_EVENT_BEGAN,   /* a process began a program */
    EXEC_EVENT_RENAMED, /* a process changed its name */
    EXEC_EVENT_ENDED,   /* a thread ended: the first one, or any with a code that is not 0 */
};

struct exec_event {
    enum exec_event_kind kind;
    pid_t pid;
    pid_t parent;     /* only of a fork */
    bool is_leader;   /* only of an end: it is that of the process's first thread */
    int32_t status;   /* only of an end: the thread's, as waitpid gives that of a process */
    uint64_t time_us; /* CLOCK_MONOTONIC */
};

typedef void exec_event_handler(void *context, const struct exec_event *event);

/* Open the connector. Return a descriptor that is readable when there are events, or a negative
 * errno with the reason. */
int exec_events_open(struct error *error);
/* The same in two steps. Until the filter is there, also each thread that begins wakes the reader.
 * To set it takes longer than the rest: 0.2 ms, in which the kernel compiles it. */
int exec_events_subscribe(struct error *error);
void exec_events_set_filter(int fd);
/* Attach another filter: only forks, execs and ends of these processes, at most
 * EXEC_EVENTS_PIDS_MAX, wake the reader. */
#define EXEC_EVENTS_PIDS_MAX 16u
void exec_events_set_pids(int fd, const pid_t *pids, size_t count);
void exec_events_close(int fd);

/* Return whether exec_events_open() would succeed, or would have within the last minute. Otherwise
 * set *why_not. */
bool exec_events_are_there(struct error *why_not);

/* Read events, up to several hundred: the descriptor stays readable while there are more. Return 0,
 * or -ENOBUFS if some were lost. */
int exec_events_read(int fd, exec_event_handler *handler, void *context);

/* Drop all events that wait. */
void exec_events_drop(int fd);

/* Return whether there are events to read. */
bool exec_events_pending(int fd);

/* Parse one datagram, which may be malformed. */
void exec_events_parse(const void *bytes, size_t length, exec_event_handler *handler,
                       void *context);

#endif
