/* SPDX-License-Identifier: Apache-2.0 */
/* Reads configurations, and the times in them. */
#include "recorder/tracing/consumer/session_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/config/config_text.h"
#include "trace/config/trace_config.h"
#include "trace/text/text_format.h"

/* Perfetto's defaults. */
#define FLUSH_TIMEOUT_MS 5000
#define STOP_TIMEOUT_MS 5000

/* Take malloc'd bytes. */
static int take_bytes(struct session_config *config, void *bytes, size_t length,
                      struct error *error)
{
    *config = (struct session_config){.bytes = bytes, .length = length};
    if (length > SESSION_CONFIG_BYTES_MAX) {
        session_config_clear(config);
        return error_set(error, -EFBIG,
                         "a configuration of %zu bytes; the tracing service accepts %zu", length,
                         SESSION_CONFIG_BYTES_MAX);
    }
    config->fields = perfetto__protos__trace_config__unpack(NULL, length, bytes);
    if (config->fields != NULL)
        return 0;
    session_config_clear(config);
    return error_set(error, -EINVAL,
                     "these %zu bytes are not a serialized TraceConfig, or are truncated", length);
}

int session_config_read_binary(struct session_config *config, const void *bytes, size_t length,
                               struct error *error)
{
    void *copy = malloc(length + 1);
    if (copy == NULL)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    if (length > 0) /* else `bytes` may be NULL */
        memcpy(copy, bytes, length);
    return take_bytes(config, copy, length, error);
}

static bool must_know(const ProtobufCMessageDescriptor *message)
{
    (void)message;
    return true;
}

int session_config_read_text(struct session_config *config, const char *text, size_t length,
                             struct error *error)
{
    const struct text_format_reader reader = {
        .must_know = must_know,
        .unknown_remedy = "if Perfetto has it, write it by its number, or record with "
                          "`perfetto --txt -c CONFIG -o TRACE`",
        .is_exact = true};
    size_t byte_count;
    char *fields = config_text_uncomment(text, length);
    if (fields == NULL)
        return error_set(error, -ENOMEM, "no memory for the configuration");
    void *bytes = text_format_to_bytes(&perfetto__protos__trace_config__descriptor, fields, length,
                                       &reader, &byte_count, error);
    free(fields);
    return bytes == NULL ? error->code : take_bytes(config, bytes, byte_count, error);
}

void session_config_clear(struct session_config *config)
{
    if (config->fields != NULL)
        perfetto__protos__trace_config__free_unpacked(config->fields, NULL);
    free(config->bytes);
    *config = (struct session_config){0};
}

bool session_config_has_source(const struct session_config *config, const char *name)
{
    for (size_t i = 0; i < config->fields->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceConfig *source = config->fields->data_sources[i]->config;
        if (source != NULL && source->name != NULL && strcmp(source->name, name) == 0)
            return true;
    }
    return false;
}

bool session_config_has_heaps(const struct session_config *config)
{
    for (size_t i = 0; i < config->fields->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceConfig *source = config->fields->data_sources[i]->config;
        if (source != NULL && source->name != NULL &&
            heap_config_is_source(source->name, strlen(source->name)))
            return true;
    }
    return false;
}

bool session_config_names_pids(const struct session_config *config)
{
    bool names = false;
    for (size_t i = 0; i < config->fields->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceConfig *source = config->fields->data_sources[i]->config;
        names |= source != NULL && source->heapprofd_config != NULL &&
                 source->heapprofd_config->n_pid > 0;
    }
    return names;
}

session_trigger_mode session_config_trigger_mode(const struct session_config *config)
{
    const Perfetto__Protos__TraceConfig__TriggerConfig *triggers = config->fields->trigger_config;
    if (triggers == NULL)
        return 0;
    return triggers->use_clone_snapshot_if_available
               ? PERFETTO__PROTOS__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT
               : triggers->trigger_mode;
}

uint64_t session_config_duration_ms(const struct session_config *config)
{
    const Perfetto__Protos__TraceConfig__TriggerConfig *triggers = config->fields->trigger_config;
    if (session_config_trigger_mode(config) == 0)
        return config->fields->duration_ms;
    uint64_t longest_ms = 0;
    for (size_t i = 0; i < triggers->n_triggers; i++) {
        if (triggers->triggers[i]->stop_delay_ms > longest_ms)
            longest_ms = triggers->triggers[i]->stop_delay_ms;
    }
    return triggers->trigger_timeout_ms + longest_ms;
}

uint64_t session_config_stop_ms(const struct session_config *config)
{
    const Perfetto__Protos__TraceConfig *fields = config->fields;
    uint64_t flush_ms = fields->flush_timeout_ms, stop_ms = fields->data_source_stop_timeout_ms;
    return (flush_ms > 0 ? flush_ms : FLUSH_TIMEOUT_MS) + (stop_ms > 0 ? stop_ms : STOP_TIMEOUT_MS);
}

/* The service adds packets of its own and fields to each packet. */
uint64_t session_config_trace_bytes_max(const struct session_config *config)
{
    uint64_t bytes = UINT64_C(64) << 20;
    for (size_t i = 0; i < config->fields->n_buffers; i++)
        bytes += UINT64_C(2048) * config->fields->buffers[i]->size_kb;
    return bytes;
}
