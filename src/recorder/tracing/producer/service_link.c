/* SPDX-License-Identifier: Apache-2.0 */
/* Greet the service, take its commands, and answer them when their work is done. */
#include "recorder/tracing/producer/service_link.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/event_loop.h"

#define PRODUCER_NAME "heapprofd"

/* What we ask for. A dump of a large program is some MB. Pages are small, because a chunk is at
 * least a 14th of one, and takes its whole size in the service's buffer. */
#define PAGE_BYTES_HINT (4u << 10)
#define BUFFER_BYTES_HINT (4u << 20)

/* Bytes of one pipe in one turn, so that others have theirs. A pipe holds as much, so one turn also
 * takes everything that was written before a flush. */
#define TURN_BYTES ((size_t)1 << 20)

#define WRITER_ID_MAX 32767u /* the service refuses more */

/* A service that does not accept us in this time gets a new connection. */
#define ACCEPT_MS 10000u

/* Ignored commands of a connection that are logged. */
#define IGNORED_LOGGED_MAX 10u

typedef Perfetto__Protos__GetAsyncCommandResponse Command;

static const char *const data_sources[] = {"android.heapprofd", "heapprofd"};

/* --- calls --- */

/* Invoke a method whose reply says nothing. */
static int service_link_call(struct service_link *link, const char *method,
                             const ProtobufCMessage *request, struct error *error)
{
    return tracing_connection_invoke(link->connection, method, request, -1, NULL, NULL, error);
}

static int notify_started(struct service_link *link, uint64_t id, struct error *error)
{
    Perfetto__Protos__NotifyDataSourceStartedRequest request =
        PERFETTO__PROTOS__NOTIFY_DATA_SOURCE_STARTED_REQUEST__INIT;
    request.has_data_source_id = true;
    request.data_source_id = id;
    return service_link_call(link, "NotifyDataSourceStarted", &request.base, error);
}

static int notify_stopped(struct service_link *link, uint64_t id, struct error *error)
{
    Perfetto__Protos__NotifyDataSourceStoppedRequest request =
        PERFETTO__PROTOS__NOTIFY_DATA_SOURCE_STOPPED_REQUEST__INIT;
    request.has_data_source_id = true;
    request.data_source_id = id;
    return service_link_call(link, "NotifyDataSourceStopped", &request.base, error);
}

static int register_writer(struct service_link *link, const struct chunk_writer *writer,
                           struct error *error)
{
    Perfetto__Protos__RegisterTraceWriterRequest request =
        PERFETTO__PROTOS__REGISTER_TRACE_WRITER_REQUEST__INIT;
    request.has_trace_writer_id = request.has_target_buffer = true;
    request.trace_writer_id = writer->id;
    request.target_buffer = writer->target_buffer;
    return service_link_call(link, "RegisterTraceWriter", &request.base, error);
}

static int unregister_writer(struct service_link *link, uint16_t id, struct error *error)
{
    Perfetto__Protos__UnregisterTraceWriterRequest request =
        PERFETTO__PROTOS__UNREGISTER_TRACE_WRITER_REQUEST__INIT;
    request.has_trace_writer_id = true;
    request.trace_writer_id = id;
    return service_link_call(link, "UnregisterTraceWriter", &request.base, error);
}

/* Log a command that is ignored. A service that sends one after the other must not fill the log. */
__attribute__((format(printf, 2, 3))) static void log_ignored(struct service_link *link,
                                                              const char *format, ...)
{
    char command[256];
    va_list arguments;
    if (link->ignored == IGNORED_LOGGED_MAX)
        return;
    link->ignored++;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    link->log("%s: ignored%s", command,
              link->ignored == IGNORED_LOGGED_MAX ? "; further ones are not logged" : "");
}

/* --- instances --- */

static struct instance *service_link_find(const struct service_link *link, uint64_t id)
{
    for (size_t i = 0; i < link->count; i++) {
        if (link->instances[i]->id == id)
            return link->instances[i];
    }
    return NULL;
}

static uint16_t choose_writer_id(struct service_link *link)
{
    bool is_taken = true;
    while (is_taken) {
        link->last_writer_id =
            link->last_writer_id == WRITER_ID_MAX ? 1 : (uint16_t)(link->last_writer_id + 1);
        is_taken = false;
        for (size_t i = 0; i < link->count; i++)
            is_taken |= link->instances[i]->writer.id == link->last_writer_id;
    }
    return link->last_writer_id;
}

