/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the fields of /proc/PID/stat. */
#include "util/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel's PF_KTHREAD in the flags field. Only this distinguishes a kernel thread from an
 * ending process: neither has memory or an executable. */
#define FLAG_KERNEL_THREAD 0x200000u

static bool read_text(pid_t pid, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && length < size - 1) {
        got = read(fd, text + length, size - 1 - length);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            length += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    text[length] = 0;
    return length > 0;
}

bool process_stat_read(pid_t pid, struct process_stat *stat)
{
    char text[2048];
    *stat = (struct process_stat){0};
    /* The name may contain anything, even closing brackets and spaces. */
    const char *field = read_text(pid, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    if (field == NULL)
        return false;
    field++;
    for (int number = 3; number <= 22; number++) {
        field += strspn(field, " ");
        if (number == 4)
            stat->parent = (pid_t)strtol(field, NULL, 10);
        if (number == 9)
            stat->is_kernel_thread = (strtoul(field, NULL, 10) & FLAG_KERNEL_THREAD) != 0;
        if (number == 11)
            stat->children_faults = strtoull(field, NULL, 10);
        if (number == 22)
            stat->start_ticks = strtoull(field, NULL, 10);
        field += strcspn(field, " ");
    }
    return true;
}

bool process_has_ended(pid_t pid)
{
    char path[64], link[8];
    struct process_stat stat;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    if (readlink(path, link, sizeof(link)) >= 0 || (errno != ENOENT && errno != ESRCH))
        return false;
    return !process_stat_read(pid, &stat) || !stat.is_kernel_thread;
}
