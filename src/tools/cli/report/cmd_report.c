/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile report: reads a trace and prints a report on it. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/profile_options.h"
#include "tools/cli/report/report.h"
#include "tools/cli/report/report_rss.h"
#include "tools/cli/view/perfetto_ui.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "tools/print/stack_format.h"

#define HEAPS_NAMED 10 /* if none matches the options */
#define TOP_NOT_GIVEN UINT64_MAX
#define TOP_ROWS 20

static const char help[] =
    "usage: heap_profile report [options] [DIR|TRACE]\n"
    "\n"
    "Prints a report on a heap profile: DIR is a directory that heap_profile wrote, TRACE a\n"
    "raw-trace or another profile (docs/formats.md; '-': standard input). Without either, reports\n"
    "on the latest profile.\n"
    "\n"
    "  --view VIEW     rank by:\n"
    "                    space          bytes live at the dump: what holds memory (default,\n"
    "                                   unless a program had freed nearly all at its end)\n"
    "                    objects        the same, counted in allocations\n"
    "                    alloc_space    bytes ever allocated: churn\n"
    "                    alloc_objects  the same, counted in allocations\n"
    "                    max            bytes live at the heap's peak (default then)\n"
    "  --cumulative    rows are functions, including their callees\n"
    "  --tree          callers above callees; an only callee is in its caller's column\n"
    "  --addresses     with --tree: a line for each call site in a function\n"
    "  --thread        rows are threads\n"
    "  --by KEYS       rows are types or contexts, which programs name (docs/report.md); a second "
    "key\n"
    "                  breaks each down: type,backtrace  context,type  backtrace,type and so on\n"
    "  --stacks        show whole stacks\n"
    "  --lifetimes     show what was freed of each row, the ages of what is live, and whether it\n"
    "                  grows or turns over (docs/leaks.md)\n"
    "  --rss           explain the difference between heap and RSS: the process's other memory\n"
    "  --top N         rows of a table (20; 0: all); with --json, callsites of each heap (all)\n"
    "  --pid PID, --heap NAME, --dump N   only this process, heap and dump (from 1; 'final': the "
    "last,\n"
    "                  default)\n" FILTER_HELP FRAMES_HELP
    "  --demangle full|simple|none   functions' names in full, without parameters and\n"
    "                  template arguments (default; with --json full), or mangled\n"
    "  --json          print all figures as JSON (docs/report.md)\n"
    "  --compact       with --json: each frame and each stack once\n" PERFETTO_UI_HELP
    "  --no-browser    with --perfetto: print the address, and open no browser\n"
    "\n"
    "Examples:\n"
    "  heap_profile report                              what was live at the end of the last run\n"
    "  heap_profile report --view max --tree            where the peak came from\n"
    "  heap_profile report --view alloc_objects --top 5 who allocates most often\n";

struct request {
    struct report_options report;
    struct profile_filter filter;
    struct perfetto_ui_request perfetto;
    int demangling;
    bool json;
};

static bool take_groups(void *member, const char *name, const char *value)
{
    (void)name;
    if (report_parse_groups(value, member))
        return true;
    format_printf(stderr,
                  "heap_profile: --by takes type or context, or two of type, context and "
                  "backtrace as in type,backtrace, not '%s'\n",
                  value);
    return false;
}

static const struct option_entry options[] = {
    VIEW_OPTION(struct request, report.view),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct request, report.top),
    DUMP_CHOICE_OPTIONS(struct request, report.choice),
    OPTION_ENTRY_CALL("by", 0, struct request, report.groups, take_groups),
    OPTION_ENTRY("cumulative", 0, OPTION_SET, struct request, report.cumulative),
    OPTION_ENTRY("tree", 0, OPTION_SET, struct request, report.tree),
    OPTION_ENTRY("addresses", 0, OPTION_SET, struct request, report.addresses),
    OPTION_ENTRY("thread", 0, OPTION_SET, struct request, report.thread),
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct request, report.stacks),
    OPTION_ENTRY("lifetimes", 0, OPTION_SET, struct request, report.lifetimes),
    FILTER_OPTIONS(struct request, filter),
    FRAMES_OPTION(struct request, report.all_frames),
    OPTION_ENTRY("rss", 0, OPTION_SET, struct request, report.rss),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTION_ENTRY("compact", 0, OPTION_SET, struct request, report.compact),
    DEMANGLE_OPTION(struct request, demangling),
    PERFETTO_UI_OPTIONS(struct request, perfetto),
    OPTION_ENTRY("no-browser", 0, OPTION_SET, struct request, perfetto.no_browser),
    OPTIONS_END,
};

