/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call has one handler, whose context is the consumer: it may run when the call has long been
 * given up. So a wait that fails closes the connection.
 */
#include "recorder/tracing/consumer/consumer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tracing_service.pb-c.h>

#include "recorder/tracing/consumer/packet_writer.h"
#include "util/clock.h"
#include "util/event_loop.h"

/* Time for replies that need no producer. */
#define REPLY_MS 10000
/* Time in addition to what the service allows producers. */
#define MARGIN_MS 10000
#define TICK_MS 250

/* A file system with less free space is full: a packet may not have fitted. */
#define FULL_BYTES 65536

/* Who asks for a flush, and why: a command, for the end of the trace. */
#define FLUSH_BY_COMMAND (UINT64_C(2) << 4)
#define FLUSH_AT_END (FLUSH_BY_COMMAND | 2)

/* --- waiting --- */

static int closed(struct error *error)
{
    return error_set(error, -ENOTCONN, "the connection to the tracing service is closed");
}

/* Poll once. Return 0, 1 if the user interrupts, or a negative errno. */
static int wait_once(struct consumer *consumer, uint64_t deadline_ms, struct error *error)
{
    struct pollfd polled[] = {
        {.fd = tracing_connection_fd(consumer->connection),
         .events = (short)tracing_connection_events(consumer->connection)},
        {.fd = consumer->user->wake_fd, .events = POLLIN},
    };
    if (consumer->user->interrupts(consumer->user->context))
        return 1;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    uint64_t next_ms =
        consumer->is_ticking ? clock_earlier(now_ms + TICK_MS, deadline_ms) : deadline_ms;
    if (poll(polled, 2, event_loop_timeout(now_ms, next_ms)) < 0 && errno != EINTR)
        return error_set(error, -errno, "cannot wait for the tracing service: %s", strerror(errno));
    int code = polled[0].revents == 0 ? 0 : tracing_connection_serve(consumer->connection, error);
    if (code == 0 && consumer->is_ticking)
        consumer->user->tick(consumer->user->context);
    return code;
}

/* The service may send replies without end, so this does not depend on its silence. */
static int check_deadline(const struct consumer *consumer, uint64_t deadline_ms,
                          struct error *error)
{
    if (clock_read_ms(CLOCK_MONOTONIC) < deadline_ms)
        return 0;
    return error_set(error, -ETIMEDOUT,
                     "%s: the tracing service does not reply; see its log, or start it again",
                     tracing_connection_name(consumer->connection));
}

/* Wait until *done. Return 0, 1 if the user interrupts, or a negative errno with the connection
 * closed. */
static int wait_until(struct consumer *consumer, const bool *done, uint64_t deadline_ms,
                      struct error *error)
{
    int code = consumer->connection == NULL ? closed(error) : 0;
    while (code == 0 && !*done) {
        code = wait_once(consumer, deadline_ms, error);
        if (code == 0 && !*done)
            code = check_deadline(consumer, deadline_ms, error);
    }
    if (code < 0)
        consumer_close(consumer);
    return code;
}

static uint64_t deadline_in(uint64_t period_ms)
{
    return clock_read_ms(CLOCK_MONOTONIC) + period_ms;
}

/* A user who interrupts a call ends the connection. */
static int interrupted(struct consumer *consumer, struct error *error)
{
    consumer_close(consumer);
    return error_set(error, -EINTR, "interrupted");
}

/* Invoke a method and wait for its last reply, whose handler sets is_done. */
static int consumer_call(struct consumer *consumer, const char *method,
                         const ProtobufCMessage *request, tracing_reply_handler *handler,
                         uint64_t period_ms, struct error *error)
{
    if (consumer->connection == NULL)
        return closed(error);
    consumer->is_done = consumer->was_refused = false;
    int code = tracing_connection_invoke(consumer->connection, method, request, -1, handler,
                                         consumer, error);
    if (code < 0)
        return code;
    code = wait_until(consumer, &consumer->is_done, deadline_in(period_ms), error);
    return code > 0 ? interrupted(consumer, error) : code;
}

/* --- replies --- */

