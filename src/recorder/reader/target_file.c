/* SPDX-License-Identifier: Apache-2.0 */
/* Open mapped files, with one function for each way to the file. */
#include "recorder/reader/target_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/process_files.h"
#include "util/regular_file.h"

#define PATH_BYTES 4096
#define DELETED " (deleted)"

/* Return whether the mapped file has, or had, the name that the process reports. A later program of
 * the process may have another file mapped there. */
static bool has_its_name(const char *link, const char *path)
{
    char name[PATH_BYTES + sizeof(DELETED)];
    ssize_t length = readlink(link, name, sizeof(name) - 1);
    if (length <= 0)
        return false;
    name[length] = 0;
    size_t wanted = strlen(path);
    return strncmp(name, path, wanted) == 0 &&
           (name[wanted] == 0 || strcmp(name + wanted, DELETED) == 0);
}

static int open_mapped(const struct target_mapping *mapping, struct stat *status)
{
    char link[96];
    snprintf(link, sizeof(link), "/proc/%d/map_files/%llx-%llx",
             (int)process_living_thread(mapping->pid), (unsigned long long)mapping->start,
             (unsigned long long)mapping->end);
    if (!mapping->has_build_id && !has_its_name(link, mapping->path))
        return -1;
    return process_rights_open_mapped(link, status);
}

static int open_in_root(const struct target_mapping *mapping, struct stat *status)
{
    int root = regular_file_root_of(mapping->pid);
    if (root < 0)
        return -1;
    int fd = process_rights_open(mapping->rights, root, mapping->path, 0, status);
    close(root);
    return fd;
}

/* Return whether the process's root directory is visible. If so, its files are there or nowhere. */
static bool has_root(pid_t pid)
{
    int root = regular_file_root_of(pid);
    if (root >= 0)
        close(root);
    return root >= 0;
}

int target_file_open(const struct target_mapping *mapping, enum target_file_way way,
                     struct stat *status)
{
    int fd = -1;
    if (mapping->path[0] != '/')
        return -1;
    process_rights_read(mapping->rights, mapping->pid);
    if (way == TARGET_FILE_MAPPED && mapping->pid > 0)
        fd = open_mapped(mapping, status);
    else if (way == TARGET_FILE_IN_ROOT && mapping->pid > 0)
        fd = open_in_root(mapping, status);
    else if (way == TARGET_FILE_BY_PATH &&
             (mapping->has_build_id || mapping->rights->shares_root) &&
             (mapping->pid <= 0 || !has_root(mapping->pid)))
        fd = process_rights_open(mapping->rights, -1, mapping->path, 0, status);
    return fd < 0 ? -1 : fd;
}
