/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session manager with one session, and the messages between it, the client and the supervisor.
 */
#include "recorder/service/session_process.h"

#include <control.pb-c.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/processes/exec_events.h"
#include "recorder/server/session_manager.h"
#include "recorder/server/target_discovery.h"
#include "recorder/service/control_status.h"
#include "recorder/service/session_confine.h"
#include "recorder/service/session_wire.h"
#include "recorder/sockets/rendezvous.h"
#include "util/clock.h"
#include "util/process_title.h"

/* other_profiler.c recognizes profilers by the beginning of this name. */
#define PROCESS_NAME "heapd-session"

#define MESSAGES_AT_ONCE 16

#define PROGRESS_PERIOD_MS 250
#define CONTINUOUS_PROGRESS_MS 1000
/* The supervisor kills an ending session that is silent for SUPERVISOR_SILENCE_MS. */
#define ALIVE_PERIOD_MS 500

/* More of these messages could fill the socket before the client reads it, and later ones would be
 * lost. */
#define REFUSED_MAX 32

/* A session ends when it has used this much of its memory, before the kernel refuses more. */
#define MEMORY_SOFT_PERCENT 75

struct session_process {
    const struct session_process_start *start;
    struct session_manager manager;
    struct server_user user;
    struct session *session; /* NULL before its beginning and after its end */
    int trace;
    bool over;
    Heapprofd__ControlReply__End__Reason reason;
    uint64_t memory_bytes; /* its limit; 0: none */
    bool memory_is_used_up;
    unsigned refused;               /* number of processes reported to the client as refused */
    uint64_t progress_ms, alive_ms; /* times when each is due, or was last sent */
    struct invited awaited[SESSION_WIRE_AWAITED_MAX];
    size_t awaited_count;
    bool has_begun; /* the client has been notified */
};

static struct session_process process;

/* --- for the supervisor --- */

static void send_state(void)
{
    const struct session *session = process.session;
    if (session == NULL)
        return;
    struct session_wire_state head = {SESSION_WIRE_STATE, discovery_wants_new(session)};
    size_t length;
    void *bytes =
        control_status_pack_session(session, SESSION_WIRE_BYTES_MAX - sizeof(head), &length);
    if (bytes != NULL)
        session_wire_send(process.start->supervisor, &head, sizeof(head), bytes, length, -1, false);
    free(bytes);
}

/* Report the processes that have the library and have not joined, so that the supervisor invites
 * them. */
static void send_awaited(void)
{
    struct invited awaited[SESSION_WIRE_AWAITED_MAX];
    size_t count = session_manager_awaited(&process.manager, awaited, SESSION_WIRE_AWAITED_MAX);
    struct session_wire_number head = {SESSION_WIRE_AWAITED, (uint32_t)count};
    if (count == process.awaited_count &&
        memcmp(awaited, process.awaited, count * sizeof(*awaited)) == 0)
        return;
    if (session_wire_send(process.start->supervisor, &head, sizeof(head), awaited,
                          count * sizeof(*awaited), -1, false) < 0)
        return;
    memcpy(process.awaited, awaited, count * sizeof(*awaited));
    process.awaited_count = count;
}

static void send_type(enum session_wire_type type)
{
    uint32_t head = (uint32_t)type;
    session_wire_send(process.start->supervisor, &head, sizeof(head), NULL, 0, -1, true);
}

/* Report to the supervisor that this process is working. */
static void stay_alive(void *context)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    (void)context;
    if (now_ms < process.alive_ms + ALIVE_PERIOD_MS)
        return;
    process.alive_ms = now_ms;
    send_type(SESSION_WIRE_ALIVE);
}

static _Noreturn void session_process_finish(const struct session_wire_ended *ended)
{
    session_wire_send(process.start->supervisor, ended, sizeof(*ended), NULL, 0, -1, true);
    _exit(0);
}

static _Noreturn void session_process_refuse(const struct error *error)
{
    struct session_wire_ended ended = {.type = SESSION_WIRE_ENDED, .code = error->code};
    snprintf(ended.message, sizeof(ended.message), "%.*s", (int)sizeof(ended.message) - 1,
             error->message);
    control_send_error(process.start->client, error->code, error->message);
    session_process_finish(&ended);
}

/* --- for the client --- */

