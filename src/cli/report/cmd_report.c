/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile report: reads a trace and prints what is in it. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/files/output.h"
#include "cli/options/filter_options.h"
#include "cli/options/parse.h"
#include "cli/options/suggest.h"
#include "cli/print/format.h"
#include "cli/print/progress.h"
#include "cli/print/stack_format.h"
#include "cli/report/report.h"
#include "cli/report/report_rss.h"

#define HEAPS_NAMED 10 /* where nothing answers to the options */
#define NAME_WIDTH 255
#define REASON_WIDTH 2000

static const char help[] =
    "usage: heap_profile report [options] [DIR|TRACE]\n"
    "\n"
    "Prints what a heap profile says: DIR is what `heap_profile host` wrote, TRACE a\n"
    "raw-trace ('-': standard input); without either, the latest profile.\n"
    "\n"
    "  --view VIEW     what is ranked:\n"
    "                    space          bytes live at the dump: what holds memory (default)\n"
    "                    objects        the same, counted in allocations\n"
    "                    alloc_space    bytes ever allocated: churn\n"
    "                    alloc_objects  the same, counted in allocations\n"
    "                    max            bytes live when the heap was largest\n"
    "  --cumulative    functions, with all that they call\n"
    "  --tree          callers above callees; a function in its caller's column is the only "
    "callee\n"
    "  --addresses     with --tree: a line for each call site in a function\n"
    "  --thread        by thread\n"
    "  --by KEYS       by type or context, as programs name them (docs/report.md); and what is in\n"
    "                  each: type,backtrace  context,type  backtrace,type and the like\n"
    "  --stacks        whole stacks\n"
    "  --rss           why the heap is not the RSS: what else the process has in memory\n"
    "  --top N         lines of a table (20; 0: all)\n"
    "  --pid PID, --heap NAME, --dump N   only these (dumps count from 1; 'final', the last, is "
    "shown\n"
    "                 without it)\n" FILTER_HELP
    "  --frames all    show frames of allocators, language run times and standard libraries,\n"
    "                  too; the default (own) folds them\n"
    "  --demangle full|simple|none   functions' names in full, without parameters and\n"
    "                  template arguments (default; with --json full), or mangled\n"
    "  --json          everything, for scripts (docs/report.md)\n"
    "\n"
    "Examples:\n"
    "  heap_profile report                              what was live at the end of the last run\n"
    "  heap_profile report --view max --tree            where the peak came from\n"
    "  heap_profile report --view alloc_objects --top 5 who allocates most often\n";

static int parse_view(const char *text)
{
    for (int i = 0; i < REPORT_VIEWS; i++)
        if (strcmp(text, report_view_names[i]) == 0)
            return i;
    return -1;
}

enum {
    OPTION_VIEW = 256,
    OPTION_TOP,
    OPTION_PID,
    OPTION_HEAP,
    OPTION_DUMP,
    OPTION_BY,
    OPTION_DEMANGLE,
    OPTION_ADDRESSES,
    OPTION_RSS,
    OPTION_FRAMES,
};

