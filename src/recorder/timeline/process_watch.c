/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a process's counters from /proc.
 *
 * An unchanged counter is not written again. When it changes, its last unchanged reading is written
 * too, so that the rate of the change is right.
 */
#include "recorder/timeline/process_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/timeline/pressure.h"
#include "util/clock.h"
#include "util/process_files.h"

/* The file has about 1.5 KiB. A line may be longer: the groups of the user, the processors. */
#define STATUS_BYTES 4096u

void process_watch_open(struct process_watch *watch, pid_t pid, uint64_t start_boottime_ns)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    *watch = (struct process_watch){
        .directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .pid = pid,
        .start_boottime_ns = start_boottime_ns,
    };
}

void process_watch_close(struct process_watch *watch)
{
    if (watch->directory >= 0)
        close(watch->directory);
    watch->directory = -1;
}

/* --- memory --- */

bool process_watch_rss(const struct process_watch *watch, struct process_memory *memory)
{
    int fd = watch->directory < 0 ? -1 : process_directory_open(watch->directory, "statm");
    bool is_alive = fd >= 0 && process_memory_read(fd, memory);
    if (fd >= 0)
        close(fd);
    return is_alive;
}

static void process_watch_take_line(struct trace_memory_point *point, const char *line)
{
#define LINE(name, member)                                                                         \
    {                                                                                              \
        name, sizeof(name) - 1, offsetof(struct trace_memory_point, member)                        \
    }
    static const struct {
        const char *name;
        size_t length, offset;
    } lines[] = {
        LINE("VmSize:", vm_size_kb),     LINE("VmLck:", vm_locked_kb),
        LINE("VmHWM:", vm_hwm_kb),       LINE("VmRSS:", vm_rss_kb),
        LINE("RssAnon:", rss_anon_kb),   LINE("RssFile:", rss_file_kb),
        LINE("RssShmem:", rss_shmem_kb), LINE("VmSwap:", vm_swap_kb),
    };
#undef LINE
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (strncmp(line, lines[i].name, lines[i].length) == 0)
            *(uint64_t *)((char *)point + lines[i].offset) =
                strtoull(line + lines[i].length, NULL, 10);
}

/* Read all lines; one that is longer than the buffer is skipped. */
static void read_status(int fd, struct trace_memory_point *point)
{
    char text[STATUS_BYTES + 1];
    size_t kept = 0;
    ssize_t got;
    bool is_rest = false; /* of a line that is skipped */
    while ((got = read(fd, text + kept, STATUS_BYTES - kept)) > 0) {
        char *line = text, *end;
        kept += (size_t)got;
        text[kept] = 0;
        for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            if (!is_rest && (line[0] == 'V' || line[0] == 'R'))
                process_watch_take_line(point, line);
            is_rest = false;
        }
        kept -= (size_t)(line - text);
        is_rest |= kept == STATUS_BYTES;
        if (is_rest)
            kept = 0;
        memmove(text, line, kept);
    }
}

bool process_watch_memory(const struct process_watch *watch, struct trace_memory_point *point)
{
    *point = trace_memory_point_of(watch->pid);
    point->has_oom_score_adj = watch->has_oom_score_adj;
    point->oom_score_adj = watch->oom_score_adj;
    int fd = watch->directory < 0 ? -1 : process_directory_open(watch->directory, "status");
    if (fd < 0)
        return false;
    read_status(fd, point);
    close(fd);
    return point->vm_rss_kb != TRACE_UNKNOWN;
}

/* --- counters --- */

void process_watch_restart(struct process_watch *watch)
{
    watch->has_track = false;
    for (size_t i = 0; i < TRACE_COUNTERS; i++)
        watch->counters[i].has_track = false;
}

/* Note a counter's new value, and write it if it has changed. */
static void count(struct process_watch *watch, struct trace_writer *writer,
                  enum trace_counter counter, uint64_t now_ns, uint64_t value)
{
    struct watched_counter *known = &watch->counters[counter];
    if (known->has_track && known->value == value) {
        known->is_held = true;
        known->read_ns = now_ns;
        return;
    }
    if (!watch->has_track)
        trace_writer_process_track(writer, watch->pid, watch->start_boottime_ns);
    if (!known->has_track)
        trace_writer_counter_track(writer, counter, watch->pid, watch->start_boottime_ns);
    if (known->is_held)
        trace_writer_counter(writer, known->read_ns, counter, watch->pid, watch->start_boottime_ns,
                             known->value);
    trace_writer_counter(writer, now_ns, counter, watch->pid, watch->start_boottime_ns, value);
    watch->has_track = true;
    *known = (struct watched_counter){.has_track = true, .value = value};
}

void process_watch_faults(struct process_watch *watch, struct trace_writer *writer)
{
    char text[2048];
    struct process_stat stat;
    if (watch->directory < 0 ||
        process_directory_read(watch->directory, "stat", text, sizeof(text)) <= 0 ||
        !process_stat_parse(text, &stat))
        return;
    uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
    count(watch, writer, TRACE_COUNTER_MINOR_FAULTS, now_ns, stat.minor_faults);
    count(watch, writer, TRACE_COUNTER_MAJOR_FAULTS, now_ns, stat.major_faults);
}

/* --- what changes slowly --- */

/* Write the path of the process's cgroup (of version 2) below the mount. Return false if it has
 * none, is in the root, whose pressure is the machine's, or is outside our own namespace. */
static bool find_cgroup(const struct process_watch *watch, char *path, size_t size)
{
    char text[4096];
    if (process_directory_read(watch->directory, "cgroup", text, sizeof(text)) <= 0)
        return false;
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (line == NULL)
        return false;
    line = strchr(line, '/');
    if (line == NULL)
        return false;
    size_t length = strcspn(line, "\n");
    if (length <= 1 || length >= size || strncmp(line, "/..", 3) == 0)
        return false;
    memcpy(path, line, length);
    path[length] = 0;
    return true;
}

static void watch_cgroup(struct process_watch *watch, struct trace_writer *writer,
                         const char *cgroups)
{
    char cgroup[2048], path[4096];
    struct pressure pressure;
    if (*cgroups == '\0' || !find_cgroup(watch, cgroup, sizeof(cgroup)))
        return;
    snprintf(path, sizeof(path), "%s%s/memory.pressure", cgroups, cgroup);
    if (!pressure_read(path, &pressure))
        return;
    uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
    if (pressure.some_ns != TRACE_UNKNOWN)
        count(watch, writer, TRACE_COUNTER_CGROUP_SOME_NS, now_ns, pressure.some_ns);
    if (pressure.full_ns != TRACE_UNKNOWN)
        count(watch, writer, TRACE_COUNTER_CGROUP_FULL_NS, now_ns, pressure.full_ns);
}

void process_watch_slowly(struct process_watch *watch, struct trace_writer *writer,
                          const char *cgroups)
{
    char text[32];
    if (watch->directory < 0)
        return;
    watch->has_oom_score_adj =
        process_directory_read(watch->directory, "oom_score_adj", text, sizeof(text)) > 0;
    if (watch->has_oom_score_adj)
        watch->oom_score_adj = strtol(text, NULL, 10);
    watch_cgroup(watch, writer, cgroups);
}
