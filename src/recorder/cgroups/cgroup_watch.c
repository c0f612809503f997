/* SPDX-License-Identifier: Apache-2.0 */
/* Keep the cgroups of processes and those around them, read them when they are due, and have the
 * kernel notify us. */
#include "recorder/cgroups/cgroup_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "trace/process_end.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/process_files.h"

/* One target each, and the cgroups around them. */
#define CGROUPS_MAX 2048u
#define DEPTH_MAX 32u

#define NEAR_PERIOD_MS 100u
#define FAR_PERIOD_MS 1000u
/* Limits seldom change. */
#define LIMITS_PERIOD_MS 10000u

/* Percents of the limit by which the use must fall before it can come near again. */
#define FALL_PERCENT 10u

/* Pressure: tasks waited for memory 200 ms of 2 s. Windows of whole 2 s need no privilege. */
#define PRESSURE_TRIGGER "some 200000 2000000"

/* A dump later than this would show another moment. */
#define PRESSURE_HOLDS_MS 1000u

#define EVENTS_AT_ONCE 64

int cgroup_watch_open(struct cgroup_watch *watch, unsigned near_percent)
{
    *watch = (struct cgroup_watch){.near_percent = near_percent, .epoll = -1};
    if (near_percent > 0)
        watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    return near_percent > 0 && watch->epoll < 0 ? -errno : 0;
}

void cgroup_watch_close(struct cgroup_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        memory_cgroup_close(watch->items[i]);
    free(watch->items);
    if (watch->epoll >= 0)
        close(watch->epoll);
    *watch = (struct cgroup_watch){.epoll = -1};
}

/* --- notifications --- */

/* Return `of_limit` percents of the limit; CGROUP_UNLIMITED if it has none. */
static uint64_t share_of_limit(const struct memory_cgroup *cgroup, unsigned percent)
{
    return cgroup->limit_bytes == CGROUP_UNLIMITED ? CGROUP_UNLIMITED
                                                   : cgroup->limit_bytes / 100 * percent;
}

/* Have version 1 notify us when the use crosses the share of the limit. */
static int open_threshold(const struct cgroup_watch *watch, const struct memory_cgroup *cgroup)
{
    char text[96];
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int usage = openat(cgroup->directory, "memory.usage_in_bytes", O_RDONLY | O_CLOEXEC);
    int control = openat(cgroup->directory, "cgroup.event_control", O_WRONLY | O_CLOEXEC);
    int length = snprintf(text, sizeof(text), "%d %d %llu", event, usage,
                          (unsigned long long)share_of_limit(cgroup, watch->near_percent));
    bool is_set = event >= 0 && usage >= 0 && control >= 0 &&
                  write(control, text, (size_t)length) == (ssize_t)length;
    if (usage >= 0)
        close(usage);
    if (control >= 0)
        close(control);
    if (!is_set && event >= 0)
        close(event);
    return is_set ? event : -1;
}

/* Watch a cgroup that has a limit. Where the kernel does not allow it, its period remains. */
static void watch_events(const struct cgroup_watch *watch, struct memory_cgroup *cgroup)
{
    bool has_limit = cgroup->limit_bytes != CGROUP_UNLIMITED;
    if (watch->epoll < 0 || cgroup->events >= 0 || cgroup->is_machine)
        return;
    struct epoll_event event = {.events = (cgroup->is_v1 ? EPOLLIN : EPOLLPRI) | EPOLLET,
                                .data.ptr = cgroup};
    if (cgroup->is_v1 && has_limit)
        cgroup->events = open_threshold(watch, cgroup);
    else if (!cgroup->is_v1 && (has_limit || cgroup->high_bytes != CGROUP_UNLIMITED))
        cgroup->events = openat(cgroup->directory, "memory.events", O_RDONLY | O_CLOEXEC);
    if (cgroup->events >= 0 && epoll_ctl(watch->epoll, EPOLL_CTL_ADD, cgroup->events, &event) < 0) {
        close(cgroup->events);
        cgroup->events = -1;
    }
}

/* Watch the pressure of a process's cgroup, which is always of version 2. That of the root is the
 * machine's, and no reason to dump a single program. */
static void watch_pressure(const struct cgroup_watch *watch, struct memory_cgroup *cgroup,
                           const char *of_process)
{
    char path[CGROUP_PATH_BYTES], directory[CGROUP_PATH_BYTES], file[CGROUP_PATH_BYTES + 32];
    if (watch->epoll < 0 || cgroup->pressure >= 0 || !cgroup_path_of(of_process, false, path) ||
        strcmp(path, "/") == 0 || !cgroup_directory(&watch->mounts.unified, path, directory))
        return;
    snprintf(file, sizeof(file), "%s/memory.pressure", directory);
    int fd = open(file, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 &&
        write(fd, PRESSURE_TRIGGER, sizeof(PRESSURE_TRIGGER)) != sizeof(PRESSURE_TRIGGER)) {
        close(fd);
        return;
    }
    cgroup->pressure = fd;
}

