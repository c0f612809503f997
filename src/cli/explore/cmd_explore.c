/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile explore: a profile on the terminal, to be walked through. */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/explore/screen.h"
#include "cli/options/filter_options.h"
#include "cli/options/parse.h"
#include "cli/options/suggest.h"
#include "cli/print/format.h"
#include "cli/print/progress.h"

static const char help[] =
    "usage: heap_profile explore [options] [DIR|TRACE[@DUMP]...]\n"
    "\n"
    "Shows a profile on the terminal, to be walked through: what holds memory, by stack frame,\n"
    "object type, thread and so on, step by step in any order. Several dumps (TRACE@1 TRACE@last)\n"
    "or traces stand side by side, with their difference. Without a TRACE, the latest profile;\n"
    "'-': standard input.\n"
    "\n"
    "  Enter in, Backspace out, Left and Right: by what; / search, ? all keys, q end.\n"
    "\n"
    "  --view VIEW     what is shown first: space (bytes live, default), objects, alloc_space,\n"
    "                  alloc_objects (ever allocated), max (live when the heap was largest)\n"
    "  --mode MODE     tree (default), heavy, bottom-up\n"
    "  --pid PID, --heap NAME   only this process, only this heap\n" FILTER_HELP
    "  --demangle full|simple|none   functions' names; m changes between simple and this\n"
    "\n"
    "Examples:\n"
    "  heap_profile explore                       the last run\n"
    "  heap_profile explore trace@1 trace@last    what grew while it ran\n"
    "  heap_profile explore old/raw-trace new/raw-trace\n";

enum { OPTION_VIEW = 256, OPTION_MODE, OPTION_PID, OPTION_HEAP, OPTION_DEMANGLE };

static const struct option options[] = {
    {"view", required_argument, NULL, OPTION_VIEW},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"pid", required_argument, NULL, OPTION_PID},
    {"heap", required_argument, NULL, OPTION_HEAP},
    FILTER_OPTIONS,
    {"demangle", required_argument, NULL, OPTION_DEMANGLE},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct request {
    struct screen_request screen;
    struct profile_read_options reading;
    struct profile_filter filter;
    /* What was named; and the traces among these, each once, which own the profiles. */
    struct compare_source columns[SITES_COLUMNS], traces[SITES_COLUMNS];
};

static bool take_view(const char *text, struct screen_request *request)
{
    for (int i = 0; i < EXPORT_VIEWS; i++) {
        if (strcmp(text, export_view_words[i].name) != 0)
            continue;
        request->figure = diff_figure_of((enum export_view)i);
        request->figure_chosen = true;
        request->sort_by_count = !export_view_words[i].counts_bytes;
        return true;
    }
    format_printf(
        stderr,
        "heap_profile: no view '%s'; there are space, objects, alloc_space, alloc_objects and "
        "max\n",
        text);
    return false;
}

static bool take_mode(const char *text, struct screen_request *request)
{
    static const char *const names[] = {"tree", "heavy", "bottom-up"};
    for (int i = 0; i < BREAKDOWN_MODES; i++) {
        request->mode = (enum breakdown_mode)i;
        if (strcmp(text, names[i]) == 0)
            return true;
    }
    format_printf(stderr, "heap_profile: --mode takes tree, heavy or bottom-up, not '%s'\n", text);
    return false;
}

static bool take_option(int option, struct request *request)
{
    uint64_t number;
    switch (option) {
    case OPTION_VIEW:
        return take_view(optarg, &request->screen);
    case OPTION_MODE:
        return take_mode(optarg, &request->screen);
    case OPTION_PID:
        if (!parse_number("--pid", optarg, INT32_MAX, &number))
            return false;
        request->screen.choice.pid = (int32_t)number;
        return true;
    case OPTION_HEAP:
        request->screen.choice.heap = optarg;
        return true;
    case OPTION_DEMANGLE:
        request->screen.full_names = true;
        return parse_demangling(optarg, &request->reading.demangling);
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
                suggest_option("heap_profile explore", argv, option, options);
            return 2;
        }
    }
    if (argc - optind > SITES_COLUMNS) {
        fprintf(stderr, "heap_profile: %d dumps at once at most, not %d\n", SITES_COLUMNS,
                argc - optind);
        return 2;
    }
    return -1;
}

static bool is_same_file(const char *one, const char *other)
{
    struct stat first, second;
    if (strcmp(one, other) == 0)
        return true;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Reads the profile of a column, if none of the traces is the same file. */
static int read_trace(struct request *request, struct compare_source *column, struct error *error)
{
    struct screen_request *screen = &request->screen;
    for (size_t i = 0; i < screen->trace_count; i++) {
        if (is_same_file(request->traces[i].path, column->path)) {
            column->profile = request->traces[i].profile;
            return 0;
        }
    }
    column->profile = progress_import(column->path, &request->reading, error);
    if (column->profile == NULL)
        return error->code;
    request->traces[screen->trace_count++] = *column;
    return 0;
}

static int open_columns(struct request *request, char *const *arguments, size_t count,
                        struct error *error)
{
    struct screen_request *screen = &request->screen;
    screen->columns = request->columns;
    screen->traces = request->traces;
    screen->column_count = count > 0 ? count : 1;
    int code = 0;
    for (size_t i = 0; i < screen->column_count && code == 0; i++) {
        code = compare_source_parse(count > 0 ? arguments[i] : NULL, &request->columns[i], error);
        if (code == 0)
            code = read_trace(request, &request->columns[i], error);
    }
    return code;
}

/* Keys come from the terminal, though the profile may come from standard input. */
static int open_terminal(struct request *request, char *const *arguments, int count)
{
    bool piped = false;
    for (int i = 0; i < count; i++)
        piped = piped || strcmp(arguments[i], "-") == 0;
    request->screen.in = stdin;
    request->screen.out = stdout;
    request->screen.colours = getenv("NO_COLOR") == NULL;
    if (piped)
        request->screen.in = fopen("/dev/tty", "re");
    if (request->screen.in != NULL && isatty(fileno(request->screen.in)) && isatty(STDOUT_FILENO))
        return 0;
    fputs("heap_profile: explore needs a terminal to show the profile on and to read keys from; "
          "heap_profile report prints it as text\n",
          stderr);
    return -ENOTTY;
}

static int explore(struct request *request, char *const *arguments, int count)
{
    struct error error = {0};
    int ended_by = 0;
    if (open_terminal(request, arguments, count) < 0)
        return 1;
    int code = open_columns(request, arguments, (size_t)count, &error);
    if (code == 0)
        code = screen_run(&request->screen, &ended_by, &error);
    for (size_t i = 0; i < request->screen.trace_count; i++)
        if (*request->traces[i].profile->warning != '\0')
            format_printf(stderr, "heap_profile: %s: %s\n", request->traces[i].argument,
                          request->traces[i].profile->warning);
    if (code < 0 && code != -EINTR)
        format_printf(stderr, "heap_profile: %s\n", error.message);
    for (size_t i = 0; i < request->screen.trace_count; i++)
        profile_free(request->traces[i].profile);
    if (request->screen.in != stdin && request->screen.in != NULL)
        fclose(request->screen.in);
    if (code == -EINTR)
        raise(ended_by); /* whose action is what it was */
    return code < 0 ? 1 : 0;
}

int cmd_explore(int argc, char **argv)
{
    struct request request = {0};
    setlocale(LC_CTYPE, "");
    request.reading.filter = &request.filter;
    int code = parse_options(argc, argv, &request);
    if (code < 0)
        code = explore(&request, argv + optind, argc - optind);
    profile_filter_clear(&request.filter);
    return code;
}
