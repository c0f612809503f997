/* SPDX-License-Identifier: Apache-2.0 */
/* Find the profiler by the memfd that it and the process both map. A profiler that serves a ring
 * keeps its heartbeat going, unless it is stopped (Ctrl-Z). */
#include "daemon/processes/other_profiler.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/processes/process_info.h"
#include "daemon/ring/ring_reader.h"
#include "util/clock.h"
#include "util/process_files.h"
#include "util/process_maps.h"
#include "util/regular_file.h"
#include "wire/ring.h"

/* A profiler drains each ring twenty times a second. Only while it writes it does so less often. */
#define HEARTBEAT_PATIENCE_MS 2000

#define RINGS_MAX 8
#define LINES_MAX 200000

/* Bound of lines in the maps of all possible profilers together. Any process may have many. */
#define LINES_OF_ALL_MAX 2000000

/* A ring that a process maps: its file, and its first address. */
struct mapped_ring {
    uint64_t address, device, inode;
};

/* Return whether a mapping is the beginning of a ring. */
static bool is_ring(const struct process_map *map)
{
    return map->offset == 0 && strstr(map->path, "/memfd:" RING_MEMFD_NAME) != NULL;
}

/* Find the rings that a process maps. Return their number. */
static unsigned read_rings(pid_t pid, struct mapped_ring rings[RINGS_MAX])
{
    struct process_maps maps;
    struct process_map map;
    unsigned count = 0;
    process_maps_open(&maps, pid);
    for (unsigned i = 0; i < LINES_MAX && count < RINGS_MAX && process_maps_next(&maps, &map);
         i++) {
        if (is_ring(&map))
            rings[count++] = (struct mapped_ring){map.start, map.device, map.inode};
    }
    process_maps_close(&maps);
    return count;
}

enum ring_state { RING_UNUSED, RING_SILENT, RING_SERVED };

static enum ring_state state_of(pid_t pid, const struct mapped_ring *ring)
{
    struct ring_control control;
    struct iovec ours = {&control, sizeof(control)};
    struct iovec theirs = {(void *)(uintptr_t)ring->address, sizeof(control)};
    if (process_vm_readv(process_living_thread(pid), &ours, 1, &theirs, 1, 0) != sizeof(control) ||
        control.magic != RING_MAGIC || control.stopping != 0)
        return RING_UNUSED;
    return clock_read_ms(CLOCK_MONOTONIC) < control.heartbeat_ms + HEARTBEAT_PATIENCE_MS
               ? RING_SERVED
               : RING_SILENT;
}

/* Return whether a profiler maps this ring. *hidden: its maps cannot be read, or not completely. */
static bool maps_ring(pid_t pid, const struct mapped_ring *wanted, unsigned *lines_left,
                      bool *hidden)
{
    struct process_maps maps;
    struct process_map map;
    bool found = false;
    *hidden = process_maps_open(&maps, pid) == -EACCES;
    while (!found && *lines_left > 0 && process_maps_next(&maps, &map)) {
        --*lines_left;
        found = is_ring(&map) && map.inode == wanted->inode && map.device == wanted->device;
    }
    *hidden |= *lines_left == 0;
    process_maps_close(&maps);
    return found;
}

static bool is_same_program(pid_t one, pid_t other)
{
    char paths[2][64];
    snprintf(paths[0], sizeof(paths[0]), "/proc/%d/exe", (int)process_living_thread(one));
    snprintf(paths[1], sizeof(paths[1]), "/proc/%d/exe", (int)process_living_thread(other));
    return regular_file_is_same(paths[0], paths[1]);
}

static bool is_stopped(pid_t pid)
{
    struct process_status status;
    return process_status_read(pid, &status) == 0 && (status.state == 'T' || status.state == 't');
}

/* Find the profiler that maps the ring. Profilers are recognized by their names. Return 0 if no
 * process maps it: its profiler has died. Return OTHER_PROFILER_UNSEEN if a process with hidden
 * maps may serve it. A silent ring can only be that of a stopped profiler. A forked child of the
 * process maps its ring, too, until it allocates: it is no profiler of a silent ring, whatever its
 * name. */
static pid_t find_profiler(pid_t profiled, const struct mapped_ring *ring, bool is_silent)
{
    unsigned lines_left = LINES_OF_ALL_MAX;
    DIR *directory = opendir("/proc");
    pid_t pid, found = 0, unseen = 0;
    while (directory != NULL && found == 0 && (pid = process_list_next(directory)) > 0) {
        char comm[16];
        bool hidden = false;
        if (pid == profiled || !process_info_comm(pid, comm) || strncmp(comm, "heap", 4) != 0)
            continue;
        if (maps_ring(pid, ring, &lines_left, &hidden))
            found = is_silent && is_same_program(pid, profiled) ? 0 : pid;
        else if (hidden && (!is_silent || is_stopped(pid)))
            unseen = OTHER_PROFILER_UNSEEN;
    }
    if (directory != NULL)
        closedir(directory);
    return found != 0 ? found : unseen;
}

pid_t other_profiler_of(pid_t pid)
{
    struct mapped_ring rings[RINGS_MAX];
    unsigned count = read_rings(pid, rings);
    for (unsigned i = 0; i < count; i++) {
        enum ring_state state = state_of(pid, &rings[i]);
        pid_t profiler =
            state == RING_UNUSED ? 0 : find_profiler(pid, &rings[i], state == RING_SILENT);
        if (state == RING_SERVED || profiler != 0)
            return profiler;
    }
    return 0;
}

void other_profiler_end_orphaned(pid_t pid)
{
    struct mapped_ring rings[RINGS_MAX];
    unsigned count = read_rings(pid, rings);
    uint32_t one = 1;
    for (unsigned i = 0; i < count; i++) {
        uint64_t stopping = rings[i].address + offsetof(struct ring_control, stopping);
        struct iovec ours = {&one, sizeof(one)};
        struct iovec theirs = {(void *)(uintptr_t)stopping, sizeof(one)};
        if (state_of(pid, &rings[i]) == RING_SILENT && find_profiler(pid, &rings[i], true) == 0)
            process_vm_writev(pid, &ours, 1, &theirs, 1, 0);
    }
}