void cgroup_watch_wake(struct cgroup_watch *watch)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = watch->epoll < 0 ? 0 : epoll_wait(watch->epoll, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        struct memory_cgroup *cgroup = events[i].data.ptr;
        char text[512];
        cgroup->use_due_ms = 0;
        /* An event file notifies only of what happens after it was read. */
        if (cgroup->is_v1)
            (void)!read(cgroup->events, text, sizeof(text));
        else
            (void)!pread(cgroup->events, text, sizeof(text), 0);
    }
}

/* Note a notification of pressure. Asking takes it away, so our epoll, which the server's epoll
 * asks first, would not see it. */
static void check_pressure(struct memory_cgroup *cgroup, uint64_t now_ms)
{
    struct pollfd pressed = {.fd = cgroup->pressure, .events = POLLPRI};
    if (cgroup->pressure >= 0 && poll(&pressed, 1, 0) == 1 && (pressed.revents & POLLPRI) != 0)
        cgroup->pressed_ms = now_ms;
}

/* --- reading --- */

/* Return the use at which a cgroup is near its limit, or at memory.high; CGROUP_UNLIMITED: never.
 */
static uint64_t near_bytes(const struct cgroup_watch *watch, const struct memory_cgroup *cgroup)
{
    uint64_t share = share_of_limit(cgroup, watch->near_percent);
    return share < cgroup->high_bytes ? share : cgroup->high_bytes;
}

static void read_due(struct cgroup_watch *watch, struct memory_cgroup *cgroup, uint64_t now_ms)
{
    if (now_ms >= cgroup->limits_due_ms) {
        memory_cgroup_read_limits(cgroup);
        watch_events(watch, cgroup);
        cgroup->limits_due_ms = now_ms + LIMITS_PERIOD_MS;
    }
    if (now_ms < cgroup->use_due_ms)
        return;
    uint64_t near = near_bytes(watch, cgroup);
    memory_cgroup_read_kills(cgroup, now_ms);
    if (near != CGROUP_UNLIMITED || cgroup->limit_bytes != CGROUP_UNLIMITED)
        memory_cgroup_read_use(cgroup, near, now_ms);
    if (near != CGROUP_UNLIMITED && cgroup->held_bytes < near - near / 100 * FALL_PERCENT)
        cgroup->is_near = false;
    cgroup->use_due_ms =
        now_ms + (near != CGROUP_UNLIMITED && cgroup->used_bytes >= near / 2 ? NEAR_PERIOD_MS
                                                                             : FAR_PERIOD_MS);
}

/* --- the cgroups --- */

static struct memory_cgroup *cgroup_watch_find(const struct cgroup_watch *watch, const char *path)
{
    for (size_t i = 0; i < watch->count; i++)
        if (strcmp(watch->items[i]->path, path) == 0)
            return watch->items[i];
    return NULL;
}

static struct memory_cgroup *cgroup_watch_add(struct cgroup_watch *watch,
                                              struct memory_cgroup *cgroup)
{
    if (cgroup == NULL)
        return NULL;
    if (watch->count >= CGROUPS_MAX ||
        ARRAY_ADD(&watch->items, &watch->count, &watch->capacity, cgroup) < 0) {
        memory_cgroup_close(cgroup);
        return NULL;
    }
    return cgroup;
}

static struct memory_cgroup *take_machine(struct cgroup_watch *watch)
{
    struct memory_cgroup *machine = cgroup_watch_find(watch, "");
    if (machine == NULL)
        machine = cgroup_watch_add(watch, memory_cgroup_open_machine());
    if (machine == NULL)
        return NULL;
    memory_cgroup_read_kills(machine, clock_read_ms(CLOCK_MONOTONIC));
    machine->users++;
    return machine;
}

/* Return a cgroup, and with it those around it; NULL: none of them can be read. */
static struct memory_cgroup *take_path(struct cgroup_watch *watch, const char *path, bool is_v1,
                                       unsigned depth)
{
    char directory[CGROUP_PATH_BYTES], outer[CGROUP_PATH_BYTES];
    struct memory_cgroup *cgroup = cgroup_watch_find(watch, path);
    if (cgroup == NULL) {
        const struct cgroup_mount *mount = is_v1 ? &watch->mounts.memory : &watch->mounts.unified;
        if (depth >= DEPTH_MAX || !cgroup_directory(mount, path, directory))
            return NULL;
        cgroup = cgroup_watch_add(watch, memory_cgroup_open(directory, path, is_v1));
        if (cgroup == NULL)
            return NULL;
        const char *last = strrchr(path, '/');
        size_t length = last == path ? 1 : (size_t)(last - path);
        memcpy(outer, path, length);
        outer[length] = '\0';
        if (strcmp(path, "/") != 0)
            cgroup->parent = take_path(watch, outer, is_v1, depth + 1);
    }
    read_due(watch, cgroup, clock_read_ms(CLOCK_MONOTONIC));
    cgroup->users++;
    return cgroup;
}