static void log_end(struct service_link *link, const struct instance *instance)
{
    char lost[80] = "";
    if (instance->writer.lost_packets > 0)
        snprintf(lost, sizeof(lost), ", %llu packets lost",
                 (unsigned long long)instance->writer.lost_packets);
    link->log("data source %s of tracing session %llu ended: %llu packets, %llu bytes%s",
              instance->data_source, (unsigned long long)instance->tracing_session,
              (unsigned long long)instance->packets, (unsigned long long)instance->packet_bytes,
              lost);
}

static int remove_instance(struct service_link *link, struct instance *instance,
                           struct error *error)
{
    uint64_t id = instance->id;
    int code = 0;
    if (instance->state != INSTANCE_SET_UP) {
        log_end(link, instance);
        code = unregister_writer(link, instance->writer.id, error);
    }
    for (size_t i = 0; i < link->count; i++) {
        if (link->instances[i] == instance)
            link->instances[i] = link->instances[--link->count];
    }
    instance_free(instance);
    return code < 0 ? code : notify_stopped(link, id, error);
}

/* Watch the pipe while its packets can be written. */
static int watch_pipe(struct service_link *link, struct instance *instance, struct error *error)
{
    bool watches = instance->pipe >= 0 && !instance_waits(instance);
    if (watches == instance->is_watched || instance->pipe < 0)
        return 0;
    instance->is_watched = watches;
    int code = event_loop_watch(link->epoll, watches ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                                instance->pipe, EPOLLIN);
    return code < 0 ? error_set(error, code, "cannot wait for packets: %s", strerror(-code)) : 0;
}

/* Watch the daemon's connection for replies, and for room while a request waits for it. */
static int watch_daemon(struct service_link *link, struct instance *instance, struct error *error)
{
    uint32_t events = EPOLLIN | (instance->must_restart ? EPOLLOUT : 0);
    if (instance->daemon < 0 || events == instance->daemon_events)
        return 0;
    int operation = instance->daemon_events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    int code = event_loop_watch(link->epoll, operation, instance->daemon, events);
    if (code < 0)
        return error_set(error, code, "cannot wait for the daemon: %s", strerror(-code));
    instance->daemon_events = events;
    return 0;
}

static void set_up(struct service_link *link, uint64_t id,
                   Perfetto__Protos__DataSourceConfig *config)
{
    struct error error;
    if (config == NULL || service_link_find(link, id) != NULL) {
        log_ignored(link, "instance %llu was set up %s", (unsigned long long)id,
                    config == NULL ? "without a configuration" : "twice");
        return;
    }
    struct instance *instance =
        link->count < LINK_INSTANCES_MAX ? instance_new(id, config, &error) : NULL;
    if (instance == NULL)
        log_ignored(link, "instance %llu was not set up (%s)", (unsigned long long)id,
                    link->count == LINK_INSTANCES_MAX ? "there are too many" : error.message);
    else
        link->instances[link->count++] = instance;
}

static int service_link_start(struct service_link *link, uint64_t id,
                              Perfetto__Protos__DataSourceConfig *config, struct error *error)
{
    struct error refusal;
    /* Old services set nothing up before the start. */
    if (service_link_find(link, id) == NULL)
        set_up(link, id, config);
    struct instance *instance = service_link_find(link, id);
    if (instance == NULL || instance->state != INSTANCE_SET_UP) {
        log_ignored(link, "instance %llu was started %s", (unsigned long long)id,
                    instance != NULL ? "twice" : "without being set up");
        return instance == NULL ? notify_started(link, id, error) : 0;
    }
    uint16_t writer_id = choose_writer_id(link);
    int code = instance_start(instance, &link->buffer, &link->writer_user, writer_id, &refusal);
    if (code == 0 && (code = watch_daemon(link, instance, &refusal)) < 0)
        instance_explain(instance, refusal.message);
    if (code < 0)
        link->log("data source %s of tracing session %llu has no profile: %s",
                  instance->data_source, (unsigned long long)instance->tracing_session,
                  refusal.message);
    link->must_pump = true;
    code = register_writer(link, &instance->writer, error);
    return code == 0 && instance->has_begun ? notify_started(link, id, error) : code;
}

static int stop(struct service_link *link, uint64_t id, struct error *error)
{
    struct instance *instance = service_link_find(link, id);
    if (instance == NULL || instance->state == INSTANCE_STOPS) {
        log_ignored(link, "instance %llu was stopped %s", (unsigned long long)id,
                    instance != NULL ? "twice" : "without being set up");
        return instance == NULL ? notify_stopped(link, id, error) : 0;
    }
    if (instance->state == INSTANCE_SET_UP)
        return remove_instance(link, instance, error);
    instance_stop(instance);
    link->must_pump = true;
    return 0;
}