static void handle_refused(void *context, struct session *session, const struct process_info *info,
                           const char *remark)
{
    (void)context;
    (void)session;
    if (process.refused == REFUSED_MAX)
        return;
    process.refused++;
    Heapprofd__ControlReply__Refused refused = HEAPPROFD__CONTROL_REPLY__REFUSED__INIT;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    refused.has_pid = true;
    refused.pid = info->pid;
    refused.name = (char *)process_info_name(info);
    refused.reason = (char *)remark;
    reply.refused = &refused;
    control_send_reply(process.start->client, &reply);
}

/* On a busy machine a session may reach its limit before it looks at its memory. */
static bool has_reached_limit(const struct session *session)
{
    for (size_t i = 0; i < session->target_count; i++)
        if (session->targets[i]->out_of_memory)
            return true;
    return false;
}

static void check_memory(struct session *session)
{
    struct process_memory memory;
    if (process.memory_bytes == 0 || !process_memory_of(getpid(), &memory))
        return;
    /* A process may also have met a bound of its own, which concerns no other. */
    unsigned most = has_reached_limit(session) ? MEMORY_SOFT_PERCENT / 2 : MEMORY_SOFT_PERCENT;
    if (memory.rss_anon_bytes < process.memory_bytes / 100 * most)
        return;
    session_confine_release_memory();
    process.memory_is_used_up = true;
    session->over = SESSION_OVER_GUARDRAIL;
    for (size_t i = 0; i < session->target_count; i++)
        session->targets[i]->hit_guardrail = true;
}

static void handle_progress(void *context, struct session *session, uint64_t now_ms)
{
    (void)context;
    if (process.session == NULL)
        return;
    check_memory(session);
    send_awaited();
    send_state();
    if (!process.has_begun || !process.start->request->progress || now_ms < process.progress_ms)
        return;
    if (process.start->request->continuous) {
        process.progress_ms = now_ms + CONTINUOUS_PROGRESS_MS;
        control_status_send_progress(process.start->client, session);
        return;
    }
    process.progress_ms = now_ms + PROGRESS_PERIOD_MS;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    Heapprofd__ControlSession progress;
    control_status_fill_session(&progress, session, now_ms);
    reply.progress = &progress;
    control_send_reply(process.start->client, &reply);
}

static void end(Heapprofd__ControlReply__End__Reason reason)
{
    process.reason = process.over ? process.reason : reason;
    process.over = true;
}

static void handle_session_over(void *context, struct session *session)
{
    (void)context;
    switch (session->over) {
    case SESSION_OVER_GUARDRAIL:
        end(HEAPPROFD__CONTROL_REPLY__END__REASON__GUARDRAIL);
        break;
    case SESSION_OVER_ENDED:
        end(HEAPPROFD__CONTROL_REPLY__END__REASON__PROCESSES_ENDED);
        break;
    default:
        end(HEAPPROFD__CONTROL_REPLY__END__REASON__DURATION);
    }
}

/* Ask the supervisor for a process that continuous mode may have. */
static bool claim(void *context, pid_t pid)
{
    (void)context;
    return session_wire_send_number(process.start->supervisor, SESSION_WIRE_CLAIM, (uint32_t)pid,
                                    true) == 0;
}

/* Set intervals, and end the profiles of processes that are left out. */
static void adjust_targets(const Heapprofd__ControlRequest *request)
{
    for (size_t i = 0; i < request->n_intervals; i++) {
        const Heapprofd__ControlRequest__Interval *wanted = request->intervals[i];
        struct target *target = session_find(process.session, wanted->pid);
        if (target != NULL)
            target_ask_interval(target, wanted->interval_bytes);
    }
    for (size_t i = 0; i < request->n_leave; i++)
        session_leave(process.session, request->leave[i]);
}

/* Choose the processes by the rules of this configuration. */
static void change_rules(const ProtobufCBinaryData *bytes)
{
    struct heap_config config;
    struct error error;
    if (heap_config_read_binary(bytes->data, bytes->len, &config, NULL, &error) < 0) {
        control_send_error(process.start->client, error.code, error.message);
        return;
    }
    session_manager_change_rules(&process.manager, &config.target_rules);
    heap_config_clear(&config);
}

/* Dump all processes. `restarts`: nothing comes between the dump and the restart, so that all
 * packets since the last restart are a trace of their own. */
static void dump(bool restarts)
{
    session_dump(process.session);
    if (restarts)
        session_restart_trace(process.session);
}

