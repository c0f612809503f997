/* SPDX-License-Identifier: Apache-2.0 */
/* Parse mountinfo, /proc/PID/cgroup and the files of a cgroup. */
#include "recorder/cgroups/cgroup_files.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 says LONG_MAX, rounded down to whole pages, for "no limit". */
#define UNLIMITED_FROM (UINT64_C(1) << 62)

/* --- mounts --- */

/* Copy a field of mountinfo, where \040 and the like stand for blanks. */
static void copy_field(char to[512], const char *from)
{
    size_t used = 0;
    for (; *from != '\0' && used < 511; from++) {
        /* A path that was cut may end within one of them. */
        if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
            to[used++] = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 3;
        } else {
            to[used++] = *from;
        }
    }
    to[used] = '\0';
}

static bool has_option(const char *options, const char *option)
{
    size_t length = strlen(option);
    for (const char *at = options; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, option, length) == 0 && strchr(",\n", at[length]) != NULL)
            return true;
    }
    return false;
}

void cgroup_mounts_take(struct cgroup_mounts *mounts, const char *line)
{
    char root[512], path[512], type[32], options[512];
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(line, "%*d %*d %*s %511s %511s", root, path) != 2 ||
        root[0] != '/' || path[0] != '/' || sscanf(rest, " - %31s %*s %511s", type, options) != 2)
        return;
    struct cgroup_mount *mount = strcmp(type, "cgroup2") == 0 ? &mounts->unified
                                 : strcmp(type, "cgroup") == 0 && has_option(options, "memory")
                                     ? &mounts->memory
                                     : NULL;
    if (mount == NULL || mount->path[0] != '\0')
        return;
    copy_field(mount->root, root);
    copy_field(mount->path, path);
}

void cgroup_mounts_find(struct cgroup_mounts *mounts)
{
    char line[4096];
    *mounts = (struct cgroup_mounts){0};
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        cgroup_mounts_take(mounts, line);
    if (file != NULL)
        fclose(file);
}

/* --- paths --- */

/* Return the path of a line "NUMBER:CONTROLLERS:PATH" if it is the wanted one, or NULL. */
static const char *path_of_line(const char *line, size_t length, bool of_memory)
{
    const char *first = memchr(line, ':', length);
    const char *second =
        first == NULL ? NULL : memchr(first + 1, ':', length - (size_t)(first + 1 - line));
    if (second == NULL)
        return NULL;
    size_t names = (size_t)(second - first - 1);
    if (!of_memory)
        return names == 0 ? second + 1 : NULL;
    for (const char *at = first + 1; at < second; at++) {
        bool begins = at == first + 1 || at[-1] == ',';
        if (begins && (size_t)(second - at) >= 6 && strncmp(at, "memory", 6) == 0 &&
            (at + 6 == second || at[6] == ','))
            return second + 1;
    }
    return NULL;
}

bool cgroup_path_of(const char *text, bool of_memory, char path[CGROUP_PATH_BYTES])
{
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *found = path_of_line(line, length, of_memory);
        if (found != NULL) {
            static const char gone[] = " (deleted)"; /* a dead process's cgroup may be */
            size_t bytes = (size_t)(line + length - found), suffix = sizeof(gone) - 1;
            if (bytes > suffix && strncmp(found + bytes - suffix, gone, suffix) == 0)
                bytes -= suffix;
            if (bytes == 0 || bytes >= CGROUP_PATH_BYTES || found[0] != '/' ||
                strncmp(found, "/..", 3) == 0)
                return false;
            memcpy(path, found, bytes);
            path[bytes] = '\0';
            return true;
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

bool cgroup_directory(const struct cgroup_mount *mount, const char *path,
                      char directory[CGROUP_PATH_BYTES])
{
    size_t length = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
    if (mount->path[0] == '\0' || strncmp(path, mount->root, length) != 0 ||
        (path[length] != '/' && path[length] != '\0'))
        return false;
    int written = snprintf(directory, CGROUP_PATH_BYTES, "%s%s", mount->path, path + length);
    return written > 0 && (size_t)written < CGROUP_PATH_BYTES;
}

/* --- values --- */

bool cgroup_counter(const char *text, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ' &&
            isdigit((unsigned char)line[length + 1])) {
            *value = strtoull(line + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

bool cgroup_amount(const char *text, uint64_t *bytes)
{
    if (strncmp(text, "max", 3) == 0) {
        *bytes = CGROUP_UNLIMITED;
        return true;
    }
    if (!isdigit((unsigned char)*text))
        return false;
    *bytes = strtoull(text, NULL, 10);
    if (*bytes >= UNLIMITED_FROM)
        *bytes = CGROUP_UNLIMITED;
    return true;
}
