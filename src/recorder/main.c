/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapprofd: the daemon as a program of its own. It serves requests for profiles on this machine,
 * or it runs a command under the profiler and writes a raw trace. heap_profile host does the latter
 * with more comfort.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/host/host.h"
#include "recorder/host/preload_path.h"
#include "recorder/service/child_process.h"
#include "recorder/service/serve.h"
#include "recorder/sockets/daemon_client.h"
#ifdef HEAPPROFD_TRACING
#include "recorder/tracing/producer/producer.h"
#endif
#include "util/output_file.h"
#include "util/units.h"
#include "util/version.h"

static const char usage[] =
    "usage: heapprofd [--producer [SOCKET]]\n"
    "       heapprofd prepare\n"
    "       heapprofd host [-o FILE] [-i BYTES] [-n NAME]... [--follow-children] -- COMMAND "
    "[ARGS]\n"
    "\n"
    "Without arguments: serves heap_profile -n, -p, record, status, snapshot and stop, in the\n"
    "foreground, until SIGTERM or Ctrl-C. SIGUSR1 takes a dump of all profiled processes. Its run\n"
    "directory is $HEAPPROFD_RUN_DIR, else /run/heapprofd for root, else\n"
    "$XDG_RUNTIME_DIR/heapprofd.\n"
    "\n"
    "--producer: also is a producer of Perfetto's tracing service (traced), with the data sources\n"
    "android.heapprofd and heapprofd. SOCKET is the service's producer socket, by default\n"
    "$PERFETTO_PRODUCER_SOCK_NAME, else /run/perfetto/traced-producer.sock, else\n"
    "/tmp/perfetto-producer. If a daemon serves the run directory already, its sessions are used,\n"
    "and this process serves nothing else.\n"
    "\n"
    "prepare: makes that directory, so that programs that are started before the daemon, with the\n"
    "library preloaded, can be profiled later.\n"
    "\n"
    "host: runs COMMAND and writes a heap profile of it, as a Perfetto trace.\n"
    "\n"
    "  -o, --output FILE      the trace (raw-trace)\n"
    "  -i, --interval BYTES   mean bytes between samples (4096); 1: every allocation\n"
    "  -n, --name NAME        profile the processes of this name that COMMAND starts\n"
    "      --follow-children  profile everything that COMMAND starts\n"
    "  -d, --duration TIME    stop after this long: 10s, 5min; a bare number is milliseconds\n"
    "      --help, --version\n";

struct arguments {
    struct heap_config config;
    const char *output;
    bool follow_children;
    char *names[64];
    size_t name_count;
    char *const *command;
};

/* Parse a non-negative number. Return -1 if the text is not one. */
static long long parse_number(const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && value >= 0 ? value : -1;
}

/* Parse a time, bare in milliseconds. Return milliseconds, or -1 if the text is not a time. */
static long long parse_time_ms(const char *text)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end), unit_ms = *end == '\0' ? 1 : time_unit_ms(end);
    bool is_good = errno == 0 && end != text && unit_ms > 0 && value >= 0 &&
                   value * unit_ms <= (double)UINT32_MAX;
    return is_good ? llround(value * unit_ms) : -1;
}

/* Parse the arguments. Return 0 to go on, else the exit code plus one. */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},    {"interval", required_argument, NULL, 'i'},
        {"name", required_argument, NULL, 'n'},      {"duration", required_argument, NULL, 'd'},
        {"follow-children", no_argument, NULL, 'f'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},         {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "+o:i:n:d:h", options, NULL)) != -1) {
        long long number = option == 'i'   ? parse_number(optarg)
                           : option == 'd' ? parse_time_ms(optarg)
                                           : 0;
        switch (option) {
        case 'o':
            arguments->output = optarg;
            break;
        case 'i':
        case 'd':
            if (number < 0) {
                fprintf(stderr, "heapprofd: -%c takes a %s, not '%s'\n", option,
                        option == 'i' ? "number of bytes" : "time, as in 10s", optarg);
                return 3;
            }
            if (option == 'i')
                arguments->config.sampling_interval_bytes = (uint64_t)number;
            else
                arguments->config.duration_ms = (uint32_t)number;
            break;
        case 'n':
            if (arguments->name_count + 1 < sizeof(arguments->names) / sizeof(char *))
                arguments->names[arguments->name_count++] = optarg;
            break;
        case 'f':
            arguments->follow_children = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        case 'v':
            version_print("heapprofd");
            return 1;
        default:
            fputs("heapprofd: see heapprofd --help\n", stderr);
            return 3;
        }
    }
    return 0;
}

