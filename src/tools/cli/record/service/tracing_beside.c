/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While the command runs, nobody reads from the connection: the service needs no answer. What it
 * has sent meanwhile, and whether it still lives, is seen at the end.
 */
#include "tools/cli/record/service/tracing_beside.h"

#include <errno.h>
#include <fcntl.h>
#include <pb_field_numbers.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/tracing/consumer/consumer.h"
#include "tools/cli/record/config_file.h"
#include "tools/cli/record/end_signals.h"
#include "tools/cli/record/service/service_messages.h"
#include "tools/print/format.h"
#include "trace/proto_buffer.h"
#include "trace/proto_cursor.h"
#include "trace/write/trace_append.h"
#include "util/xmalloc.h"

struct tracing_beside {
    struct session_config config;
    struct consumer consumer;
    struct consumer_user user;
    FILE *packets; /* an unnamed file: what the service recorded */
};

/* --- the configuration --- */

/* Return whether a serialized DataSource is a heap profile. */
static bool is_ours(struct proto_span source)
{
    struct proto_field field, inner;
    struct proto_span name = {0};
    while (proto_next(&source, &field) > 0) {
        if (field.number != PB_TRACE_CONFIG_DATA_SOURCE_CONFIG)
            continue;
        while (proto_next(&field.span, &inner) > 0)
            if (inner.number == PB_DATA_SOURCE_CONFIG_NAME)
                name = inner.span;
    }
    return heap_config_is_source((const char *)name.at, proto_length(name));
}

/* Copy a serialized TraceConfig: its heap profile and duration alone, or all but the former. */
static void tracing_beside_put_part(struct proto_buffer *part, const struct session_config *config,
                                    bool ours)
{
    struct proto_span rest = {config->bytes, config->bytes + config->length};
    struct proto_field field;
    for (const uint8_t *at = rest.at; proto_next(&rest, &field) > 0; at = rest.at) {
        bool is_source = field.number == PB_TRACE_CONFIG_DATA_SOURCES;
        bool is_heap = is_source && is_ours(field.span);
        if (ours ? is_heap || field.number == PB_TRACE_CONFIG_DURATION_MS : !is_heap)
            proto_put_raw(part, at, (size_t)(rest.at - at));
    }
}

/* Take the settings of the heap profile. The command line says which processes are profiled. */
static int take_ours(const struct proto_buffer *ours, const char *path, struct heap_config *config,
                     struct error *error)
{
    struct heap_config_warnings warnings = {0};
    struct heap_config read;
    int code = heap_config_read_binary(ours->bytes, ours->length, &read, &warnings, error);
    for (size_t i = 0; i < warnings.count; i++)
        format_printf(stderr, "heap_profile: warning: %s: %s\n", path, warnings.messages[i]);
    heap_config_warnings_clear(&warnings);
    if (code < 0)
        return code;
    heap_config_clear(config);
    *config = read;
    heap_config_clear_targets(config);
    return 0;
}

/* Divide a configuration: the heap profile's part for us, the rest for the service. */
static int tracing_beside_divide(struct session_config *session, const char *path,
                                 struct heap_config *config, struct error *error)
{
    struct proto_buffer ours = {0}, others = {0};
    tracing_beside_put_part(&ours, session, true);
    tracing_beside_put_part(&others, session, false);
    session_config_clear(session);
    if (ours.failed || others.failed)
        xmalloc_fail(0);
    int code = take_ours(&ours, path, config, error);
    if (code == 0)
        code = session_config_read_binary(session, others.bytes, others.length, error);
    proto_buffer_free(&ours);
    proto_buffer_free(&others);
    return code;
}

