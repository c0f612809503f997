/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile status: shows the sessions of the running daemon, and of profilers without a
 * daemon, and continuous mode. */
#include <math.h>
#include <stdio.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/continuous_status.h"
#include "tools/cli/record/session_list.h"
#include "tools/print/format.h"
#include "trace/heap_dump.h"
#include "util/json_writer.h"

static const char help[] =
    "usage: heap_profile status [--json]\n"
    "\n"
    "Prints the sessions of the running heapprofd, and of each of your heap_profile commands that\n"
    "run without it (root: of all users'). Each session has the number that snapshot and stop "
    "take.\n"
    "Your own sessions have their processes, with samples and losses. The profilers' memory and "
    "CPU\n"
    "time are printed, too. For root, continuous mode's programs follow: their intervals, samples "
    "an\n"
    "hour and live memory, the cost and what is allowed, and the lag of each sink.\n"
    "\n"
    "Exit code: 0, 1 if no heapprofd and no session runs.\n";

struct request {
    bool json;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTIONS_END,
};

static void print_session(const Heapprofd__ControlSession *session)
{
    printf("\nsession %llu of user %u, process %d: %.1f s, interval %llu bytes, %u process%s now, "
           "%u profiled in all,\n  %s live, %llu samples, %llu lost\n",
           (unsigned long long)session->id, session->uid, (int)session->pid,
           (double)session->elapsed_ms / 1e3, (unsigned long long)session->interval_bytes,
           session->process_count, session->process_count == 1 ? "" : "es", session->profiled,
           format_bytes(session->live_bytes).bytes, (unsigned long long)session->samples,
           (unsigned long long)session->lost);
    if (session->service != NULL)
        format_printf(
            stdout, "  for Perfetto's tracing service: data source %s of its session %llu\n",
            session->service->data_source, (unsigned long long)session->service->session_id);
    if (session->has_silent_ms)
        printf("  it has not answered for %.1f s: these figures are that old\n",
               (double)session->silent_ms / 1e3);
    for (size_t i = 0; i < session->n_processes; i++) {
        const Heapprofd__ControlProcess *process = session->processes[i];
        format_printf(stdout, "  %7d %-20s %10s live %12llu samples %8llu lost%s\n", process->pid,
                      process->name, format_bytes(process->live_bytes).bytes,
                      (unsigned long long)process->samples, (unsigned long long)process->lost,
                      process->attached ? "  attached" : "");
    }
}

static void print_daemon(const Heapprofd__ControlStatus *status)
{
    format_printf(
        stdout, "heapprofd %s, process %d, %s, up %.0f s, %.1f MB resident, %.2f s of CPU time\n",
        status->version, status->pid, status->run_directory, (double)status->elapsed_ms / 1e3,
        (double)status->rss_bytes / 1e6, (double)status->cpu_us / 1e6);
    if (status->has_gets_exec_events && status->gets_exec_events)
        puts("new programs: the kernel reports them");
    else if (status->has_gets_exec_events)
        format_printf(stdout, "new programs: found by scanning /proc ten times a second (%s)\n",
                      status->why_no_exec_events);
    if (status->n_sessions == 0)
        puts("no sessions");
}

static void print_text(const struct session_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct session_server *server = &list->servers[i];
        const Heapprofd__ControlStatus *status = session_server_status(server);
        if (i > 0 || session_list_daemon(list) == NULL)
            putchar('\n');
        if (status == NULL)
            format_printf(stdout, "process %d of user %u: %s\n", server->pid, (unsigned)server->uid,
                          server->error.message);
        else if (server->is_daemon)
            print_daemon(status);
        else
            format_printf(stdout,
                          "heap_profile%s, process %d, up %.0f s, %.1f MB resident, %.2f s of CPU "
                          "time: %s\n",
                          session_server_is_strangers(server) ? " (figures and names as that "
                                                                "user's process tells them)"
                                                              : "",
                          status->pid, (double)status->elapsed_ms / 1e3,
                          (double)status->rss_bytes / 1e6, (double)status->cpu_us / 1e6,
                          status->command != NULL ? status->command : "");
        for (size_t j = 0; status != NULL && j < status->n_sessions; j++)
            print_session(status->sessions[j]);
        if (status != NULL && server->is_daemon)
            continuous_status_print(status->run_directory);
    }
}

static void print_losses_json(struct json_writer *json, const Heapprofd__ControlProcess *process)
{
    struct trace_heap_dump status = {
        .blocked_us = process->blocked_us,
        .buffer_overran = process->buffer_overran,
        .buffer_corrupted = process->buffer_corrupted,
        .hit_guardrail = process->hit_guardrail,
        .client_error = process->client_error,
    };
    for (size_t i = 0; i < process->n_lost_by_reason && i < TRACE_LOST_PLACES; i++)
        status.lost[i] = process->lost_by_reason[i];
    trace_losses_write_json(&status, json);
}

