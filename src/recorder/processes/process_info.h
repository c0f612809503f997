/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of /proc about a process, read once and copied. The process itself may forge its
 * arguments and its comm. It may have ended since.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_PROCESS_INFO_H
#define HEAPPROFD_RECORDER_PROCESSES_PROCESS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Longer command lines are cut. */
#define PROCESS_ARGUMENTS_MAX 256
#define PROCESS_ARGUMENTS_BYTES_MAX 16384

struct process_info {
    pid_t pid, parent_pid;
    uid_t uid;
    uint64_t start_boottime_ns;
    char comm[16];
    char comm_word[16];    /* its first word */
    char executable[4096]; /* path; "" if it cannot be read */
    char *argument_bytes;  /* what arguments[] points into */
    const char **arguments;
    size_t argument_count;
    size_t first_argument;  /* of the program; those before it are a loader's (main_program.h) */
    size_t argument_length; /* of argument_bytes */
};

struct process_memory {
    uint64_t rss_bytes, rss_anon_bytes;
};

/* Read the info of a process. Return 0, -ESRCH if there is no such process, or -ENOMEM. */
int process_info_read(struct process_info *info, pid_t pid);

/* The same in two steps, of which the second takes half of the time: parent, start and user come
 * with it. If it fails, the info is cleared. */
int process_info_read_names(struct process_info *info, pid_t pid);
int process_info_complete(struct process_info *info);

void process_info_clear(struct process_info *info);

/* Update the title of the process, if it still runs the program of that image (process_image_open;
 * -1: do not check). Return whether anything has changed. */
bool process_info_refresh(struct process_info *info, int image_fd);

/* Return the path of the program: of its executable, or as the loader was given it. */
const char *process_info_program(const struct process_info *info);

/* Return the name that users expect: the base name of the running script, else of argument 0, else
 * of the executable. */
const char *process_info_name(const struct process_info *info);

/*
 * Return whether `name` means this process: it is the base name of its executable, of its program
 * or of its argument 0, or its comm. On both sides only the part after the last slash and before an
 * "@" counts. A name with a "*" is a shell pattern.
 */
bool process_info_matches(const struct process_info *info, const char *name);

/* Return whether the process is in our pid namespace, so that pids mean the same to both. */
bool process_info_shares_pids(pid_t pid);

/* Return by how much CLOCK_MONOTONIC of the process is ahead of ours: another time namespace. 0 if
 * that is unknown. */
int64_t process_info_clock_ahead_ms(pid_t pid);

/* Return a number that grows when the process restricts its system calls (seccomp) further; 0: it
 * has not, or it is gone. */
uint32_t process_info_restrictions(pid_t pid);

/* Return whether a file of the process in /proc ("maps", "environ") contains a text of less than
 * 128 bytes; false if the file cannot be read. */
bool process_info_file_contains(pid_t pid, const char *file, const char *text);

/* Return the anonymous memory, in core and swapped, in KiB; 0 if it is unknown. */
uint64_t process_info_anonymous_kb(pid_t pid);

/* Read only comm, which a zombie still has. Return false if the process is gone. */
bool process_info_comm(pid_t pid, char comm[16]);

/* Return the start time, as in struct process_info; 0 if unknown. */
uint64_t process_info_start_ns(pid_t pid);

/* Return the parent; 0 if unknown. */
pid_t process_info_parent(pid_t pid);

/* Return whether the process has waited for a child that ran a program. It may be a zombie. */
bool process_info_had_children(pid_t pid);

/* Return whether `ancestor` is the process itself or one of its ancestors. */
bool process_info_descends(pid_t pid, pid_t ancestor);

/* Return a descriptor of the program that the process runs now, or a negative errno. */
int process_image_open(pid_t pid);

/* Return whether that program's memory is gone: the process has ended, or runs another program. */
bool process_image_is_gone(int fd);

/* Return whether the process runs a program; false if it is ending or has ended. */
bool process_has_image(pid_t pid);

/* Read an open /proc/PID/statm. Return false if the process has ended. */
bool process_memory_read(int fd, struct process_memory *memory);
/* Open, read and close it. */
bool process_memory_of(pid_t pid, struct process_memory *memory);

#endif