static void service_link_flush(struct service_link *link, uint64_t id)
{
    if (link->flush_count == LINK_FLUSHES_MAX) {
        log_ignored(link, "flush %llu came while %d wait", (unsigned long long)id,
                    LINK_FLUSHES_MAX);
        return;
    }
    link->flushes[link->flush_count++] = id;
    link->must_pump = true;
}

static void
restart_sequences(struct service_link *link,
                  const Perfetto__Protos__GetAsyncCommandResponse__ClearIncrementalState *command)
{
    for (size_t i = 0; i < command->n_data_source_ids; i++) {
        struct instance *instance = service_link_find(link, command->data_source_ids[i]);
        if (instance != NULL)
            instance_restart_sequence(instance);
    }
}

/* --- the connection --- */

static int set_up_memory(struct service_link *link, uint32_t page_kb, struct tracing_reply *reply,
                         struct error *error)
{
    int fd = reply->descriptor;
    uint32_t page_bytes = page_kb <= SHARED_BUFFER_PAGE_BYTES_MAX / 1024 ? page_kb * 1024 : 0;
    if (link->buffer.bytes != NULL) {
        log_ignored(link, "a second shared memory");
        return 0;
    }
    if (link->is_emulated)
        return shared_buffer_allocate(&link->buffer, page_bytes, error);
    if (fd < 0)
        return error_set(error, -EPROTO, "the tracing service sent no shared memory");
    reply->descriptor = -1;
    return shared_buffer_map(&link->buffer, fd, page_bytes, error);
}

static int obey(struct service_link *link, const Command *command, struct tracing_reply *reply,
                struct error *error)
{
    switch (command->cmd_case) {
    case PERFETTO__PROTOS__GET_ASYNC_COMMAND_RESPONSE__CMD_SETUP_TRACING:
        return set_up_memory(link, command->setup_tracing->shared_buffer_page_size_kb, reply,
                             error);
    case PERFETTO__PROTOS__GET_ASYNC_COMMAND_RESPONSE__CMD_SETUP_DATA_SOURCE:
        set_up(link, command->setup_data_source->new_instance_id,
               command->setup_data_source->config);
        return 0;
    case PERFETTO__PROTOS__GET_ASYNC_COMMAND_RESPONSE__CMD_START_DATA_SOURCE:
        return service_link_start(link, command->start_data_source->new_instance_id,
                                  command->start_data_source->config, error);
    case PERFETTO__PROTOS__GET_ASYNC_COMMAND_RESPONSE__CMD_STOP_DATA_SOURCE:
        return stop(link, command->stop_data_source->instance_id, error);
    case PERFETTO__PROTOS__GET_ASYNC_COMMAND_RESPONSE__CMD_FLUSH:
        service_link_flush(link, command->flush->request_id);
        return 0;
    case PERFETTO__PROTOS__GET_ASYNC_COMMAND_RESPONSE__CMD_CLEAR_INCREMENTAL_STATE:
        restart_sequences(link, command->clear_incremental_state);
        return 0;
    default:
        log_ignored(link, "the tracing service sent a command that is not known");
        return 0;
    }
}

static int take_command(void *context, struct tracing_reply *reply, struct error *error)
{
    struct service_link *link = context;
    if (!reply->success)
        return tracing_reply_refused(link->connection, "GetAsyncCommand", reply, error);
    Command *command =
        perfetto__protos__get_async_command_response__unpack(NULL, reply->length, reply->bytes);
    if (command == NULL)
        return error_set(error, -EPROTO, "the tracing service sent a command that cannot be read");
    int code = obey(link, command, reply, error);
    perfetto__protos__get_async_command_response__free_unpacked(command, NULL);
    if (code == 0 && !reply->has_more)
        code = error_set(error, -EPROTO, "the tracing service will send no more commands");
    return code;
}

