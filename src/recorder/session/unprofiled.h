/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a session saw and did not profile, for the list at its end: users should not
 * have to guess where a script's work went.
 */
#ifndef HEAPPROFD_RECORDER_SESSION_UNPROFILED_H
#define HEAPPROFD_RECORDER_SESSION_UNPROFILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/processes/preload_obstacle.h"
#include "trace/write/trace_writer.h"

enum unprofiled_reason {
    UNPROFILED_CHILD,    /* not the command itself */
    UNPROFILED_FORKED,   /* child of an attached process */
    UNPROFILED_NAME,     /* does not have one of the names */
    UNPROFILED_POLICY,   /* the administrator denies it */
    UNPROFILED_TOO_MANY, /* too many processes at once, or no memory for another one */
    UNPROFILED_QUIET,    /* wanted, could load the library, but never reported */
    UNPROFILED_GONE,     /* ended before the profiler examined it, and never reported */
    UNPROFILED_SILENT,   /* cannot load the library; plus an enum preload_obstacle */
    UNPROFILED_REASONS = UNPROFILED_SILENT + OBSTACLE_KINDS,
};

/* Further processes are only counted. */
#define UNPROFILED_RECORDS_MAX (64u << 10)

struct unprofiled_list {
    struct unprofiled_record {
        pid_t pid, parent_pid;
        bool profiled; /* later on; the record stays, so that late events are recognized as old */
        enum unprofiled_reason reason;
        uint64_t noted_us; /* CLOCK_MONOTONIC */
        char name[48];
    } * records;
    size_t count, capacity;
    size_t unlisted;            /* number seen after the list was full */
    const char *why_incomplete; /* why the list may be incomplete; NULL: it is complete */
};

/* Add a process. If the pid is in the list already, it has become another program, and its record
 * changes. */
void unprofiled_add(struct unprofiled_list *list, pid_t pid, pid_t parent_pid, const char *name,
                    enum unprofiled_reason reason);

/* Add the child of a listed process, forked at forked_us (CLOCK_MONOTONIC), for the same reason. */
void unprofiled_add_copy(struct unprofiled_list *list, pid_t pid,
                         const struct unprofiled_record *of_parent, uint64_t forked_us);

/* Note that the process is profiled now. */
void unprofiled_note_profiled(struct unprofiled_list *list, pid_t pid);

/* Return the record of that process if it is one of the latest, else NULL. */
const struct unprofiled_record *unprofiled_find(struct unprofiled_list *list, pid_t pid);

/* Return the number of processes that were not profiled. */
size_t unprofiled_count(const struct unprofiled_list *list);

/* Write one entry for all processes with the same name and reason. Sorts the list. */
int unprofiled_write(struct unprofiled_list *list, struct trace_writer *writer);

void unprofiled_clear(struct unprofiled_list *list);

#endif