static int malformed(const struct consumer *consumer, const char *what, struct error *error)
{
    return error_set(error, -EPROTO, "%s: the tracing service sent a malformed reply to %s",
                     tracing_connection_name(consumer->connection), what);
}

static int handle_done(void *context, struct tracing_reply *reply, struct error *error)
{
    struct consumer *consumer = context;
    (void)error;
    consumer->was_refused = !reply->success;
    snprintf(consumer->refusal, sizeof(consumer->refusal), "%s",
             reply->refusal != NULL ? reply->refusal : "it gave no reason");
    consumer->is_done = !reply->has_more;
    return 0;
}

/* Return 0 or the refusal of the call that just ended. */
static int check_refused(struct consumer *consumer, const char *what, const char *remedy,
                         struct error *error)
{
    if (!consumer->was_refused)
        return 0;
    error_set(error, -EREMOTEIO, "%s: the tracing service refused %s: %s; %s",
              tracing_connection_name(consumer->connection), what, consumer->refusal, remedy);
    consumer_close(consumer);
    return error->code;
}

/* --- connection --- */

int consumer_open(struct consumer *consumer, const struct tracing_socket *socket,
                  const struct consumer_user *user, struct error *error)
{
    *consumer = (struct consumer){.user = user, .stats_replied = true};
    consumer->connection = tracing_connection_open(socket, error);
    if (consumer->connection == NULL)
        return error->code;
    uint64_t deadline_ms = deadline_in(REPLY_MS);
    int code = 0;
    while (code == 0 && !tracing_connection_is_bound(consumer->connection)) {
        code = wait_once(consumer, deadline_ms, error);
        if (code == 0 && !tracing_connection_is_bound(consumer->connection))
            code = check_deadline(consumer, deadline_ms, error);
    }
    if (code > 0)
        return interrupted(consumer, error);
    if (code < 0)
        consumer_close(consumer);
    return code;
}

void consumer_close(struct consumer *consumer)
{
    tracing_connection_close(consumer->connection);
    consumer->connection = NULL;
}

/* --- the service's state --- */

struct source_search {
    const char *const *names;
    size_t count;
    bool *found;
};

static int handle_state(void *context, struct tracing_reply *reply, struct error *error)
{
    struct consumer *consumer = context;
    struct source_search *search = consumer->call;
    handle_done(context, reply, error);
    if (!reply->success || search == NULL)
        return 0;
    Perfetto__Protos__QueryServiceStateResponse *response =
        perfetto__protos__query_service_state_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return malformed(consumer, "QueryServiceState", error);
    const Perfetto__Protos__TracingServiceState *state = response->service_state;
    for (size_t i = 0; state != NULL && i < state->n_data_sources; i++) {
        const Perfetto__Protos__DataSourceDescriptor *source =
            state->data_sources[i]->ds_descriptor;
        for (size_t j = 0; source != NULL && source->name != NULL && j < search->count; j++)
            search->found[j] |= strcmp(source->name, search->names[j]) == 0;
    }
    perfetto__protos__query_service_state_response__free_unpacked(response, NULL);
    return 0;
}

int consumer_find_sources(struct consumer *consumer, const char *const *names, size_t count,
                          bool *found, struct error *error)
{
    const Perfetto__Protos__QueryServiceStateRequest request =
        PERFETTO__PROTOS__QUERY_SERVICE_STATE_REQUEST__INIT;
    struct source_search search = {.names = names, .count = count, .found = found};
    memset(found, 0, count * sizeof(*found));
    consumer->call = &search;
    int code =
        consumer_call(consumer, "QueryServiceState", &request.base, handle_state, REPLY_MS, error);
    consumer->call = NULL;
    return code < 0 ? code : check_refused(consumer, "to tell its state", "see its log", error);
}

/* --- sessions --- */

