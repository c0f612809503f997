/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults and checks of a configuration. */
#include "trace/config/trace_config.h"
#include "trace/config/timeline_config.h"

#include <stdlib.h>
#include <string.h>

#define SHMEM_BYTES_MIN 8192u
#define SHMEM_BYTES_MAX (UINT64_C(500) << 20)
#define PID_MAX 4194304u /* the kernel's own limit */
#define HEAP_NAME_BYTES_MAX 63

void heap_config_init(struct heap_config *config)
{
    *config = (struct heap_config){
        .sampling_interval_bytes = 4096,
        .shmem_size_bytes = 8388608,
        .block_client = true,
        .near_limit_percent = HEAP_CONFIG_NEAR_LIMIT_PERCENT,
        .timeline = heap_timeline_default(),
    };
}

static void clear_list(char ***list)
{
    for (char **item = *list; item != NULL && *item != NULL; item++)
        free(*item);
    free(*list);
    *list = NULL;
}

void heap_config_clear_targets(struct heap_config *config)
{
    clear_list(&config->process_cmdline);
    free(config->pids);
    config->pids = NULL;
    config->pid_count = 0;
    config->all = false;
    target_rules_clear(&config->target_rules);
}

void heap_config_clear(struct heap_config *config)
{
    heap_config_clear_targets(config);
    clear_list(&config->heaps);
    clear_list(&config->exclude_heaps);
    clear_list(&config->skip_symbol_prefix);
    clear_list(&config->target_installed_by);
    free(config->heap_sampling_intervals);
    config->heap_sampling_intervals = NULL;
    config->heap_sampling_interval_count = 0;
}

static size_t list_length(char *const *list)
{
    size_t length = 0;
    while (list != NULL && list[length] != NULL)
        length++;
    return length;
}

bool heap_config_is_pid(uint64_t number)
{
    return number > 0 && number <= PID_MAX;
}

bool heap_config_is_heap_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= HEAP_NAME_BYTES_MAX;
}

static int check_heap_names(char *const *names, struct error *error)
{
    for (; names != NULL && *names != NULL; names++) {
        if (!heap_config_is_heap_name(*names))
            return error_set(error, -EINVAL,
                             "the heap name '%.80s' is not valid: give 1 to %d bytes", *names,
                             HEAP_NAME_BYTES_MAX);
    }
    return 0;
}

/* Return whether the configuration selects any heap. */
static bool wants_any_heap(const struct heap_config *config)
{
    bool wants = config->all_heaps || heap_config_wants_heap(config, HEAP_CONFIG_MALLOC);
    for (char **name = config->heaps; name != NULL && *name != NULL && !wants; name++)
        wants = heap_config_wants_heap(config, *name);
    return wants;
}

static int check_names_and_heaps(const struct heap_config *config, struct error *error)
{
    for (char **name = config->process_cmdline; name != NULL && *name != NULL; name++) {
        if (**name == '\0')
            return error_set(error, -EINVAL,
                             "a process name is empty: give the name of the program to profile");
        if (strchr(*name, '*') != NULL && !config->no_startup)
            return error_set(error, -EINVAL,
                             "the process name '%.64s' is a pattern, and patterns are for running "
                             "processes: give no_startup (--no-startup) with it",
                             *name);
    }
    for (size_t i = 0; i < config->pid_count; i++) {
        if (!heap_config_is_pid(config->pids[i]))
            return error_set(error, -EINVAL, "%llu is not a pid",
                             (unsigned long long)config->pids[i]);
    }
    if (check_heap_names(config->heaps, error) < 0 ||
        check_heap_names(config->exclude_heaps, error) < 0)
        return -EINVAL;
    if (list_length(config->heaps) + list_length(config->exclude_heaps) > HEAP_CONFIG_HEAPS_MAX)
        return error_set(error, -EINVAL,
                         "%zu heaps are named in heaps and exclude_heaps: a process has %d at most",
                         list_length(config->heaps) + list_length(config->exclude_heaps),
                         HEAP_CONFIG_HEAPS_MAX);
    if (config->heap_sampling_interval_count > 0 &&
        config->heap_sampling_interval_count != list_length(config->heaps))
        return error_set(error, -EINVAL,
                         "heap_sampling_intervals (--heap-intervals) are %zu, heaps (--heaps) %zu: "
                         "give one for each that is named, or none",
                         config->heap_sampling_interval_count, list_length(config->heaps));
    for (size_t i = 0; i < config->heap_sampling_interval_count; i++) {
        if (config->heap_sampling_intervals[i] == 0)
            return error_set(error, -EINVAL,
                             "the sampling interval of heap %s is 0 bytes: give 1 to record every "
                             "allocation",
                             config->heaps[i]);
        if (config->heap_sampling_intervals[i] > INT64_MAX)
            return error_set(error, -EINVAL,
                             "the sampling interval of heap %s is too large: give less than 2^63",
                             config->heaps[i]);
        if (strcmp(config->heaps[i], HEAP_CONFIG_MMAP) == 0 &&
            config->heap_sampling_intervals[i] != 1)
            return error_set(error, -EINVAL,
                             "the heap " HEAP_CONFIG_MMAP " is recorded in full: give it the "
                             "sampling interval 1");
    }
    if (!wants_any_heap(config))
        return error_set(error, -EINVAL,
                         "no heap is left to profile: exclude_heaps names all that heaps does");
    return 0;
}

