/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session that records running processes: prints its progress, then finishes its trace. */
#include "tools/cli/record/record_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/options/options.h"
#include "tools/cli/record/fetch_symbols.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/record/session_run.h"
#include "tools/print/format.h"
#include "util/output_file.h"

/* Limit of refused processes that are printed individually. */
#define REFUSED_LINES_MAX 20
/* Limit of processes whose debug files are fetched: the user waits. */
#define FETCHES_MAX 4

static bool quiet, by_number, shows_progress;
static uint32_t duration_ms; /* 0: no limit */
static struct live_view page;
static unsigned refused;
static const char *line_start = ""; /* erases the progress line */

static void tell_started(bool in_daemon)
{
    char duration[64] = "";
    if (quiet)
        return;
    if (duration_ms > 0)
        snprintf(duration, sizeof(duration), duration_ms % 1000 == 0 ? " for %u s" : " for %u ms",
                 duration_ms % 1000 == 0 ? duration_ms / 1000 : duration_ms);
    format_printf(stderr, "Profiling%s%s; Ctrl-C ends it%s and writes the profile.\n",
                  in_daemon ? " through the running heapprofd" : "", duration,
                  duration_ms > 0 ? " earlier" : "");
}

/* Print why a process is not profiled. For one named by pid that is an error; a name may match any
 * number of processes. */
static void tell_refused(int32_t pid, const char *name, const char *reason)
{
    refused++;
    if (quiet && !by_number)
        return;
    if (refused > REFUSED_LINES_MAX + 1)
        return;
    fputs(line_start, stderr);
    if (refused > REFUSED_LINES_MAX) {
        fputs("heap_profile: more processes cannot be profiled: the report lists all\n", stderr);
        return;
    }
    /* Some reasons begin with the process, some of them with its name. */
    char subject[32];
    int length = snprintf(subject, sizeof(subject), "process %d", (int)pid);
    const char *rest = strncmp(reason, subject, (size_t)length) == 0 ? reason + length : NULL;
    if (rest != NULL && *rest != ' ' && *rest != ':')
        rest = NULL; /* a number that only begins with this pid */
    bool is_named = name[0] != 0 && (rest == NULL || strncmp(rest, " (", 2) != 0);
    format_printf(stderr, "heap_profile: %s%s%s%s%s%s\n", subject, is_named ? " (" : "",
                  is_named ? name : "", is_named ? ")" : "", rest == NULL ? ": " : "",
                  rest == NULL ? reason : rest);
}

/* Rewrite the progress line. Only for a terminal. */
static void show_progress(const struct session_progress *progress)
{
    if (!by_number && refused == 0 && progress->processes == 0 && progress->samples == 0) {
        fprintf(stderr, "\r\033[K%.1f s, waiting for a process to profile",
                (double)progress->elapsed_ms / 1000);
        return;
    }
    fprintf(stderr, "\r\033[K%.1f s, %u process%s, %s live, %llu samples, %llu lost",
            (double)progress->elapsed_ms / 1000, progress->processes,
            progress->processes == 1 ? "" : "es", format_bytes(progress->live_bytes).bytes,
            (unsigned long long)progress->samples, (unsigned long long)progress->lost);
}

static void follow(const struct session_progress *progress)
{
    if (shows_progress)
        show_progress(progress);
    live_view_follow(&page, progress->elapsed_ms, progress->processes);
}

static void tell_ending(void)
{
    fputs("\r\033[Kwriting the last dumps", stderr);
}

static int open_trace(const struct record_session *session, struct output *output,
                      struct error *error)
{
    if (session->trace_path == NULL) {
        int code = output_create(output, session->output, error);
        return code < 0 ? code : output_open_trace(output, error);
    }
    struct output_file file;
    int code = output_file_open(&file, session->trace_path, OUTPUT_FILE_AT_ONCE, error);
    return code < 0 ? code : file.fd;
}