static int handle_ended(void *context, struct tracing_reply *reply, struct error *error)
{
    struct consumer *consumer = context;
    if (reply->has_more)
        return 0;
    consumer->has_ended = true;
    if (!reply->success) {
        struct error refusal;
        tracing_reply_refused(consumer->connection, "EnableTracing", reply, &refusal);
        snprintf(consumer->end_error, sizeof(consumer->end_error), "%.255s", refusal.message);
        return 0;
    }
    Perfetto__Protos__EnableTracingResponse *response =
        perfetto__protos__enable_tracing_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return malformed(consumer, "EnableTracing", error);
    if (response->error != NULL && response->error[0] != '\0')
        snprintf(consumer->end_error, sizeof(consumer->end_error), "the tracing service: %.220s",
                 response->error);
    perfetto__protos__enable_tracing_response__free_unpacked(response, NULL);
    return 0;
}

/* Ask for the reply that comes at the end. `config` NULL: of the session that was attached. */
static int ask_for_end(struct consumer *consumer, const struct session_config *config, int trace_fd,
                       struct error *error)
{
    Perfetto__Protos__EnableTracingRequest request = PERFETTO__PROTOS__ENABLE_TRACING_REQUEST__INIT;
    request.has_trace_config = config != NULL;
    if (config != NULL)
        request.trace_config = (ProtobufCBinaryData){.data = config->bytes, .len = config->length};
    request.has_attach_notification_only = request.attach_notification_only = config == NULL;
    consumer->has_ended = false;
    consumer->end_error[0] = '\0';
    return tracing_connection_invoke(consumer->connection, "EnableTracing", &request.base, trace_fd,
                                     handle_ended, consumer, error);
}

int consumer_enable(struct consumer *consumer, const struct session_config *config, int trace_fd,
                    struct error *error)
{
    if (consumer->connection == NULL)
        return closed(error);
    bool sends_file = config->fields->write_into_file && config->fields->output_path == NULL;
    int code = ask_for_end(consumer, config, sends_file ? trace_fd : -1, error);
    /* A session that triggers start waits for them. */
    if (code == 0 && config->fields->deferred_start && session_config_trigger_mode(config) == 0) {
        const Perfetto__Protos__StartTracingRequest start =
            PERFETTO__PROTOS__START_TRACING_REQUEST__INIT;
        code = tracing_connection_invoke(consumer->connection, "StartTracing", &start.base, -1,
                                         NULL, NULL, error);
    }
    if (code < 0)
        consumer_close(consumer);
    return code;
}

static int handle_attached(void *context, struct tracing_reply *reply, struct error *error)
{
    struct consumer *consumer = context;
    struct session_config *config = consumer->call;
    handle_done(context, reply, error);
    if (!reply->success || config == NULL)
        return 0;
    Perfetto__Protos__AttachResponse *response =
        perfetto__protos__attach_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return malformed(consumer, "Attach", error);
    consumer->call = NULL;
    int code = session_config_read_binary(config, response->trace_config.data,
                                          response->trace_config.len, error);
    perfetto__protos__attach_response__free_unpacked(response, NULL);
    return code;
}

int consumer_attach(struct consumer *consumer, const char *key, struct session_config *config,
                    struct error *error)
{
    Perfetto__Protos__AttachRequest request = PERFETTO__PROTOS__ATTACH_REQUEST__INIT;
    request.key = (char *)key;
    *config = (struct session_config){0};
    consumer->call = config;
    int code = consumer_call(consumer, "Attach", &request.base, handle_attached, REPLY_MS, error);
    consumer->call = NULL;
    if (code == 0)
        code = check_refused(consumer, "to attach",
                             "no session of yours is detached with "
                             "this key; it may have ended",
                             error);
    if (code == 0 && config->fields == NULL)
        code = malformed(consumer, "Attach", error);
    if (code == 0)
        code = ask_for_end(consumer, NULL, -1, error);
    if (code < 0) {
        session_config_clear(config);
        consumer_close(consumer);
    }
    return code;
}

int consumer_detach(struct consumer *consumer, const char *key, struct error *error)
{
    Perfetto__Protos__DetachRequest request = PERFETTO__PROTOS__DETACH_REQUEST__INIT;
    request.key = (char *)key;
    int code = consumer_call(consumer, "Detach", &request.base, handle_done, REPLY_MS, error);
    if (code == 0 && consumer->end_error[0] != '\0') {
        consumer_close(consumer);
        return error_set(error, -EREMOTEIO, "%s", consumer->end_error);
    }
    return code < 0 ? code
                    : check_refused(consumer, "to detach",
                                    "another session may be detached with this key", error);
}

