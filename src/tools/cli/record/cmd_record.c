/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile record: runs the session that a configuration file describes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/config_file.h"
#include "tools/cli/record/record_session.h"
#include "tools/cli/record/service/service_session.h"
#include "tools/print/format.h"

static const char help[] =
    "usage: heap_profile record -c CONFIG [--txt] [-o TRACE] [--service [--detach KEY]]\n"
    "       heap_profile record --attach KEY [--stop] [-o TRACE]\n"
    "\n"
    "Runs the session that a Perfetto TraceConfig describes, and writes its trace.\n"
    "heap_profile host --print-config and heap_profile -n NAME --print-config print such a\n"
    "configuration.\n"
    "\n"
    "  -c, --config FILE      the configuration, text or binary; '-': standard input\n"
    "      --txt              FILE is text (default: detected)\n"
    "  -o, --out TRACE        write only this trace (default: raw-trace and pprof files in a new\n"
    "                         directory)\n"
    "      --no-symbols       do not search debug files: names only from the programs' own files\n"
    "      --no-pprof         no pprof files; traceconv profile makes them from the trace\n"
    "      --summary FILE     write the summary there (-: standard output), not to stderr\n"
    "      --quiet            print only errors\n" SERVICE_HELP
    "      --attach KEY       take over a session that was left with --detach, and wait for its "
    "end\n"
    "      --stop             with --attach: end it now\n" TRACING_BESIDE_HELP "\n"
    "The session ends as the configuration defines, or by Ctrl-C or heap_profile stop. If the\n"
    "configuration asks only for running processes, it ends with the last of them.\n"
    "\n"
    "Exit code: 0, 1 if the session failed or none of its pids can be profiled, 2 for a wrong\n"
    "configuration, 3 if no process was profiled.\n";

struct request {
    const char *config;
    bool is_text;
    struct record_session session;
    struct service_options service;
    const char *attach_key;
    bool stops;
    const char *with_tracing;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("config", 'c', OPTION_TEXT, struct request, config),
    OPTION_ENTRY("txt", 0, OPTION_SET, struct request, is_text),
    OPTION_ENTRY("out", 'o', OPTION_TEXT, struct request, session.trace_path),
    OPTION_ENTRY("output", 0, OPTION_TEXT, struct request, session.trace_path),
    OPTION_ENTRY("no-symbols", 0, OPTION_SET, struct request, session.finish.no_symbols),
    OPTION_ENTRY("summary", 0, OPTION_TEXT, struct request, session.finish.summary),
    OPTION_ENTRY("no-pprof", 0, OPTION_SET, struct request, session.finish.no_pprof),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct request, session.finish.quiet),
    SERVICE_OPTIONS(struct request, service),
    OPTION_ENTRY("attach", 0, OPTION_TEXT, struct request, attach_key),
    OPTION_ENTRY("stop", 0, OPTION_SET, struct request, stops),
    OPTION_ENTRY("with-tracing", 0, OPTION_TEXT, struct request, with_tracing),
    OPTIONS_END,
};

static int read_config(const char *path, bool is_text, struct heap_config *config,
                       struct error *error)
{
    size_t length;
    char *bytes = config_file_read(path, &length, error);
    if (bytes == NULL)
        return error->code;
    struct heap_config_warnings warnings = {0};
    int code = is_text ? heap_config_read_text(bytes, length, config, &warnings, error)
                       : heap_config_read(bytes, length, config, &warnings, error);
    free(bytes);
    for (size_t i = 0; i < warnings.count; i++)
        format_printf(stderr, "heap_profile: warning: %s: %s\n", path, warnings.messages[i]);
    heap_config_warnings_clear(&warnings);
    if (code == 0 && (code = heap_config_check_targets(config, error)) < 0)
        heap_config_clear(config);
    return code;
}

/* Run the session on the tracing service, with the configuration as it is in the file. */
static int run_on_service(const struct request *request)
{
    struct error error = {0};
    struct service_session session = {
        .config_name = request->config,
        .attach_key = request->attach_key,
        .stops = request->stops,
        .detach_key = request->service.detach_key,
        .trace_path = request->session.trace_path,
        .finish = request->session.finish,
    };
    char *bytes = NULL;
    if (request->config != NULL) {
        bytes = config_file_read(request->config, &session.config_length, &error);
        if (bytes == NULL) {
            verb_fail(&error);
            return RECORD_SESSION_USAGE;
        }
        session.config_is_text =
            request->is_text || heap_config_is_text(bytes, session.config_length);
        session.config = bytes;
    }
    int code = service_session_run(&session);
    free(bytes);
    return code;
}

/* Read the configuration of --with-tracing, if there is one. Its heap profile, if it has one, is
 * not taken: -c has it. */
static int read_beside(struct request *request, struct error *error)
{
    struct heap_config unused;
    if (request->with_tracing == NULL)
        return 0;
    heap_config_init(&unused);
    request->session.beside = tracing_beside_read(request->with_tracing, &unused, error);
    heap_config_clear(&unused);
    return request->session.beside == NULL ? error->code : 0;
}

/* Run a session of ours. Return the exit code. */
static int run_here(struct request *request)
{
    struct heap_config config;
    struct error error = {0};
    if (read_config(request->config, request->is_text, &config, &error) < 0) {
        format_printf(stderr, "heap_profile: %s: %s\n", request->config, error.message);
        return RECORD_SESSION_USAGE;
    }
    request->session.config = &config;
    int code = read_beside(request, &error);
    if (code == 0) {
        code = record_session_run(&request->session);
    } else {
        verb_fail(&error);
        code = code == -ENOSYS ? RECORD_SESSION_FAILED : RECORD_SESSION_USAGE;
    }
    tracing_beside_free(request->session.beside);
    heap_config_clear(&config);
    return code;
}

/* Return what options are missing or exclude each other, or NULL. */
static const char *what_is_wrong(const struct request *request, bool on_service)
{
    bool attaches = request->attach_key != NULL;
    if (request->config == NULL && !attaches)
        return "-c CONFIG is missing";
    if (request->config != NULL && attaches)
        return "--attach takes no -c: the session has its configuration";
    if (request->stops && !attaches)
        return "--stop needs --attach KEY";
    if (attaches && request->service.detach_key != NULL)
        return "--attach and --detach exclude each other";
    if (on_service && request->with_tracing != NULL)
        return "--with-tracing is for a session without --service, whose configuration has all "
               "data sources";
    return NULL;
}

int cmd_record(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile record", help, options, false};
    struct request request = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    bool on_service = request.attach_key != NULL || request.service.is_wanted;
    const char *wrong = what_is_wrong(&request, on_service);
    if (optind < argc)
        wrong = "there are only options here: -c CONFIG and others";
    if (wrong != NULL) {
        format_printf(stderr, "heap_profile record: %s; see heap_profile record --help\n", wrong);
        return RECORD_SESSION_USAGE;
    }
    return on_service ? run_on_service(&request) : run_here(&request);
}
