/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leave out what a configuration for Perfetto's heapprofd may have and we cannot do. There a part
 * that makes no sense has no effect, and the rest is profiled. heap_config_check() refuses the
 * whole, which is right for somebody who waits for the answer.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/config/trace_config.h"
#include "util/array.h"

/* Return whether a process could be profiled if the other targets were left out. */
static bool has_target(const struct heap_config *config)
{
    bool has = config->all || config->target_rules.count > 0;
    for (size_t i = 0; i < config->pid_count && !has; i++)
        has = heap_config_is_pid(config->pids[i]);
    for (char **name = config->process_cmdline; name != NULL && *name != NULL && !has; name++)
        has = **name != '\0';
    return has;
}

static void leave_out_pids(struct heap_config *config, struct heap_config_warnings *warnings)
{
    size_t kept = 0;
    for (size_t i = 0; i < config->pid_count; i++) {
        if (heap_config_is_pid(config->pids[i]))
            config->pids[kept++] = config->pids[i];
        else
            heap_config_warn(warnings, "%llu is not a pid", (unsigned long long)config->pids[i]);
    }
    config->pid_count = kept;
}

/* Take an item out of a list. An empty list is NULL. */
static void take_out(char ***list, size_t at)
{
    char **items = *list;
    free(items[at]);
    do {
        items[at] = items[at + 1];
    } while (items[at++] != NULL);
    if (items[0] != NULL)
        return;
    free(items);
    *list = NULL;
}

static void leave_out_names(struct heap_config *config, struct heap_config_warnings *warnings)
{
    size_t at = 0;
    while (config->process_cmdline != NULL && config->process_cmdline[at] != NULL) {
        if (config->process_cmdline[at][0] != '\0') {
            at++;
            continue;
        }
        heap_config_warn(warnings, "a process name is empty");
        take_out(&config->process_cmdline, at);
    }
}

static void take_out_interval(struct heap_config *config, size_t at)
{
    if (at >= config->heap_sampling_interval_count)
        return;
    config->heap_sampling_interval_count--;
    memmove(&config->heap_sampling_intervals[at], &config->heap_sampling_intervals[at + 1],
            (config->heap_sampling_interval_count - at) * sizeof(uint64_t));
}

/* Leave out heaps that no process can have, except the last one: without any, others would be
 * profiled. `room`: number of names that are possible. */
static size_t leave_out_heaps(struct heap_config *config, char ***list, size_t room,
                              struct heap_config_warnings *warnings)
{
    size_t at = 0;
    while (*list != NULL && (*list)[at] != NULL) {
        const char *name = (*list)[at];
        bool is_last = list == &config->heaps && at == 0 && (*list)[1] == NULL;
        if (is_last || (heap_config_is_heap_name(name) && at < room)) {
            at++;
            continue;
        }
        heap_config_warn(warnings,
                         at < room ? "the heap name '%.80s' has not 1 to 63 bytes"
                                   : "the heap '%.80s': too many are named",
                         name);
        if (list == &config->heaps)
            take_out_interval(config, at);
        take_out(list, at);
    }
    return at;
}

static uint64_t possible_interval(uint64_t bytes, struct heap_config_warnings *warnings)
{
    if (bytes <= INT64_MAX)
        return bytes;
    heap_config_warn(warnings, "the sampling interval of %llu bytes is too large: it is 2^63 - 1",
                     (unsigned long long)bytes);
    return INT64_MAX;
}

/* Intervals without heaps are that of malloc's heap. If only heaps with intervals of their own are
 * profiled, there is no other interval. */
static int complete_intervals(struct heap_config *config, struct heap_config_warnings *warnings)
{
    if (config->heap_sampling_interval_count == 0)
        return 0;
    if (config->heaps == NULL && !config->all_heaps) {
        config->heaps = calloc(2, sizeof(*config->heaps));
        if (config->heaps == NULL || (config->heaps[0] = strdup(HEAP_CONFIG_MALLOC)) == NULL)
            return -ENOMEM;
    }
    if (config->sampling_interval_bytes == 0) {
        config->sampling_interval_bytes = 1;
        config->all_heaps = false;
    }
    if (config->max_overhead_percent > 0) {
        config->max_overhead_percent = 0;
        heap_config_warn(warnings, "max_overhead_percent: heap_sampling_intervals are given");
    }
    return 0;
}

static void correct_intervals(struct heap_config *config, struct heap_config_warnings *warnings)
{
    uint64_t *intervals = config->heap_sampling_intervals;
    config->sampling_interval_bytes = possible_interval(config->sampling_interval_bytes, warnings);
    for (size_t i = 0; i < config->heap_sampling_interval_count; i++) {
        intervals[i] = possible_interval(intervals[i], warnings);
        if (config->heaps == NULL || config->heaps[i] == NULL)
            break; /* their numbers differ: heap_config_check() says so */
        if (strcmp(config->heaps[i], HEAP_CONFIG_MMAP) != 0 || intervals[i] <= 1)
            continue;
        heap_config_warn(warnings, "the interval of the heap " HEAP_CONFIG_MMAP
                                   ", which is recorded in full");
        intervals[i] = 1;
    }
}

int heap_config_leave_out(struct heap_config *config, struct heap_config_warnings *warnings)
{
    /* Without a target the configuration is refused, with the reason. */
    if (has_target(config)) {
        leave_out_pids(config, warnings);
        leave_out_names(config, warnings);
    }
    int code = complete_intervals(config, warnings);
    if (code < 0)
        return code;
    /* Before heaps are left out: these have the intervals of their places. */
    correct_intervals(config, warnings);
    size_t named = leave_out_heaps(config, &config->heaps, HEAP_CONFIG_HEAPS_MAX, warnings);
    leave_out_heaps(config, &config->exclude_heaps, HEAP_CONFIG_HEAPS_MAX - named, warnings);
    if (config->dump_phase_ms != 0 && config->dump_interval_ms == 0) {
        heap_config_warn(warnings, "dump_phase_ms: there is no dump_interval_ms");
        config->dump_phase_ms = 0;
    }
    return 0;
}