/* Return whether the arguments ask for a producer. *socket: NULL if they are wrong. */
static bool asks_for_producer(int argc, char **argv, const char **socket)
{
    static const char option[] = "--producer";
    size_t length = sizeof(option) - 1;
    if (strncmp(argv[1], option, length) != 0 ||
        (argv[1][length] != '\0' && argv[1][length] != '='))
        return false;
    bool is_joined = argv[1][length] == '=';
    if (argc > 3 || (argc == 3 && (is_joined || argv[2][0] == '-')))
        *socket = NULL;
    else
        *socket = is_joined ? argv[1] + length + 1 : argc == 3 ? argv[2] : "";
    return true;
}

/* End as the command ended, so that a shell sees no difference. */
static int end_like(const struct host_result *result)
{
    if (result->wait_status == -1)
        return 0;
    if (WIFEXITED(result->wait_status))
        return WEXITSTATUS(result->wait_status);
    int number = WTERMSIG(result->wait_status);
    signal(number, SIG_DFL);
    raise(number);
    return 128 + number;
}

static int recorder_run(struct arguments *arguments)
{
    char library[PATH_MAX];
    struct output_file file;
    struct error error = {0};
    if (preload_path_find(library, &error) < 0 ||
        output_file_open(&file, arguments->output, OUTPUT_FILE_AT_ONCE, &error) < 0) {
        fprintf(stderr, "heapprofd: %s\n", error.message);
        return HOST_PROFILER_FAILED;
    }
    struct host_options options = {
        .config = &arguments->config,
        .command = arguments->command,
        .preload_library = library,
        .trace_fd = file.fd,
        .follow_children = arguments->follow_children,
    };
    struct host_result result;
    int code = host_run(&options, &result, &error);
    code = output_file_close(&file, code, &error);
    if (code < 0) {
        fprintf(stderr, "heapprofd: %s\n", error.message);
        return HOST_PROFILER_FAILED;
    }
    if (!result.started) {
        fprintf(stderr, "heapprofd: cannot run %s: %s\n", arguments->command[0],
                strerror(result.exec_errno));
        return result.exec_errno == ENOENT ? HOST_NOT_FOUND : HOST_NOT_EXECUTABLE;
    }
    return end_like(&result);
}

/* Run the daemon with a producer, or only the producer if there is a daemon. `socket` "": the
 * default one. */
static int produce(const char *socket)
{
#ifdef HEAPPROFD_TRACING
    struct error error;
    int daemon = daemon_connect(0, &error);
    if (daemon == -ENOENT && getenv(CHILD_PROCESS_ENV) == NULL)
        return serve(socket);
    if (daemon < 0) {
        fprintf(stderr, "heapprofd: %s\n", error.message);
        return 1;
    }
    close(daemon);
    return producer_run(socket[0] != 0 ? socket : NULL, serve_log);
#else
    (void)socket;
    fputs("heapprofd: --producer is not in this build: build it with -Dtracing=enabled\n", stderr);
    return 1;
#endif
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.output = "raw-trace"};
    if (argc == 1)
        return serve(NULL);
    const char *socket;
    if (asks_for_producer(argc, argv, &socket)) {
        if (socket != NULL)
            return produce(socket);
        fputs("heapprofd: --producer takes at most one socket, and no other option goes with it; "
              "see heapprofd --help\n",
              stderr);
        return 2;
    }
    if (argc == 2 && strcmp(argv[1], "prepare") == 0)
        return serve_prepare();
    heap_config_init(&arguments.config);
    bool has_verb = argc > 1 && strcmp(argv[1], "host") == 0;
    if (has_verb) {
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    int code = parse_arguments(argc, argv, &arguments);
    if (code == 0 && (!has_verb || optind >= argc)) {
        fputs(usage, stderr);
        code = 3;
    }
    if (code == 0) {
        arguments.command = argv + optind;
        if (arguments.name_count > 0)
            arguments.config.process_cmdline = arguments.names;
        code = recorder_run(&arguments) + 1;
        arguments.config.process_cmdline = NULL;
    }
    heap_config_clear(&arguments.config);
    bool is_wrong_usage = code == 3 && arguments.command == NULL;
    return is_wrong_usage && has_verb ? HOST_PROFILER_FAILED : code - 1;
}
