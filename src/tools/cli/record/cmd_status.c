/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile status: shows the sessions of the running daemon, and of profilers without a
 * daemon, and continuous mode. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/collector_file.h"
#include "tools/cli/record/session_list.h"
#include "tools/print/format.h"
#include "trace/heap_dump.h"
#include "trace/memory_snapshot.h"
#include "util/clock.h"
#include "util/json_writer.h"
#include "wire/sampling.h"

/* Shows the status of continuous mode, which the collector leaves in the daemon's run directory
 * (production/metrics/status_file.h). */

/* Return the milliseconds since a time; 0 if it is yet to come: a clock was set. */
static uint64_t age_ms(int64_t since_ns)
{
    int64_t now_ns = (int64_t)clock_read_ns(CLOCK_REALTIME);
    return now_ns > since_ns ? (uint64_t)(now_ns - since_ns) / 1000000 : 0;
}

static bool has_ended(const Heapprofd__CollectorStatus *status)
{
    return kill(status->pid, 0) < 0 && errno == ESRCH;
}

static const char *words(const char *text)
{
    return text != NULL ? text : "";
}

static const char *service_of(const Heapprofd__CollectorProgram *program)
{
    for (size_t i = 0; i < program->n_labels; i++)
        if (strcmp(words(program->labels[i]->name), "service_name") == 0)
            return words(program->labels[i]->value);
    return "";
}

/* --- text --- */

static struct formatted format_age(uint64_t ms)
{
    return format_time((double)ms / 1e3);
}

/* Print "0.21 % of a processor of 0.50 % allowed, ..." */
static void print_cost(const Heapprofd__CollectorStatus *status)
{
    printf("  cost lately: ");
    if (status->has_cpu_share)
        printf("%.2f %% of a processor", status->cpu_share * 100);
    else
        printf("processor time unknown");
    if (status->has_cpu_budget)
        printf(" of %.2f %% allowed", status->cpu_budget * 100);
    printf("; %s", status->has_memory_bytes ? format_bytes((double)status->memory_bytes).bytes
                                            : "memory unknown");
    if (status->has_memory_budget_bytes)
        printf(" of %s allowed", format_bytes((double)status->memory_budget_bytes).bytes);
    if (status->has_cpu_seconds)
        printf("; %.2f s of CPU time in all", status->cpu_seconds);
    putchar('\n');
}

static void print_head(const Heapprofd__CollectorStatus *status)
{
    if (has_ended(status))
        printf("\ncontinuous mode: its process %d has ended; these are its last figures, %s old\n",
               (int)status->pid, format_age(age_ms(status->time_ns)).bytes);
    else
        printf("\ncontinuous mode, process %d, up %s; figures of %s ago\n", (int)status->pid,
               format_age(age_ms(status->started_ns)).bytes,
               format_age(age_ms(status->time_ns)).bytes);
    printf("  a dump each %s: %llu taken, %llu lost", format_age(status->period_ms).bytes,
           (unsigned long long)status->dumps_taken, (unsigned long long)status->dumps_lost);
    if (status->has_samples_per_hour_budget)
        printf("; at most %s samples an hour of each program",
               format_count(status->samples_per_hour_budget).bytes);
    putchar('\n');
    print_cost(status);
    if (status->has_gap_ms)
        printf("  gap before the start: %s, whose allocations are in no profile\n",
               format_age((uint64_t)status->gap_ms).bytes);
    if (status->metrics_address != NULL)
        format_printf(stdout, "  metrics: %s\n", status->metrics_address);
}

/* Print the limits of the live bytes, unless these are exact. */
static void print_limits(const Heapprofd__CollectorHeap *heap)
{
    if (!heap->has_live_bytes || !heap->has_live_bytes_low95 || !heap->has_live_bytes_high95 ||
        heap->live_bytes_low95 == heap->live_bytes_high95)
        return;
    struct formatted margin =
        format_margin(heap->live_bytes, heap->live_bytes_low95, heap->live_bytes_high95, false);
    bool is_limit = strncmp(margin.bytes, "at most", strlen("at most")) == 0;
    printf("%s %s", is_limit ? "," : "", margin.bytes);
}

static void print_heap(const Heapprofd__CollectorHeap *heap)
{
    format_printf(stdout, "      %-20s ", words(heap->name));
    if (heap->has_live_bytes)
        printf("%10s", format_bytes(heap->live_bytes).bytes);
    else
        printf("%10s", "unknown");
    print_limits(heap);
    fputs(" live", stdout);
    if (heap->has_allocated_bytes)
        printf("; %s%s allocated", heap->allocated_exact ? "" : "about ",
               format_bytes(heap->allocated_bytes).bytes);
    puts(heap->partial ? "; partial: the figures leave out what was lost" : "");
}

