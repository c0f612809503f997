/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the profiler by the memfd that it and the process both map. A profiler that serves a ring
 * keeps its heartbeat going, unless it is stopped (Ctrl-Z).
 *
 * What looks like a ring may be a file on FUSE, which a user can make. To read such memory takes as
 * long as its server likes, and no signal ends that. So only memfds are read. They are read as
 * files if we may open them (map_files): else the process could map something else in the last
 * moment.
 */
#include "recorder/processes/other_profiler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "recorder/processes/process_info.h"
#include "recorder/ring/ring_reader.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/process_files.h"
#include "util/process_maps.h"
#include "util/regular_file.h"
#include "wire/ring.h"

/* A profiler drains each ring twenty times a second. Only while it writes it does so less often. */
#define HEARTBEAT_PATIENCE_MS 2000

#define RINGS_MAX 8
#define LINES_MAX 200000

/* Bounds of lines in the maps of possible profilers: of one, and of all for one process. A profiler
 * has three for each target, of which a session has at most 512. But any process may have the name
 * of one, and 65,530 lines, each of which takes a microsecond. */
#define LINES_OF_ONE_MAX 8192u
#define LINES_OF_ALL_MAX 131072u

/* A ring that a process maps: its file, and the addresses of its first mapping. */
struct mapped_ring {
    uint64_t address, end, device, inode;
};

static uint64_t device_number(uint64_t major, uint64_t minor)
{
    return major << 32 | (uint32_t)minor;
}

/* Return the device of all memfds; 0: unknown, for lack of a descriptor. */
static uint64_t memfd_device(void)
{
    static uint64_t device;
    struct stat status;
    int fd = device == 0 ? memfd_create("", MFD_CLOEXEC) : -1;
    if (fd >= 0 && fstat(fd, &status) == 0)
        device = device_number(major(status.st_dev), minor(status.st_dev));
    if (fd >= 0)
        close(fd);
    return device;
}

/* Return whether a mapping is the beginning of a ring. */
static bool is_ring(const struct process_map *map)
{
    if (map->offset != 0 || strstr(map->path, "/memfd:" RING_MEMFD_NAME) == NULL)
        return false;
    uint64_t device = memfd_device();
    return (device == 0 || map->device == device) &&
           map->end - map->start >= sizeof(struct ring_control);
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
            rings[count++] = (struct mapped_ring){map.start, map.end, map.device, map.inode};
    }
    process_maps_close(&maps);
    return count;
}

/* Open the file of a ring. Return -1 if it is another one by now, and -EPERM if we may not. */
static int open_ring(pid_t pid, const struct mapped_ring *ring)
{
    char path[96];
    struct statx status;
    snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)process_living_thread(pid),
             (unsigned long long)ring->address, (unsigned long long)ring->end);
    int found = open(path, O_PATH | O_CLOEXEC),
        fd = found < 0 && (errno == EPERM || errno == EACCES) ? -EPERM : -1;
    /* Without a question to the server of another file system. */
    if (found >= 0 &&
        statx(found, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status) == 0 &&
        device_number(status.stx_dev_major, status.stx_dev_minor) == ring->device &&
        status.stx_ino == ring->inode) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (found >= 0)
        close(found);
    return fd;
}

/* Read the control page of a ring. */
static bool read_control(pid_t pid, const struct mapped_ring *ring, struct ring_control *control)
{
    struct iovec ours = {control, sizeof(*control)};
    struct iovec theirs = {(void *)(uintptr_t)ring->address, sizeof(*control)};
    int fd = open_ring(pid, ring);
    if (fd == -EPERM)
        return process_vm_readv(process_living_thread(pid), &ours, 1, &theirs, 1, 0) ==
               sizeof(*control);
    bool is_read = fd >= 0 && pread(fd, control, sizeof(*control), 0) == sizeof(*control);
    if (fd >= 0)
        close(fd);
    return is_read;
}

/* Make the process leave the session of a ring. */
static void end_ring(pid_t pid, const struct mapped_ring *ring)
{
    const uint32_t one = 1;
    const size_t stopping = offsetof(struct ring_control, stopping);
    struct iovec ours = {(void *)&one, sizeof(one)};
    struct iovec theirs = {(void *)(uintptr_t)(ring->address + stopping), sizeof(one)};
    int fd = open_ring(pid, ring);
    ssize_t written = -1;
    if (fd == -EPERM)
        written = process_vm_writev(pid, &ours, 1, &theirs, 1, 0);
    else if (fd >= 0)
        written = pwrite(fd, &one, sizeof(one), (off_t)stopping);
    (void)written; /* without it, the process notices when its ring is full */
    if (fd >= 0)
        close(fd);
}

enum ring_state { RING_UNUSED, RING_SILENT, RING_SERVED };

static enum ring_state state_of(pid_t pid, const struct mapped_ring *ring)
{
    struct ring_control control;
    if (!read_control(pid, ring, &control) || control.magic != RING_MAGIC || control.stopping != 0)
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
    unsigned most = *lines_left < LINES_OF_ONE_MAX ? *lines_left : LINES_OF_ONE_MAX, count = 0;
    *hidden = process_maps_open(&maps, pid) == -EACCES;
    for (; !found && count < most && process_maps_next(&maps, &map); count++)
        found = is_ring(&map) && map.inode == wanted->inode && map.device == wanted->device;
    *lines_left -= count;
    *hidden |= count == most;
    heartbeat_send();
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
static pid_t find_profiler(pid_t profiled, const struct mapped_ring *ring, bool is_silent,
                           unsigned *lines_left)
{
    DIR *directory = opendir("/proc");
    pid_t pid, found = 0, unseen = 0;
    while (directory != NULL && found == 0 && (pid = process_list_next(directory)) > 0) {
        char comm[16];
        bool hidden = false;
        if (pid == profiled || !process_info_comm(pid, comm) || strncmp(comm, "heap", 4) != 0)
            continue;
        if (maps_ring(pid, ring, lines_left, &hidden))
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
    unsigned count = read_rings(pid, rings), lines_left = LINES_OF_ALL_MAX;
    for (unsigned i = 0; i < count; i++) {
        enum ring_state state = state_of(pid, &rings[i]);
        pid_t profiler = 0;
        if (state != RING_UNUSED)
            profiler = find_profiler(pid, &rings[i], state == RING_SILENT, &lines_left);
        if (state == RING_SERVED || profiler != 0)
            return profiler;
    }
    return 0;
}

void other_profiler_end_orphaned(pid_t pid)
{
    struct mapped_ring rings[RINGS_MAX];
    unsigned count = read_rings(pid, rings), lines_left = LINES_OF_ALL_MAX;
    for (unsigned i = 0; i < count; i++) {
        if (state_of(pid, &rings[i]) == RING_SILENT &&
            find_profiler(pid, &rings[i], true, &lines_left) == 0)
            end_ring(pid, &rings[i]);
    }
}