static void tell_end(const struct session_run_result *result)
{
    if (result->daemon_ended)
        fputs("heap_profile: the daemon ended, and the session with it\n", stderr);
    if (result->hit_guardrail)
        fputs("heap_profile: a guardrail of the configuration ended the session\n", stderr);
    if (result->profiled == 0 && result->absent == 0)
        fputs("heap_profile: no process was profiled: no process with such a name ran (a name "
              "is that of the program's file, or the name that the process gave itself)\n",
              stderr);
    else if (result->profiled == 0)
        fputs("heap_profile: no process was profiled; heap_profile doctor -p PID shows what "
              "would work\n",
              stderr);
}

/* Write the files that belong to the trace; without a trace discard the directory. Return 0, or a
 * negative errno after an error message. */
static int finish(const struct record_session *session, const struct output *output,
                  const struct session_run_result *result, bool wrote)
{
    struct error error = {0};
    int code = 0;
    if (session->trace_path == NULL && wrote) {
        if (result->profiled > 0) /* else the link stays on the latest profile with data */
            output_publish(output);
        code = finish_profile(output, &session->finish, &error);
        if (code < 0)
            verb_fail(&error);
    } else if (session->trace_path == NULL) {
        output_discard(output);
    } else if (wrote) {
        if (result->profiled > 0)
            output_publish_trace(session->trace_path);
        if (quiet)
            return code;
        format_printf(stderr, "Trace in %s\n", session->trace_path);
        format_printf(stderr, "  %s report %s   prints a report\n", program_invocation_name,
                      session->trace_path);
    }
    return code;
}

static int run(const struct record_session *session)
{
    struct error error = {0};
    struct output output = {.is_own = false};
    int trace_fd = finish_profile_check(&session->finish, &error);
    if (trace_fd == 0)
        trace_fd = open_trace(session, &output, &error);
    if (trace_fd < 0) {
        verb_fail(&error);
        return RECORD_SESSION_FAILED;
    }
    quiet = session->finish.quiet;
    duration_ms = session->config->duration_ms;
    by_number = session->config->pid_count > 0;
    shows_progress = !quiet && isatty(STDERR_FILENO);
    line_start = shows_progress ? "\r\033[K" : "";
    struct session_run_options options = {
        .config = session->config,
        .follow_children = session->follow_children,
        .trace_fd = trace_fd,
        .progress = shows_progress || session->view ? follow : NULL,
        .ending = shows_progress ? tell_ending : NULL,
        .started = tell_started,
        .refused = tell_refused,
    };
    struct session_run_result result = {0};
    int code = 0;
    for (size_t i = 0; i < session->config->pid_count && i < FETCHES_MAX; i++)
        fetch_symbols_of_process((pid_t)session->config->pids[i], quiet);
    if (session->view)
        code = live_view_start(&page, output.directory, session->config, &error);
    if (code == 0 && session->beside != NULL)
        code = tracing_beside_start(session->beside, quiet, &error);
    if (code == 0)
        code = session_run(&options, &result, &error);
    bool wrote = lseek(trace_fd, 0, SEEK_END) > 0;
    close(trace_fd);
    if (shows_progress)
        fputs("\r\033[K", stderr);
    if (code < 0)
        verb_fail(&error);
    if (wrote && session->beside != NULL)
        tracing_beside_finish(session->beside,
                              session->trace_path != NULL ? session->trace_path : output.trace);
    /* The reason is printed already. */
    if (code == 0 && result.processes_ended && result.profiled == 0 && by_number) {
        if (session->trace_path == NULL && output.is_own)
            output_discard(&output);
        return RECORD_SESSION_FAILED;
    }
    int finished = finish(session, &output, &result, wrote);
    code = code < 0 ? code : finished;
    if (code < 0)
        return RECORD_SESSION_FAILED;
    tell_end(&result);
    return result.profiled > 0 ? RECORD_SESSION_DONE : RECORD_SESSION_EMPTY;
}

int record_session_run(const struct record_session *session)
{
    int code = run(session);
    if (code == RECORD_SESSION_DONE)
        live_view_stay(&page);
    live_view_end(&page);
    return code;
}