int consumer_wait_for_end(struct consumer *consumer, uint64_t deadline_ms, struct error *error)
{
    consumer->is_ticking = consumer->user->tick != NULL;
    int code = wait_until(consumer, &consumer->has_ended, deadline_ms, error);
    consumer->is_ticking = false;
    if (code != 0 || consumer->end_error[0] == '\0')
        return code;
    consumer_close(consumer);
    return error_set(error, -EREMOTEIO, "%s", consumer->end_error);
}

static int flush(struct consumer *consumer, uint64_t flags, uint64_t stop_ms, bool *flushed,
                 struct error *error)
{
    Perfetto__Protos__FlushRequest request = PERFETTO__PROTOS__FLUSH_REQUEST__INIT;
    request.has_flags = true;
    request.flags = flags;
    int code =
        consumer_call(consumer, "Flush", &request.base, handle_done, stop_ms + MARGIN_MS, error);
    *flushed = code == 0 && !consumer->was_refused;
    return code;
}

int consumer_flush(struct consumer *consumer, uint64_t stop_ms, bool *flushed, struct error *error)
{
    return flush(consumer, FLUSH_BY_COMMAND, stop_ms, flushed, error);
}

int consumer_stop(struct consumer *consumer, uint64_t stop_ms, bool *flushed, struct error *error)
{
    int code = flush(consumer, FLUSH_AT_END, stop_ms, flushed, error);
    if (code < 0)
        return code;
    const Perfetto__Protos__DisableTracingRequest disable =
        PERFETTO__PROTOS__DISABLE_TRACING_REQUEST__INIT;
    code = consumer_call(consumer, "DisableTracing", &disable.base, handle_done, REPLY_MS, error);
    if (code == 0)
        code = consumer_wait_for_end(consumer, deadline_in(stop_ms + MARGIN_MS), error);
    return code > 0 ? interrupted(consumer, error) : code;
}

/* --- the trace --- */

static int handle_packets(void *context, struct tracing_reply *reply, struct error *error)
{
    struct consumer *consumer = context;
    handle_done(context, reply, error);
    if (!reply->success || consumer->call == NULL)
        return 0;
    return packet_writer_add(consumer->call, reply->bytes, reply->length, error);
}

/* Wait for all replies, each of them for REPLY_MS. */
static int wait_for_packets(struct consumer *consumer, const struct packet_writer *writer,
                            struct error *error)
{
    uint64_t packets = 0, deadline_ms = deadline_in(REPLY_MS);
    int code = 0;
    while (code == 0 && !consumer->is_done) {
        code = wait_once(consumer, deadline_ms, error);
        if (writer->packets > packets)
            deadline_ms = deadline_in(REPLY_MS);
        packets = writer->packets;
        if (code == 0 && !consumer->is_done)
            code = check_deadline(consumer, deadline_ms, error);
    }
    if (code < 0)
        consumer_close(consumer);
    return code > 0 ? interrupted(consumer, error) : code;
}

int consumer_read(struct consumer *consumer, const struct session_config *config, int trace_fd,
                  struct error *error)
{
    const Perfetto__Protos__ReadBuffersRequest request =
        PERFETTO__PROTOS__READ_BUFFERS_REQUEST__INIT;
    struct packet_writer writer;
    if (consumer->connection == NULL)
        return closed(error);
    packet_writer_init(&writer, trace_fd, session_config_trace_bytes_max(config));
    consumer->call = &writer;
    consumer->is_done = consumer->was_refused = false;
    int code = tracing_connection_invoke(consumer->connection, "ReadBuffers", &request.base, -1,
                                         handle_packets, consumer, error);
    if (code == 0)
        code = wait_for_packets(consumer, &writer, error);
    consumer->call = NULL;
    consumer->bytes_read += writer.bytes;
    bool is_cut = writer.packet.length > 0;
    packet_writer_clear(&writer);
    if (code == 0)
        code = check_refused(consumer, "to read the trace", "see its log", error);
    if (code == 0 && is_cut)
        code = error_set(error, -EPROTO,
                         "the tracing service ended the trace in the middle of a packet");
    return code;
}