static const struct option options[] = {
    {"view", required_argument, NULL, OPTION_VIEW},
    {"top", required_argument, NULL, OPTION_TOP},
    {"pid", required_argument, NULL, OPTION_PID},
    {"heap", required_argument, NULL, OPTION_HEAP},
    {"dump", required_argument, NULL, OPTION_DUMP},
    {"by", required_argument, NULL, OPTION_BY},
    {"cumulative", no_argument, NULL, 'c'},
    {"tree", no_argument, NULL, 't'},
    {"addresses", no_argument, NULL, OPTION_ADDRESSES},
    {"thread", no_argument, NULL, 'T'},
    {"stacks", no_argument, NULL, 's'},
    FILTER_OPTIONS,
    {"frames", required_argument, NULL, OPTION_FRAMES},
    {"rss", no_argument, NULL, OPTION_RSS},
    {"json", no_argument, NULL, 'j'},
    {"demangle", required_argument, NULL, OPTION_DEMANGLE},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct report_options *report, bool *json,
                         struct profile_read_options *reading, struct profile_filter *filter)
{
    int option;
    bool names_chosen = false;
    uint64_t number = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case OPTION_VIEW:
            if (parse_view(optarg) < 0) {
                format_printf(stderr,
                              "heap_profile: no view '%s'; there are space, objects, alloc_space, "
                              "alloc_objects and max\n",
                              optarg);
                return 2;
            }
            report->view = (enum report_view)parse_view(optarg);
            break;
        case OPTION_TOP:
            if (!parse_number("--top", optarg, UINT32_MAX, &report->top))
                return 2;
            break;
        case OPTION_PID:
            if (!parse_number("--pid", optarg, INT32_MAX, &number))
                return 2;
            report->pid = (int32_t)number;
            break;
        case OPTION_HEAP:
            report->heap = optarg;
            break;
        case OPTION_DUMP:
            number = 0;
            if (strcmp(optarg, "final") != 0 &&
                !parse_number("--dump", optarg, UINT32_MAX, &number))
                return 2;
            report->dump = (int64_t)number;
            break;
        case OPTION_BY:
            if (!report_parse_groups(optarg, report->by)) {
                format_printf(
                    stderr,
                    "heap_profile: --by takes type or context, or two of type, context and "
                    "backtrace as in type,backtrace, not '%s'\n",
                    optarg);
                return 2;
            }
            break;
        case OPTION_RSS:
            report->rss = true;
            break;
        case OPTION_DEMANGLE:
            if (!parse_demangling(optarg, &reading->demangling))
                return 2;
            names_chosen = true;
            break;
        case OPTION_FRAMES:
            if (!parse_frames(optarg, &report->all_frames))
                return 2;
            break;
        case 'c':
            report->cumulative = true;
            break;
        case OPTION_ADDRESSES:
            report->addresses = true;
            break;
        case 't':
            report->tree = true;
            break;
        case 'T':
            report->thread = true;
            break;
        case 's':
            report->stacks = true;
            break;
        case 'j':
            *json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            if (filter_options_has(option)) {
                if (!filter_options_take(option, optarg, filter))
                    return 2;
                break;
            }
            suggest_option("heap_profile report", argv, option, options);
            return 2;
        }
    }
    if (report->rss && filter->count > 0) {
        fputs("heap_profile: --rss is about all that the process has: it takes no --focus, "
              "--ignore, --hide or --show-from\n",
              stderr);
        return 2;
    }
    if (!names_chosen && !*json)
        reading->demangling = DEMANGLE_SIMPLE;
    return -1;
}

/* Why a trace that could be read gave no report, and what there is instead. */
static void explain_nothing(const struct profile *profile, const char *path)
{
    if (profile->heap_count == 0) {
        fprintf(
            stderr, "heap_profile: %s: there is no heap profile in it: %s\n", path,
            profile->warning[0] != '\0'
                ? profile->warning
                : "no process was profiled, the profiler was killed in its first second, or it is "
                  "not the raw-trace that heap_profile wrote");
        for (size_t i = 0; i < profile->unprofiled_count && i < HEAPS_NAMED; i++) {
            fputs("  not profiled: ", stderr);
            format_print(stderr, profile->unprofiled[i].name, NAME_WIDTH);
            fputs(": ", stderr);
            format_print(stderr, profile->unprofiled[i].reason, REASON_WIDTH);
            fputc('\n', stderr);
        }
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

/* The exit code. */
static int print_report(const char *argument, const struct report_options *report, bool json,
                        const struct profile_read_options *reading)
{
    char path[PATH_MAX];
    struct error error = {0};
    struct profile *profile = NULL;
    if (output_find_trace(argument, path, &error) == 0)
        profile = progress_import(path, reading, &error);
    if (profile == NULL) {
        format_printf(stderr, "heap_profile: %s\n", error.message);
        return 1;
    }
    bool whole_stacks = json || report->stacks;
    if (whole_stacks && !report->rss && report_count_frames(profile, report, &error) < 0) {
        format_printf(stderr, "heap_profile: %s: %s\n", path, error.message);
        profile_free(profile);
        return 1;
    }
    int result = report->rss ? report_print_rss(profile, report, json, stdout)
                 : json      ? report_print_json(profile, report, stdout)
                             : report_print_text(profile, report, stdout);
    if (result == -ENOENT)
        explain_nothing(profile, path);
    else if (result != 0)
        format_printf(stderr, "heap_profile: %s: %s\n", path, strerror(-result));
    profile_free(profile);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("heap_profile: cannot write the report");
        return 1;
    }
    return result != 0 ? 1 : 0;
}

int cmd_report(int argc, char **argv)
{
    struct report_options report = {
        .view = REPORT_SPACE,
        .top = 20,
        .colours = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL,
        .columns = stack_format_columns(stdout),
    };
    bool json = false;
    struct profile_filter filter = {0};
    struct profile_read_options reading = {.filter = &filter};
    int code = parse_options(argc, argv, &report, &json, &reading, &filter);
    if (code < 0 && argc - optind > 1) {
        format_printf(stderr, "heap_profile: one profile at a time, not also '%s'\n",
                      argv[optind + 1]);
        code = 2;
    }
    if (code < 0)
        code = print_report(argv[optind], &report, json, &reading);
    profile_filter_clear(&filter);
    return code;
}
