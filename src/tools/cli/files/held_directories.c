/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/fd. Nothing that a descriptor leads to is opened. */
#include "tools/cli/files/held_directories.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/process_files.h"
#include "util/xmalloc.h"

#define NAME "heap_profile"
#define DESCRIPTORS_MAX 4096u

static void held_directories_add(struct held_directories *held, pid_t pid, int descriptors,
                                 const char *name)
{
    struct stat status;
    char path[PATH_MAX];
    /* This follows the link to the open file itself. */
    if (fstatat(descriptors, name, &status, 0) < 0 || !S_ISDIR(status.st_mode))
        return;
    ssize_t length = readlinkat(descriptors, name, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    if (*path != '/')
        return;
    const struct held_directory item = {xstrdup(path), status.st_dev, status.st_ino, pid};
    XARRAY_ADD(&held->items, &held->count, &held->capacity, item);
}

static void add_all_of(struct held_directories *held, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    for (size_t i = 0;
         directory != NULL && i < DESCRIPTORS_MAX && (entry = readdir(directory)) != NULL; i++)
        if (isdigit((unsigned char)entry->d_name[0]))
            held_directories_add(held, pid, dirfd(directory), entry->d_name);
    if (directory != NULL)
        closedir(directory);
}

/* Return whether a process is a heap_profile of this user or of root. Others may call theirs so,
 * and hold millions of directories open. The owner of /proc/PID says less: root has that of a
 * process that cannot be dumped. */
static bool is_recorder(pid_t pid)
{
    char comm[32];
    struct process_status status;
    return process_file_read(pid, "comm", comm, sizeof(comm)) > 0 &&
           strncmp(comm, NAME, strlen(NAME)) == 0 && process_status_read(pid, &status) == 0 &&
           (status.uid[0] == geteuid() || status.uid[0] == 0);
}

void held_directories_find(struct held_directories *held)
{
    DIR *directory = opendir("/proc");
    pid_t pid;
    *held = (struct held_directories){0};
    while (directory != NULL && (pid = process_list_next(directory)) > 0)
        if (pid != getpid() && is_recorder(pid))
            add_all_of(held, pid);
    if (directory != NULL)
        closedir(directory);
}

void held_directories_find_of(struct held_directories *held, pid_t pid)
{
    *held = (struct held_directories){0};
    add_all_of(held, pid);
}

void held_directories_clear(struct held_directories *held)
{
    for (size_t i = 0; i < held->count; i++)
        free(held->items[i].path);
    free(held->items);
    *held = (struct held_directories){0};
}

pid_t held_directories_holder(const struct held_directories *held, const struct stat *directory)
{
    for (size_t i = 0; i < held->count; i++)
        if (held->items[i].device == directory->st_dev && held->items[i].inode == directory->st_ino)
            return held->items[i].pid;
    return 0;
}
