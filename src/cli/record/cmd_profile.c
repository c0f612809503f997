/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_profile -n NAME | -p PID: profiles processes that run already, and those of a name that
 * start meanwhile.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/options/heap_options.h"
#include "cli/options/parse.h"
#include "cli/options/suggest.h"
#include "cli/print/format.h"
#include "cli/record/record_session.h"

static const char help[] =
    "usage: heap_profile -n NAME[,NAME] [options]\n"
    "       heap_profile -p PID[,PID] [options]\n"
    "\n"
    "Profiles running processes, and processes of these names that start later, until Ctrl-C or\n"
    "heap_profile stop. With -p it ends when the last of the processes has ended. It uses the\n"
    "running heapprofd if there is one. SIGUSR1 takes a dump, which becomes a separate profile.\n"
    "\n"
    "  -n, --name A,B         processes of these names\n"
    "  -p, --pid 1,2          processes of these numbers\n"
    "  -i, --interval BYTES   mean bytes between samples (4096); 1: every allocation, exact\n"
    "  -d, --duration MS      end after this long\n"
    "  -o, --output DIR       a new or empty directory (default: a new one in TMPDIR or /tmp)\n"
    "  -c, --continuous-dump MS  take a dump every MS milliseconds, each a separate profile\n"
    "      --no-running       only processes that start later\n"
    "      --no-startup       only processes that already run; ends with the last of them\n"
    "      --follow-children  the children that profiled processes fork, too\n"
    "      --dump-at-max      keep the moment when the heap was largest, not the "
    "end\n" HEAP_OPTIONS_HELP
    "      --shmem-size BYTES ring buffer of a process (8M), a power of two\n"
    "      --block-client     wait when it is full (the default)\n"
    "      --no-block-client  end the process's profile instead\n"
    "      --block-client-timeout US   wait no longer than this\n"
    "      --print-config     print the configuration, as `record -c` takes it, and exit\n"
    "      --no-symbols       names as the programs' own files have them; no files and lines\n"
    "      --memory-infra     write memory_infra.json.gz, too: for Chromium's trace viewer\n"
    "  -q, --quiet            say nothing but errors\n"
    "\n"
    "Without effect here, and accepted: --idle-allocations (obsolete), --no-start,\n"
    "--disable-fork-teardown, --disable-selinux, --no-android-tree-symbolization, --no-versions,\n"
    "--no-annotations, --simpleperf, --traceconv-binary PATH.\n"
    "\n"
    "Exit code: 0, 1 if the session failed or no process of -p can be profiled, 2 for wrong "
    "usage,\n"
    "3 if no process was profiled.\n"
    "\n"
    "Examples:\n"
    "  heap_profile -p $(pidof redis-server) -d 10000\n"
    "  heap_profile -n nginx,php-fpm -c 60000\n"
    "See also: heap_profile snapshot, status, stop, doctor.\n";

enum {
    OPTION_NO_RUNNING = 256,
    OPTION_NO_STARTUP,
    OPTION_FOLLOW,
    OPTION_DUMP_AT_MAX,
    OPTION_SHMEM,
    OPTION_BLOCK,
    OPTION_NO_BLOCK,
    OPTION_BLOCK_TIMEOUT,
    OPTION_PRINT_CONFIG,
    OPTION_NO_SYMBOLS,
    OPTION_MEMORY_INFRA,
    OPTION_FORK_TEARDOWN,
    OPTION_IDLE,
    OPTION_ELSEWHERE,
};