static int tracing_beside_check(const struct session_config *config, struct error *error)
{
    if (config->fields->n_data_sources == 0)
        return error_set(error, -EINVAL,
                         "it has no data source beside the heap profile: leave --with-tracing out");
    if (session_config_trigger_mode(config) != 0)
        return error_set(error, -EINVAL,
                         "triggers would decide when its session runs: leave trigger_config out, "
                         "or use heap_profile record --service");
    if (config->fields->output_path != NULL)
        return error_set(error, -EINVAL,
                         "the tracing service would write a trace of its own: leave output_path "
                         "out");
    return 0;
}

static bool traces_memory(const Perfetto__Protos__FtraceConfig *ftrace)
{
    bool does = false;
    for (size_t i = 0; ftrace != NULL && i < ftrace->n_ftrace_events; i++)
        does |= strstr(ftrace->ftrace_events[i], "rss_stat") != NULL;
    return does;
}

/* Leave out what this data source of the service records: the trace must not have it twice. */
static void leave_to_service(struct heap_timeline *timeline,
                             const Perfetto__Protos__DataSourceConfig *source)
{
    if (source == NULL)
        return;
    const Perfetto__Protos__ProcessStatsConfig *processes = source->process_stats_config;
    const Perfetto__Protos__SysStatsConfig *machine = source->sys_stats_config;
    if ((processes != NULL && processes->proc_stats_poll_ms > 0) ||
        traces_memory(source->ftrace_config))
        timeline->off = true;
    if (machine != NULL &&
        (machine->meminfo_period_ms | machine->vmstat_period_ms | machine->psi_period_ms) != 0) {
        timeline->has_system = true;
        timeline->meminfo_ms = timeline->vmstat_ms = timeline->psi_ms = 0;
    }
}

static int read_config(struct session_config *session, const char *path, struct heap_config *config,
                       struct error *error)
{
    struct error problem = {0};
    size_t length;
    char *bytes = config_file_read(path, &length, error);
    if (bytes == NULL)
        return error->code;
    int code = heap_config_is_text(bytes, length)
                   ? session_config_read_text(session, bytes, length, &problem)
                   : session_config_read_binary(session, bytes, length, &problem);
    free(bytes);
    if (code == 0 && session_config_has_heaps(session))
        code = tracing_beside_divide(session, path, config, &problem);
    if (code == 0)
        code = tracing_beside_check(session, &problem);
    for (size_t i = 0; code == 0 && i < session->fields->n_data_sources; i++)
        leave_to_service(&config->timeline, session->fields->data_sources[i]->config);
    return code < 0 ? error_set(error, code, "%s: %s", path, problem.message) : 0;
}

struct tracing_beside *tracing_beside_read(const char *path, struct heap_config *config,
                                           struct error *error)
{
    struct tracing_beside *beside = xcalloc(1, sizeof(*beside));
    if (read_config(&beside->config, path, config, error) == 0)
        return beside;
    tracing_beside_free(beside);
    return NULL;
}

/* --- the start --- */

static bool never(void *context)
{
    (void)context;
    return false;
}

static int check_ended(const struct tracing_beside *beside, struct error *error)
{
    return beside->consumer.end_error[0] == '\0'
               ? 0
               : error_set(error, -EREMOTEIO, "%s", beside->consumer.end_error);
}

/* A flush is answered after everything before it, so then the data sources have started. Without a
 * session it would never be answered: its refusal comes before the statistics. */
static int await_start(struct tracing_beside *beside, struct error *error)
{
    bool flushed;
    int code = consumer_read_stats(&beside->consumer, error);
    if (code == 0)
        code = check_ended(beside, error);
    if (code == 0 && !beside->consumer.has_ended)
        code = consumer_flush(&beside->consumer, session_config_stop_ms(&beside->config), &flushed,
                              error);
    return code;
}

