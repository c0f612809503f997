/* SPDX-License-Identifier: Apache-2.0 */
/* Add up /proc/PID/stat and smaps_rollup of our processes. */
#include "production/continuous/own_cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/processes/process_info.h"
#include "recorder/service/child_process.h"
#include "util/process_files.h"

/* Time constant of the average. */
#define AVERAGE_S 120.0
#define CHILDREN_MAX 64

struct sum {
    uint64_t ticks, bytes;
};

/* Add the time of a process and of its children that have ended. */
static void add_ticks(struct sum *sum, pid_t pid)
{
    char text[1024];
    unsigned long user, system, ended_user, ended_system;
    if (process_file_read(pid, "stat", text, sizeof(text)) <= 0)
        return;
    /* The name may contain anything, also ')'. utime is the 14th field. */
    const char *rest = strrchr(text, ')');
    if (rest != NULL &&
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &user,
               &system, &ended_user, &ended_system) == 4)
        sum->ticks += user + system + ended_user + ended_system;
}

static void add_memory(struct sum *sum, pid_t pid)
{
    char text[2048];
    struct process_memory memory;
    const char *pss = NULL;
    if (process_file_read(pid, "smaps_rollup", text, sizeof(text)) > 0)
        pss = strstr(text, "\nPss:");
    if (pss != NULL)
        sum->bytes += strtoull(pss + strlen("\nPss:"), NULL, 10) * 1024;
    else if (process_memory_of(pid, &memory))
        sum->bytes += memory.rss_bytes;
}

static void add_process(struct sum *sum, pid_t pid)
{
    add_ticks(sum, pid);
    add_memory(sum, pid);
}

/* Add a process and its children. */
static void add_with_children(struct sum *sum, pid_t pid)
{
    char name[64], text[1024];
    add_process(sum, pid);
    snprintf(name, sizeof(name), "task/%d/children", (int)pid);
    if (process_file_read(pid, name, text, sizeof(text)) <= 0)
        return;
    char *at = text;
    for (int i = 0; i < CHILDREN_MAX; i++) {
        pid_t child = (pid_t)strtol(at, &at, 10);
        if (child <= 0)
            break;
        add_process(sum, child);
    }
}

void own_cost_measure(struct own_cost *cost, pid_t session, uint64_t now_ms)
{
    struct sum sum = {0};
    add_with_children(&sum, getpid());
    if (session > 0)
        add_with_children(&sum, session);
    /* Else the collector was started by hand. */
    if (getenv(CHILD_PROCESS_ENV) != NULL)
        add_process(&sum, getppid());
    double cpu_seconds = (double)sum.ticks / (double)sysconf(_SC_CLK_TCK);
    double seconds = (double)(now_ms - cost->measured_ms) / 1000;
    /* A session's process that ended takes its time with it. */
    cost->used_s = 0;
    if (cost->measured_ms == 0) {
        cost->cpu_share = NAN;
        cost->began_ms = now_ms;
    } else if (cpu_seconds >= cost->cpu_seconds && seconds > 0) {
        /* At first it is the mean of all: a start costs more than what follows. */
        double elapsed = (double)(now_ms - cost->began_ms) / 1000;
        cost->used_s = cpu_seconds - cost->cpu_seconds;
        double share = cost->used_s / seconds;
        double before = isnan(cost->cpu_share) ? share : cost->cpu_share;
        double kept =
            elapsed < AVERAGE_S ? 1 - seconds / elapsed : exp(-seconds / AVERAGE_S);
        cost->cpu_share = share + (before - share) * kept;
    }
    cost->cpu_seconds = cpu_seconds;
    cost->memory_bytes = sum.bytes;
    cost->measured_ms = now_ms;
}
