/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile -n NAME | -p PID: profiles running processes, and those of a name that start
 * later. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cmd.h"
#include "tools/cli/options/heap_options.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/parse.h"
#include "tools/cli/record/live_view.h"
#include "tools/cli/record/record_session.h"
#include "tools/cli/record/service/service_session.h"
#include "tools/print/format.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: heap_profile -n NAME[,NAME] [options]\n"
    "       heap_profile -p PID[,PID] [options]\n"
    "\n"
    "Profiles running processes, and processes of these names that start later, until Ctrl-C or\n"
    "heap_profile stop. With -p it ends when the last of the processes has ended. It uses the\n"
    "running heapprofd if there is one. SIGUSR1 takes a dump, which becomes a separate profile.\n"
    "\n"
    "  -n, --name A,B         processes with these names\n"
    "  -p, --pid 1,2          processes with these pids\n"
    "  -i, --interval BYTES   mean bytes between samples (4096); 1: every allocation, exact\n"
    "  -d, --duration TIME    end after this time: 10s, 5min; a bare number is milliseconds\n"
    "  -o, --output DIR       a new or empty directory (default: a new one in TMPDIR or /tmp)\n"
    "  -c, --continuous-dump TIME  take dumps at this interval, each a separate profile\n"
    "      --no-running       only processes that start later\n"
    "      --no-startup       only processes that already run; ends with the last of them\n"
    "      --follow-children  profile the children of profiled processes, too\n"
    "      --dump-at-max      put the peak into the trace, for Perfetto's UI, not the "
    "end\n" RECORDING_OPTIONS_HELP LIVE_VIEW_HELP SERVICE_HELP TRACING_BESIDE_HELP
    "      --print-config     print the configuration for `record "
    "-c`, and exit\n" FINISH_OPTIONS_HELP "\n"
    "Accepted without effect: --idle-allocations (obsolete), --no-start,\n"
    "--disable-fork-teardown, --disable-selinux, --no-android-tree-symbolization, --no-versions,\n"
    "--no-annotations, --simpleperf, --traceconv-binary PATH, --trace-to-text-binary PATH.\n"
    "\n"
    "Exit code: 0, 1 if the session failed or no process of -p can be profiled, 2 for wrong "
    "usage,\n"
    "3 if no process was profiled.\n"
    "\n"
    "Examples:\n"
    "  heap_profile -p $(pidof redis-server) -d 10s\n"
    "  heap_profile -n nginx,php-fpm -c 1min\n"
    "  heap_profile -p $(pidof redis-server) --view   watch its heap in the browser\n"
    "See also: heap_profile snapshot, status, stop, doctor.\n";

struct profile_arguments {
    struct heap_config config;
    struct record_session session;
    struct service_options service;
    const char *with_tracing;
    bool print_config;
};

static bool take_config_pids(void *member, const char *name, const char *value)
{
    (void)name;
    struct heap_config *config = member;
    return parse_pids(value, &config->pids, &config->pid_count);
}

/* Accept options of Perfetto's tool that have a meaning only on Android. */
static bool ignore(void *member, const char *name, const char *value)
{
    (void)member;
    (void)value;
    format_printf(stderr, "heap_profile: --%s has no effect on Linux\n", name);
    return true;
}

static bool ignore_obsolete(void *member, const char *name, const char *value)
{
    (void)member;
    (void)value;
    format_printf(stderr, "heap_profile: --%s is obsolete and has no effect\n", name);
    return true;
}

#define IGNORED(name_)                                                                             \
    {                                                                                              \
        .name = name_, .kind = OPTION_FLAG, .take = ignore                                         \
    }

