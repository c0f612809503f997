/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_profile host: runs a command under the profiler. Standard output is the
 * command's alone; what this verb says goes to standard error.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "cli/options/heap_options.h"
#include "cli/options/parse.h"
#include "cli/options/suggest.h"
#include "cli/print/format.h"
#include "cli/record/host_command.h"

#define EXIT_USAGE 2

static const char help[] =
    "usage: heap_profile host [options] -- COMMAND [ARGS]\n"
    "\n"
    "Runs COMMAND and profiles its heap from the first allocation to its exit, or for the\n"
    "given time. Input, output, exit code and signals are COMMAND's own: heap_profile passes\n"
    "the signals that it gets on. SIGUSR1 takes a dump, which becomes a separate profile.\n"
    "The -- may be left out: options end where COMMAND begins.\n"
    "\n"
    "  -i, --interval BYTES   mean bytes between samples (4096); 1: every allocation, exact\n"
    "  -o, --output DIR       a new or empty directory (default: a new one in TMPDIR or /tmp)\n"
    "  -d, --duration MS      end the profile after this long; COMMAND goes on\n"
    "  -c, --continuous-dump MS  take a dump every MS milliseconds, each a separate profile\n"
    "  -n, --name A,B         profile the processes of these names that COMMAND starts\n"
    "      --follow-children  profile all processes that COMMAND starts\n"
    "      --end-with-command end the profile with COMMAND; else, with -n or --follow-children, "
    "it\n"
    "                         goes on while a profiled process runs, until Ctrl-C\n"
    "      --dump-at-max      keep the moment when the heap was largest, not the "
    "end\n" HEAP_OPTIONS_HELP
    "      --shmem-size BYTES ring buffer of a process (8M), a power of two\n"
    "      --block-client     wait when it is full (the default)\n"
    "      --no-block-client  end the profile instead\n"
    "      --block-client-timeout US   wait no longer than this\n"
    "      --print-config     print the configuration and exit\n"
    "      --no-symbols       names as the programs' own files have them; no files and lines\n"
    "      --memory-infra     write memory_infra.json.gz, too: for Chromium's trace viewer\n"
    "  -q, --quiet            say nothing but errors\n"
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

enum {
    OPTION_SHMEM = 256,
    OPTION_BLOCK,
    OPTION_NO_BLOCK,
    OPTION_BLOCK_TIMEOUT,
    OPTION_PRINT_CONFIG,
    OPTION_DUMP_AT_MAX,
    OPTION_FOLLOW,
    OPTION_END,
    OPTION_NO_SYMBOLS,
    OPTION_MEMORY_INFRA,
};

static const struct option options[] = {
    {"interval", required_argument, NULL, 'i'},
    {"output", required_argument, NULL, 'o'},
    {"duration", required_argument, NULL, 'd'},
    {"continuous-dump", required_argument, NULL, 'c'},
    {"name", required_argument, NULL, 'n'},
    HEAP_OPTIONS,
    {"shmem-size", required_argument, NULL, OPTION_SHMEM},
    {"block-client", no_argument, NULL, OPTION_BLOCK},
    {"no-block-client", no_argument, NULL, OPTION_NO_BLOCK},
    {"block-client-timeout", required_argument, NULL, OPTION_BLOCK_TIMEOUT},
    {"print-config", no_argument, NULL, OPTION_PRINT_CONFIG},
    {"dump-at-max", no_argument, NULL, OPTION_DUMP_AT_MAX},
    {"follow-children", no_argument, NULL, OPTION_FOLLOW},
    {"end-with-command", no_argument, NULL, OPTION_END},
    {"no-symbols", no_argument, NULL, OPTION_NO_SYMBOLS},
    {"memory-infra", no_argument, NULL, OPTION_MEMORY_INFRA},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {0},
};

static bool take_option(int option, struct host_arguments *arguments)
{
    struct heap_config *config = &arguments->config;
    uint64_t number = 0;
    switch (option) {
    case 'i':
        return parse_bytes("--interval", optarg, &config->sampling_interval_bytes);
    case OPTION_SHMEM:
        return parse_ring_bytes(optarg, &config->shmem_size_bytes);
    case 'd':
        if (!parse_number("--duration", optarg, UINT32_MAX, &number))
            return false;
        config->duration_ms = (uint32_t)number;
        return true;
    case 'c':
        if (!parse_number("--continuous-dump", optarg, UINT32_MAX, &number))
            return false;
        config->dump_interval_ms = (uint32_t)number;
        return true;
    case OPTION_BLOCK_TIMEOUT:
        if (!parse_number("--block-client-timeout", optarg, UINT32_MAX, &number))
            return false;
        config->block_client_timeout_us = (uint32_t)number;
        return true;
    case 'o':
        arguments->output = optarg;
        return true;
    case 'n':
        return parse_names(optarg, &arguments->names);
    case OPTION_BLOCK:
    case OPTION_NO_BLOCK:
        config->block_client = option == OPTION_BLOCK;
        return true;
    case OPTION_PRINT_CONFIG:
        arguments->print_config = true;
        return true;
    case OPTION_DUMP_AT_MAX:
        config->dump_at_max = true;
        return true;
    case OPTION_FOLLOW:
        arguments->follow_children = true;
        return true;
    case OPTION_END:
        arguments->end_with_command = true;
        return true;
    case 'q':
        arguments->quiet = true;
        return true;
    case OPTION_MEMORY_INFRA:
        arguments->memory_infra = true;
        return true;
    case OPTION_NO_SYMBOLS:
        arguments->no_symbols = true;
        return true;
    default:
        return heap_option_take(option, optarg, config);
    }
}

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct host_arguments *arguments)
{
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:i:o:d:c:n:qh", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option == 'v') {
            puts("heap_profile " HEAPPROFD_VERSION);
            return 0;
        }
        if (!take_option(option, arguments)) {
            if (option == '?' || option == ':')
                suggest_option("heap_profile host", argv, option, options);
            return EXIT_USAGE;
        }
    }
    arguments->config.process_cmdline = arguments->names;
    struct error error = {0};
    if (heap_config_check(&arguments->config, &error) != 0) {
        format_printf(stderr, "heap_profile: %s\n", error.message);
        return EXIT_USAGE;
    }
    heap_options_warn(&arguments->config);
    if (optind >= argc && !arguments->print_config) {
        fputs("heap_profile: which command? As in: heap_profile host -- COMMAND [ARGS]\n", stderr);
        return EXIT_USAGE;
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
    if (code < 0 && arguments.print_config) {
        char *text = heap_config_to_text(&arguments.config);
        fputs(text != NULL ? text : "", stdout);
        free(text);
        code = text != NULL ? 0 : HOST_PROFILER_FAILED;
    }
    if (code < 0)
        code = run(&arguments);
    heap_config_clear(&arguments.config);
    return code;
}
