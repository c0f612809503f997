/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read and write a configuration as a TraceConfig, serialized or as text. Text is converted from
 * and to bytes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.pb-c.h"
#include "trace/config/trace_config.h"
#include "trace/text/text_format.h"
#include "trace/text/text_print.h"
#include "util/array.h"

typedef Perfetto__Protos__HeapprofdConfig HeapprofdConfig;
typedef Perfetto__Protos__TraceConfig TraceConfig;

#define OUR_DATA_SOURCE "android.heapprofd"
#define BUFFER_KB 63488u
#define FLUSH_TIMEOUT_MS 30000u
/* Perfetto's trace processor counts a file without a flush period as an error. */
#define FLUSH_PERIOD_MS 30000u

/* Scalar fields with one name in the message and in struct heap_config, and with the default 0. */
#define FOR_EACH_SCALAR(USE)                                                                       \
    USE(block_client)                                                                              \
    USE(block_client_timeout_us)                                                                   \
    USE(all)                                                                                       \
    USE(no_startup)                                                                                \
    USE(no_running)                                                                                \
    USE(dump_at_max)                                                                               \
    USE(disable_fork_teardown)                                                                     \
    USE(disable_vfork_detection)                                                                   \
    USE(all_heaps)                                                                                 \
    USE(stream_allocations)                                                                        \
    USE(min_anonymous_memory_kb)                                                                   \
    USE(max_heapprofd_memory_kb)                                                                   \
    USE(max_heapprofd_cpu_secs)                                                                    \
    USE(adaptive_sampling_shmem_threshold)                                                         \
    USE(adaptive_sampling_max_sampling_interval_bytes)

void heap_config_warnings_clear(struct heap_config_warnings *warnings)
{
    for (size_t i = 0; i < warnings->count; i++)
        free(warnings->messages[i]);
    free(warnings->messages);
    *warnings = (struct heap_config_warnings){0};
}

__attribute__((format(printf, 2, 3))) static void warn(struct heap_config_warnings *warnings,
                                                       const char *format, ...)
{
    char *message = NULL;
    va_list arguments;
    if (warnings == NULL ||
        ARRAY_RESERVE(&warnings->messages, &warnings->capacity, warnings->count, 1) < 0)
        return;
    va_start(arguments, format);
    int printed = vasprintf(&message, format, arguments);
    va_end(arguments);
    if (printed >= 0)
        warnings->messages[warnings->count++] = message;
}

/* --- reading --- */

/* Copy `count` strings into a list that ends with NULL. An empty list is NULL. */
static int copy_strings(char ***to, char *const *from, size_t count)
{
    *to = NULL;
    if (count == 0)
        return 0;
    *to = calloc(count + 1, sizeof(**to));
    for (size_t i = 0; *to != NULL && i < count; i++) {
        if (((*to)[i] = strdup(from[i])) == NULL)
            return -ENOMEM; /* the caller clears the partial list with the rest */
    }
    return *to != NULL ? 0 : -ENOMEM;
}

static int copy_numbers(uint64_t **to, size_t *to_count, const uint64_t *from, size_t count)
{
    *to = NULL;
    *to_count = 0;
    if (count == 0)
        return 0;
    *to = malloc(count * sizeof(**to));
    if (*to == NULL)
        return -ENOMEM;
    memcpy(*to, from, count * sizeof(**to));
    *to_count = count;
    return 0;
}

static int copy_lists(struct heap_config *config, const HeapprofdConfig *from)
{
    if (copy_strings(&config->process_cmdline, from->process_cmdline, from->n_process_cmdline) ||
        copy_strings(&config->heaps, from->heaps, from->n_heaps) ||
        copy_strings(&config->exclude_heaps, from->exclude_heaps, from->n_exclude_heaps) ||
        copy_strings(&config->skip_symbol_prefix, from->skip_symbol_prefix,
                     from->n_skip_symbol_prefix) ||
        copy_strings(&config->target_installed_by, from->target_installed_by,
                     from->n_target_installed_by) ||
        copy_numbers(&config->pids, &config->pid_count, from->pid, from->n_pid) ||
        copy_numbers(&config->heap_sampling_intervals, &config->heap_sampling_interval_count,
                     from->heap_sampling_intervals, from->n_heap_sampling_intervals))
        return -ENOMEM;
    return 0;
}

static void take_scalars(struct heap_config *config, const HeapprofdConfig *from)
{
#define TAKE(name) config->name = from->name;
    FOR_EACH_SCALAR(TAKE)
#undef TAKE
    config->sampling_interval_bytes = from->sampling_interval_bytes;
    if (from->shmem_size_bytes != 0)
        config->shmem_size_bytes = from->shmem_size_bytes;
    config->stack_mode = (enum heap_stack_mode)from->stack_mode;
    if (from->continuous_dump_config != NULL) {
        config->dump_interval_ms = from->continuous_dump_config->dump_interval_ms;
        config->dump_phase_ms = from->continuous_dump_config->dump_phase_ms;
    }
}

