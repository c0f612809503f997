/* SPDX-License-Identifier: Apache-2.0 */
/* Describe sessions and their processes for status replies. */
#include "recorder/service/control_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "recorder/server/target_discovery.h"
#include "recorder/sockets/run_directory.h"
#include "util/clock.h"

#define PROCESSES_MAX 1000
/* Room for the parts of a reply other than its sessions. */
#define REPLY_HEAD_BYTES 8192
#define COMMAND_BYTES_MAX 200

void control_status_fill_session(Heapprofd__ControlSession *to, const struct session *session,
                                 uint64_t now_ms)
{
    heapprofd__control_session__init(to);
    to->has_id = to->has_uid = to->has_elapsed_ms = to->has_interval_bytes = true;
    to->has_profiled = to->has_samples = to->has_lost = to->has_live_bytes = true;
    to->has_process_count = to->has_pid = true;
    to->pid = getpid();
    to->id = session->id;
    to->uid = session->owner.uid;
    to->elapsed_ms = now_ms - session->start_ms;
    to->interval_bytes = heap_config_first_interval(session->config);
    to->profiled = session->profiled;
    to->samples = session_samples(session);
    to->lost = session_lost(session);
    to->live_bytes = session_live_bytes(session);
    to->process_count = (uint32_t)session->target_count;
}

/* Fill in the losses. `lost` is where the message has them. */
static void fill_losses(Heapprofd__ControlProcess *to, const struct target *target,
                        uint64_t lost[TRACE_LOST_PLACES])
{
    struct trace_heap_dump status = {0};
    target_note_losses(target, &status);
    to->has_blocked_us = to->has_buffer_overran = to->has_buffer_corrupted = true;
    to->has_hit_guardrail = to->has_client_error = true;
    to->blocked_us = status.blocked_us;
    to->buffer_overran = status.buffer_overran;
    to->buffer_corrupted = status.buffer_corrupted;
    to->hit_guardrail = status.hit_guardrail;
    to->client_error = status.client_error;
    for (size_t i = 0; i < TRACE_LOST_PLACES; i++) {
        lost[i] = status.lost[i];
        to->n_lost_by_reason = lost[i] > 0 ? TRACE_LOST_PLACES : to->n_lost_by_reason;
    }
    to->lost_by_reason = lost;
}

/* Return the bytes that were requested from all heaps so far. */
static uint64_t exact_bytes(const struct target *target)
{
    static struct ring_heap_totals heaps[RING_HEAPS_MAX];
    struct ring_totals totals = target->totals;
    memcpy(heaps, target->heap_totals, sizeof(heaps));
    if (target->has_ring) {
        ring_reader_totals(&target->reader, &totals);
        ring_reader_heap_totals(&target->reader, heaps);
    }
    for (size_t i = 1; i < RING_HEAPS_MAX; i++)
        totals.bytes += heaps[i].bytes;
    return totals.bytes;
}

static void fill_process(Heapprofd__ControlProcess *to, const struct target *target)
{
    heapprofd__control_process__init(to);
    to->has_pid = to->has_samples = to->has_lost = to->has_live_bytes = to->has_attached = true;
    to->pid = target->info.pid;
    to->name = (char *)process_info_name(&target->info);
    to->samples = ledger_counts(target->ledger).allocs;
    to->lost = target_lost(target);
    to->live_bytes = ledger_live_bytes(target->ledger);
    to->attached = target->was_attached;
    to->rule = target->rule[0] != 0 ? (char *)target->rule : NULL;
    to->has_exact_bytes = target->rule[0] != 0;
    to->exact_bytes = to->has_exact_bytes ? exact_bytes(target) : 0;
    to->has_interval_bytes = to->has_first_interval_bytes = true;
    to->interval_bytes = ledger_interval_bytes(target->ledger);
    to->first_interval_bytes = target->interval_bytes;
    /* Without its ring the process sends nothing more. */
    to->has_ring_bytes = to->has_ring_used_bytes = to->has_ring_most_bytes = target->has_ring;
    to->ring_bytes = target->reader.data_bytes;
    to->ring_used_bytes = target->reader.used_bytes;
    to->ring_most_bytes = target->reader.most_used_bytes;
}

/* A session with as many of its processes as fit into a message. */
struct packable {
    Heapprofd__ControlSession session;
    Heapprofd__ControlProcess processes[PROCESSES_MAX];
    Heapprofd__ControlProcess *pointers[PROCESSES_MAX];
    uint64_t lost[PROCESSES_MAX][TRACE_LOST_PLACES];
};

void control_status_fit(Heapprofd__ControlSession *session, size_t bytes_max)
{
    while (session->n_processes > 0 &&
           heapprofd__control_session__get_packed_size(session) > bytes_max)
        session->n_processes /= 2;
}

