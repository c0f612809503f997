/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find mapped files through /proc. /proc/PID/map_files leads to mapped files even if they no longer
 * have a name, but only for privileged users. /proc/PID/exe and /proc/PID/root work for everybody
 * who may trace the process.
 */
#include "profile/symbols/live_files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/process_files.h"
#include "util/process_maps.h"

/* A process may have 65530 mappings, unless its administrator allowed more. */
#define LINES_MAX 1000000u

size_t live_files_undeleted_length(const char *path)
{
    size_t length = strlen(path), suffix = strlen(LIVE_FILES_DELETED);
    return length > suffix && strcmp(path + length - suffix, LIVE_FILES_DELETED) == 0
               ? length - suffix
               : length;
}

bool live_files_is_deleted(const char *path)
{
    return path[live_files_undeleted_length(path)] != '\0';
}

/* Return whether a mapping is of this file, which may be deleted. */
static bool is_of_file(const struct process_map *map, const char *path)
{
    size_t length = strlen(path);
    return strncmp(map->path, path, length) == 0 &&
           (map->path[length] == '\0' || strcmp(map->path + length, LIVE_FILES_DELETED) == 0);
}

static int offer_mapping(pid_t process, const char *path, live_file_sink *sink, void *context)
{
    struct process_maps maps;
    struct process_map map;
    char name[PATH_MAX];
    int result = 0;
    process_maps_open(&maps, process);
    for (unsigned i = 0; i < LINES_MAX && process_maps_next(&maps, &map); i++) {
        if (!is_of_file(&map, path))
            continue;
        snprintf(name, sizeof(name), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
                 (int)process_living_thread(process), map.start, map.end);
        result = sink(context, name);
        break; /* the other mappings of this path are of the same file */
    }
    process_maps_close(&maps);
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
        snprintf(name, sizeof(name), "/proc/%d/exe", (int)process_living_thread(processes[i]));
        result = sink(context, name);
        if (result == 0)
            result = offer_mapping(processes[i], path, sink, context);
        if (result == 0 &&
            snprintf(name, sizeof(name), "/proc/%d/root%s",
                     (int)process_living_thread(processes[i]), path) < (int)sizeof(name))
            result = sink(context, name);
    }
    return result;
}