static const struct option options[] = {
    {"name", required_argument, NULL, 'n'},
    {"pid", required_argument, NULL, 'p'},
    {"interval", required_argument, NULL, 'i'},
    {"duration", required_argument, NULL, 'd'},
    {"output", required_argument, NULL, 'o'},
    {"continuous-dump", required_argument, NULL, 'c'},
    {"no-running", no_argument, NULL, OPTION_NO_RUNNING},
    {"no-startup", no_argument, NULL, OPTION_NO_STARTUP},
    {"follow-children", no_argument, NULL, OPTION_FOLLOW},
    {"dump-at-max", no_argument, NULL, OPTION_DUMP_AT_MAX},
    HEAP_OPTIONS,
    {"shmem-size", required_argument, NULL, OPTION_SHMEM},
    {"block-client", no_argument, NULL, OPTION_BLOCK},
    {"no-block-client", no_argument, NULL, OPTION_NO_BLOCK},
    {"block-client-timeout", required_argument, NULL, OPTION_BLOCK_TIMEOUT},
    {"print-config", no_argument, NULL, OPTION_PRINT_CONFIG},
    {"no-symbols", no_argument, NULL, OPTION_NO_SYMBOLS},
    {"memory-infra", no_argument, NULL, OPTION_MEMORY_INFRA},
    {"quiet", no_argument, NULL, 'q'},
    {"disable-fork-teardown", no_argument, NULL, OPTION_FORK_TEARDOWN},
    {"idle-allocations", no_argument, NULL, OPTION_IDLE},
    {"no-start", no_argument, NULL, OPTION_ELSEWHERE},
    {"disable-selinux", no_argument, NULL, OPTION_ELSEWHERE},
    {"no-android-tree-symbolization", no_argument, NULL, OPTION_ELSEWHERE},
    {"no-versions", no_argument, NULL, OPTION_ELSEWHERE},
    {"no-annotations", no_argument, NULL, OPTION_ELSEWHERE},
    {"simpleperf", no_argument, NULL, OPTION_ELSEWHERE},
    {"traceconv-binary", required_argument, NULL, OPTION_ELSEWHERE},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct profile_arguments {
    struct heap_config config;
    struct machine_session session;
    bool print_config;
};

static bool take_number(const char *option, const char *text, uint32_t *value)
{
    uint64_t number;
    if (!parse_number(option, text, UINT32_MAX, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool take_option(int option, int index, struct profile_arguments *arguments)
{
    struct heap_config *config = &arguments->config;
    switch (option) {
    case 'n':
        return parse_names(optarg, &config->process_cmdline);
    case 'p':
        return parse_pids(optarg, &config->pids, &config->pid_count);
    case 'i':
        return parse_bytes("--interval", optarg, &config->sampling_interval_bytes);
    case 'd':
        return take_number("--duration", optarg, &config->duration_ms);
    case 'c':
        return take_number("--continuous-dump", optarg, &config->dump_interval_ms);
    case 'o':
        arguments->session.output = optarg;
        return true;
    case OPTION_SHMEM:
        return parse_ring_bytes(optarg, &config->shmem_size_bytes);
    case OPTION_BLOCK_TIMEOUT:
        return take_number("--block-client-timeout", optarg, &config->block_client_timeout_us);
    case OPTION_NO_RUNNING:
        config->no_running = true;
        return true;
    case OPTION_NO_STARTUP:
        config->no_startup = true;
        return true;
    case OPTION_FOLLOW:
        arguments->session.follow_children = true;
        return true;
    case OPTION_DUMP_AT_MAX:
        config->dump_at_max = true;
        return true;
    case OPTION_BLOCK:
    case OPTION_NO_BLOCK:
        config->block_client = option == OPTION_BLOCK;
        return true;
    case OPTION_PRINT_CONFIG:
        arguments->print_config = true;
        return true;
    case 'q':
        arguments->session.quiet = true;
        return true;
    case OPTION_MEMORY_INFRA:
        arguments->session.memory_infra = true;
        return true;
    case OPTION_NO_SYMBOLS:
        arguments->session.no_symbols = true;
        return true;
    case OPTION_FORK_TEARDOWN:
        config->disable_fork_teardown = true;
        return true;
    case OPTION_IDLE:
        fputs("heap_profile: --idle-allocations is obsolete and has no effect\n", stderr);
        return true;
    case OPTION_ELSEWHERE:
        format_printf(stderr, "heap_profile: --%s has no effect on Linux\n", options[index].name);
        return true;
    default:
        return heap_option_take(option, optarg, config);
    }
}

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct profile_arguments *arguments)
{
    int option, index = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":n:p:i:d:o:c:qh", options, &index)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return MACHINE_SESSION_DONE;
        }
        if (!take_option(option, index, arguments)) {
            if (option == '?' || option == ':')
                suggest_option("heap_profile -n", argv, option, options);
            return MACHINE_SESSION_USAGE;
        }
    }
    struct error error = {0};
    if (optind < argc) {
        format_printf(
            stderr,
            "heap_profile: what is '%s'? To run a command under the profiler: heap_profile "
            "host -- %s ...\n",
            argv[optind], argv[optind]);
        return MACHINE_SESSION_USAGE;
    }
    if (heap_config_check_targets(&arguments->config, &error) < 0) {
        format_printf(stderr, "heap_profile: %s\n", error.message);
        return MACHINE_SESSION_USAGE;
    }
    heap_options_warn(&arguments->config);
    return -1;
}

int cmd_profile(int argc, char **argv)
{
    struct profile_arguments arguments = {0};
    heap_config_init(&arguments.config);
    arguments.session.config = &arguments.config;
    int code = parse_arguments(argc, argv, &arguments);
    if (code < 0 && arguments.print_config) {
        char *text = heap_config_to_text(&arguments.config);
        fputs(text != NULL ? text : "", stdout);
        free(text);
        code = text != NULL ? MACHINE_SESSION_DONE : MACHINE_SESSION_FAILED;
    }
    if (code < 0)
        code = machine_session_run(&arguments.session);
    heap_config_clear(&arguments.config);
    return code;
}