static const struct option_entry options[] = {
    RECORDING_OPTIONS(struct profile_arguments, config),
    OPTION_ENTRY_CALL("name", 'n', struct profile_arguments, config.process_cmdline, take_names),
    OPTION_ENTRY_CALL("pid", 'p', struct profile_arguments, config, take_config_pids),
    OPTION_ENTRY("output", 'o', OPTION_TEXT, struct profile_arguments, session.output),
    OPTION_ENTRY("no-running", 0, OPTION_SET, struct profile_arguments, config.no_running),
    OPTION_ENTRY("no-startup", 0, OPTION_SET, struct profile_arguments, config.no_startup),
    OPTION_ENTRY("follow-children", 0, OPTION_SET, struct profile_arguments,
                 session.follow_children),
    OPTION_ENTRY("print-config", 0, OPTION_SET, struct profile_arguments, print_config),
    OPTION_ENTRY("no-symbols", 0, OPTION_SET, struct profile_arguments, session.finish.no_symbols),
    OPTION_ENTRY("summary", 0, OPTION_TEXT, struct profile_arguments, session.finish.summary),
    OPTION_ENTRY("no-pprof", 0, OPTION_SET, struct profile_arguments, session.finish.no_pprof),
    OPTION_ENTRY("memory-infra", 0, OPTION_SET, struct profile_arguments,
                 session.finish.memory_infra),
    LIVE_VIEW_OPTION(struct profile_arguments, session.view),
    SERVICE_OPTIONS(struct profile_arguments, service),
    OPTION_ENTRY("with-tracing", 0, OPTION_TEXT, struct profile_arguments, with_tracing),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct profile_arguments, session.finish.quiet),
    OPTION_ENTRY("disable-fork-teardown", 0, OPTION_SET, struct profile_arguments,
                 config.disable_fork_teardown),
    {.name = "idle-allocations", .kind = OPTION_FLAG, .take = ignore_obsolete},
    IGNORED("no-start"),
    IGNORED("disable-selinux"),
    IGNORED("no-android-tree-symbolization"),
    IGNORED("no-versions"),
    IGNORED("no-annotations"),
    IGNORED("simpleperf"),
    {.name = "traceconv-binary", .kind = OPTION_CALL, .take = ignore},
    {.name = "trace-to-text-binary", .kind = OPTION_CALL, .take = ignore},
    OPTIONS_END,
};

/* Take the options. They override the configuration of --with-tracing, so with one they are taken
 * again after it. Return -1 to continue, else the exit code. */
static int take_options(int argc, char **argv, struct profile_arguments *arguments)
{
    static const struct verb_line line = {"heap_profile -n", help, options, false};
    struct error error = {0};
    int code = options_parse(&line, argc, argv, arguments);
    if (code >= 0 || arguments->with_tracing == NULL)
        return code;
    heap_config_clear(&arguments->config);
    heap_config_init(&arguments->config);
    arguments->session.beside =
        tracing_beside_read(arguments->with_tracing, &arguments->config, &error);
    if (arguments->session.beside == NULL) {
        verb_fail(&error);
        return error.code == -ENOSYS ? RECORD_SESSION_FAILED : RECORD_SESSION_USAGE;
    }
    optind = 0;
    return options_parse(&line, argc, argv, arguments);
}

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct profile_arguments *arguments)
{
    /* "heap_profile -n --help" asks for help: it does not wait for a process of that name. */
    if (argc == 3 && strcmp(argv[2], "--help") == 0) {
        fputs(help, stdout);
        return 0;
    }
    int code = take_options(argc, argv, arguments);
    if (code >= 0)
        return code;
    heap_options_settle(&arguments->config);
    struct error error = {0};
    if (optind < argc) {
        format_printf(
            stderr,
            "heap_profile: what is '%s'? To run a command under the profiler: heap_profile "
            "host -- %s ...\n",
            argv[optind], argv[optind]);
        return RECORD_SESSION_USAGE;
    }
    if (heap_config_check_targets(&arguments->config, &error) < 0) {
        verb_fail(&error);
        return RECORD_SESSION_USAGE;
    }
    if (arguments->service.is_wanted &&
        (arguments->session.follow_children || arguments->session.view)) {
        format_printf(stderr,
                      "heap_profile: --%s does not work with --service: the tracing service does "
                      "not know it\n",
                      arguments->session.view ? "view" : "follow-children");
        return RECORD_SESSION_USAGE;
    }
    if (arguments->service.is_wanted && arguments->with_tracing != NULL) {
        fputs("heap_profile: --service records all data sources through the tracing service, and "
              "--with-tracing all but the heap: take one of them\n",
              stderr);
        return RECORD_SESSION_USAGE;
    }
    heap_options_warn(&arguments->config);
    return -1;
}

/* Run the session on the tracing service, with the configuration that --print-config prints. */
static int run_on_service(const struct profile_arguments *arguments)
{
    struct service_session session = {
        .detach_key = arguments->service.detach_key,
        .output = arguments->session.output,
        .finish = arguments->session.finish,
    };
    void *config = xmalloc_made(heap_config_to_bytes(&arguments->config, &session.config_length));
    session.config = config;
    int code = service_session_run(&session);
    free(config);
    return code;
}

int cmd_profile(int argc, char **argv)
{
    struct profile_arguments arguments = {0};
    heap_options_init(&arguments.config);
    arguments.session.config = &arguments.config;
    int code = parse_arguments(argc, argv, &arguments);
    if (code < 0 && arguments.print_config)
        code = heap_options_print(&arguments.config) ? RECORD_SESSION_DONE : RECORD_SESSION_FAILED;
    if (code < 0)
        code = arguments.service.is_wanted ? run_on_service(&arguments)
                                           : record_session_run(&arguments.session);
    tracing_beside_free(arguments.session.beside);
    heap_config_clear(&arguments.config);
    return code;
}
