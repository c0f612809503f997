/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a session of the tracing service: a TraceConfig, for any data sources.
 *
 * The service gets the bytes of a binary configuration as they are. A text is compiled, so each of
 * its fields must be known here, or be written by its number.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_CONSUMER_SESSION_CONFIG_H
#define HEAPPROFD_RECORDER_TRACING_CONSUMER_SESSION_CONFIG_H

#include <config.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* The largest configuration: it is sent in one frame. */
#define SESSION_CONFIG_BYTES_MAX ((size_t)100 << 10)

struct session_config {
    uint8_t *bytes; /* malloc'd */
    size_t length;
    Perfetto__Protos__TraceConfig *fields; /* of the bytes */
};

/* Take a serialized configuration, or compile a text. Return 0, or a negative errno with a message.
 * Clear *config only after 0. */
int session_config_read_binary(struct session_config *config, const void *bytes, size_t length,
                               struct error *error);
int session_config_read_text(struct session_config *config, const char *text, size_t length,
                             struct error *error);
void session_config_clear(struct session_config *config);

/* Return whether it has a data source of this name. */
bool session_config_has_source(const struct session_config *config, const char *name);

/* Return whether it has a heap profile. */
bool session_config_has_heaps(const struct session_config *config);

/* Return whether it profiles processes by their pids. */
bool session_config_names_pids(const struct session_config *config);

/* How triggers decide about the session; 0: they do not. */
typedef Perfetto__Protos__TraceConfig__TriggerConfig__TriggerMode session_trigger_mode;
session_trigger_mode session_config_trigger_mode(const struct session_config *config);

/* Return the number of bytes that the trace cannot exceed: the service reads its buffers once. */
uint64_t session_config_trace_bytes_max(const struct session_config *config);

/* Return the longest time that the session can last, or 0 without a limit. */
uint64_t session_config_duration_ms(const struct session_config *config);

/* Return the time that the service has to stop the data sources and to collect their data. */
uint64_t session_config_stop_ms(const struct session_config *config);

#endif