static const HeapprofdConfig *find_ours(const TraceConfig *trace,
                                        struct heap_config_warnings *warnings)
{
    const HeapprofdConfig *ours = NULL;
    for (size_t i = 0; i < trace->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceConfig *source = trace->data_sources[i]->config;
        const char *name = source != NULL && source->name != NULL ? source->name : "";
        if (strcmp(name, OUR_DATA_SOURCE) != 0)
            warn(warnings, "the data source '%s' is ignored: only " OUR_DATA_SOURCE " is supported",
                 name);
        else if (ours != NULL)
            warn(warnings, "a second data source " OUR_DATA_SOURCE " is ignored: use one session "
                           "for each");
        else if (source->heapprofd_config != NULL)
            ours = source->heapprofd_config;
        else
            warn(warnings, "a data source " OUR_DATA_SOURCE " has no heapprofd_config");
    }
    return ours;
}

static int take_config(const TraceConfig *trace, struct heap_config *config,
                       struct heap_config_warnings *warnings, struct error *error)
{
    const HeapprofdConfig *ours = find_ours(trace, warnings);
    if (ours == NULL)
        return error_set(error, -EINVAL,
                         "there is no data source " OUR_DATA_SOURCE " with a heapprofd_config in "
                         "this configuration");
    heap_config_init(config);
    take_scalars(config, ours);
    config->duration_ms = trace->duration_ms;
    if (trace->output_path != NULL)
        warn(warnings, "output_path is ignored: use -o");
    if (ours->n_target_installed_by > 0)
        warn(warnings, "target_installed_by has no effect on Linux");
    if (copy_lists(config, ours) < 0) {
        heap_config_clear(config);
        return error_set(error, -ENOMEM, "no memory for the configuration");
    }
    return 0;
}

int heap_config_read_binary(const void *bytes, size_t length, struct heap_config *config,
                            struct heap_config_warnings *warnings, struct error *error)
{
    TraceConfig *trace = perfetto__protos__trace_config__unpack(NULL, length, bytes);
    if (trace == NULL)
        return error_set(error, -EINVAL,
                         "these %zu bytes are not a serialized TraceConfig, or are truncated",
                         length);
    int code = take_config(trace, config, warnings, error);
    perfetto__protos__trace_config__free_unpacked(trace, NULL);
    return code;
}

/* Return whether an unknown name in this message is an error. In our own messages it is a mistake;
 * in others it belongs to Perfetto. */
static bool must_know(const ProtobufCMessageDescriptor *message)
{
    return message == &perfetto__protos__heapprofd_config__descriptor ||
           message == &perfetto__protos__heapprofd_config__continuous_dump_config__descriptor;
}

static void warn_unknown(void *context, const char *field, unsigned line, unsigned column)
{
    warn(context, "%u:%u: the field '%s' has no effect here", line, column, field);
}

int heap_config_read_text(const char *text, size_t length, struct heap_config *config,
                          struct heap_config_warnings *warnings, struct error *error)
{
    size_t byte_count;
    const struct text_format_reader reader = {
        .must_know = must_know, .unknown = warn_unknown, .context = warnings};
    void *bytes = text_format_to_bytes(&perfetto__protos__trace_config__descriptor, text, length,
                                       &reader, &byte_count, error);
    if (bytes == NULL)
        return error->code;
    int code = heap_config_read_binary(bytes, byte_count, config, warnings, error);
    free(bytes);
    return code;
}

int heap_config_read(const void *bytes, size_t length, struct heap_config *config,
                     struct heap_config_warnings *warnings, struct error *error)
{
    /* Text has no control characters except white space. A serialized TraceConfig always has some:
     * each field begins with a tag, and the tags of its messages are 0x0a, 0x12, ... */
    const unsigned char *at = bytes;
    bool is_text = true;
    for (size_t i = 0; i < length && is_text; i++)
        is_text = at[i] >= 0x20 || at[i] == '\t' || at[i] == '\n' || at[i] == '\r';
    /* "\n" is a tag, too. But a text that begins with one soon has a letter or '#'. */
    if (is_text)
        return heap_config_read_text(bytes, length, config, warnings, error);
    return heap_config_read_binary(bytes, length, config, warnings, error);
}

/* --- writing --- */

#define SET(message, field, from)                                                                  \
    do {                                                                                           \
        (message)->has_##field = true;                                                             \
        (message)->field = (from);                                                                 \
    } while (0)

/* Set a list of strings, which the message only reads. */
#define SET_LIST(message, field, list)                                                             \
    do {                                                                                           \
        (message)->field = (list);                                                                 \
        while ((list) != NULL && (list)[(message)->n_##field] != NULL)                             \
            (message)->n_##field++;                                                                \
    } while (0)

static void fill_heapprofd_config(HeapprofdConfig *message, const struct heap_config *config)
{
#define FILL(name)                                                                                 \
    message->name = config->name;                                                                  \
    message->has_##name = config->name != 0;
    FOR_EACH_SCALAR(FILL)
#undef FILL
    SET(message, sampling_interval_bytes, config->sampling_interval_bytes);
    SET(message, shmem_size_bytes, config->shmem_size_bytes);
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
    inner.name = OUR_DATA_SOURCE;
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
    trace.has_duration_ms = config->duration_ms != 0;
    trace.duration_ms = config->duration_ms;
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

int heap_config_copy(struct heap_config *to, const struct heap_config *from)
{
    size_t length;
    struct error error;
    void *bytes = heap_config_to_bytes(from, &length);
    if (bytes == NULL)
        return -ENOMEM;
    int code = heap_config_read_binary(bytes, length, to, NULL, &error);
    free(bytes);
    return code;
}
