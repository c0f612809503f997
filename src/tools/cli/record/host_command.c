/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command under the profiler, finishes its trace, and exits as the command did. */
#include "tools/cli/record/host_command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/host/preload_path.h"
#include "recorder/processes/program.h"
#include "tools/cli/record/fetch_symbols.h"
#include "tools/cli/record/session_list.h"
#include "tools/print/format.h"
#include "util/xmalloc.h"

/* --- progress --- */

static bool shows_progress(const struct host_command *request)
{
    struct stat output, errors;
    if (request->finish.quiet || !isatty(STDERR_FILENO))
        return false;
    /* Do not mix with the command's output on the same terminal. */
    return fstat(STDOUT_FILENO, &output) == 0 && fstat(STDERR_FILENO, &errors) == 0 &&
           output.st_rdev != errors.st_rdev;
}

/* Who follows the recording. */
struct followers {
    bool terminal;
    struct live_view *view;
};

static void show_progress(const struct host_progress *progress)
{
    if (progress->ending > 0)
        fprintf(stderr, "\r\033[Kwriting the last dumps: %u process%s left", progress->ending,
                progress->ending == 1 ? "" : "es");
    else
        fprintf(stderr, "\r\033[K%.1f s, %u process%s, %s live, %llu samples, %llu lost",
                (double)progress->elapsed_ms / 1000, progress->processes,
                progress->processes == 1 ? "" : "es", format_bytes(progress->live_bytes).bytes,
                (unsigned long long)progress->samples, (unsigned long long)progress->lost);
}

static void host_command_follow(void *context, const struct host_progress *progress)
{
    const struct followers *followers = context;
    if (followers->terminal)
        show_progress(progress);
    live_view_follow(followers->view, progress->elapsed_ms, progress->processes);
}

static void tell_outlived(unsigned processes)
{
    format_printf(
        stderr,
        "heap_profile: the command has ended; %u process%s that it started %s still profiled, "
        "until %s, or Ctrl-C or heap_profile stop\n",
        processes, processes == 1 ? "" : "es", processes == 1 ? "is" : "are",
        processes == 1 ? "it ends" : "they end");
}

/* --- the run --- */

int host_command_run(const struct host_command *request, struct host_outcome *outcome,
                     struct error *error)
{
    char library[PATH_MAX];
    int trace_fd = -1, code;
    *outcome = (struct host_outcome){.result = {.wait_status = -1}};
    if ((code = preload_path_find(library, error)) != 0 ||
        (code = finish_profile_check(&request->finish, error)) != 0 ||
        (code = output_create(&outcome->output, request->output, error)) != 0)
        return code;
    if ((trace_fd = output_open_trace(&outcome->output, error)) < 0)
        return trace_fd;
    fetch_symbols_of_command(request->command, request->finish.quiet);
    struct followers followers = {shows_progress(request), &outcome->view};
    struct host_options host = {
        .config = request->config,
        .command = request->command,
        .preload_library = library,
        .trace_fd = trace_fd,
        .follow_children = request->follow_children,
        .end_with_command = request->end_with_command,
        .outlived = request->finish.quiet ? NULL : tell_outlived,
        .progress = followers.terminal || request->view ? host_command_follow : NULL,
        .progress_context = &followers,
    };
    if (request->view)
        code = live_view_start(&outcome->view, outcome->output.directory, request->config, error);
    if (code == 0 && request->beside != NULL)
        code = tracing_beside_start(request->beside, request->finish.quiet, error);
    if (code == 0)
        session_list_warn();
    if (code == 0)
        code = host_run(&host, &outcome->result, error);
    close(trace_fd);
    if (followers.terminal)
        fputs("\r\033[K", stderr);
    if (outcome->result.started && request->beside != NULL)
        tracing_beside_finish(request->beside, outcome->output.trace);
    if (outcome->result.started) {
        output_publish(&outcome->output);
    } else {
        live_view_end(&outcome->view);
        output_discard(&outcome->output);
    }
    if (code == 0 && outcome->result.started)
        code = finish_profile(&outcome->output, &request->finish, error);
    return code < 0 ? code : 0;
}

/* --- after the run --- */

/* End as the command ended, so that our parent sees no difference. */
static int end_like(int wait_status)
{
    if (WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status);
    int number = WTERMSIG(wait_status);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core); /* the command has dumped its own core */
    signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return 128 + number;
}

static struct host_result *result_without_memory;
static int code_without_memory;

static int end_without_memory(void)
{
    struct host_result *result = result_without_memory;
    host_wait(result);
    if (result->wait_status == -1)
        return xmalloc_exit_code;
    int code = end_like(result->wait_status);
    return code != 0 ? code : code_without_memory;
}

void host_command_end_without_memory(struct host_outcome *outcome, int succeeded)
{
    outcome->result = (struct host_result){.wait_status = -1};
    result_without_memory = &outcome->result;
    code_without_memory = succeeded;
    xmalloc_end = end_without_memory;
}

/* Explain why the kernel does not know the program's format, if it is for another machine. */
static void explain_exec_error(const char *command, int exec_errno)
{
    struct program program;
    char path[PATH_MAX], reason[PROGRAM_REASON_BYTES];
    program_find(command, path, sizeof(path));
    if (exec_errno != ENOEXEC || path[0] == 0 || program_read(&program, path) < 0 ||
        !program.file.other_machine)
        return;
    program_way(&program, command, reason, sizeof(reason));
    format_printf(stderr, "heap_profile: %s\n", reason);
}

int host_command_exit_code(struct host_result *result, const char *command)
{
    if (!result->started) {
        format_printf(stderr, "heap_profile: cannot run %s: %s\n", command,
                      strerror(result->exec_errno));
        explain_exec_error(command, result->exec_errno);
        return result->exec_errno == ENOENT ? HOST_NOT_FOUND : HOST_NOT_EXECUTABLE;
    }
    /* The profile has ended before the command. */
    host_wait(result);
    return result->wait_status == -1 ? HOST_PROFILER_FAILED : end_like(result->wait_status);
}