/* Serve a request from the session's own connection: it concerns only this session. */
static void serve_client(const void *bytes, size_t length)
{
    int fd = process.start->client;
    Heapprofd__ControlRequest *request = control_read_request(bytes, length);
    const Heapprofd__ControlRequest__Session *wanted = NULL;
    bool restarts = request != NULL && request->restart_sequence;
    bool adjusts = request != NULL && (request->n_intervals > 0 || request->n_leave > 0);
    if (request != NULL)
        wanted = request->snapshot != NULL ? request->snapshot : request->stop;
    bool is_meant = wanted != NULL && (!wanted->has_id || wanted->id == process.start->id);
    if (request == NULL)
        control_send_error(fd, -EPROTO,
                           "the daemon does not understand this request: is it of "
                           "another version?");
    else if (restarts && wanted == NULL)
        session_restart_trace(process.session);
    else if (request->has_change_rules)
        change_rules(&request->change_rules);
    else if (adjusts)
        adjust_targets(request);
    else if (wanted == NULL)
        control_send_error(
            fd, -EBUSY,
            "this connection has a session already: use another connection for other requests");
    else if (is_meant && request->snapshot != NULL)
        dump(restarts);
    else if (is_meant)
        end(HEAPPROFD__CONTROL_REPLY__END__REASON__STOPPED);
    if (wanted != NULL)
        control_send_count(fd, is_meant);
    heapprofd__control_request__free_unpacked(request, NULL);
}

static void read_client(void)
{
    struct peer_message message;
    ssize_t got = peer_socket_peek(process.start->client, &message);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || message.has_descriptors) {
        end(HEAPPROFD__CONTROL_REPLY__END__REASON__STOPPED);
        return;
    }
    peer_socket_skip(process.start->client);
    serve_client(message.bytes, message.length);
}

/* --- from the supervisor --- */

static void take_hello(const struct session_wire_hello *asked, int fd)
{
    struct session_wire_answer answer = {SESSION_WIRE_ANSWER, asked->ticket, 0};
    if (fd >= 0 && clock_read_ms(CLOCK_MONOTONIC) < asked->deadline_ms)
        answer.verdict =
            server_take_hello(&process.manager.server, fd, asked->pid, asked->uid, &asked->hello);
    if (fd >= 0)
        rendezvous_end_connection(&process.manager.server.rendezvous, fd);
    session_wire_send(process.start->supervisor, &answer, sizeof(answer), NULL, 0, -1, true);
}

/* Lend a process to another session, and report it to the client. */
static void lend(struct session_wire_lend *wanted)
{
    Heapprofd__ControlReply__Lent lent = HEAPPROFD__CONTROL_REPLY__LENT__INIT;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    const struct target *target = session_find(process.session, wanted->pid);
    char name[64] = "";
    if (target != NULL)
        snprintf(name, sizeof(name), "%s", process_info_name(&target->info));
    wanted->whose[sizeof(wanted->whose) - 1] = 0;
    if (process.start->request->continuous &&
        session_lend(process.session, wanted->pid, wanted->borrower)) {
        lent.has_pid = true;
        lent.pid = wanted->pid;
        lent.name = name;
        lent.whose = wanted->whose;
        reply.lent = &lent;
        control_send_reply(process.start->client, &reply);
    }
    wanted->type = SESSION_WIRE_LENT;
    session_wire_send(process.start->supervisor, wanted, sizeof(*wanted), NULL, 0, -1, true);
}

/* Report to the client that the session has begun: the processes that it awaits are invited. */
static void report_beginning(void)
{
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    if (process.has_begun)
        return;
    process.has_begun = true;
    reply.has_session_id = true;
    reply.session_id = process.start->id;
    control_send_reply(process.start->client, &reply);
}