static void print_losses(const Heapprofd__CollectorProgram *program)
{
    for (size_t i = 0; i < program->n_losses; i++) {
        const Heapprofd__CollectorLoss *loss = program->losses[i];
        enum trace_loss_id id = trace_loss_named(words(loss->reason));
        if (loss->amount == 0)
            continue;
        if (id == TRACE_LOSS_IDS || trace_losses[id].label == NULL || trace_loss_is_flag(id))
            format_printf(stdout, "      lost: %s %llu\n", words(loss->reason),
                          (unsigned long long)loss->amount);
        else
            printf("      %s: %s %s\n", trace_losses[id].label,
                   format_loss(trace_losses[id].unit, loss->amount).bytes, trace_losses[id].words);
    }
}

static void print_program(const Heapprofd__CollectorProgram *program)
{
    format_printf(stdout, "  %7d %s", program->pid, words(program->name));
    if (service_of(program)[0] != '\0' && strcmp(service_of(program), words(program->name)) != 0)
        format_printf(stdout, " (%s)", service_of(program));
    if (program->problem != NULL) {
        format_printf(stdout, ": not profiled: %s\n", program->problem);
        return;
    }
    bool is_off = program->has_interval_bytes && sampling_is_off(program->interval_bytes);
    if (is_off)
        printf(", not sampled: it allocates more than its budget allows at the longest interval, "
               "and is counted only");
    else if (program->has_interval_bytes)
        printf(", interval %s bytes", format_count((double)program->interval_bytes).bytes);
    if (program->has_samples)
        printf(", %s samples", format_count((double)program->samples).bytes);
    if (program->has_samples_per_hour)
        printf(", %s an hour", format_count(program->samples_per_hour).bytes);
    if (program->has_last_dump_ns)
        printf(", dump %s ago\n", format_age(age_ms(program->last_dump_ns)).bytes);
    else
        puts(", no dump yet");
    const struct memory_unexplained unexplained = {program->unexplained_bytes,
                                                   program->anonymous_bytes};
    if (memory_unexplained_is_much(&unexplained))
        printf("      partial: %s of anonymous memory is in no heap (docs: rss.md)\n",
               format_bytes((double)unexplained.bytes).bytes);
    for (size_t i = 0; i < program->n_heaps; i++)
        print_heap(program->heaps[i]);
    print_losses(program);
}

static void print_sink(const Heapprofd__CollectorSink *sink)
{
    format_printf(stdout, "  sink %s (%s): ", words(sink->name), words(sink->kind));
    if (sink->lag_ms > 0)
        printf("lags %s behind, %llu messages of %s wait", format_age((uint64_t)sink->lag_ms).bytes,
               (unsigned long long)sink->spooled_messages,
               format_bytes((double)sink->spooled_bytes).bytes);
    else
        fputs("no lag", stdout);
    printf("; %llu messages of %s sent, %llu dropped, %llu attempts failed\n",
           (unsigned long long)sink->sent_messages, format_bytes((double)sink->sent_bytes).bytes,
           (unsigned long long)sink->dropped_messages, (unsigned long long)sink->failures);
    if (sink->last_error != NULL)
        format_printf(stdout, "    last error: %s\n", sink->last_error);
}

/* Print the status as text. Print nothing if continuous mode does not run. */
static void continuous_status_print(const char *run_directory)
{
    struct error error = {0};
    Heapprofd__CollectorStatus *status = collector_file_read(run_directory, &error);
    if (status == NULL) {
        if (error.code != -ENOENT)
            format_printf(stdout, "\ncontinuous mode: %s\n", error.message);
        return;
    }
    print_head(status);
    if (status->n_programs == 0)
        puts("  no program that the configuration chooses runs");
    for (size_t i = 0; i < status->n_programs; i++)
        print_program(status->programs[i]);
    for (size_t i = 0; i < status->n_sinks; i++)
        print_sink(status->sinks[i]);
    heapprofd__collector_status__free_unpacked(status, NULL);
}

/* --- JSON --- */

