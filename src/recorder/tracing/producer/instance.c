/* SPDX-License-Identifier: Apache-2.0 */
/* Talk to the daemon about a session, and move its packets. */
#include "recorder/tracing/producer/instance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/sockets/daemon_client.h"
#include "trace/proto_buffer.h"
#include "trace/proto_cursor.h"
#include "trace/write/trace_writer.h"
#include "util/clock.h"

/* The name by which the daemon knows the data source. The service may know others. */
#define DATA_SOURCE "android.heapprofd"

/* A packet with its tag and its length always fits. */
#define BUFFER_BYTES ((size_t)1 << 20)
/* The kernel's limit for ordinary users. A larger pipe means fewer changes between processes. */
#define PIPE_BYTES (1 << 20)

/* While processes are profiled: less than the time after which a process whose full ring is not
 * read gives its profile up (5 s). */
#define STALL_MS 1000
/* The service frees chunks without a message. */
#define STALL_POLL_MS 5

/* --- life --- */

/* Make the TraceConfig that the daemon takes, around the data source's part of it. */
static int pack_config(struct instance *instance, Perfetto__Protos__DataSourceConfig *config)
{
    Perfetto__Protos__TraceConfig trace = PERFETTO__PROTOS__TRACE_CONFIG__INIT;
    Perfetto__Protos__TraceConfig__DataSource source =
        PERFETTO__PROTOS__TRACE_CONFIG__DATA_SOURCE__INIT;
    Perfetto__Protos__TraceConfig__DataSource *sources[] = {&source};
    char *name = config->name;
    Perfetto__Protos__HeapprofdConfig *heap = config->heapprofd_config;
    /* Other producers have what is beside the heap (linux.process_stats and others): the trace
     * would have it twice. */
    if (heap != NULL && !heap->has_no_timeline)
        heap->has_no_timeline = heap->no_timeline = true;
    config->name = DATA_SOURCE;
    source.config = config;
    trace.n_data_sources = 1;
    trace.data_sources = sources;
    instance->trace_config_bytes = perfetto__protos__trace_config__get_packed_size(&trace);
    instance->trace_config = malloc(instance->trace_config_bytes);
    if (instance->trace_config != NULL)
        perfetto__protos__trace_config__pack(&trace, instance->trace_config);
    config->name = name;
    return instance->trace_config != NULL ? 0 : -ENOMEM;
}

struct instance *instance_new(uint64_t id, Perfetto__Protos__DataSourceConfig *config,
                              struct error *error)
{
    struct instance *instance = calloc(1, sizeof(*instance));
    if (instance == NULL || pack_config(instance, config) < 0) {
        error_set(error, -ENOMEM, "no memory for a data source instance");
        free(instance);
        return NULL;
    }
    instance->id = id;
    instance->tracing_session = config->tracing_session_id;
    snprintf(instance->data_source, sizeof(instance->data_source), "%s",
             config->name != NULL ? config->name : "");
    instance->writer.target_buffer = config->target_buffer;
    instance->daemon = instance->pipe = -1;
    return instance;
}

