/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile host: runs a command under the profiler. Standard output belongs to the command; the
 * verb's own messages go to standard error. */
#include <stdio.h>
#include <string.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/heap_options.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/host_command.h"
#include "tools/print/format.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: heap_profile host [options] -- COMMAND [ARGS]\n"
    "\n"
    "Runs COMMAND and profiles its heap from the first allocation to its exit, or for the\n"
    "given time. Input, output and exit code are COMMAND's, and signals to heap_profile are\n"
    "passed on to it, except SIGUSR1, which takes a dump: a separate profile. The -- may be\n"
    "omitted: options end where COMMAND begins.\n"
    "\n"
    "  -i, --interval BYTES   mean bytes between samples (4096); 1: every allocation, exact\n"
    "  -o, --output DIR       a new or empty directory (default: a new one in TMPDIR or /tmp)\n"
    "  -d, --duration TIME    end the profile after this time of COMMAND, which goes on\n"
    "  -c, --continuous-dump TIME  take dumps at this interval, each a separate profile\n"
    "  -n, --name A,B         profile the processes of these names that COMMAND starts\n"
    "      --follow-children  profile all processes that COMMAND starts\n"
    "      --end-with-command end the profile with COMMAND; otherwise, with -n or "
    "--follow-children,\n"
    "                         it goes on while a profiled process runs, until Ctrl-C\n"
    "      --dump-at-max      put the peak into the trace, for Perfetto's UI, not the "
    "end\n" RECORDING_OPTIONS_HELP LIVE_VIEW_HELP TRACING_BESIDE_HELP
    "      --print-config     print the configuration and exit\n" FINISH_OPTIONS_HELP "\n"
    "Exit code: COMMAND's, also by the same signal; 125 if the profiler failed or for wrong "
    "usage,\n"
    "126 if COMMAND could not be run, 127 if it was not found.\n"
    "\n"
    "Examples:\n"
    "  heap_profile host -- ./server --port 8080\n"
    "  heap_profile host -i 1 -- jq . big.json        every allocation\n"
    "  heap_profile host -d 10s -c 1s -- ./server     for ten seconds, with a dump each second\n"
    "  heap_profile host -n cc1plus -- make           the compilers that make starts\n"
    "  heap_profile host --view -- ./server           watch its heap in the browser\n";

struct request {
    struct heap_config config;
    struct host_command host;
    const char *with_tracing;
    bool print_config;
};

static const struct option_entry options[] = {
    RECORDING_OPTIONS(struct request, config),
    OPTION_ENTRY("output", 'o', OPTION_TEXT, struct request, host.output),
    OPTION_ENTRY_CALL("name", 'n', struct request, config.process_cmdline, take_names),
    OPTION_ENTRY("follow-children", 0, OPTION_SET, struct request, host.follow_children),
    OPTION_ENTRY("end-with-command", 0, OPTION_SET, struct request, host.end_with_command),
    OPTION_ENTRY("print-config", 0, OPTION_SET, struct request, print_config),
    OPTION_ENTRY("summary", 0, OPTION_TEXT, struct request, host.finish.summary),
    OPTION_ENTRY("no-symbols", 0, OPTION_SET, struct request, host.finish.no_symbols),
    OPTION_ENTRY("no-pprof", 0, OPTION_SET, struct request, host.finish.no_pprof),
    OPTION_ENTRY("memory-infra", 0, OPTION_SET, struct request, host.finish.memory_infra),
    LIVE_VIEW_OPTION(struct request, host.view),
    OPTION_ENTRY("with-tracing", 0, OPTION_TEXT, struct request, with_tracing),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct request, host.finish.quiet),
    OPTIONS_END,
};

/* Parse the options. Wrong usage has the code of all our failures: 2 is an exit code of commands.
 */
static int parse_options(const struct verb_line *line, int argc, char **argv,
                         struct request *request)
{
    int code = options_parse(line, argc, argv, request);
    return code == VERB_USAGE ? HOST_PROFILER_FAILED : code;
}

/* Take the options. They override the configuration of --with-tracing, so with one they are taken
 * again after it. Return -1 to continue, else the exit code. */
static int take_options(int argc, char **argv, struct request *request)
{
    static const struct verb_line line = {"heap_profile host", help, options, true};
    struct error error = {0};
    int code = parse_options(&line, argc, argv, request);
    if (code >= 0 || request->with_tracing == NULL)
        return code;
    heap_config_clear(&request->config);
    heap_config_init(&request->config);
    request->host.beside = tracing_beside_read(request->with_tracing, &request->config, &error);
    if (request->host.beside == NULL) {
        verb_fail(&error);
        return HOST_PROFILER_FAILED;
    }
    optind = 0;
    return parse_options(&line, argc, argv, request);
}

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *request)
{
    int code = take_options(argc, argv, request);
    if (code >= 0)
        return code;
    heap_options_settle(&request->config);
    struct error error = {0};
    if (heap_config_check(&request->config, &error) != 0) {
        verb_fail(&error);
        return HOST_PROFILER_FAILED;
    }
    heap_options_warn(&request->config);
    if (optind >= argc && !request->print_config) {
        fputs("heap_profile: which command? As in: heap_profile host -- COMMAND [ARGS]\n", stderr);
        return HOST_PROFILER_FAILED;
    }
    request->host.command = argv + optind;
    return -1;
}

/* Return whether a command is one that starts another one as its child and waits for it: nobody
 * means the first. (env, nice, nohup and stdbuf become the other one.) */
static bool starts_another(const char *command)
{
    static const char *const names[] = {"timeout", "time", "xargs", "flock", "parallel"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(base_name(command), names[i]) == 0)
            return true;
    return false;
}

static void follow_what_is_meant(struct request *request)
{
    struct host_command *host = &request->host;
    if (host->follow_children || request->config.process_cmdline != NULL ||
        !starts_another(host->command[0]))
        return;
    host->follow_children = true;
    if (!host->finish.quiet)
        format_printf(stderr,
                      "heap_profile: %s starts another program, which is profiled, too, as by "
                      "--follow-children\n",
                      base_name(host->command[0]));
}

static int run(const struct host_command *request)
{
    static struct host_outcome outcome;
    struct error error = {0};
    host_command_end_without_memory(&outcome, 0);
    int code = host_command_run(request, &outcome, &error);
    if (code != 0)
        verb_fail(&error);
    if (code != 0 && !outcome.result.started && outcome.result.exec_errno == 0)
        return HOST_PROFILER_FAILED;
    host_wait(&outcome.result);
    live_view_stay(&outcome.view);
    return host_command_exit_code(&outcome.result, request->command[0]);
}

int cmd_host(int argc, char **argv)
{
    struct request request = {0};
    xmalloc_exit_code = HOST_PROFILER_FAILED;
    heap_options_init(&request.config);
    request.host.config = &request.config;
    int code = parse_arguments(argc, argv, &request);
    if (code < 0 && request.print_config)
        code = heap_options_print(&request.config) ? 0 : HOST_PROFILER_FAILED;
    if (code < 0) {
        follow_what_is_meant(&request);
        code = run(&request.host);
    }
    tracing_beside_free(request.host.beside);
    heap_config_clear(&request.config);
    return code;
}
