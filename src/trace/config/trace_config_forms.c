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
#include "trace/config/config_text.h"
#include "trace/config/timeline_config.h"
#include "trace/config/trace_config.h"
#include "trace/text/text_format.h"
#include "trace/text/text_print.h"
#include "util/array.h"

typedef Perfetto__Protos__HeapprofdConfig HeapprofdConfig;
typedef Perfetto__Protos__TraceConfig TraceConfig;
typedef Perfetto__Protos__HeapprofdConfig__TargetRule TargetRule;
typedef Perfetto__Protos__HeapprofdConfig__TargetRule__Condition RuleCondition;

#define OUR_DATA_SOURCE "android.heapprofd"
#define BUFFER_KB 63488u
#define FLUSH_TIMEOUT_MS 30000u
/* The dumps at the end of a session of the tracing service; its default of 5 s is short for large
 * heaps. */
#define STOP_TIMEOUT_MS 30000u
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
    USE(context_slices)                                                                            \
    USE(min_anonymous_memory_kb)                                                                   \
    USE(max_heapprofd_memory_kb)                                                                   \
    USE(max_heapprofd_cpu_secs)                                                                    \
    USE(adaptive_sampling_shmem_threshold)                                                         \
    USE(adaptive_sampling_max_sampling_interval_bytes)                                             \
    USE(start_sampling_interval_bytes)                                                             \
    USE(background)                                                                                \
    USE(max_overhead_percent)

void heap_config_warnings_clear(struct heap_config_warnings *warnings)
{
    for (size_t i = 0; i < warnings->count; i++)
        free(warnings->messages[i]);
    free(warnings->messages);
    *warnings = (struct heap_config_warnings){0};
}

void heap_config_warn(struct heap_config_warnings *warnings, const char *format, ...)
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

static int copy_rules(struct target_rules *rules, const HeapprofdConfig *from)
{
    for (size_t i = 0; i < from->n_target_rules; i++) {
        const TargetRule *message = from->target_rules[i];
        struct target_rule *rule =
            target_rules_add(rules, message->name != NULL ? message->name : "");
        for (size_t j = 0; rule != NULL && j < message->n_conditions; j++) {
            const RuleCondition *condition = message->conditions[j];
            const char *pattern = condition->pattern != NULL ? condition->pattern : "";
            if (target_rule_add(rule, (enum target_property)condition->property, pattern,
                                condition->exclude) < 0)
                return -ENOMEM;
        }
        if (rule == NULL)
            return -ENOMEM;
    }
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
                     from->heap_sampling_intervals, from->n_heap_sampling_intervals) ||
        copy_rules(&config->target_rules, from))
        return -ENOMEM;
    return 0;
}

static void take_scalars(struct heap_config *config, const HeapprofdConfig *from)
{
#define TAKE(name) config->name = from->name;
    FOR_EACH_SCALAR(TAKE)
#undef TAKE
    if (from->has_sampling_interval_bytes)
        config->sampling_interval_bytes = from->sampling_interval_bytes;
    else if (!from->has_max_overhead_percent && from->n_heap_sampling_intervals == 0)
        config->max_overhead_percent = HEAP_CONFIG_MAX_OVERHEAD_PERCENT;
    if (from->shmem_size_bytes != 0)
        config->shmem_size_bytes = from->shmem_size_bytes;
    config->stack_mode = (enum heap_stack_mode)from->stack_mode;
    config->timeline.off = from->no_timeline;
    config->near_limit_percent = from->near_limit_percent;
    if (from->continuous_dump_config != NULL) {
        config->dump_interval_ms = from->continuous_dump_config->dump_interval_ms;
        config->dump_phase_ms = from->continuous_dump_config->dump_phase_ms;
    }
}

static void warn_ignored(const Perfetto__Protos__DataSourceConfig *source,
                         struct heap_config_warnings *warnings)
{
    unsigned next = 0;
    const char *field;
    while ((field = heap_timeline_ignored(source, &next)) != NULL)
        heap_config_warn(warnings, "the field '%s' of the data source %s has no effect here", field,
                         source->name);
}