/* Explain why a readable trace gives no report, and list what it contains. */
static void explain_nothing(const struct profile *profile, const char *path)
{
    if (profile->heap_count == 0) {
        fprintf(
            stderr, "heap_profile: %s: there is no heap profile in it: %s\n", path,
            profile->warning[0] != '\0'
                ? profile->warning
                : "no process was profiled, the profiler was killed in its first second, or it is "
                  "not the raw-trace that heap_profile wrote");
        report_print_unprofiled(profile, stderr);
        return;
    }
    format_printf(stderr, "heap_profile: %s: nothing in it has that pid, heap or dump; there are\n",
                  path);
    for (size_t i = 0; i < profile->heap_count && i < HEAPS_NAMED; i++)
        format_printf(stderr, "  --pid %d --heap '%s' --dump 1 to %zu\n",
                      profile->processes[profile->heaps[i].process].pid, profile->heaps[i].name,
                      profile->heaps[i].dump_count);
    if (profile->heap_count > HEAPS_NAMED)
        fprintf(stderr, "  and %zu more\n", profile->heap_count - HEAPS_NAMED);
}

/* Read the profile and print the report. Return the exit code. */
static int print_report(const char *argument, const struct request *request)
{
    const struct report_options *report = &request->report;
    const struct profile_read_options reading = {
        .filter = &request->filter,
        .demangling = demangling_of(request->demangling, request->json),
    };
    bool json = request->json;
    char path[PATH_MAX];
    struct error error = {0};
    struct profile *profile = NULL;
    if (output_find_trace(argument, path, &error) == 0)
        profile = progress_import(path, &reading, &error);
    if (profile == NULL)
        return verb_fail(&error);
    bool whole_stacks = (json && !report->compact) || report->stacks;
    if (!report->rss && report_check_size(profile, report, whole_stacks, &error) < 0) {
        format_printf(stderr, "heap_profile: %s: %s\n", path, error.message);
        profile_free(profile);
        return VERB_FAILED;
    }
    int result = report->rss ? report_print_rss(profile, report, json, stdout)
                 : json      ? report_print_json(profile, report, stdout)
                             : report_print_text(profile, report, stdout);
    if (result == -ENOENT)
        explain_nothing(profile, path);
    profile_free(profile);
    return verb_end_output("report", result != 0 ? VERB_FAILED : VERB_DONE);
}

static int report_complain(const struct request *request, int argument_count,
                           char *const *arguments)
{
    if (request->report.rss && request->filter.count > 0) {
        fputs("heap_profile: --rss is about all that the process has: it takes no --focus, "
              "--ignore, --hide or --show-from\n",
              stderr);
        return VERB_USAGE;
    }
    if (request->report.compact && (!request->json || request->report.rss)) {
        fputs("heap_profile: --compact is an option of --json, without --rss\n", stderr);
        return VERB_USAGE;
    }
    if (!request->perfetto.wanted &&
        (request->perfetto.ui != NULL || request->perfetto.no_browser)) {
        fputs("heap_profile: --ui and --no-browser are options of --perfetto\n", stderr);
        return VERB_USAGE;
    }
    if (argument_count > 1) {
        format_printf(stderr, "heap_profile: one profile at a time, not also '%s'\n", arguments[1]);
        return VERB_USAGE;
    }
    return -1;
}

int cmd_report(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile report", help, options, false};
    struct request request = {
        .report = {.view = EXPORT_VIEWS,
                   .top = TOP_NOT_GIVEN,
                   .colours = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL,
                   .columns = stack_format_columns(stdout)},
        .demangling = DEMANGLING_DEFAULT,
    };
    int code = options_parse(&line, argc, argv, &request);
    request.report.chooses_view = request.report.view == EXPORT_VIEWS;
    if (request.report.chooses_view)
        request.report.view = EXPORT_SPACE;
    if (request.report.top == TOP_NOT_GIVEN)
        request.report.top = request.json ? 0 : TOP_ROWS;
    if (code < 0)
        code = report_complain(&request, argc - optind, argv + optind);
    if (code < 0 && request.perfetto.wanted)
        code = perfetto_ui_show(&request.perfetto, argv[optind]);
    else if (code < 0)
        code = print_report(argv[optind], &request);
    profile_filter_clear(&request.filter);
    return code;
}