/* --- statistics --- */

static void add_buffer(struct consumer_stats *stats,
                       const Perfetto__Protos__TraceStats__BufferStats *buffer)
{
    stats->bytes_written += buffer->bytes_written;
    stats->chunks_overwritten += buffer->chunks_overwritten;
    stats->bytes_overwritten += buffer->bytes_overwritten;
    stats->chunks_discarded += buffer->chunks_discarded;
    stats->patches_failed += buffer->patches_failed;
    stats->packets_lost += buffer->trace_writer_packet_loss;
    stats->violations += buffer->abi_violations;
}

static int handle_stats(void *context, struct tracing_reply *reply, struct error *error)
{
    struct consumer *consumer = context;
    consumer->stats_replied = true;
    if (!reply->success)
        return 0;
    Perfetto__Protos__GetTraceStatsResponse *response =
        perfetto__protos__get_trace_stats_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return malformed(consumer, "GetTraceStats", error);
    const Perfetto__Protos__TraceStats *from = response->trace_stats;
    if (from != NULL) {
        struct consumer_stats *stats = &consumer->stats;
        *stats = (struct consumer_stats){
            .is_known = true,
            /* chunks_discarded and patches_discarded are not taken: the service counts them since
             * its own start, over all sessions. */
            .violations = from->invalid_packets,
            .flushes_failed = from->flushes_failed,
            .last_flush_failed =
                from->final_flush_outcome ==
                PERFETTO__PROTOS__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_FAILED,
        };
        for (size_t i = 0; i < from->n_buffer_stats; i++)
            add_buffer(stats, from->buffer_stats[i]);
    }
    perfetto__protos__get_trace_stats_response__free_unpacked(response, NULL);
    return 0;
}

int consumer_check_written(int trace_fd, struct error *error)
{
    struct stat file;
    struct statvfs system;
    if (fstat(trace_fd, &file) < 0 || !S_ISREG(file.st_mode) || fstatvfs(trace_fd, &system) < 0 ||
        system.f_bfree >= FULL_BYTES / system.f_frsize)
        return 0;
    return error_set(error, -ENOSPC,
                     "the trace's file system is full, so the tracing service could not write all "
                     "of the trace; make room and record again");
}

void consumer_request_stats(struct consumer *consumer)
{
    const Perfetto__Protos__GetTraceStatsRequest request =
        PERFETTO__PROTOS__GET_TRACE_STATS_REQUEST__INIT;
    if (consumer->connection == NULL || !consumer->stats_replied)
        return;
    consumer->stats_replied =
        tracing_connection_invoke(consumer->connection, "GetTraceStats", &request.base, -1,
                                  handle_stats, consumer, NULL) < 0;
}

int consumer_read_stats(struct consumer *consumer, struct error *error)
{
    uint64_t deadline_ms = deadline_in(REPLY_MS);
    int code = wait_until(consumer, &consumer->stats_replied, deadline_ms, error);
    consumer->stats.is_known = false;
    consumer_request_stats(consumer);
    if (code == 0)
        code = wait_until(consumer, &consumer->stats_replied, deadline_ms, error);
    return code > 0 ? interrupted(consumer, error) : code;
}

void consumer_free_buffers(struct consumer *consumer)
{
    const Perfetto__Protos__FreeBuffersRequest request =
        PERFETTO__PROTOS__FREE_BUFFERS_REQUEST__INIT;
    struct error error;
    consumer_call(consumer, "FreeBuffers", &request.base, handle_done, REPLY_MS, &error);
}

int consumer_invoke(struct consumer *consumer, const char *method, const ProtobufCMessage *request,
                    tracing_reply_handler *handler, void *context, const bool *done,
                    struct error *error)
{
    if (consumer->connection == NULL)
        return closed(error);
    int code = tracing_connection_invoke(consumer->connection, method, request, -1, handler,
                                         context, error);
    if (code == 0)
        code = wait_until(consumer, done, deadline_in(REPLY_MS), error);
    return code > 0 ? interrupted(consumer, error) : code;
}
