/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that the daemon starts, and starts again when it ends: the producer for Perfetto's
 * tracing service (this program with --producer), or the collector of continuous mode. Each is a
 * client of the daemon like any other. So the supervisor knows nothing of their work, and waits for
 * nobody.
 */
#ifndef HEAPPROFD_RECORDER_SERVICE_CHILD_PROCESS_H
#define HEAPPROFD_RECORDER_SERVICE_CHILD_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* In the environment of the process: it must not begin to serve when the daemon is gone. */
#define CHILD_PROCESS_ENV "HEAPPROFD_IS_CHILD_PROCESS"

/* The exit status of a process that a restart would not help: its configuration has a mistake
 * (EX_CONFIG in sysexits.h). */
#define CHILD_PROCESS_HOPELESS 78

struct child_process {
    const char *name;          /* for the log: "the producer"; NULL: it is not wanted */
    const char *arguments[4];  /* the first is the program's path; they end with NULL */
    const char *run_directory; /* the daemon's */
    void (*log)(const char *line);
    pid_t pid; /* 0: it does not run */
    int pidfd;
    uint64_t started_ms, due_ms; /* CLOCK_MONOTONIC; due: when it is to be started */
    unsigned pause_ms;
};

/* Start the process if that is due. Return its pidfd if it was started now, else -1. */
int child_process_start_if_due(struct child_process *process);

/* The pidfd is readable: note that the process has ended, and plan the next start. */
void child_process_reap(struct child_process *process);

/* End the process. It has what the sessions wrote at their end. */
void child_process_end(struct child_process *process);

#endif
