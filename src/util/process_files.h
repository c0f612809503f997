/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files in /proc/PID of a process that may end at any moment. */
#ifndef HEAPPROFD_UTIL_PROCESS_FILES_H
#define HEAPPROFD_UTIL_PROCESS_FILES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Return a thread of the process that has not ended: the first one (its pid), unless that has ended
 * before others. What /proc shows of memory, program, root directory and namespaces, it does not
 * show of an ended thread, so such files are read of this one. Return pid if all have ended, or it
 * cannot be told.
 */
pid_t process_living_thread(pid_t pid);

/* Open a file for reading: "stat", "status" and "comm" of that thread, any other one of its
 * process. Return a descriptor or a negative errno. */
int process_file_open(pid_t pid, const char *name);

/* Read a file and end it with a zero byte; what does not fit is left out. Return its length or a
 * negative errno. */
ssize_t process_file_read(pid_t pid, const char *name, char *buffer, size_t size);

/* Read a file of a process whose directory in /proc is open, like process_file_read(). If the
 * process ends, the directory does not become that of another one. */
ssize_t process_directory_read(int directory, const char *name, char *buffer, size_t size);

/* Open a file of its process_living_thread(). Return a descriptor or a negative errno. */
int process_directory_open(int directory, const char *name);

struct process_stat {
    pid_t parent;
    char state; /* 'R', 'Z' and so on */
    bool is_kernel_thread;
    bool is_kernel_worker; /* a thread of a process that never runs the program's code */
    uint64_t children_faults; /* page faults of all reaped descendants */
    uint64_t cpu_ticks;       /* of all its threads, in user and kernel mode */
    uint64_t start_ticks;     /* since boot, sysconf(_SC_CLK_TCK) a second */
    uint64_t minor_faults, major_faults;
    uint64_t heap_start; /* where brk begins; 0: we may not know it */
    int32_t exit_code;   /* of a zombie, as waitpid gives it; 0, too, if we may not know it */
};

/* Read /proc/PID/stat. Return false if there is no such process. */
bool process_stat_read(pid_t pid, struct process_stat *stat);
/* Take the fields from the file's text. Return false if it is not that of a process. */
bool process_stat_parse(const char *text, struct process_stat *stat);

/* Read an entry (AT_...) of the auxiliary vector of the process's program; 0: the vector lacks it.
 * Return 0 or a negative errno. */
int process_auxiliary_read(pid_t pid, uint64_t type, uint64_t *value);

/* What is missing in the file is 0, unless noted. */
struct process_status {
    uint64_t leader, tracer, threads;
    pid_t inner_pid;         /* in its own namespace */
    char state;              /* 'R', 'Z' and so on */
    unsigned uid[4], gid[4]; /* real, effective, saved, file system; missing: ~0 */
    uint64_t permitted, effective, ambient, bounding; /* capabilities; permitted missing: all */
    uint64_t seccomp_mode, seccomp_filters;           /* mode: 0 none, 1 strict, 2 filters */
    uint64_t anonymous_kb, swapped_kb, locked_kb;
    uint64_t rss_kb, file_kb, shared_kb; /* resident in core; missing: ~0 */
};

/* Read /proc/PID/status, once, so that its values are of one moment: that of the process's
 * process_living_thread(), if that is another. Return 0 or a negative errno. */
int process_status_read(pid_t pid, struct process_status *status);

/* Return whether a link of the process ("root", "ns/user") leads where ours does. Return false if
 * the process is gone or inaccessible. */
bool process_shares(pid_t pid, const char *link);

/* Return the next process that an open /proc lists, in ascending order of pids; 0: there are no
 * more. */
pid_t process_list_next(DIR *proc);

/* Return Yama's kernel.yama.ptrace_scope; 0 on a kernel without Yama. */
int process_ptrace_scope(void);

/* Return whether the process has ended or begun to end: none of its threads has memory any more.
 * This does not hold for a kernel thread, which has no memory either. */
bool process_has_ended(pid_t pid);

#endif