/* Return our data source's configuration, and take over those of the counters beside the heap. */
static const HeapprofdConfig *find_ours(const TraceConfig *trace, struct heap_timeline *timeline,
                                        struct heap_config_warnings *warnings)
{
    const HeapprofdConfig *ours = NULL;
    for (size_t i = 0; i < trace->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceConfig *source = trace->data_sources[i]->config;
        const char *name = source != NULL && source->name != NULL ? source->name : "";
        if (*name != '\0' && heap_timeline_take(timeline, source)) {
            warn_ignored(source, warnings);
            continue;
        }
        if (!heap_config_is_source(name, strlen(name)))
            heap_config_warn(
                warnings,
                "the data source '%s' is ignored without the tracing service (--service): "
                "only " OUR_DATA_SOURCE ", " PROCESS_DATA_SOURCE " and " SYSTEM_DATA_SOURCE
                " are known",
                name);
        else if (ours != NULL)
            heap_config_warn(warnings,
                             "a second data source " OUR_DATA_SOURCE " is ignored: use one session "
                             "for each");
        else if (source->heapprofd_config != NULL)
            ours = source->heapprofd_config;
        else
            heap_config_warn(warnings, "a data source " OUR_DATA_SOURCE " has no heapprofd_config");
    }
    return ours;
}

/* Return whether a message has this field. */
static bool has_field(const void *message, const ProtobufCFieldDescriptor *field)
{
    const char *at = message;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(at + field->quantifier_offset) > 0;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING)
        return *(void *const *)(at + field->offset) != NULL;
    return *(const protobuf_c_boolean *)(at + field->quantifier_offset);
}

/* Warn of each field that only a tracing service obeys. The others are those of heap_profile's own
 * configurations, and those without an effect on the trace. */
static void warn_of_service_fields(const TraceConfig *trace, struct heap_config_warnings *warnings)
{
    static const uint32_t plain[] = {1, 2, 3, 8, 9, 10, 12, 13, 14, 16, 22, 23, 27, 28, 29};
    const ProtobufCMessageDescriptor *message = trace->base.descriptor;
    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];
        bool is_plain = false;
        for (size_t j = 0; j < sizeof(plain) / sizeof(*plain); j++)
            is_plain |= field->id == plain[j];
        if (!is_plain && has_field(trace, field))
            heap_config_warn(warnings,
                             "the field '%s' has no effect without the tracing service (--service)",
                             field->name);
    }
}

static int take_config(const TraceConfig *trace, struct heap_config *config,
                       struct heap_config_warnings *warnings, struct error *error)
{
    struct heap_timeline timeline = heap_timeline_default();
    const HeapprofdConfig *ours = find_ours(trace, &timeline, warnings);
    if (ours == NULL)
        return error_set(error, -EINVAL,
                         "there is no data source " OUR_DATA_SOURCE " with a heapprofd_config in "
                         "this configuration");
    heap_config_init(config);
    config->timeline = timeline;
    take_scalars(config, ours);
    config->duration_ms = trace->duration_ms;
    warn_of_service_fields(trace, warnings);
    if (trace->output_path != NULL)
        heap_config_warn(warnings, "output_path is ignored: use -o");
    if (ours->n_target_installed_by > 0)
        heap_config_warn(warnings, "target_installed_by has no effect on Linux");
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
           message == &perfetto__protos__heapprofd_config__continuous_dump_config__descriptor ||
           message == &perfetto__protos__heapprofd_config__target_rule__descriptor ||
           message == &perfetto__protos__heapprofd_config__target_rule__condition__descriptor;
}

static void warn_unknown(void *context, const char *field, unsigned line, unsigned column)
{
    heap_config_warn(context, "%u:%u: the field '%s' has no effect here", line, column, field);
}

int heap_config_read_text(const char *text, size_t length, struct heap_config *config,
                          struct heap_config_warnings *warnings, struct error *error)
{
    size_t byte_count;
    const struct text_format_reader reader = {
        .must_know = must_know, .unknown = warn_unknown, .context = warnings};
    char *fields = config_text_uncomment(text, length);
    if (fields == NULL)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    void *bytes = text_format_to_bytes(&perfetto__protos__trace_config__descriptor, fields, length,
                                       &reader, &byte_count, error);
    free(fields);
    if (bytes == NULL)
        return error->code;
    int code = heap_config_read_binary(bytes, byte_count, config, warnings, error);
    free(bytes);
    return code;
}

