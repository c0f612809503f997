/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults, checks and both forms of a configuration. */
#include "trace/config/trace_config.h"

#include <stdlib.h>
#include <string.h>

#include "config.pb-c.h"
#include "trace/text/text_print.h"

typedef Perfetto__Protos__HeapprofdConfig HeapprofdConfig;
typedef Perfetto__Protos__TraceConfig TraceConfig;

#define SHMEM_BYTES_MIN 8192u
#define SHMEM_BYTES_MAX (UINT64_C(500) << 20)
#define PID_MAX 4194304u /* the kernel's own limit */
#define HEAP_NAME_BYTES_MAX 63
#define BUFFER_KB 63488u
#define FLUSH_TIMEOUT_MS 30000u
/* Perfetto's trace processor counts a file without a flush period as an error. */
#define FLUSH_PERIOD_MS 30000u

void heap_config_init(struct heap_config *config)
{
    *config = (struct heap_config){
        .sampling_interval_bytes = 4096,
        .shmem_size_bytes = 8388608,
        .block_client = true,
    };
}

static void clear_list(char ***list)
{
    for (char **item = *list; item != NULL && *item != NULL; item++)
        free(*item);
    free(*list);
    *list = NULL;
}

void heap_config_clear(struct heap_config *config)
{
    clear_list(&config->process_cmdline);
    clear_list(&config->heaps);
    clear_list(&config->exclude_heaps);
    clear_list(&config->skip_symbol_prefix);
    clear_list(&config->target_installed_by);
    free(config->pids);
    free(config->heap_sampling_intervals);
    config->pids = config->heap_sampling_intervals = NULL;
    config->pid_count = config->heap_sampling_interval_count = 0;
}

static size_t list_length(char *const *list)
{
    size_t length = 0;
    while (list != NULL && list[length] != NULL)
        length++;
    return length;
}

