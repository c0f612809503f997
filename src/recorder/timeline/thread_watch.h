/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a profiled process: their names, and when they start and end.
 *
 * They are listed about once a second, so a thread that lives shorter may have no start and no end
 * in the trace. An end is when it was noticed; a start is the kernel's own, in hundredths of a
 * second. The first THREAD_WATCH_MAX threads of a process are watched.
 */
#ifndef HEAPPROFD_RECORDER_TIMELINE_THREAD_WATCH_H
#define HEAPPROFD_RECORDER_TIMELINE_THREAD_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/write/trace_writer.h"

#define THREAD_WATCH_MAX 4096u

/* A thread that is, or was, in the trace. */
struct watched_thread {
    int32_t tid;
    bool is_listed;      /* it is alive */
    bool was_listed_now; /* by the listing that goes on */
    bool is_ended;       /* the trace has its end: it must not be named again */
    uint64_t start_ns;   /* CLOCK_BOOTTIME; 0: not listed yet */
    uint64_t named_ns;   /* when the trace named it first; 0: not yet */
    char name[16];       /* as the trace has it */
    char recorded[16];   /* the last name that the ring brought; "": none */
};

struct thread_watch {
    struct watched_thread *threads; /* by tid */
    size_t count, capacity;
    size_t next_name; /* the next thread whose name is read again */
};

void thread_watch_clear(struct thread_watch *watch);

/* Write all names again when they are next read. */
void thread_watch_restart(struct thread_watch *watch);

/* List the threads, and write what has changed since the last listing. `directory` is /proc/PID. */
void thread_watch_list(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                       int directory);

/* Write a name that the thread had when it last allocated. The name may be older than the last
 * listing: /proc names a thread that is listed. Return 0 or a negative errno. */
int thread_watch_name(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                      int directory, int32_t tid, const char *name);

/* Return whether the trace has the name from the ring already, or a newer one, or the thread's end.
 */
bool thread_watch_has_name(const struct thread_watch *watch, int32_t tid, const char *name);

/* Write the end of all threads, and of the process unless it goes on with another program. */
void thread_watch_end(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                      bool process_ends);

#endif