static void print_process_json(struct json_writer *json, const Heapprofd__ControlProcess *process)
{
    json_object(json, NULL);
    json_signed(json, "pid", process->pid);
    json_string(json, "name", process->name);
    json_number(json, "live_bytes", round(process->live_bytes));
    json_unsigned(json, "samples", process->samples);
    json_unsigned(json, "lost", process->lost);
    json_bool(json, "attached", process->attached);
    json_unsigned(json, "interval_bytes", process->interval_bytes);
    json_unsigned(json, "first_interval_bytes", process->first_interval_bytes);
    if (process->has_ring_bytes) {
        json_object(json, "ring");
        json_unsigned(json, "bytes", process->ring_bytes);
        json_unsigned(json, "used_bytes", process->ring_used_bytes);
        json_unsigned(json, "most_bytes", process->ring_most_bytes);
        json_end_object(json);
    } else {
        json_null(json, "ring");
    }
    print_losses_json(json, process);
    json_end_object(json);
}

static void print_session_json(struct json_writer *json, const Heapprofd__ControlSession *session,
                               const struct session_server *server)
{
    json_object(json, NULL);
    json_unsigned(json, "id", session->id);
    json_unsigned(json, "uid", session->uid);
    json_unsigned(json, "elapsed_ms", session->elapsed_ms);
    json_unsigned(json, "interval_bytes", session->interval_bytes);
    json_unsigned(json, "profiled", session->profiled);
    json_unsigned(json, "process_count", session->process_count);
    json_number(json, "live_bytes", round(session->live_bytes));
    json_unsigned(json, "samples", session->samples);
    json_unsigned(json, "lost", session->lost);
    json_signed(json, "pid", session->pid);
    json_signed(json, "requester_pid", session->requester_pid);
    json_unsigned(json, "silent_ms", session->silent_ms);
    if (session->service != NULL) {
        json_object(json, "tracing_service");
        json_unsigned(json, "session_id", session->service->session_id);
        json_string(json, "data_source", session->service->data_source);
        json_end_object(json);
    } else {
        json_null(json, "tracing_service");
    }
    json_array(json, "processes");
    for (size_t i = 0; i < session->n_processes; i++)
        print_process_json(json, session->processes[i]);
    json_end_array(json);
    json_object(json, "profiler");
    json_signed(json, "pid", session_server_status(server)->pid);
    json_unsigned(json, "uid", server->uid);
    json_string(json, "command", session_server_status(server)->command);
    json_end_object(json);
    json_end_object(json);
}

static void print_daemon_json(struct json_writer *json, const Heapprofd__ControlStatus *status)
{
    json_string(json, "version", status->version);
    json_signed(json, "pid", status->pid);
    json_string(json, "run_directory", status->run_directory);
    json_bool(json, "told_of_newcomers", status->gets_exec_events);
    json_unsigned(json, "elapsed_ms", status->elapsed_ms);
    json_unsigned(json, "rss_bytes", status->rss_bytes);
    json_unsigned(json, "cpu_us", status->cpu_us);
}

/* Print the daemon's JSON members; without a daemon they are omitted. */
static void print_json(const struct session_list *list)
{
    const struct session_server *daemon = session_list_daemon(list);
    struct json_writer json = json_begin(stdout);
    json_object(&json, NULL);
    if (daemon != NULL && session_server_status(daemon) != NULL)
        print_daemon_json(&json, session_server_status(daemon));
    json_array(&json, "sessions");
    for (size_t i = 0; i < list->count; i++) {
        const Heapprofd__ControlStatus *status = session_server_status(&list->servers[i]);
        for (size_t j = 0; status != NULL && j < status->n_sessions; j++)
            print_session_json(&json, status->sessions[j], &list->servers[i]);
    }
    json_end_array(&json);
    if (daemon != NULL && session_server_status(daemon) != NULL)
        continuous_status_print_json(&json, session_server_status(daemon)->run_directory);
    json_end_object(&json);
    putchar('\n');
}

int cmd_status(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile status", help, options, false};
    struct request request = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    if (optind < argc) {
        fputs(help, stderr);
        return 2;
    }
    struct session_list list;
    session_list_read(&list);
    bool is_empty = list.count == 0;
    if (is_empty)
        fputs("heap_profile: no heapprofd is running, and no session of yours without one\n",
              stderr);
    else
        (request.json ? print_json : print_text)(&list);
    session_list_clear(&list);
    return is_empty ? 1 : 0;
}