static int check_heap_names(char *const *names, struct error *error)
{
    for (; names != NULL && *names != NULL; names++) {
        if (**names == '\0' || strlen(*names) > HEAP_NAME_BYTES_MAX)
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
        if (config->pids[i] == 0 || config->pids[i] > PID_MAX)
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
    if (config->dump_phase_ms != 0 && config->dump_interval_ms == 0)
        return error_set(error, -EINVAL,
                         "a phase of %u ms is given for continuous dumps, but no interval: give "
                         "the interval too",
                         config->dump_phase_ms);
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

bool heap_config_wants_heap(const struct heap_config *config, const char *name)
{
    if (list_has(config->exclude_heaps, name))
        return false;
    if (config->heaps == NULL && !config->all_heaps)
        return strcmp(name, HEAP_CONFIG_MALLOC) == 0;
    if (list_has(config->heaps, name))
        return true;
    return config->all_heaps && strcmp(name, HEAP_CONFIG_MMAP) != 0;
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
    return config->sampling_interval_bytes;
}

int heap_config_check_targets(const struct heap_config *config, struct error *error)
{
    int code = heap_config_check(config, error);
    if (code < 0)
        return code;
    if (config->pid_count == 0 && config->process_cmdline == NULL && !config->all)
        return error_set(error, -EINVAL,
                         "no process is named: give names (-n, process_cmdline), numbers (-p, "
                         "pid), or all");
    if (config->no_startup && config->no_running)
        return error_set(error, -EINVAL,
                         "no_startup and no_running together leave no process to profile: give one "
                         "of them at most");
    return 0;
}

/* --- bytes and text --- */

#define SET(message, field, from)                                                                  \
    do {                                                                                           \
        (message)->has_##field = true;                                                             \
        (message)->field = (from);                                                                 \
    } while (0)
#define SET_UNLESS_ZERO(message, field, from)                                                      \
    do {                                                                                           \
        (message)->field = (from);                                                                 \
        (message)->has_##field = (message)->field != 0;                                            \
    } while (0)

/* Set a repeated field. The message only reads the list. */
#define SET_LIST(message, field, list)                                                             \
    do {                                                                                           \
        (message)->field = (list);                                                                 \
        (message)->n_##field = list_length(list);                                                  \
    } while (0)

static void fill_heapprofd_config(HeapprofdConfig *message, const struct heap_config *config)
{
    SET(message, sampling_interval_bytes, config->sampling_interval_bytes);
    SET(message, shmem_size_bytes, config->shmem_size_bytes);
    SET_UNLESS_ZERO(message, block_client, config->block_client);
    SET_UNLESS_ZERO(message, block_client_timeout_us, config->block_client_timeout_us);
    SET_UNLESS_ZERO(message, all, config->all);
    SET_UNLESS_ZERO(message, no_startup, config->no_startup);
    SET_UNLESS_ZERO(message, no_running, config->no_running);
    SET_UNLESS_ZERO(message, dump_at_max, config->dump_at_max);
    SET_UNLESS_ZERO(message, disable_fork_teardown, config->disable_fork_teardown);
    SET_UNLESS_ZERO(message, disable_vfork_detection, config->disable_vfork_detection);
    SET_UNLESS_ZERO(message, all_heaps, config->all_heaps);
    SET_UNLESS_ZERO(message, stream_allocations, config->stream_allocations);
    SET_UNLESS_ZERO(message, min_anonymous_memory_kb, config->min_anonymous_memory_kb);
    SET_UNLESS_ZERO(message, max_heapprofd_memory_kb, config->max_heapprofd_memory_kb);
    SET_UNLESS_ZERO(message, max_heapprofd_cpu_secs, config->max_heapprofd_cpu_secs);
    SET_UNLESS_ZERO(message, adaptive_sampling_shmem_threshold,
                    config->adaptive_sampling_shmem_threshold);
    SET_UNLESS_ZERO(message, adaptive_sampling_max_sampling_interval_bytes,
                    config->adaptive_sampling_max_sampling_interval_bytes);
    message->has_stack_mode = config->stack_mode != HEAP_STACK_NATIVE;
    message->stack_mode = (Perfetto__Protos__HeapprofdConfig__StackMode)config->stack_mode;
    SET_LIST(message, process_cmdline, config->process_cmdline);
    SET_LIST(message, heaps, config->heaps);
    SET_LIST(message, exclude_heaps, config->exclude_heaps);
    SET_LIST(message, skip_symbol_prefix, config->skip_symbol_prefix);
    SET_LIST(message, target_installed_by, config->target_installed_by);
    message->pid = config->pids;
    message->n_pid = config->pid_count;
    message->heap_sampling_intervals = config->heap_sampling_intervals;
    message->n_heap_sampling_intervals = config->heap_sampling_interval_count;
}

void *heap_config_to_bytes(const struct heap_config *config, size_t *length)
{
    Perfetto__Protos__HeapprofdConfig__ContinuousDumpConfig continuous =
        PERFETTO__PROTOS__HEAPPROFD_CONFIG__CONTINUOUS_DUMP_CONFIG__INIT;
    HeapprofdConfig heapprofd = PERFETTO__PROTOS__HEAPPROFD_CONFIG__INIT;
    fill_heapprofd_config(&heapprofd, config);
    if (config->dump_interval_ms != 0) {
        SET(&continuous, dump_phase_ms, config->dump_phase_ms);
        SET(&continuous, dump_interval_ms, config->dump_interval_ms);
        heapprofd.continuous_dump_config = &continuous;
    }
    Perfetto__Protos__DataSourceConfig inner = PERFETTO__PROTOS__DATA_SOURCE_CONFIG__INIT;
    inner.name = "android.heapprofd";
    SET(&inner, target_buffer, 0);
    inner.heapprofd_config = &heapprofd;
    Perfetto__Protos__TraceConfig__DataSource source =
        PERFETTO__PROTOS__TRACE_CONFIG__DATA_SOURCE__INIT;
    Perfetto__Protos__TraceConfig__DataSource *sources[] = {&source};
    source.config = &inner;
    Perfetto__Protos__TraceConfig__BufferConfig buffer =
        PERFETTO__PROTOS__TRACE_CONFIG__BUFFER_CONFIG__INIT;
    Perfetto__Protos__TraceConfig__BufferConfig *buffers[] = {&buffer};
    SET(&buffer, size_kb, BUFFER_KB);
    TraceConfig trace = PERFETTO__PROTOS__TRACE_CONFIG__INIT;
    trace.n_buffers = trace.n_data_sources = 1;
    trace.buffers = buffers;
    trace.data_sources = sources;
    SET_UNLESS_ZERO(&trace, duration_ms, config->duration_ms);
    SET(&trace, write_into_file, true);
    SET(&trace, flush_period_ms, FLUSH_PERIOD_MS);
    SET(&trace, flush_timeout_ms, FLUSH_TIMEOUT_MS);

    *length = perfetto__protos__trace_config__get_packed_size(&trace);
    void *bytes = malloc(*length);
    if (bytes != NULL)
        perfetto__protos__trace_config__pack(&trace, bytes);
    return bytes;
}

char *heap_config_to_text(const struct heap_config *config)
{
    size_t length;
    uint8_t *bytes = heap_config_to_bytes(config, &length);
    struct proto_buffer text = {.failed = bytes == NULL};
    struct proto_span rest = {bytes, text.failed ? bytes : bytes + length}, part = rest;
    struct proto_field field;
    while (proto_next(&rest, &field) > 0) {
        part.end = rest.at;
        text_print_fields(&perfetto__protos__trace_config__descriptor, part, &text);
        if (field.type == PROTO_BYTES) /* an empty line after each message */
            proto_put_raw(&text, "\n", 1);
        part.at = rest.at;
    }
    proto_put_raw(&text, "", 1);
    free(bytes);
    if (!text.failed)
        return (char *)text.bytes;
    proto_buffer_free(&text);
    return NULL;
}