bool heap_config_is_source(const char *name, size_t length)
{
    static const char *const names[] = {OUR_DATA_SOURCE, "heapprofd"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (length == strlen(names[i]) && memcmp(name, names[i], length) == 0)
            return true;
    return false;
}

bool heap_config_is_text(const void *bytes, size_t length)
{
    /* Text has no control characters except white space. A serialized TraceConfig always has some:
     * each field begins with a tag, and the tags of its messages are 0x0a, 0x12, ... */
    const unsigned char *at = bytes;
    bool is_text = true;
    for (size_t i = 0; i < length && is_text; i++)
        is_text = at[i] >= 0x20 || at[i] == '\t' || at[i] == '\n' || at[i] == '\r';
    /* "\n" is a tag, too. But a text that begins with one soon has a letter or '#'. */
    return is_text;
}

int heap_config_read(const void *bytes, size_t length, struct heap_config *config,
                     struct heap_config_warnings *warnings, struct error *error)
{
    if (heap_config_is_text(bytes, length))
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
    message->has_no_timeline = message->no_timeline = config->timeline.off;
    message->has_near_limit_percent = config->near_limit_percent != HEAP_CONFIG_NEAR_LIMIT_PERCENT;
    message->near_limit_percent = config->near_limit_percent;
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

/* Messages for rules, which point to the rules' texts. */
struct rule_messages {
    TargetRule *rules, **rule_pointers;
    RuleCondition *conditions, **condition_pointers;
};

static void free_rules(struct rule_messages *messages)
{
    free(messages->rules);
    free(messages->rule_pointers);
    free(messages->conditions);
    free(messages->condition_pointers);
}

static int fill_rules(HeapprofdConfig *message, const struct target_rules *rules,
                      struct rule_messages *to)
{
    size_t conditions = 0, at = 0;
    for (size_t i = 0; i < rules->count; i++)
        conditions += rules->rules[i].count;
    *to = (struct rule_messages){
        .rules = calloc(rules->count + 1, sizeof(*to->rules)),
        .rule_pointers = calloc(rules->count + 1, sizeof(*to->rule_pointers)),
        .conditions = calloc(conditions + 1, sizeof(*to->conditions)),
        .condition_pointers = calloc(conditions + 1, sizeof(*to->condition_pointers)),
    };
    if (to->rules == NULL || to->rule_pointers == NULL || to->conditions == NULL ||
        to->condition_pointers == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < rules->count; i++) {
        const struct target_rule *rule = &rules->rules[i];
        TargetRule *filled = to->rule_pointers[i] = &to->rules[i];
        perfetto__protos__heapprofd_config__target_rule__init(filled);
        filled->name = rule->name;
        filled->conditions = &to->condition_pointers[at];
        filled->n_conditions = rule->count;
        for (size_t j = 0; j < rule->count; j++, at++) {
            RuleCondition *condition = to->condition_pointers[at] = &to->conditions[at];
            perfetto__protos__heapprofd_config__target_rule__condition__init(condition);
            SET(condition, property,
                (Perfetto__Protos__HeapprofdConfig__TargetRule__Property)rule->conditions[j]
                    .property);
            condition->pattern = rule->conditions[j].pattern;
            condition->has_exclude = condition->exclude = rule->conditions[j].excludes;
        }
    }
    message->target_rules = to->rule_pointers;
    message->n_target_rules = rules->count;
    return 0;
}

void *heap_config_to_bytes(const struct heap_config *config, size_t *length)
{
    Perfetto__Protos__HeapprofdConfig__ContinuousDumpConfig continuous =
        PERFETTO__PROTOS__HEAPPROFD_CONFIG__CONTINUOUS_DUMP_CONFIG__INIT;
    HeapprofdConfig heapprofd = PERFETTO__PROTOS__HEAPPROFD_CONFIG__INIT;
    struct rule_messages rules;
    fill_heapprofd_config(&heapprofd, config);
    if (fill_rules(&heapprofd, &config->target_rules, &rules) < 0) {
        free_rules(&rules);
        return NULL;
    }
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
    Perfetto__Protos__TraceConfig__DataSource *sources[3] = {&source};
    struct timeline_sources beside;
    source.config = &inner;
    Perfetto__Protos__TraceConfig__BufferConfig buffer =
        PERFETTO__PROTOS__TRACE_CONFIG__BUFFER_CONFIG__INIT;
    Perfetto__Protos__TraceConfig__BufferConfig *buffers[] = {&buffer};
    SET(&buffer, size_kb, BUFFER_KB);
    TraceConfig trace = PERFETTO__PROTOS__TRACE_CONFIG__INIT;
    trace.n_buffers = 1;
    trace.n_data_sources = 1 + heap_timeline_fill(&config->timeline, &beside, sources + 1);
    trace.buffers = buffers;
    trace.data_sources = sources;
    trace.has_duration_ms = config->duration_ms != 0;
    trace.duration_ms = config->duration_ms;
    SET(&trace, write_into_file, true);
    SET(&trace, flush_period_ms, FLUSH_PERIOD_MS);
    SET(&trace, flush_timeout_ms, FLUSH_TIMEOUT_MS);
    SET(&trace, data_source_stop_timeout_ms, STOP_TIMEOUT_MS);

    *length = perfetto__protos__trace_config__get_packed_size(&trace);
    void *bytes = malloc(*length);
    if (bytes != NULL)
        perfetto__protos__trace_config__pack(&trace, bytes);
    free_rules(&rules);
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
    char *printed = text.failed ? NULL : config_text_comment((const char *)text.bytes);
    proto_buffer_free(&text);
    return printed;
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
