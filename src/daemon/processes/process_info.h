/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says about a process, read once and copied. Everything in it may be
 * forged by the process itself (its arguments, its comm) or gone (it died).
 */
#ifndef HEAPPROFD_DAEMON_PROCESSES_PROCESS_INFO_H
#define HEAPPROFD_DAEMON_PROCESSES_PROCESS_INFO_H

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
    char executable[4096]; /* path, "" if it cannot be seen */
    char *argument_bytes;  /* what arguments[] points into */
    const char **arguments;
    size_t argument_count;
    size_t argument_length; /* of argument_bytes */
};

struct process_memory {
    uint64_t rss_bytes, rss_anon_bytes, vm_bytes;
};

/* 0, -ESRCH if there is no such process, or -ENOMEM. */
int process_info_read(struct process_info *info, pid_t pid);
void process_info_clear(struct process_info *info);

/* Update the title of the process, if it still runs the program of that image (process_image_open;
 * -1: do not check). Return whether anything has changed. */
bool process_info_refresh(struct process_info *info, int image_fd);

/* The name by which people know it: of the script that is run, else the base name
 * of argument 0, else of the executable. */
const char *process_info_name(const struct process_info *info);

/*
 * Whether a name that was asked for means this process: the base name of its
 * executable, of its argument 0, or its comm. Of both sides only what follows the
 * last slash counts, without what follows an "@". A name with a "*" is a pattern
 * as the shell has them.
 */
bool process_info_matches(const struct process_info *info, const char *name);

/* Whether its pid means the same to it as to us: one pid namespace. */
bool process_info_shares_pids(pid_t pid);

/* Grows when the process restricts its system calls (seccomp) further; 0: it has not, or is gone.
 */
uint32_t process_info_restrictions(pid_t pid);

/* Whether a file of the process in /proc ("maps", "environ") contains a text of less than 128
 * bytes. Return false if the file cannot be read. */
bool process_info_mentions(pid_t pid, const char *file, const char *text);

/* Anonymous memory, in core and swapped out, in KiB; 0 if it cannot be known. */
uint64_t process_info_anonymous_kb(pid_t pid);

/* comm alone, which a zombie still has. False: gone. */
bool process_info_comm(pid_t pid, char comm[16]);

/* The parent, 0 if unknown. */
pid_t process_info_parent(pid_t pid);

/* Whether it has waited for a child that ran a program. It may be a zombie. */
bool process_info_waited(pid_t pid);

/* Whether `ancestor` is the process itself or one of its ancestors. */
bool process_info_descends(pid_t pid, pid_t ancestor);

/* Return a descriptor of the program that the process runs now, or a negative errno. */
int process_image_open(pid_t pid);

/* Whether that program's memory is gone: the process has ended, or runs another program. */
bool process_image_is_gone(int fd);

/* Whether the process runs a program. False if it is ending or has ended. */
bool process_has_image(pid_t pid);

/* An open /proc/PID/statm, to be read again and again; or a negative errno. */
int process_memory_open(pid_t pid);
bool process_memory_read(int fd, struct process_memory *memory);

#endif
