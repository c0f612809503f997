/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one cgroup, of version 1 or 2: its limits, its use, and how many of its processes
 * the kernel's OOM killer has killed. Where that is not known, the machine is one more "cgroup",
 * without limits and with the machine's count.
 */
#ifndef HEAPPROFD_RECORDER_CGROUPS_MEMORY_CGROUP_H
#define HEAPPROFD_RECORDER_CGROUPS_MEMORY_CGROUP_H

#include "recorder/cgroups/cgroup_files.h"

struct memory_cgroup {
    struct memory_cgroup *parent; /* the cgroup around it; NULL: none that can be seen */
    unsigned users;               /* processes in it, and cgroups in it, that are watched */
    bool is_v1, is_machine;
    int directory; /* -1: of the machine */
    char *path;    /* as /proc/PID/cgroup names it; "": the machine */

    /* Read by memory_cgroup_read_limits(). */
    uint64_t limit_bytes, high_bytes; /* of version 1 only the first; CGROUP_UNLIMITED */
    /* Read by memory_cgroup_read_use(). */
    uint64_t used_bytes; /* 0: unknown */
    uint64_t held_bytes; /* of these not cache of files, which the kernel would drop first */
    /* The highest reading of the last seconds: a process that is killed frees its memory before we
     * know of its end. */
    uint64_t most_bytes, most_ms;
    /* Read by memory_cgroup_read_kills(). Times: CLOCK_MONOTONIC. */
    bool has_kills;
    uint64_t kills, rose_ms; /* rose_ms: when it was seen to have risen; 0: never */

    /* Of cgroup_watch.c. */
    int events, pressure; /* descriptors by which the kernel notifies us; -1: none */
    uint64_t limits_due_ms, use_due_ms;
    bool is_near;
    uint64_t pressed_ms; /* time of the last notification of pressure that was not taken; 0: none */
};

/* Open a cgroup. Return NULL without memory, or if its directory cannot be opened. */
struct memory_cgroup *memory_cgroup_open(const char *directory, const char *path, bool is_v1);
struct memory_cgroup *memory_cgroup_open_machine(void);
void memory_cgroup_close(struct memory_cgroup *cgroup);

void memory_cgroup_read_limits(struct memory_cgroup *cgroup);
/* Read how much is used. If that is at least `interesting_bytes`, read how much of it is held, too:
 * that costs more. */
void memory_cgroup_read_use(struct memory_cgroup *cgroup, uint64_t interesting_bytes,
                            uint64_t now_ms);
void memory_cgroup_read_kills(struct memory_cgroup *cgroup, uint64_t now_ms);
/* Return the highest use so far; 0: unknown. */
uint64_t memory_cgroup_peak(const struct memory_cgroup *cgroup);

#endif