static int register_sources(struct service_link *link, struct error *error)
{
    int code = 0;
    for (size_t i = 0; i < sizeof(data_sources) / sizeof(data_sources[0]) && code == 0; i++) {
        Perfetto__Protos__RegisterDataSourceRequest request =
            PERFETTO__PROTOS__REGISTER_DATA_SOURCE_REQUEST__INIT;
        Perfetto__Protos__DataSourceDescriptor descriptor =
            PERFETTO__PROTOS__DATA_SOURCE_DESCRIPTOR__INIT;
        descriptor.name = (char *)data_sources[i];
        descriptor.has_will_notify_on_stop = descriptor.will_notify_on_stop = true;
        descriptor.has_will_notify_on_start = descriptor.will_notify_on_start = true;
        descriptor.has_handles_incremental_state_clear = true;
        descriptor.handles_incremental_state_clear = true;
        request.data_source_descriptor = &descriptor;
        code = service_link_call(link, "RegisterDataSource", &request.base, error);
    }
    return code;
}

static int take_welcome(void *context, struct tracing_reply *reply, struct error *error)
{
    struct service_link *link = context;
    if (!reply->success)
        return tracing_reply_refused(link->connection, "InitializeConnection", reply, error);
    if (link->is_accepted) {
        log_ignored(link, "a second greeting of the tracing service");
        return 0;
    }
    Perfetto__Protos__InitializeConnectionResponse *response =
        perfetto__protos__initialize_connection_response__unpack(NULL, reply->length, reply->bytes);
    if (response == NULL)
        return error_set(error, -EPROTO, "the tracing service's greeting cannot be read");
    link->is_emulated = response->use_shmem_emulation;
    perfetto__protos__initialize_connection_response__free_unpacked(response, NULL);
    link->is_accepted = true;
    link->log("connected to the tracing service at %s%s", tracing_connection_name(link->connection),
              link->is_emulated ? ", without shared memory" : "");
    return register_sources(link, error);
}

/* Commands come as replies to one request, which is never answered for good. */
static int greet(struct service_link *link, struct error *error)
{
    Perfetto__Protos__InitializeConnectionRequest request =
        PERFETTO__PROTOS__INITIALIZE_CONNECTION_REQUEST__INIT;
    Perfetto__Protos__GetAsyncCommandRequest commands =
        PERFETTO__PROTOS__GET_ASYNC_COMMAND_REQUEST__INIT;
    link->has_greeted = true;
    request.producer_name = PRODUCER_NAME;
    request.sdk_version = "heapprofd " HEAPPROFD_VERSION;
    request.has_shared_memory_page_size_hint_bytes = true;
    request.shared_memory_page_size_hint_bytes = PAGE_BYTES_HINT;
    request.has_shared_memory_size_hint_bytes = true;
    request.shared_memory_size_hint_bytes = BUFFER_BYTES_HINT;
    /* No chunk stays unfinished, so the service need not look for such. */
    request.has_smb_scraping_mode = true;
    request.smb_scraping_mode =
        PERFETTO__PROTOS__INITIALIZE_CONNECTION_REQUEST__PRODUCER_SMBSCRAPING_MODE__SMB_SCRAPING_DISABLED;
    int code = tracing_connection_invoke(link->connection, "InitializeConnection", &request.base,
                                         -1, take_welcome, link, error);
    return code < 0 ? code
                    : tracing_connection_invoke(link->connection, "GetAsyncCommand", &commands.base,
                                                -1, take_command, link, error);
}

static void handle_completed(void *context, const struct shared_chunk *chunk, uint32_t used_bytes,
                             uint32_t target_buffer)
{
    struct service_link *link = context;
    commit_add(&link->commit, chunk, used_bytes, target_buffer);
}

int service_link_open(struct service_link *link, const struct tracing_socket *to, int epoll,
                      struct error *error)
{
    link->connection = tracing_connection_open(to, error);
    if (link->connection == NULL)
        return error->code;
    link->epoll = epoll;
    link->opened_ms = clock_read_ms(CLOCK_MONOTONIC);
    link->events = tracing_connection_events(link->connection);
    link->writer_user = (struct chunk_writer_user){handle_completed, link};
    commit_open(&link->commit, link->connection, &link->buffer);
    int code = event_loop_watch(epoll, EPOLL_CTL_ADD, tracing_connection_fd(link->connection),
                                link->events);
    if (code < 0)
        error_set(error, code, "cannot wait for the tracing service: %s", strerror(-code));
    return code;
}

void service_link_close(struct service_link *link)
{
    while (link->count > 0)
        instance_free(link->instances[--link->count]);
    commit_close(&link->commit);
    shared_buffer_close(&link->buffer);
    tracing_connection_close(link->connection);
    *link = (struct service_link){.log = link->log};
}