int tracing_beside_start(struct tracing_beside *beside, bool quiet, struct error *error)
{
    const struct tracing_socket socket = tracing_socket_choose(TRACING_CONSUMER_PORT, NULL);
    beside->user = (struct consumer_user){.wake_fd = -1, .interrupts = never};
    service_messages_begin(quiet);
    beside->packets = tmpfile();
    if (beside->packets == NULL)
        return error_set(error, -errno, "no temporary file for the tracing service's packets: %s",
                         strerror(errno));
    fcntl(fileno(beside->packets), F_SETFD, FD_CLOEXEC);
    int code = consumer_open(&beside->consumer, &socket, &beside->user, error);
    if (code == 0)
        code = service_check_sources(&beside->consumer, &beside->config, error);
    if (code == 0)
        code = consumer_enable(&beside->consumer, &beside->config, fileno(beside->packets), error);
    return code < 0 ? code : await_start(beside, error);
}

/* --- the end --- */

static bool user_has_no_patience(void *context)
{
    const struct tracing_beside *beside = context;
    bool dump = false;
    return end_signals_read(beside->user.wake_fd, &dump);
}

/* Stop the session, unless its configuration has ended it, and collect its packets. */
static int collect(struct tracing_beside *beside, struct error *error)
{
    bool flushed = true;
    /* This also takes what the service has sent meanwhile. */
    int code = consumer_read_stats(&beside->consumer, error);
    if (code == 0)
        code = check_ended(beside, error);
    if (code == 0 && !beside->consumer.has_ended)
        code = consumer_stop(&beside->consumer, session_config_stop_ms(&beside->config), &flushed,
                             error);
    if (code == 0 && !flushed)
        service_tell_not_flushed();
    if (code == 0)
        code = consumer_read_stats(&beside->consumer, error);
    if (code == 0)
        service_tell_losses(&beside->consumer.stats);
    if (code == 0 && beside->config.fields->write_into_file)
        code = consumer_check_written(fileno(beside->packets), error);
    else if (code == 0)
        code = consumer_read(&beside->consumer, &beside->config, fileno(beside->packets), error);
    if (code == 0)
        consumer_free_buffers(&beside->consumer);
    return code;
}

/* Append what was collected, if anything was. Return 0 or a negative errno with a message. */
static int tracing_beside_append(const struct tracing_beside *beside, const char *trace_path,
                                 struct trace_appended *appended, struct error *error)
{
    char path[32];
    struct stat status;
    *appended = (struct trace_appended){0};
    if (fstat(fileno(beside->packets), &status) < 0 || status.st_size == 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(beside->packets));
    int fd = open(trace_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "%s: %s", trace_path, strerror(errno));
    /* It may show all processes of the machine now: like the files made from it, it is for its
     * owner. */
    umask(077);
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        fchmod(fd, status.st_mode & 0700);
    int code = trace_append(fd, path, appended, error);
    return close(fd) < 0 && code == 0
               ? error_set(error, -errno, "%s: %s", trace_path, strerror(errno))
               : code;
}

void tracing_beside_finish(struct tracing_beside *beside, const char *trace_path)
{
    struct error error = {0}, problem = {0};
    struct trace_appended appended;
    beside->user.wake_fd = end_signals_take(true);
    beside->user.interrupts = user_has_no_patience;
    beside->user.context = beside;
    int code = collect(beside, &error);
    int result = tracing_beside_append(beside, trace_path, &appended, &problem);
    if (code < 0)
        format_printf(stderr,
                      "heap_profile: %s; the heap profile is whole, but %s the other data sources "
                      "is in the trace\n",
                      error.message, appended.packets > 0 ? "only a part of" : "nothing of");
    else if (appended.packets == 0)
        format_printf(stderr, "heap_profile: the tracing service has recorded nothing\n");
    if (result < 0)
        format_printf(stderr, "heap_profile: %s; the rest of the other data sources is missing\n",
                      problem.message);
    if (beside->user.wake_fd >= 0)
        end_signals_restore(end_signals_count() > 0);
}

void tracing_beside_free(struct tracing_beside *beside)
{
    if (beside == NULL)
        return;
    consumer_close(&beside->consumer);
    session_config_clear(&beside->config);
    if (beside->packets != NULL)
        fclose(beside->packets);
    free(beside);
}