static struct packable *make_packable(const struct session *session, size_t bytes_max)
{
    struct packable *packable = malloc(sizeof(*packable));
    if (packable == NULL)
        return NULL;
    Heapprofd__ControlSession *to = &packable->session;
    control_status_fill_session(to, session, clock_read_ms(CLOCK_MONOTONIC));
    to->processes = packable->pointers;
    for (size_t i = 0; i < session->target_count && to->n_processes < PROCESSES_MAX; i++) {
        if (target_is_awaited(session->targets[i]))
            continue;
        Heapprofd__ControlProcess *process = &packable->processes[to->n_processes];
        fill_process(process, session->targets[i]);
        fill_losses(process, session->targets[i], packable->lost[to->n_processes]);
        packable->pointers[to->n_processes++] = process;
    }
    control_status_fit(to, bytes_max);
    return packable;
}

void *control_status_pack_session(const struct session *session, size_t bytes_max, size_t *length)
{
    struct packable *packable = make_packable(session, bytes_max);
    uint8_t *bytes = NULL;
    if (packable != NULL) {
        *length = heapprofd__control_session__get_packed_size(&packable->session);
        bytes = malloc(*length);
    }
    if (bytes != NULL)
        heapprofd__control_session__pack(&packable->session, bytes);
    free(packable);
    return bytes;
}

void control_status_send_progress(int fd, const struct session *session)
{
    struct packable *packable = make_packable(session, REQUEST_BYTES_MAX - REPLY_HEAD_BYTES);
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    if (packable == NULL)
        return;
    reply.progress = &packable->session;
    control_send_reply(fd, &reply);
    free(packable);
}

static void fill_self(Heapprofd__ControlStatus *status, uint64_t elapsed_ms)
{
    struct process_memory memory = {0};
    process_memory_of(getpid(), &memory);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    status->version = (char *)HEAPPROFD_VERSION;
    status->has_pid = status->has_elapsed_ms = status->has_rss_bytes = status->has_cpu_us = true;
    status->pid = getpid();
    status->elapsed_ms = elapsed_ms;
    status->rss_bytes = memory.rss_bytes;
    status->cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                     (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Copy the directory of the profiler's socket to `directory`. */
static void find_directory(const char *path, char directory[RUN_DIRECTORY_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int length = slash != NULL ? (int)(slash - path) : 0;
    struct error error = {0};
    /* A socket from systemd has no path here: it is in the directory that we would choose. */
    if (length > 0 || run_directory_choose(directory, &error) < 0)
        snprintf(directory, RUN_DIRECTORY_PATH_MAX, "%.*s", length, path);
}

/* Return this process's command line, malloc'd, or NULL if it is unknown. */
static char *own_command(void)
{
    struct process_info self;
    char *text = NULL;
    size_t length;
    FILE *stream = process_info_read(&self, getpid()) == 0 ? open_memstream(&text, &length) : NULL;
    if (stream == NULL)
        return NULL;
    for (size_t i = 0; i < self.argument_count && ftell(stream) < COMMAND_BYTES_MAX; i++)
        fprintf(stream, "%s%.*s", i > 0 ? " " : "", COMMAND_BYTES_MAX, self.arguments[i]);
    fclose(stream);
    process_info_clear(&self);
    return text;
}

void control_status_send(int fd, const struct control_status_profiler *profiler,
                         Heapprofd__ControlSession *const *sessions, size_t count)
{
    Heapprofd__ControlStatus status = HEAPPROFD__CONTROL_STATUS__INIT;
    char directory[RUN_DIRECTORY_PATH_MAX];
    char *command = profiler->own_session_alone ? own_command() : NULL;
    fill_self(&status, clock_read_ms(CLOCK_MONOTONIC) - profiler->start_ms);
    find_directory(profiler->socket_path, directory);
    status.run_directory = directory;
    status.has_own_session_alone = true;
    status.own_session_alone = profiler->own_session_alone;
    status.command = command;
    status.has_gets_exec_events = true;
    status.gets_exec_events = profiler->has_exec_events;
    status.why_no_exec_events = profiler->has_exec_events ? NULL : (char *)profiler->why_not;
    status.sessions = (Heapprofd__ControlSession **)sessions;
    status.n_sessions = count;
    Heapprofd__ControlReply reply = HEAPPROFD__CONTROL_REPLY__INIT;
    reply.status = &status;
    control_send_reply(fd, &reply);
    free(command);
}

void control_status_send_own(int fd, const struct server *server, uint64_t start_ms)
{
    struct error why_not = {0};
    struct packable *packable = NULL;
    Heapprofd__ControlSession *session = NULL;
    const struct control_status_profiler self = {
        .socket_path = server->socket_path,
        .start_ms = start_ms,
        .own_session_alone = true,
        .has_exec_events = discovery_gets_exec_events(server, &why_not),
        .why_not = why_not.message,
    };
    if (server->session != NULL)
        packable = make_packable(server->session, REQUEST_BYTES_MAX - REPLY_HEAD_BYTES);
    if (packable != NULL) {
        session = &packable->session;
        session->has_requester_pid = true;
        session->requester_pid = getpid();
    }
    control_status_send(fd, &self, &session, packable != NULL);
    free(packable);
}