static void take_message(const void *bytes, size_t length, int passed_fd)
{
    struct session_wire_number number = {0};
    struct session_wire_hello hello;
    struct session_wire_claimed claimed;
    struct session_wire_lend wanted;
    if (!session_wire_read(&number.type, sizeof(number.type), bytes, length))
        return;
    switch (number.type) {
    case SESSION_WIRE_INVITED:
        report_beginning();
        break;
    case SESSION_WIRE_HELLO:
        if (session_wire_read(&hello, sizeof(hello), bytes, length))
            take_hello(&hello, passed_fd);
        break;
    case SESSION_WIRE_CLAIMED:
        if (session_wire_read(&claimed, sizeof(claimed), bytes, length))
            session_reject(process.session, claimed.pid, (enum handshake_origin)claimed.origin,
                           claimed.whose);
        break;
    case SESSION_WIRE_SNAPSHOT:
        if (!session_wire_read(&number, sizeof(number), bytes, length))
            break;
        session_dump(process.session);
        session_wire_send_number(process.start->supervisor, SESSION_WIRE_DUMPED, number.number,
                                 true);
        break;
    case SESSION_WIRE_LEND:
        if (session_wire_read(&wanted, sizeof(wanted), bytes, length))
            lend(&wanted);
        break;
    case SESSION_WIRE_TAKE_BACK:
        if (session_wire_read(&wanted, sizeof(wanted), bytes, length))
            discovery_take_back(&process.manager.server, wanted.borrower);
        break;
    case SESSION_WIRE_CLAIM_ANSWERED:
        if (session_wire_read(&number, sizeof(number), bytes, length))
            discovery_claim_answered(&process.manager.server, (pid_t)number.number);
        break;
    case SESSION_WIRE_POLICY:
        session_manager_change_policy(&process.manager, (const char *)bytes + sizeof(number.type),
                                      length - sizeof(number.type));
        break;
    case SESSION_WIRE_SHARE:
        if (session_wire_read(&number, sizeof(number), bytes, length))
            attach_budget_set_share(&process.manager.server.attach_budget, number.number,
                                    clock_read_us(CLOCK_MONOTONIC));
        break;
    case SESSION_WIRE_STOP:
        if (!session_wire_read(&number, sizeof(number), bytes, length))
            break;
        end((Heapprofd__ControlReply__End__Reason)number.number);
        break;
    default:
        break;
    }
}

/* Read a bounded number of messages, so that rings are drained, too. */
static void read_supervisor(void)
{
    static char bytes[SESSION_WIRE_TO_SESSION_MAX];
    int passed_fd;
    for (int i = 0; i < MESSAGES_AT_ONCE && !process.over; i++) {
        ssize_t got =
            session_wire_receive(process.start->supervisor, bytes, sizeof(bytes), &passed_fd);
        if (got == -EAGAIN || got == -EINTR)
            return;
        if (got > 0)
            take_message(bytes, (size_t)got, passed_fd);
        else
            end(HEAPPROFD__CONTROL_REPLY__END__REASON__DAEMON_ENDS);
    }
}

static void handle_readable(void *context, int fd)
{
    (void)context;
    if (fd == process.start->client)
        read_client();
    else if (fd == process.start->supervisor)
        read_supervisor();
}

/* --- life of the process --- */

/* Check the trace's descriptor. It is done here because fstat() may block, on a network's or a
 * user's own file system. */
static int check_trace(int fd, enum session_trace trace, struct error *error)
{
    struct stat status;
    if (fd == -E2BIG)
        return error_set(error, -EINVAL, "a request takes one file, the trace, not several");
    if (fd == -EMFILE)
        return error_set(error, fd, "the daemon has no file descriptor left for the trace");
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    mode_t type = trace == SESSION_TRACE_FILE ? S_IFREG : S_IFIFO;
    if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_RDONLY ||
        fstat(fd, &status) < 0 || (status.st_mode & S_IFMT) != type)
        return error_set(error, -EINVAL, "the trace must be a %s, opened for writing",
                         type == S_IFIFO ? "pipe" : "regular file");
    return 0;
}

#define NOTE_BYTES_MAX 320u

/* Read and check the configuration. What one of the tracing service has that has no effect gets a
 * note. */
static int read_config(const Heapprofd__ControlRequest__Start *request, struct heap_config *config,
                       struct heap_config_warnings *notes, struct error *error)
{
    int code = heap_config_read_binary(request->trace_config.data, request->trace_config.len,
                                       config, request->service != NULL ? notes : NULL, error);
    if (code < 0)
        return code;
    if (request->service != NULL && (code = heap_config_leave_out(config, notes)) < 0)
        error_set(error, code, "no memory for the configuration");
    if (code == 0)
        code = heap_config_check_targets(config, error);
    if (code < 0)
        heap_config_clear(config);
    return code;
}

