/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the files that debug information names. Names are completed as in libdw: absolute names
 * stay as they are, others are relative to the directory of the file with the debug information.
 */
#include "profile/symbols/linked_files.h"

#include <elfutils/libdwelf.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Return whether the path is a regular file or a directory, or does not exist. */
static bool is_safe(const char *path)
{
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}

/* Write the directory of an open file with "/" at its end, or "" if it is unknown. */
static void find_directory(int fd, char directory[PATH_MAX])
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, directory, PATH_MAX - 1);
    directory[length < 0 ? 0 : length] = '\0';
    char *slash = strrchr(directory, '/');
    *(slash == NULL ? directory : slash + 1) = '\0';
}

static bool make_path(const char *first, const char *second, const char *name, char path[PATH_MAX])
{
    int length = *name == '/'     ? snprintf(path, PATH_MAX, "%s", name)
                 : *second == '/' ? snprintf(path, PATH_MAX, "%s/%s", second, name)
                                  : snprintf(path, PATH_MAX, "%s%s/%s", first, second, name);
    return length > 0 && length < PATH_MAX;
}

static bool is_safe_below(const char *first, const char *second, const char *name)
{
    char path[PATH_MAX];
    /* A longer path is unsafe: libdw may have room for it. */
    return make_path(first, second, name, path) && is_safe(path);
}

bool linked_files_path(int fd, const char *directory, const char *name, char path[PATH_MAX])
{
    char own[PATH_MAX];
    find_directory(fd, own);
    return make_path(own, directory, name, path);
}

bool linked_files_have_safe_alternate(Dwarf *dwarf, int fd)
{
    const char *name;
    const void *build_id;
    char directory[PATH_MAX];
    if (dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &build_id) <= 0)
        return true;
    find_directory(fd, directory);
    return is_safe_below(directory, "", name);
}

bool linked_files_have_safe_split(int fd, const char *directory, const char *name)
{
    char own[PATH_MAX];
    find_directory(fd, own);
    return is_safe_below(own, "", name) &&
           (directory == NULL || is_safe_below(own, directory, name));
}
