/*
 * The processes that a session saw and did not profile, for the list at the end:
 * nobody should have to guess where a script's work went.
 */
#ifndef HEAPPROFD_DAEMON_UNPROFILED_H
#define HEAPPROFD_DAEMON_UNPROFILED_H

#include <stddef.h>
#include <sys/types.h>

#include "trace/trace_writer.h"

enum unprofiled_reason {
    UNPROFILED_CHILD,   /* not the command itself */
    UNPROFILED_FORKED,  /* from an attached process */
    UNPROFILED_NAME,    /* not one of the names that were asked for */
    UNPROFILED_TOO_MANY /* profiled at once, or no memory for one more */
};

/* More are only counted. */
#define UNPROFILED_RECORDS_MAX (64u << 10)

struct unprofiled_list {
    struct unprofiled_record {
        pid_t pid, parent_pid;
        enum unprofiled_reason reason;
        char name[48];
    } * records;
    size_t count, capacity;
    size_t beyond; /* seen after the list was full */
};

/* A pid that is in the list already has become another program: its record changes. */
void unprofiled_add(struct unprofiled_list *list, pid_t pid, pid_t parent_pid, const char *name,
                    enum unprofiled_reason reason);

/* The process is profiled after all. */
void unprofiled_remove(struct unprofiled_list *list, pid_t pid);

/* Writes one entry for all processes of a name and reason; sorts the list. */
int unprofiled_write(struct unprofiled_list *list, struct trace_writer *writer);

void unprofiled_clear(struct unprofiled_list *list);

#endif
