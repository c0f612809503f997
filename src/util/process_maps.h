/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the mappings of a process: /proc/PID/maps, and files with lines of that form (smaps, heap
 * profiles of other tools). A path can contain blanks, have any length, and be forged by the
 * process. The kernel writes a newline in a path as \012.
 */
#ifndef HEAPPROFD_UTIL_PROCESS_MAPS_H
#define HEAPPROFD_UTIL_PROCESS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct process_map {
    uint64_t start, end; /* start < end */
    uint64_t offset;
    uint64_t device, inode; /* device: major number << 32 | minor */
    bool readable, writable, executable, shared;
    const char *path; /* to the end of the parsed line; "" for anonymous memory */
};

/* Parse a line, which has no newline. Return false if it is not one of a mapping. */
bool process_map_parse(const char *line, struct process_map *map);

/* An open file of mappings. */
struct process_maps {
    FILE *file;
    char *line;
    size_t capacity;
};

/* Open a file, or /proc/PID/maps. Return 0 or a negative errno. Close it with process_maps_close()
 * in both cases. */
int process_maps_open_file(struct process_maps *maps, const char *path);
int process_maps_open(struct process_maps *maps, pid_t pid);

/* Read the next mapping; lines of another form are skipped. The path is valid until the next call.
 * Return false at the end, and after an error. There is no limit: the caller bounds its loop. */
bool process_maps_next(struct process_maps *maps, struct process_map *map);

/* Return 0, or -EIO if not all could be read. */
int process_maps_close(struct process_maps *maps);

#endif