/* Read the path of the process's cgroup, and the whole file. Return false if it has none that can
 * be read. */
static bool read_path(const struct cgroup_watch *watch, pid_t pid, char *text, size_t size,
                      char path[CGROUP_PATH_BYTES])
{
    bool is_v1 = watch->mounts.memory.path[0] != '\0';
    return process_file_read(pid, "cgroup", text, size) > 0 && cgroup_path_of(text, is_v1, path);
}

struct memory_cgroup *cgroup_watch_take(struct cgroup_watch *watch, pid_t pid)
{
    char text[8192], path[CGROUP_PATH_BYTES];
    struct memory_cgroup *cgroup = NULL;
    if (watch->mounts.memory.path[0] == '\0' && watch->mounts.unified.path[0] == '\0')
        cgroup_mounts_find(&watch->mounts);
    bool is_v1 = watch->mounts.memory.path[0] != '\0';
    if (read_path(watch, pid, text, sizeof(text), path))
        cgroup = take_path(watch, path, is_v1, 0);
    if (cgroup == NULL)
        return take_machine(watch);
    watch_pressure(watch, cgroup, text);
    if (cgroup->has_kills)
        return cgroup;
    /* The root of version 2 counts no kills. */
    cgroup_watch_release(watch, cgroup);
    return take_machine(watch);
}

void cgroup_watch_release(struct cgroup_watch *watch, struct memory_cgroup *cgroup)
{
    while (cgroup != NULL && --cgroup->users == 0) {
        struct memory_cgroup *parent = cgroup->parent;
        for (size_t i = 0; i < watch->count; i++)
            if (watch->items[i] == cgroup)
                watch->items[i] = watch->items[--watch->count];
        /* A process that was just forked may still have it open: its event would lead to a cgroup
         * that is gone. */
        if (cgroup->events >= 0)
            epoll_ctl(watch->epoll, EPOLL_CTL_DEL, cgroup->events, NULL);
        memory_cgroup_close(cgroup);
        cgroup = parent;
    }
}

bool cgroup_watch_has_moved(const struct cgroup_watch *watch, const struct memory_cgroup *cgroup,
                            pid_t pid)
{
    char text[8192], path[CGROUP_PATH_BYTES];
    /* A dead process is in the root of version 1. */
    return !cgroup->is_machine && !(cgroup->is_v1 && process_has_ended(pid)) &&
           read_path(watch, pid, text, sizeof(text), path) && strcmp(path, cgroup->path) != 0;
}

bool memory_cgroup_is_in(const struct memory_cgroup *cgroup, const struct memory_cgroup *outer)
{
    while (cgroup != NULL && cgroup != outer)
        cgroup = cgroup->parent;
    return cgroup != NULL;
}

struct memory_cgroup *memory_cgroup_limiting(struct memory_cgroup *cgroup)
{
    struct memory_cgroup *lowest = NULL;
    for (; cgroup != NULL; cgroup = cgroup->parent)
        if (cgroup->limit_bytes != CGROUP_UNLIMITED &&
            (lowest == NULL || cgroup->limit_bytes < lowest->limit_bytes))
            lowest = cgroup;
    return lowest;
}

void cgroup_watch_tick(struct cgroup_watch *watch, uint64_t now_ms)
{
    for (size_t i = 0; i < watch->count; i++) {
        check_pressure(watch->items[i], now_ms);
        read_due(watch, watch->items[i], now_ms);
    }
}

bool cgroup_watch_take_near(struct cgroup_watch *watch, uint64_t now_ms, struct near_cgroup *near)
{
    for (size_t i = 0; i < watch->count && watch->near_percent > 0; i++) {
        struct memory_cgroup *cgroup = watch->items[i];
        bool is_near = !cgroup->is_near && cgroup->held_bytes >= near_bytes(watch, cgroup);
        bool is_pressed =
            cgroup->pressed_ms != 0 && now_ms <= cgroup->pressed_ms + PRESSURE_HOLDS_MS;
        cgroup->pressed_ms = 0;
        if (!is_near && !is_pressed)
            continue;
        uint64_t share = share_of_limit(cgroup, watch->near_percent);
        bool is_high = cgroup->held_bytes < share;
        *near = (struct near_cgroup){
            .cgroup = cgroup,
            .cause = !is_near  ? DUMP_CAUSE_PRESSURE
                     : is_high ? DUMP_CAUSE_MEMORY_HIGH
                               : DUMP_CAUSE_NEAR_LIMIT,
            .used_bytes = cgroup->held_bytes,
            .limit_bytes = is_high ? cgroup->high_bytes : cgroup->limit_bytes,
        };
        if (near->limit_bytes == CGROUP_UNLIMITED)
            near->limit_bytes = 0;
        cgroup->is_near |= is_near;
        return true;
    }
    return false;
}
