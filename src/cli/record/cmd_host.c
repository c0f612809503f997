/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile host: runs a command under the profiler. Standard output belongs to the command; the
 * verb's own messages go to standard error. */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/options/heap_options.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/record/host_command.h"

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
    "  -d, --duration MS      end the profile after this time; COMMAND goes on\n"
    "  -c, --continuous-dump MS  take a dump every MS milliseconds, each a separate profile\n"
    "  -n, --name A,B         profile the processes of these names that COMMAND starts\n"
    "      --follow-children  profile all processes that COMMAND starts\n"
    "      --end-with-command end the profile with COMMAND; otherwise, with -n or "
    "--follow-children,\n"
    "                         it goes on while a profiled process runs, until Ctrl-C\n"
    "      --dump-at-max      put the peak into the trace, for Perfetto's UI, not the "
    "end\n" HEAP_OPTIONS_HELP
    "      --shmem-size BYTES size of each process's ring (8M), a power of two\n"
    "      --block-client     if the ring is full, make the process wait (default)\n"
    "      --no-block-client  if the ring is full, end the process's profile\n"
    "      --block-client-timeout US   end the profile after waiting this long\n"
    "      --print-config     print the configuration and exit\n"
    "      --no-symbols       do not search debug files: names only from the programs' own files\n"
    "      --memory-infra     also write memory_infra.json.gz, for Chromium's trace viewer\n"
    "  -q, --quiet            print only errors\n"
    "\n"
    "Examples:\n"
    "  heap_profile host -- ./server --port 8080\n"
    "  heap_profile host -i 1 -- jq . big.json        every allocation\n"
    "  heap_profile host -n cc1plus -- make           the compilers that make starts\n";

struct host_arguments {
    struct heap_config config;
    const char *output;
    char **names;
    bool follow_children, end_with_command, print_config, quiet, no_symbols, memory_infra;
    char *const *command;
};

static const struct option_entry options[] = {
    RECORDING_OPTIONS(struct host_arguments, config),
    OPTION_ENTRY("output", 'o', OPTION_TEXT, struct host_arguments, output),
    OPTION_ENTRY_CALL("name", 'n', struct host_arguments, names, take_names),
    OPTION_ENTRY("follow-children", 0, OPTION_SET, struct host_arguments, follow_children),
    OPTION_ENTRY("end-with-command", 0, OPTION_SET, struct host_arguments, end_with_command),
    OPTION_ENTRY("print-config", 0, OPTION_SET, struct host_arguments, print_config),
    OPTION_ENTRY("no-symbols", 0, OPTION_SET, struct host_arguments, no_symbols),
    OPTION_ENTRY("memory-infra", 0, OPTION_SET, struct host_arguments, memory_infra),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct host_arguments, quiet),
    OPTIONS_END,
};

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct host_arguments *arguments)
{
    static const struct verb_line line = {"heap_profile host", help, options, true};
    int code = options_parse(&line, argc, argv, arguments);
    if (code >= 0)
        return code;
    arguments->config.process_cmdline = arguments->names;
    struct error error = {0};
    if (heap_config_check(&arguments->config, &error) != 0) {
        format_printf(stderr, "heap_profile: %s\n", error.message);
        return VERB_USAGE;
    }
    heap_options_warn(&arguments->config);
    if (optind >= argc && !arguments->print_config) {
        fputs("heap_profile: which command? As in: heap_profile host -- COMMAND [ARGS]\n", stderr);
        return VERB_USAGE;
    }
    arguments->command = argv + optind;
    return -1;
}

static int run(const struct host_arguments *arguments)
{
    const struct host_command request = {
        .config = &arguments->config,
        .command = arguments->command,
        .output = arguments->output,
        .follow_children = arguments->follow_children,
        .end_with_command = arguments->end_with_command,
        .quiet = arguments->quiet,
        .no_symbols = arguments->no_symbols,
        .memory_infra = arguments->memory_infra,
    };
    struct host_outcome outcome;
    struct error error = {0};
    int code = host_command_run(&request, &outcome, &error);
    if (code != 0)
        format_printf(stderr, "heap_profile: %s\n", error.message);
    if (code != 0 && !outcome.result.started && outcome.result.exec_errno == 0)
        return HOST_PROFILER_FAILED;
    return host_command_exit_code(&outcome.result, arguments->command[0]);
}

int cmd_host(int argc, char **argv)
{
    struct host_arguments arguments = {0};
    heap_config_init(&arguments.config);
    int code = parse_arguments(argc, argv, &arguments);
    if (code < 0 && arguments.print_config)
        code = heap_options_print(&arguments.config) ? 0 : HOST_PROFILER_FAILED;
    if (code < 0)
        code = run(&arguments);
    heap_config_clear(&arguments.config);
    return code;
}