void service_link_stop_all(struct service_link *link)
{
    for (size_t i = 0; i < link->count; i++) {
        if (link->instances[i]->state != INSTANCE_STOPS)
            instance_stop(link->instances[i]);
    }
    link->must_pump = true;
}

/* --- events --- */

static int serve_connection(struct service_link *link, struct error *error)
{
    uint64_t acknowledged = link->commit.acknowledged;
    int code = tracing_connection_serve(link->connection, error);
    if (code == 0 && !link->has_greeted && tracing_connection_is_bound(link->connection))
        code = greet(link, error);
    link->must_pump |= link->commit.acknowledged != acknowledged;
    return code;
}

static int serve_daemon(struct service_link *link, struct instance *instance, struct error *error)
{
    struct error refusal;
    bool had_begun = instance->has_begun;
    if (instance_serve_daemon(instance, &refusal) < 0)
        link->log("data source %s of tracing session %llu: %s", instance->data_source,
                  (unsigned long long)instance->tracing_session, refusal.message);
    link->must_pump |= instance->has_begun != had_begun;
    return instance->has_begun && !had_begun ? notify_started(link, instance->id, error) : 0;
}

static int pump(struct service_link *link, struct instance *instance, struct error *error)
{
    int code = instance_pump(instance, TURN_BYTES, clock_read_ms(CLOCK_MONOTONIC), error);
    if (code > 0)
        link->log("data source %s of tracing session %llu: %s", instance->data_source,
                  (unsigned long long)instance->tracing_session, error->message);
    return code < 0 ? code : watch_pipe(link, instance, error);
}

int service_link_serve(struct service_link *link, int fd, struct error *error)
{
    if (fd == tracing_connection_fd(link->connection))
        return serve_connection(link, error);
    for (size_t i = 0; i < link->count; i++) {
        struct instance *instance = link->instances[i];
        if (fd == instance->daemon)
            return serve_daemon(link, instance, error);
        if (fd == instance->pipe)
            return pump(link, instance, error);
    }
    return 0;
}

static bool stalls(const struct service_link *link)
{
    for (size_t i = 0; i < link->count; i++) {
        if (instance_waits(link->instances[i]))
            return true;
    }
    return false;
}

/* Answer flushes when everything written before them is in chunks. */
static int answer_flushes(struct service_link *link)
{
    int code = 0;
    if (stalls(link))
        return 0;
    for (size_t i = 0; i < link->flush_count && code == 0; i++)
        code = commit_send(&link->commit, link->flushes[i]);
    link->flush_count = 0;
    return code;
}

static int remove_stopped(struct service_link *link, struct error *error)
{
    int code = 0;
    for (size_t i = link->count; i-- > 0 && code == 0;) {
        struct instance *instance = link->instances[i];
        if (instance->state == INSTANCE_STOPS && instance_is_over(instance))
            code = remove_instance(link, instance, error);
    }
    return code;
}

int service_link_settle(struct service_link *link, struct error *error)
{
    int code = 0;
    if (!link->is_accepted && clock_read_ms(CLOCK_MONOTONIC) >= link->opened_ms + ACCEPT_MS)
        return error_set(error, -ETIMEDOUT, "%s: the tracing service does not answer; see its log",
                         tracing_connection_name(link->connection));
    bool pumps = link->must_pump || stalls(link);
    link->must_pump = false;
    for (size_t i = 0; i < link->count && pumps && code == 0; i++)
        code = pump(link, link->instances[i], error);
    if (code == 0 && (code = commit_send(&link->commit, 0)) == 0)
        code = answer_flushes(link);
    if (link->commit.error.code < 0) {
        *error = link->commit.error;
        return link->commit.error.code;
    }
    /* A change that fails is tried again the next time. */
    for (size_t i = 0; i < link->count; i++)
        watch_daemon(link, link->instances[i], NULL);
    if (code == 0)
        code = remove_stopped(link, error);
    uint32_t events = tracing_connection_events(link->connection);
    if (code == 0 && events != link->events) {
        link->events = events;
        event_loop_watch(link->epoll, EPOLL_CTL_MOD, tracing_connection_fd(link->connection),
                         events);
    }
    return code;
}

uint64_t service_link_due_ms(const struct service_link *link)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    uint64_t next_ms = link->is_accepted ? UINT64_MAX : link->opened_ms + ACCEPT_MS;
    for (size_t i = 0; i < link->count; i++)
        next_ms = clock_earlier(next_ms, instance_due_ms(link->instances[i], now_ms));
    return link->must_pump ? now_ms : next_ms;
}
