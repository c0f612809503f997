/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile leaks: what a program holds, or has piled up between two dumps, by call stack. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/compare/leaks.h"
#include "cli/options/filter_options.h"
#include "cli/options/parse.h"
#include "cli/options/suggest.h"
#include "cli/print/format.h"
#include "cli/print/progress.h"

static const char help[] =
    "usage: heap_profile leaks [options] A      what is live in A, the largest first\n"
    "       heap_profile leaks [options] A B    what has grown from A to B\n"
    "\n"
    "Lists call stacks by what they allocated themselves and still hold, by process and heap, "
    "with\n"
    "how sure that is, and by type where types are known. A and B are what `heap_profile host`\n"
    "wrote (DIR or TRACE), Chrome's heap dumps, pprof files and others (docs/formats.md), or\n"
    "dumps of a trace: TRACE@2 (by number), TRACE@12.5s (the next to that time), TRACE@max,\n"
    "TRACE@last (without anything: the last).\n"
    "\n"
    "  --threshold N         only call stacks of more than N allocations\n"
    "  --size-threshold BYTES   only those of more bytes (k, M, G)\n"
    "  --shrunk        what shrank, too\n"
    "  --top N         so many lines of each heap (on a terminal 20, else all; 0: all)\n"
    "  --lines, --stacks   source lines, which tell call stacks apart, too; whole stacks\n"
    "  --match-by-labels   pair processes by name and command line, not by pid\n"
    "  --filter-by-name NAME, --filter-by-labels TEXT   only processes of that name; only those\n"
    "                  whose command line has TEXT in it\n"
    "  --pid PID[,PID], --heap NAME   only this process (in A, and in B), only this "
    "heap\n" FILTER_HELP
    "  --frames all    show frames of allocators, language run times and standard libraries,\n"
    "                  too; the default (own) folds them\n"
    "  --demangle full|simple|none   functions' names (simple; with --json or --output full)\n"
    "  --output DIR    DIR/process_PID_HEAP-leaks.json, for scripts that read Chrome's\n"
    "  --flame-graph   with --output: DIR/graph/index.html, a flame graph for a browser, and the\n"
    "                  same as JSON\n"
    "  --json          everything as one object (docs/leaks.md)\n"
    "\n"
    "Processes are paired by pid; if there is one on each side, it is compared whatever its pid.\n"
    "\n"
    "Examples:\n"
    "  heap_profile leaks --size-threshold 1M profile\n"
    "  heap_profile leaks trace@1 trace@last           what piled up while it ran\n"
    "  heap_profile leaks trace@1 trace@max            the same of one that frees all as it ends\n"
    "  heap_profile leaks --match-by-labels before.json.gz after.json.gz\n";

enum {
    OPTION_THRESHOLD = 256,
    OPTION_SIZE_THRESHOLD,
    OPTION_SHRUNK,
    OPTION_TOP,
    OPTION_LINES,
    OPTION_STACKS,
    OPTION_MATCH_BY_LABELS,
    OPTION_FILTER_BY_NAME,
    OPTION_FILTER_BY_LABELS,
    OPTION_PID,
    OPTION_HEAP,
    OPTION_DEMANGLE,
    OPTION_OUTPUT,
    OPTION_FLAME_GRAPH,
    OPTION_JSON,
    OPTION_FRAMES,
};

