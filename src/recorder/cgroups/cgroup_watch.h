/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the memory cgroups of a session's processes, and those around them: how near each is to
 * its limit, and whether the OOM killer struck.
 *
 * A cgroup is near its limit if the memory that it holds besides cache of files is a given share of
 * its limit (memory.max, memory.limit_in_bytes), or has reached memory.high. It stays near until it
 * holds a tenth less than that, so one rise is reported once.
 *
 * One that has used half of that share is read ten times a second, others once a second. The kernel
 * also wakes us: version 1 at the share of the limit, version 2 at memory.high and memory.max
 * (memory.events). Each turn asks for its notification of pressure (memory.pressure), where we may
 * write that file.
 */
#ifndef HEAPPROFD_RECORDER_CGROUPS_CGROUP_WATCH_H
#define HEAPPROFD_RECORDER_CGROUPS_CGROUP_WATCH_H

#include <sys/types.h>

#include "recorder/cgroups/memory_cgroup.h"

struct cgroup_watch {
    struct cgroup_mounts mounts; /* found when the first cgroup is taken */
    struct memory_cgroup **items;
    size_t count, capacity;
    unsigned near_percent; /* of a limit; 0: report nothing */
    int epoll;             /* readable when a cgroup may have come near its limit; -1: never */
};

/* Return 0 or a negative errno. */
int cgroup_watch_open(struct cgroup_watch *watch, unsigned near_percent);
void cgroup_watch_close(struct cgroup_watch *watch);

/* Return the cgroup of a process, which the caller releases. NULL: without memory. If its cgroup's
 * files cannot be read, it is the machine. */
struct memory_cgroup *cgroup_watch_take(struct cgroup_watch *watch, pid_t pid);
void cgroup_watch_release(struct cgroup_watch *watch, struct memory_cgroup *cgroup);
/* Return whether the process, which had this cgroup, is in another one now. */
bool cgroup_watch_has_moved(const struct cgroup_watch *watch, const struct memory_cgroup *cgroup,
                            pid_t pid);

/* Note what the kernel has woken us for. Call it when `epoll` is readable. */
void cgroup_watch_wake(struct cgroup_watch *watch);
/* Read what is due. Call it ten times a second, and after cgroup_watch_wake(). */
void cgroup_watch_tick(struct cgroup_watch *watch, uint64_t now_ms);

struct near_cgroup {
    struct memory_cgroup *cgroup;
    uint32_t cause; /* enum dump_cause_kind */
    uint64_t used_bytes, limit_bytes;
};
/* Take a cgroup that has come near its limit and was not taken since. Return false if there is
 * none. */
bool cgroup_watch_take_near(struct cgroup_watch *watch, uint64_t now_ms, struct near_cgroup *near);

/* Return whether a cgroup is `outer`, or in it. */
bool memory_cgroup_is_in(const struct memory_cgroup *cgroup, const struct memory_cgroup *outer);

/* Return the cgroup that limits one most: itself, or one around it; NULL: none has a limit. */
struct memory_cgroup *memory_cgroup_limiting(struct memory_cgroup *cgroup);

#endif
