/* SPDX-License-Identifier: Apache-2.0 */
/* Talk to the daemon about the session, and cut its packets into fragments. */
#include "production/continuous/session_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "recorder/sockets/daemon_client.h"
#include "trace/config/trace_config.h"
#include "trace/proto_cursor.h"
#include "trace/write/trace_writer.h"
#include "util/write_all.h"

/* A packet with its tag and its length always fits. */
#define BUFFER_BYTES ((size_t)1 << 20)
#define PIPE_BYTES (1 << 20)
#define SEQUENCE_CLEARED 1u
#define REPLIES_AT_ONCE 64

/* --- life --- */

static void close_descriptor(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Begin a fragment with the clocks, so that its times can be converted. */
static int open_fragment(struct session_link *link)
{
    link->fragment = memfd_create("heapprofd-fragment", MFD_CLOEXEC);
    link->fragment_bytes = 0;
    struct trace_writer *writer = link->fragment >= 0 ? trace_writer_open(link->fragment) : NULL;
    link->is_cut = writer == NULL;
    if (writer != NULL)
        trace_writer_clock_snapshot(writer);
    if (trace_writer_close(writer) < 0)
        link->is_cut = true;
    return link->fragment;
}

/* Return the session's configuration, packed. It borrows the rules. */
static void *pack_config(const struct collector_config *from, size_t *length)
{
    struct heap_config config;
    heap_config_init(&config);
    config.sampling_interval_bytes = from->least_interval_bytes;
    config.start_sampling_interval_bytes = from->start_interval_bytes;
    config.shmem_size_bytes = from->ring_bytes;
    config.adaptive_sampling_shmem_threshold = from->ring_bytes / 2;
    config.adaptive_sampling_max_sampling_interval_bytes = from->most_interval_bytes;
    config.timeline.off = true;
    config.background = true;
    config.near_limit_percent = (uint32_t)(from->near_limit_share * 100 + 0.5);
    config.target_rules = from->rules;
    void *bytes = heap_config_to_bytes(&config, length);
    config.target_rules = (struct target_rules){0};
    heap_config_clear(&config);
    return bytes;
}

static int send_start(const struct session_link *link, const struct collector_config *config,
                      int write_end, struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    Heapprofd__ControlRequest__Start start = HEAPPROFD__CONTROL_REQUEST__START__INIT;
    start.trace_config.data = pack_config(config, &start.trace_config.len);
    if (start.trace_config.data == NULL)
        return error_set(error, -ENOMEM, "no memory for the session's configuration");
    start.has_trace_config = true;
    start.has_continuous = start.continuous = true;
    start.has_progress = start.progress = true;
    request.start = &start;
    int code = daemon_send(link->daemon, &request, write_end, error);
    free(start.trace_config.data);
    return code;
}

int session_link_open(struct session_link *link, const struct collector_config *config,
                      const struct session_link_user *user, struct error *error)
{
    int ends[2];
    *link = (struct session_link){.user = user, .daemon = -1, .pipe = -1, .fragment = -1};
    link->fragment_bytes_max = config->memory_bytes / 2;
    link->bytes = malloc(BUFFER_BYTES);
    if (link->bytes == NULL || open_fragment(link) < 0)
        return error_set(error, -ENOMEM, "no memory for packets");
    link->daemon = daemon_connect(SOCK_NONBLOCK, error);
    if (link->daemon < 0)
        return link->daemon;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(error, -errno, "cannot make a pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    link->pipe = ends[0];
    int code = send_start(link, config, ends[1], error);
    close(ends[1]);
    return code;
}

void session_link_close(struct session_link *link)
{
    close_descriptor(&link->daemon);
    close_descriptor(&link->pipe);
    close_descriptor(&link->fragment);
    free(link->bytes);
    link->bytes = NULL;
}

/* --- requests --- */

static int send_request(struct session_link *link, const Heapprofd__ControlRequest *request,
                        struct error *error)
{
    if (link->daemon < 0)
        return error_set(error, -EPIPE, "the session is over");
    return daemon_send(link->daemon, request, -1, error);
}

int session_link_dump(struct session_link *link, struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    Heapprofd__ControlRequest__Session session = HEAPPROFD__CONTROL_REQUEST__SESSION__INIT;
    request.snapshot = &session;
    request.has_restart_sequence = request.restart_sequence = true;
    int code = send_request(link, &request, error);
    link->awaits_dump |= code == 0;
    return code;
}

int session_link_stop(struct session_link *link, struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    Heapprofd__ControlRequest__Session session = HEAPPROFD__CONTROL_REQUEST__SESSION__INIT;
    request.stop = &session;
    return send_request(link, &request, error);
}

int session_link_change_rules(struct session_link *link, const struct collector_config *config,
                              struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    link->fragment_bytes_max = config->memory_bytes / 2;
    request.change_rules.data = pack_config(config, &request.change_rules.len);
    if (request.change_rules.data == NULL)
        return error_set(error, -ENOMEM, "no memory for the session's configuration");
    request.has_change_rules = true;
    int code = send_request(link, &request, error);
    free(request.change_rules.data);
    return code;
}

int session_link_set_interval(struct session_link *link, pid_t pid, uint64_t interval_bytes,
                              struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    Heapprofd__ControlRequest__Interval interval = HEAPPROFD__CONTROL_REQUEST__INTERVAL__INIT;
    Heapprofd__ControlRequest__Interval *intervals[] = {&interval};
    interval.has_pid = interval.has_interval_bytes = true;
    interval.pid = pid;
    interval.interval_bytes = interval_bytes;
    request.intervals = intervals;
    request.n_intervals = 1;
    return send_request(link, &request, error);
}

int session_link_leave(struct session_link *link, pid_t pid, struct error *error)
{
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    int32_t pids[] = {pid};
    request.leave = pids;
    request.n_leave = 1;
    return send_request(link, &request, error);
}

/* --- packets --- */

/* Return whether a packet clears the incremental state: it begins a fragment. */
static bool begins_fragment(struct proto_span packet)
{
    struct proto_field field;
    while (proto_next(&packet, &field) > 0) {
        if (field.number == PB_TRACE_PACKET_SEQUENCE_FLAGS && field.type == PROTO_VARINT)
            return (field.value & SEQUENCE_CLEARED) != 0;
    }
    return false;
}

/* Find the next packet in the buffer. Return 1 if it is whole, 0 if more bytes are needed, or
 * -EPROTO. */
static int next_packet(const struct session_link *link, struct proto_span *packet, size_t *whole)
{
    struct proto_span rest = {link->bytes + link->start, link->bytes + link->end};
    const uint8_t *begin = rest.at;
    uint64_t tag, length;
    if (rest.at == rest.end)
        return 0;
    if (*rest.at != (1 << 3 | 2))
        return -EPROTO;
    if (!proto_read_varint(&rest, &tag) || !proto_read_varint(&rest, &length))
        return rest.end - begin > 16 ? -EPROTO : 0;
    if (length > BUFFER_BYTES - 16)
        return -EPROTO;
    if (length > proto_length(rest))
        return 0;
    *packet = (struct proto_span){rest.at, rest.at + length};
    *whole = (size_t)(packet->end - begin);
    return 1;
}

static void keep_packet(struct session_link *link, const uint8_t *bytes, size_t length)
{
    if (link->is_cut || link->fragment_bytes + length > link->fragment_bytes_max ||
        write_all(link->fragment, bytes, length) < 0) {
        link->is_cut = true;
        return;
    }
    link->fragment_bytes += length;
}

/* Move whole packets into the fragment; if a dump is complete, up to those of the next fragment. */
static int take_packets(struct session_link *link)
{
    struct proto_span packet;
    size_t whole;
    int code = 0;
    link->at_border = false;
    while (!link->at_border && (code = next_packet(link, &packet, &whole)) > 0) {
        /* The very first packet of a fragment clears the state, too. */
        link->at_border = link->fragment_bytes > 0 && begins_fragment(packet);
        if (link->at_border)
            break;
        keep_packet(link, link->bytes + link->start, whole);
        link->start += whole;
    }
    return code < 0 ? code : 0;
}

/* Read the pipe until it is empty or the fragment is complete. */
static int read_packets(struct session_link *link, struct error *error)
{
    int code;
    while ((code = take_packets(link)) == 0 && !link->at_border && link->pipe >= 0) {
        memmove(link->bytes, link->bytes + link->start, link->end - link->start);
        link->end -= link->start;
        link->start = 0;
        ssize_t got = read(link->pipe, link->bytes + link->end, BUFFER_BYTES - link->end);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            close_descriptor(&link->pipe);
        link->end += got > 0 ? (size_t)got : 0;
    }
    return code < 0 ? error_set(error, code, "the session's packets cannot be read") : 0;
}

int session_link_take_fragment(struct session_link *link, bool *is_cut)
{
    int fragment = link->fragment;
    *is_cut = link->is_cut;
    if (link->fragment_bytes == 0 && !link->is_cut)
        return -1;
    open_fragment(link);
    link->at_border = false;
    return fragment;
}

/* --- replies --- */

static void take_reply(struct session_link *link, const Heapprofd__ControlReply *reply)
{
    const struct session_link_user *user = link->user;
    if (reply->has_session_id)
        link->id = reply->session_id;
    if (reply->progress != NULL)
        user->progress(user->context, reply->progress);
    if (reply->refused != NULL)
        user->refused(user->context, reply->refused);
    if (reply->lent != NULL)
        user->lent(user->context, reply->lent);
    link->has_ended |= reply->end != NULL;
}

static int read_replies(struct session_link *link, struct error *error)
{
    for (int i = 0; link->daemon >= 0 && i < REPLIES_AT_ONCE; i++) {
        Heapprofd__ControlReply *reply = daemon_receive(link->daemon, error);
        if (reply == NULL && error->code == -EAGAIN)
            return 0;
        if (reply == NULL) {
            close_descriptor(&link->daemon);
            return link->has_ended ? 0 : error->code;
        }
        take_reply(link, reply);
        bool is_dumped = reply->has_sessions && link->awaits_dump;
        heapprofd__control_reply__free_unpacked(reply, NULL);
        if (!is_dumped)
            continue;
        /* The dump was written before the reply was sent. */
        link->awaits_dump = false;
        if (read_packets(link, error) < 0)
            return error->code;
        link->user->dumped(link->user->context);
    }
    return 0;
}

int session_link_serve(struct session_link *link, struct error *error)
{
    int code = read_packets(link, error);
    if (code == 0)
        code = read_replies(link, error);
    return code;
}
