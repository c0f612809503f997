/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find mapped files through /proc. /proc/PID/map_files leads to mapped files even if they no longer
 * have a name, but only for privileged users. /proc/PID/exe and /proc/PID/root work for everybody
 * who may trace the process.
 */
#include "symbols/live_files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process may have 65530 mappings, unless its administrator allowed more. */
#define LINES_MAX 1000000u

/* Read the range of a line of /proc/PID/maps. Return whether the line belongs to this file. */
static int parse_line(char *line, const char *path, uint64_t *start, uint64_t *end)
{
    int at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", start, end, &at) != 2 || at == 0)
        return 0;
    size_t length = strlen(path);
    const char *name = line + at;
    return strncmp(name, path, length) == 0 &&
           (name[length] == '\0' || strcmp(name + length, LIVE_FILES_DELETED) == 0);
}

static int each_mapping(pid_t process, const char *path, live_file_sink *sink, void *context)
{
    char name[PATH_MAX], *line = NULL;
    size_t capacity = 0;
    int result = 0;
    snprintf(name, sizeof(name), "/proc/%d/maps", (int)process);
    FILE *maps = fopen(name, "re");
    if (maps == NULL)
        return 0;
    for (unsigned i = 0; i < LINES_MAX && result == 0 && getline(&line, &capacity, maps) > 0; i++) {
        uint64_t start, end;
        if (!parse_line(line, path, &start, &end))
            continue;
        snprintf(name, sizeof(name), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)process, start,
                 end);
        result = sink(context, name);
        break; /* the other mappings of this path are of the same file */
    }
    free(line);
    fclose(maps);
    return result;
}

int live_files_each(const pid_t *processes, size_t count, const char *path, live_file_sink *sink,
                    void *context)
{
    char name[PATH_MAX];
    int result = 0;
    if (*path != '/')
        return 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        snprintf(name, sizeof(name), "/proc/%d/exe", (int)processes[i]);
        result = sink(context, name);
        if (result == 0)
            result = each_mapping(processes[i], path, sink, context);
        if (result == 0 && snprintf(name, sizeof(name), "/proc/%d/root%s", (int)processes[i],
                                    path) < (int)sizeof(name))
            result = sink(context, name);
    }
    return result;
}
