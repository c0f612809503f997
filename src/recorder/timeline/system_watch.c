/* SPDX-License-Identifier: Apache-2.0 */
/* Read the chosen lines of /proc/meminfo and /proc/vmstat. */
#include "recorder/timeline/system_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/timeline/pressure.h"
#include "trace/system_counters.h"
#include "trace/write/trace_timeline.h"
#include "util/clock.h"
#include "util/process_files.h"

#define LINES_MAX VMSTAT_COUNTERS
/* The files have about 2 and 5 KiB. */
#define FILE_BYTES 32768u

/* Find the line with this name, and set its value. Return false if there is no such line. */
static bool find_line(const char *text, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == ':' || line[length] == ' ')) {
            *value = strtoull(line + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static bool counter_name(bool is_meminfo, uint32_t key, char name[SYSTEM_COUNTER_NAME_BYTES])
{
    if (!is_meminfo)
        return vmstat_counter_name(key, name);
    const char *known = meminfo_counter_name(key);
    if (known != NULL)
        snprintf(name, SYSTEM_COUNTER_NAME_BYTES, "%s", known);
    return known != NULL;
}

/* Read the lines whose bits are set. Return their number. */
static size_t read_lines(const char *path, const uint64_t *bits, uint32_t end,
                         struct trace_system_counter lines[LINES_MAX])
{
    char text[FILE_BYTES], name[SYSTEM_COUNTER_NAME_BYTES];
    bool is_meminfo = end == MEMINFO_COUNTERS;
    size_t count = 0;
    if (process_directory_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return 0;
    for (uint32_t key = 0; key < end; key++) {
        if ((bits[key / 64] >> key % 64 & 1) == 0 || !counter_name(is_meminfo, key, name) ||
            !find_line(text, name, &lines[count].value))
            continue;
        lines[count++].key = key;
    }
    return count;
}

static bool take_turn(uint64_t *due_ms, uint32_t period_ms, uint64_t now_ms)
{
    if (period_ms == 0 || now_ms < *due_ms)
        return false;
    *due_ms = now_ms + period_ms;
    return true;
}

void system_watch_tick(struct system_watch *watch, const struct heap_timeline *config,
                       struct trace_writer *writer, uint64_t now_ms)
{
    struct trace_system_counter meminfo[LINES_MAX], vmstat[LINES_MAX];
    struct pressure pressure = {TRACE_UNKNOWN, TRACE_UNKNOWN};
    struct trace_system_point point = {.meminfo = meminfo, .vmstat = vmstat};
    if (take_turn(&watch->meminfo_due_ms, config->meminfo_ms, now_ms))
        point.meminfo_count =
            read_lines("/proc/meminfo", &config->meminfo_counters, MEMINFO_COUNTERS, meminfo);
    if (take_turn(&watch->vmstat_due_ms, config->vmstat_ms, now_ms))
        point.vmstat_count =
            read_lines("/proc/vmstat", config->vmstat_counters, VMSTAT_COUNTERS, vmstat);
    if (take_turn(&watch->psi_due_ms, config->psi_ms, now_ms))
        pressure_read(PRESSURE_OF_MACHINE, &pressure);
    point.pressure_some_ns = pressure.some_ns;
    point.pressure_full_ns = pressure.full_ns;
    point.boottime_ns = clock_read_ns(CLOCK_BOOTTIME);
    trace_writer_system_point(writer, &point);
}

void system_watch_find_cgroups(char *path, size_t size)
{
    char line[1024], mount[512], type[32];
    FILE *mounts = fopen("/proc/self/mounts", "re");
    path[0] = 0;
    if (mounts == NULL)
        return;
    while (path[0] == 0 && fgets(line, sizeof(line), mounts) != NULL)
        if (sscanf(line, "%*s %511s %31s", mount, type) == 2 && strcmp(type, "cgroup2") == 0)
            snprintf(path, size, "%s", mount);
    fclose(mounts);
}