/* Write a member of the message, or null if the message does not have it. */
#define NUMBER(json, message, field)                                                               \
    json_number(json, #field, (message)->has_##field ? (message)->field : NAN)
#define UNSIGNED(json, message, field)                                                             \
    ((message)->has_##field ? json_unsigned(json, #field, (uint64_t)(message)->field)              \
                            : json_null(json, #field))

static void print_heap_json(struct json_writer *json, const Heapprofd__CollectorHeap *heap)
{
    json_object(json, NULL);
    json_string(json, "name", heap->name);
    NUMBER(json, heap, live_bytes);
    NUMBER(json, heap, live_bytes_low95);
    NUMBER(json, heap, live_bytes_high95);
    NUMBER(json, heap, live_count);
    NUMBER(json, heap, allocated_bytes);
    NUMBER(json, heap, allocated_count);
    json_bool(json, "allocated_exact", heap->allocated_exact);
    json_bool(json, "partial", heap->partial);
    json_end_object(json);
}

static void print_program_json(struct json_writer *json, const Heapprofd__CollectorProgram *program)
{
    json_line(json);
    json_object(json, NULL);
    json_string(json, "name", program->name);
    json_string(json, "service", service_of(program));
    json_signed(json, "pid", program->pid);
    json_array(json, "labels");
    for (size_t i = 0; i < program->n_labels; i++) {
        json_object(json, NULL);
        json_string(json, "name", program->labels[i]->name);
        json_string(json, "value", program->labels[i]->value);
        json_end_object(json);
    }
    json_end_array(json);
    json_string(json, "problem", program->problem);
    UNSIGNED(json, program, interval_bytes);
    json_bool(json, "sampled",
              program->has_interval_bytes && !sampling_is_off(program->interval_bytes));
    UNSIGNED(json, program, samples);
    NUMBER(json, program, samples_per_hour);
    UNSIGNED(json, program, last_dump_ns);
    UNSIGNED(json, program, unexplained_bytes);
    UNSIGNED(json, program, anonymous_bytes);
    json_array(json, "heaps");
    for (size_t i = 0; i < program->n_heaps; i++)
        print_heap_json(json, program->heaps[i]);
    json_end_array(json);
    json_array(json, "losses");
    for (size_t i = 0; i < program->n_losses; i++) {
        json_object(json, NULL);
        json_string(json, "reason", program->losses[i]->reason);
        UNSIGNED(json, program->losses[i], amount);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void print_sink_json(struct json_writer *json, const Heapprofd__CollectorSink *sink)
{
    json_line(json);
    json_object(json, NULL);
    json_string(json, "name", sink->name);
    json_string(json, "type", sink->kind);
    UNSIGNED(json, sink, sent_messages);
    UNSIGNED(json, sink, sent_bytes);
    UNSIGNED(json, sink, sent_periods);
    UNSIGNED(json, sink, spooled_messages);
    UNSIGNED(json, sink, spooled_bytes);
    UNSIGNED(json, sink, dropped_messages);
    UNSIGNED(json, sink, dropped_periods);
    UNSIGNED(json, sink, failures);
    UNSIGNED(json, sink, lag_ms);
    json_string(json, "last_error", sink->last_error);
    json_end_object(json);
}

static void print_status_json(struct json_writer *json, const Heapprofd__CollectorStatus *status)
{
    json_signed(json, "pid", status->pid);
    json_bool(json, "has_ended", has_ended(status));
    json_unsigned(json, "age_ms", age_ms(status->time_ns));
    json_unsigned(json, "elapsed_ms", age_ms(status->started_ns));
    UNSIGNED(json, status, gap_ms);
    UNSIGNED(json, status, period_ms);
    UNSIGNED(json, status, dumps_taken);
    UNSIGNED(json, status, dumps_lost);
    NUMBER(json, status, samples_per_hour_budget);
    NUMBER(json, status, cpu_seconds);
    NUMBER(json, status, cpu_share);
    NUMBER(json, status, cpu_budget);
    UNSIGNED(json, status, memory_bytes);
    UNSIGNED(json, status, memory_budget_bytes);
    json_string(json, "metrics_address", status->metrics_address);
    json_array(json, "programs");
    for (size_t i = 0; i < status->n_programs; i++)
        print_program_json(json, status->programs[i]);
    json_end_array(json);
    json_array(json, "sinks");
    for (size_t i = 0; i < status->n_sinks; i++)
        print_sink_json(json, status->sinks[i]);
    json_end_array(json);
}

/* Write the member "continuous": null if continuous mode does not run. */
static void continuous_status_print_json(struct json_writer *json, const char *run_directory)
{
    struct error error = {0};
    Heapprofd__CollectorStatus *status = collector_file_read(run_directory, &error);
    if (status == NULL && error.code == -ENOENT) {
        json_null(json, "continuous");
        return;
    }
    json_object(json, "continuous");
    if (status != NULL)
        print_status_json(json, status);
    else
        json_string(json, "error", error.message);
    json_end_object(json);
    heapprofd__collector_status__free_unpacked(status, NULL);
}

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