static void close_descriptor(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void instance_free(struct instance *instance)
{
    close_descriptor(&instance->daemon);
    close_descriptor(&instance->pipe);
    free(instance->trace_config);
    free(instance->bytes);
    free(instance);
}

/* --- the daemon's session --- */

/* Make the pipe. Return its write end, or a negative errno with a message. */
static int open_pipe(struct instance *instance, struct error *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(error, -errno, "cannot make a pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    instance->pipe = ends[0];
    return ends[1];
}

static int send_start(const struct instance *instance, int write_end, struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    Heapprofd__ControlRequest__Start start = HEAPPROFD__CONTROL_REQUEST__START__INIT;
    Heapprofd__TracingService service = HEAPPROFD__TRACING_SERVICE__INIT;
    service.has_session_id = true;
    service.session_id = instance->tracing_session;
    service.data_source = (char *)instance->data_source;
    start.has_trace_config = true;
    start.trace_config.data = instance->trace_config;
    start.trace_config.len = instance->trace_config_bytes;
    start.service = &service;
    request.start = &start;
    return daemon_send(instance->daemon, &request, write_end, error);
}

static int ask_for_session(struct instance *instance, struct error *error)
{
    instance->daemon = daemon_connect(SOCK_NONBLOCK, error);
    if (instance->daemon < 0)
        return error->code;
    int write_end = open_pipe(instance, error);
    if (write_end < 0)
        return write_end;
    int code = send_start(instance, write_end, error);
    close(write_end);
    return code;
}

void instance_explain(struct instance *instance, const char *reason)
{
    const struct trace_unprofiled note = {
        .name = "heapprofd", .kind = "no_session", .reason = reason};
    close_descriptor(&instance->daemon);
    close_descriptor(&instance->pipe);
    instance->has_begun = true;
    instance->is_watched = false;
    int write_end = open_pipe(instance, NULL);
    if (write_end < 0)
        return;
    struct trace_writer *writer = trace_writer_open_for_service(write_end);
    if (writer != NULL) {
        trace_writer_unprofiled(writer, &note);
        trace_writer_close(writer);
    }
    close(write_end);
}

int instance_start(struct instance *instance, struct shared_buffer *buffer,
                   const struct chunk_writer_user *user, uint16_t writer_id, struct error *error)
{
    instance->state = INSTANCE_RUNS;
    instance->writer.buffer = buffer;
    instance->writer.user = user;
    instance->writer.id = writer_id;
    instance->bytes = malloc(BUFFER_BYTES);
    if (instance->bytes == NULL) {
        instance->has_begun = true;
        return error_set(error, -ENOMEM, "no memory for packets");
    }
    int code = ask_for_session(instance, error);
    if (code < 0)
        instance_explain(instance, error->message);
    return code;
}

/* Send the restart that is asked for. A socket that is full takes it later. */
static void send_restart(struct instance *instance)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    if (!instance->must_restart || instance->daemon < 0)
        return;
    request.has_restart_sequence = request.restart_sequence = true;
    instance->must_restart = daemon_send(instance->daemon, &request, -1, NULL) == -EAGAIN;
}

void instance_restart_sequence(struct instance *instance)
{
    instance->must_restart = true;
    send_restart(instance);
}

/* Lose no more packets: write again what the service has missed. */
static void end_stall(struct instance *instance)
{
    if (instance->gives_up)
        instance_restart_sequence(instance);
    instance->stall_ms = 0;
    instance->gives_up = false;
}

void instance_stop(struct instance *instance)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    Heapprofd__ControlRequest__Session session = HEAPPROFD__CONTROL_REQUEST__SESSION__INIT;
    instance->state = INSTANCE_STOPS;
    if (instance->gives_up)
        end_stall(instance);
    send_restart(instance);
    request.stop = &session;
    /* The end of the connection ends the session, too. */
    if (instance->daemon >= 0 && daemon_send(instance->daemon, &request, -1, NULL) < 0)
        close_descriptor(&instance->daemon);
}

int instance_serve_daemon(struct instance *instance, struct error *error)
{
    send_restart(instance);
    for (int i = 0; instance->daemon >= 0 && i < 64; i++) {
        Heapprofd__ControlReply *reply = daemon_receive(instance->daemon, error);
        if (reply == NULL && error->code == -EAGAIN)
            return 0;
        if (reply != NULL) {
            instance->has_begun |= reply->has_session_id;
            heapprofd__control_reply__free_unpacked(reply, NULL);
            continue;
        }
        /* The connection ends with the session. */
        bool is_refusal = !instance->has_begun;
        if (is_refusal)
            instance_explain(instance, error->message);
        close_descriptor(&instance->daemon);
        return is_refusal || error->code != -EPIPE ? error->code : 0;
    }
    return 0;
}

/* --- packets --- */

/* Fill the buffer from the pipe. Return the number of bytes, 0 if there is nothing to read now, or
 * a negative errno. */
static ssize_t instance_fill(struct instance *instance)
{
    if (instance->pipe < 0 || instance->end - instance->start == BUFFER_BYTES)
        return 0;
    if (instance->start > 0) {
        memmove(instance->bytes, instance->bytes + instance->start,
                instance->end - instance->start);
        instance->end -= instance->start;
        instance->start = 0;
    }
    ssize_t got =
        read(instance->pipe, instance->bytes + instance->end, BUFFER_BYTES - instance->end);
    if (got == 0)
        close_descriptor(&instance->pipe);
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        return -errno;
    if (got > 0)
        instance->end += (size_t)got;
    return got > 0 ? got : 0;
}