static void write_notes(struct trace_writer *writer, struct heap_config_warnings *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        char reason[NOTE_BYTES_MAX];
        snprintf(reason, sizeof(reason), "left out of its configuration: %s", notes->messages[i]);
        const struct trace_unprofiled note = {
            .name = "heapprofd", .kind = "configuration", .reason = reason, .by_choice = true};
        trace_writer_unprofiled(writer, &note);
    }
    heap_config_warnings_clear(notes);
}

static int session_process_begin(const struct session_process_start *start, int exec_events,
                                 struct error *error)
{
    struct heap_config config;
    struct heap_config_warnings notes = {0};
    enum session_trace trace = start->request->service != NULL ? SESSION_TRACE_SERVICE
                               : start->request->continuous    ? SESSION_TRACE_COLLECTOR
                                                               : SESSION_TRACE_FILE;
    process.trace = peer_socket_take_descriptor(start->client);
    int code = check_trace(process.trace, trace, error);
    if (code == 0)
        code = session_manager_open_in_session(&process.manager, &process.user, start->socket_path,
                                               start->policy, exec_events, error);
    if (code == 0 && ((code = server_watch(&process.manager.server, start->client)) < 0 ||
                      (code = server_watch(&process.manager.server, start->supervisor)) < 0))
        return error_set(error, code, "cannot wait for requests: %s", strerror(-code));
    if (code == 0)
        code = read_config(start->request, &config, &notes, error);
    if (code < 0) {
        heap_config_warnings_clear(&notes);
        return code;
    }
    process.manager.server.supervisor = getppid();
    process.manager.server.attach_budget.share_ppm = start->share_ppm;
    process.session =
        session_manager_start(&process.manager, &config, start->request->follow_children,
                              &start->requester, trace, process.trace, error);
    if (process.session == NULL) {
        heap_config_warnings_clear(&notes);
        return error->code;
    }
    write_notes(process.session->writer, &notes);
    process.session->id = start->id;
    return 0;
}

static _Noreturn void end_session(void)
{
    struct session_manager_outcome outcome;
    Heapprofd__ControlReply__End end = HEAPPROFD__CONTROL_REPLY__END__INIT;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    send_state();
    send_type(SESSION_WIRE_LEAVING);
    session_confine_release_memory();
    process.session = NULL;
    int code = session_manager_finish(&process.manager, &outcome);
    struct session_wire_ended ended = {
        .type = SESSION_WIRE_ENDED,
        .code = code,
        .began = 1,
        .profiled = outcome.profiled,
        .not_profiled = outcome.not_profiled,
        .samples = outcome.samples,
        .lost = outcome.lost,
    };
    if (code < 0) {
        snprintf(ended.message, sizeof(ended.message), "cannot write the trace: %s",
                 strerror(-code));
        control_send_error(process.start->client, code, ended.message);
        session_process_finish(&ended);
    }
    if (process.memory_is_used_up)
        snprintf(ended.message, sizeof(ended.message), "it used up its share of memory");
    end.has_reason = end.has_profiled = end.has_absent = true;
    end.reason = process.reason;
    end.profiled = outcome.profiled;
    end.absent = outcome.not_profiled;
    reply.has_session_id = true;
    reply.session_id = process.start->id;
    reply.end = &end;
    control_send_reply(process.start->client, &reply);
    session_process_finish(&ended);
}

void session_process_run(const struct session_process_start *start)
{
    struct error error = {0};
    process.start = start;
    process.user = (struct server_user){
        .readable = handle_readable,
        .session_over = handle_session_over,
        .progress = handle_progress,
        .claim = start->may_claim ? claim : NULL,
        .session = {.refused = handle_refused, .busy = stay_alive},
    };
    session_confine_signals();
    process_title_set(PROCESS_NAME);
    /* The kernel sends these events only to root. */
    int exec_events = exec_events_open(NULL);
    int kept[] = {start->supervisor, start->client, exec_events};
    session_confine_descriptors(kept, sizeof(kept) / sizeof(kept[0]));
    process.memory_bytes = session_confine_resources(start->policy, start->rights->uid == 0);
    if (session_rights_take(start->rights, &error) < 0 ||
        session_process_begin(start, exec_events, &error) < 0)
        session_process_refuse(&error);
    if (process.session->over != SESSION_GOES_ON) {
        handle_session_over(NULL, process.session);
    } else {
        send_awaited();
        send_state();
    }
    while (!process.over)
        server_step(&process.manager.server);
    end_session();
}