static const struct option options[] = {
    {"threshold", required_argument, NULL, OPTION_THRESHOLD},
    {"size-threshold", required_argument, NULL, OPTION_SIZE_THRESHOLD},
    {"shrunk", no_argument, NULL, OPTION_SHRUNK},
    {"top", required_argument, NULL, OPTION_TOP},
    {"lines", no_argument, NULL, OPTION_LINES},
    {"stacks", no_argument, NULL, OPTION_STACKS},
    {"match-by-labels", no_argument, NULL, OPTION_MATCH_BY_LABELS},
    {"filter-by-name", required_argument, NULL, OPTION_FILTER_BY_NAME},
    {"filter-by-labels", required_argument, NULL, OPTION_FILTER_BY_LABELS},
    {"pid", required_argument, NULL, OPTION_PID},
    {"heap", required_argument, NULL, OPTION_HEAP},
    {"demangle", required_argument, NULL, OPTION_DEMANGLE},
    {"output", required_argument, NULL, OPTION_OUTPUT},
    {"flame-graph", no_argument, NULL, OPTION_FLAME_GRAPH},
    FILTER_OPTIONS,
    {"frames", required_argument, NULL, OPTION_FRAMES},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct request {
    struct leaks_options leaks;
    struct compare_choice choices[2];
    struct profile_read_options reading;
    struct profile_filter filter;
    const char *directory;
    bool json, flame_graph, names_chosen;
    uint64_t *pids;
    size_t pid_count;
};

static bool take_number(int option, struct request *request)
{
    uint64_t value;
    struct growth_options *growth = &request->leaks.growth;
    if (option == OPTION_TOP)
        return parse_number("--top", optarg, UINT32_MAX, &request->leaks.top);
    if (option == OPTION_SIZE_THRESHOLD) {
        if (!parse_bytes("--size-threshold", optarg, &value))
            return false;
        growth->size_threshold = (double)value;
        return true;
    }
    if (!parse_number("--threshold", optarg, INT64_MAX, &value))
        return false;
    growth->has_count_threshold = true;
    growth->count_threshold = (double)value;
    return true;
}

static bool take_option(int option, struct request *request)
{
    struct compare_choice *choices = request->choices;
    switch (option) {
    case OPTION_THRESHOLD:
    case OPTION_SIZE_THRESHOLD:
    case OPTION_TOP:
        return take_number(option, request);
    case OPTION_SHRUNK:
        return request->leaks.shrunk = true;
    case OPTION_LINES:
        return request->leaks.lines = true;
    case OPTION_STACKS:
        return request->leaks.stacks = true;
    case OPTION_MATCH_BY_LABELS:
        request->leaks.pairing = DIFF_PAIR_LABELS;
        return true;
    case OPTION_FILTER_BY_NAME:
        choices[0].name = choices[1].name = optarg;
        return true;
    case OPTION_FILTER_BY_LABELS:
        choices[0].labels = choices[1].labels = optarg;
        return true;
    case OPTION_PID:
        return parse_pids(optarg, &request->pids, &request->pid_count);
    case OPTION_HEAP:
        choices[0].heap = choices[1].heap = optarg;
        return true;
    case OPTION_DEMANGLE:
        request->names_chosen = true;
        return parse_demangling(optarg, &request->reading.demangling);
    case OPTION_FRAMES:
        return parse_frames(optarg, &request->leaks.all_frames);
    case OPTION_OUTPUT:
        request->directory = optarg;
        return true;
    case OPTION_FLAME_GRAPH:
        return request->flame_graph = true;
    case OPTION_JSON:
        return request->json = true;
    default:
        return filter_options_has(option) && filter_options_take(option, optarg, &request->filter);
    }
}

/* -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct request *request)
{
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (!take_option(option, request)) {
            if (option == '?' || option == ':')
                suggest_option("heap_profile leaks", argv, option, options);
            return 2;
        }
    }
    if (argc - optind < 1 || argc - optind > 2) {
        fputs("heap_profile: which profile? As in: heap_profile leaks A, or: heap_profile leaks "
              "BEFORE AFTER\n",
              stderr);
        return 2;
    }
    if (request->flame_graph && request->directory == NULL) {
        fputs("heap_profile: --flame-graph needs --output DIR: where is it to stand?\n", stderr);
        return 2;
    }
    if (request->pid_count > (size_t)(argc - optind)) {
        fputs("heap_profile: --pid takes a process, or one before and one after\n", stderr);
        return 2;
    }
    if (!request->names_chosen && !request->json && request->directory == NULL)
        request->reading.demangling = DEMANGLE_SIMPLE;
    request->reading.filter = &request->filter;
    for (size_t i = 0; i < 2 && request->pid_count > 0; i++)
        request->choices[i].pid = (int32_t)request->pids[i < request->pid_count ? i : 0];
    return -1;
}

/* sources[0] is empty where there is one argument. */
static int open_sources(char *const *arguments, int count, struct compare_source sources[2],
                        const struct request *request, struct error *error)
{
    int code = compare_source_parse(arguments[count - 1], &sources[1], error);
    if (code == 0 && count == 2)
        code = compare_source_parse(arguments[0], &sources[0], error);
    if (code == 0 && count == 2)
        code = compare_sources_read(sources, &request->reading, error);
    if (code == 0 && count == 1) {
        sources[1].profile = progress_import(sources[1].path, &request->reading, error);
        code = sources[1].profile == NULL ? error->code : 0;
    }
    for (int i = 2 - count; i < 2 && code == 0; i++)
        code = compare_source_choose(&sources[i], &request->choices[i], error);
    return code;
}

static int print(const struct request *request, const struct leaks *leaks, struct error *error)
{
    struct leaks_written written;
    int code = 0;
    if (request->directory != NULL)
        code = leaks_write_files(leaks, request->directory, request->flame_graph, &written, error);
    if (code < 0)
        return code;
    if (request->json)
        leaks_print_json(leaks, stdout);
    else if (leaks_print_text(leaks, stdout) < 0)
        return error_set(error, -ENOMEM, "no memory to print the list");
    if (fflush(stdout) != 0 || ferror(stdout))
        return error_set(error, -errno, "cannot write the list: %s", strerror(errno));
    if (request->directory != NULL && written.removed > 0)
        format_printf(stderr, "heap_profile: %zu file%s of an earlier run removed from %s\n",
                      written.removed, written.removed == 1 ? "" : "s", request->directory);
    return 0;
}

static int find_leaks(const struct request *request, struct compare_source sources[2],
                      bool compared, struct error *error)
{
    struct leaks leaks;
    bool whole_stacks = request->json || request->directory != NULL || request->leaks.stacks;
    if (whole_stacks && compare_sources_count_frames(sources, error) < 0)
        return error->code;
    int code = leaks_make(compared ? &sources[0] : NULL, &sources[1], &request->leaks, &leaks);
    if (code < 0)
        error_set(error, code, "no memory to compare");
    else if (leaks.heap_count == 0)
        code = error_set(error, -ENOENT, "no process of %.100s is in %.100s, too: %s",
                         sources[0].argument, sources[1].argument,
                         request->leaks.pairing == DIFF_PAIR_PIDS
                             ? "none has the same pid; --match-by-labels pairs them by name and "
                               "command line, --pid PID,PID names one of each"
                             : "none has the same name and command line; without "
                               "--match-by-labels, --pid PID,PID names one of each");
    else
        code = print(request, &leaks, error);
    leaks_clear(&leaks);
    return code;
}

static void warn(const struct compare_source *source)
{
    if (source->profile != NULL && *source->profile->warning != '\0')
        format_printf(stderr, "heap_profile: %s: %s\n", source->argument, source->profile->warning);
}

int cmd_leaks(int argc, char **argv)
{
    bool terminal = isatty(STDOUT_FILENO);
    struct request request = {
        .leaks = {.pairing = DIFF_PAIR_PIDS,
                  .top = terminal ? 20 : 0,
                  .colours = terminal && getenv("NO_COLOR") == NULL},
    };
    struct compare_source sources[2] = {0};
    struct error error = {0};
    int code = parse_options(argc, argv, &request);
    if (code < 0) {
        bool compared = argc - optind == 2;
        code = 0;
        if (open_sources(argv + optind, argc - optind, sources, &request, &error) < 0 ||
            find_leaks(&request, sources, compared, &error) < 0) {
            format_printf(stderr, "heap_profile: %s\n", error.message);
            code = 2;
        }
        for (int i = 0; i < 2; i++)
            if (i == 0 || sources[0].profile != sources[1].profile)
                warn(&sources[i]);
    }
    compare_sources_close(sources);
    profile_filter_clear(&request.filter);
    free(request.pids);
    return code;
}