/* Find the next packet in the buffer. Return 1 if it is whole, 0 if more bytes are needed, or
 * -EPROTO. */
static int next_packet(const struct instance *instance, struct proto_span *packet, size_t *whole)
{
    struct proto_span rest = {instance->bytes + instance->start, instance->bytes + instance->end};
    const uint8_t *begin = rest.at;
    uint64_t tag, length;
    if (rest.at == rest.end)
        return 0;
    if (*rest.at != (1 << 3 | 2))
        return -EPROTO;
    if (!proto_read_varint(&rest, &tag) || !proto_read_varint(&rest, &length))
        return (size_t)(rest.end - begin) > 1 + PROTO_VARINT_BYTES_MAX ? -EPROTO : 0;
    if (length > BUFFER_BYTES - (1 + PROTO_VARINT_BYTES_MAX))
        return -EPROTO;
    if (length > (size_t)(rest.end - rest.at))
        return 0;
    *packet = (struct proto_span){rest.at, rest.at + length};
    *whole = (size_t)(packet->end - begin);
    return 1;
}

/* Write the packets of the buffer into chunks. Return 1 if all are written, 0 if no chunk is free,
 * or a negative errno. */
static int write_packets(struct instance *instance, uint64_t now_ms)
{
    struct proto_span packet;
    size_t whole;
    int code;
    while ((code = next_packet(instance, &packet, &whole)) > 0) {
        size_t length = (size_t)(packet.end - packet.at);
        enum chunk_writer_result result =
            chunk_writer_put(&instance->writer, packet.at, length, instance->end - instance->start);
        if (result == PACKET_BROKEN)
            return -EPIPE;
        if (result == PACKET_WRITTEN) {
            end_stall(instance);
            instance->packets++;
            instance->packet_bytes += length;
        } else {
            instance->stall_ms = instance->stall_ms != 0 ? instance->stall_ms : now_ms;
            instance->gives_up |=
                instance->state != INSTANCE_STOPS && now_ms >= instance->stall_ms + STALL_MS;
            if (!instance->gives_up)
                return 0;
            chunk_writer_give_up(&instance->writer);
        }
        instance->start += whole;
    }
    return code < 0 ? code : 1;
}

static int move_packets(struct instance *instance, size_t bytes, uint64_t now_ms)
{
    ssize_t got;
    size_t taken = 0;
    int code;
    do {
        got = instance_fill(instance);
        code = got < 0 ? (int)got : write_packets(instance, now_ms);
        taken += got > 0 ? (size_t)got : 0;
    } while (code > 0 && got > 0 && taken < bytes);
    if (code <= 0 || instance->pipe >= 0)
        return code < 0 ? code : 0;
    /* The session died in the middle of a packet. */
    if (instance->start < instance->end)
        chunk_writer_give_up(&instance->writer);
    instance->start = instance->end;
    chunk_writer_put(&instance->writer, NULL, 0, 0);
    return 0;
}

int instance_pump(struct instance *instance, size_t bytes, uint64_t now_ms, struct error *error)
{
    int code = instance->bytes != NULL ? move_packets(instance, bytes, now_ms) : 0;
    bool is_unreadable = code < 0 && code != -EPIPE;
    if (is_unreadable) {
        close_descriptor(&instance->daemon);
        close_descriptor(&instance->pipe);
        instance->start = instance->end = 0;
        error_set(error, code, "its session's packets cannot be read: %s", strerror(-code));
    }
    if (code == -EPIPE || !chunk_writer_flush(&instance->writer))
        return error_set(error, -EPROTO,
                         "the tracing service changes the states of chunks that are not its own");
    return is_unreadable;
}

bool instance_waits(const struct instance *instance)
{
    return instance->stall_ms != 0 && !instance->gives_up;
}

uint64_t instance_due_ms(const struct instance *instance, uint64_t now_ms)
{
    return instance_waits(instance) ? now_ms + STALL_POLL_MS : UINT64_MAX;
}

bool instance_is_over(const struct instance *instance)
{
    return instance->pipe < 0 && !instance_waits(instance);
}