int heap_config_check(const struct heap_config *config, struct error *error)
{
    uint64_t bytes = config->shmem_size_bytes;
    if (config->sampling_interval_bytes == 0)
        return error_set(error, -EINVAL,
                         "the sampling interval is 0 bytes: give 1 to record every allocation, or "
                         "a mean distance in bytes such as 4096");
    if (config->sampling_interval_bytes > INT64_MAX)
        return error_set(error, -EINVAL,
                         "the sampling interval of %llu bytes is too large: give less than 2^63",
                         (unsigned long long)config->sampling_interval_bytes);
    if (config->max_overhead_percent > 100)
        return error_set(error, -EINVAL,
                         "max_overhead_percent (--max-overhead) is %u: give 1 to 100, or 0 for one "
                         "interval whatever it costs",
                         config->max_overhead_percent);
    if (config->max_overhead_percent > 0 && config->heap_sampling_interval_count > 0)
        return error_set(error, -EINVAL,
                         "max_overhead_percent (--max-overhead) and heap_sampling_intervals "
                         "(--heap-intervals) contradict each other: give one of them");
    if (bytes < SHMEM_BYTES_MIN)
        return error_set(error, -EINVAL,
                         "the shared memory size of %llu bytes is too small: give at least %u",
                         (unsigned long long)bytes, SHMEM_BYTES_MIN);
    /* Whoever makes the ring reduces larger sizes to the limit. */
    if (bytes <= SHMEM_BYTES_MAX && (bytes & (bytes - 1)) != 0)
        return error_set(error, -EINVAL,
                         "the shared memory size of %llu bytes is not a power of two and a "
                         "multiple of 4096: give for example 8388608",
                         (unsigned long long)bytes);
    if ((unsigned)config->stack_mode >= HEAP_STACK_MODES)
        return error_set(error, -EINVAL, "there is no stack_mode %u: give 0 to %u",
                         (unsigned)config->stack_mode, HEAP_STACK_MODES - 1);
    if (config->near_limit_percent > 100)
        return error_set(error, -EINVAL,
                         "near_limit_percent (--near-limit) is %u: give 1 to 100, or 0 for no dump",
                         config->near_limit_percent);
    if (config->dump_phase_ms != 0 && config->dump_interval_ms == 0)
        return error_set(error, -EINVAL,
                         "a phase of %u ms is given for continuous dumps, but no interval: give "
                         "the interval too",
                         config->dump_phase_ms);
    if (target_rules_check(&config->target_rules, error) < 0)
        return -EINVAL;
    return check_names_and_heaps(config, error);
}

static bool list_has(char *const *list, const char *name)
{
    for (; list != NULL && *list != NULL; list++) {
        if (strcmp(*list, name) == 0)
            return true;
    }
    return false;
}

bool heap_config_is_malloc(const char *name)
{
    size_t length = strlen(name), suffix = strlen(HEAP_CONFIG_MALLOC_SUFFIX);
    return length > suffix && strcmp(name + length - suffix, HEAP_CONFIG_MALLOC_SUFFIX) == 0;
}

bool heap_config_wants_heap(const struct heap_config *config, const char *name)
{
    if (list_has(config->exclude_heaps, name))
        return false;
    if (config->heaps == NULL && !config->all_heaps)
        return heap_config_is_malloc(name) || strcmp(name, HEAP_CONFIG_PYTHON) == 0;
    if (list_has(config->heaps, name))
        return true;
    return config->all_heaps && strcmp(name, HEAP_CONFIG_MMAP) != 0;
}

bool heap_config_wants_families(const struct heap_config *config)
{
    bool wants = config->all_heaps || config->heaps == NULL;
    for (char **name = config->heaps; name != NULL && *name != NULL && !wants; name++)
        wants = strcmp(*name, HEAP_CONFIG_MALLOC) != 0 && heap_config_is_malloc(*name);
    return wants;
}

uint64_t heap_config_wide_interval(const struct heap_config *config)
{
    return config->max_overhead_percent > 0 && config->sampling_interval_bytes > 1
               ? config->sampling_interval_bytes
               : 0;
}

uint64_t heap_config_first_interval(const struct heap_config *config)
{
    return heap_config_wide_interval(config) != 0 ? 1 : config->sampling_interval_bytes;
}

uint64_t heap_config_interval_of(const struct heap_config *config, const char *name)
{
    if (!heap_config_wants_heap(config, name))
        return 0;
    if (strcmp(name, HEAP_CONFIG_MMAP) == 0)
        return 1;
    for (size_t i = 0; i < config->heap_sampling_interval_count && config->heaps != NULL &&
                       config->heaps[i] != NULL;
         i++) {
        if (strcmp(config->heaps[i], name) == 0)
            return config->heap_sampling_intervals[i];
    }
    return heap_config_first_interval(config);
}

int heap_config_check_targets(const struct heap_config *config, struct error *error)
{
    int code = heap_config_check(config, error);
    if (code < 0)
        return code;
    if (config->pid_count == 0 && config->process_cmdline == NULL && !config->all &&
        config->target_rules.count == 0)
        return error_set(error, -EINVAL,
                         "no process is named: give names (-n, process_cmdline), numbers (-p, "
                         "pid), or all");
    if (config->no_startup && config->no_running)
        return error_set(error, -EINVAL,
                         "no_startup and no_running together leave no process to profile: give one "
                         "of them at most");
    return 0;
}
