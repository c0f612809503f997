/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile explore: browses a profile on the terminal. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/explore/screen.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/profile_options.h"
#include "tools/print/progress.h"
#include "util/regular_file.h"

static const char help[] =
    "usage: heap_profile explore [options] [DIR|TRACE[@DUMP]...]\n"
    "\n"
    "Browses a profile on the terminal: what holds memory, by stack frame, object type, thread "
    "and\n"
    "so on, step by step in any order. Several dumps (TRACE@1 TRACE@last) or traces are shown "
    "side\n"
    "by side, with their difference. Without a TRACE, shows the latest profile; '-' is standard\n"
    "input.\n"
    "\n"
    "  Keys: Enter into a row, Backspace back, Left and Right: other rows; / search, ? all keys,\n"
    "  q quit.\n"
    "\n"
    "  --view VIEW     view at the start: space (bytes live, default), objects, alloc_space,\n"
    "                  alloc_objects (ever allocated), max (live at the heap's peak)\n"
    "  --mode MODE     tree (default), heavy, bottom-up\n"
    "  --pid PID, --heap NAME   only this process, only this heap\n" FILTER_HELP
    "  --demangle full|simple|none   form of functions' names; m switches between it and simple\n"
    "\n"
    "Examples:\n"
    "  heap_profile explore                       the last run\n"
    "  heap_profile explore trace@1 trace@last    what grew while it ran\n"
    "  heap_profile explore old/raw-trace new/raw-trace\n";

struct request {
    struct screen_request screen;
    struct profile_read_options reading;
    struct profile_filter filter;
    int view, demangling; /* VIEW_DEFAULT, DEMANGLING_DEFAULT: not chosen */
    /* The arguments; and their traces, each once, which own the profiles. */
    struct compare_source columns[SITES_COLUMNS], traces[SITES_COLUMNS];
};

#define VIEW_DEFAULT (-1)

static const char *const mode_names[] = {"tree", "heavy", "bottom-up", NULL};

static const struct option_entry options[] = {
    VIEW_OPTION(struct request, view),
    OPTION_ENTRY_CHOICE("mode", struct request, screen.mode, mode_names),
    OPTION_ENTRY("pid", 0, OPTION_PID, struct request, screen.choice.pid),
    OPTION_ENTRY("heap", 0, OPTION_TEXT, struct request, screen.choice.heap),
    FILTER_OPTIONS(struct request, filter),
    DEMANGLE_OPTION(struct request, demangling),
    OPTIONS_END,
};

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *request)
{
    static const struct verb_line line = {"heap_profile explore", help, options, false};
    int code = options_parse(&line, argc, argv, request);
    if (code >= 0)
        return code;
    if (argc - optind > SITES_COLUMNS) {
        fprintf(stderr, "heap_profile: at most %d dumps at once, not %d\n", SITES_COLUMNS,
                argc - optind);
        return VERB_USAGE;
    }
    struct screen_request *screen = &request->screen;
    if (request->view != VIEW_DEFAULT) {
        enum export_view view = (enum export_view)request->view;
        screen->figure = diff_figure_of(view);
        screen->figure_chosen = true;
        screen->sort_by_count = export_view_counts_calls(view);
    }
    screen->full_names = request->demangling != DEMANGLING_DEFAULT;
    /* The screen itself switches between full and simple names. */
    request->reading.demangling = demangling_of(request->demangling, true);
    return -1;
}

/* Read the profile of a column, unless another trace is the same file. */
static int read_trace(struct request *request, struct compare_source *column, struct error *error)
{
    struct screen_request *screen = &request->screen;
    for (size_t i = 0; i < screen->trace_count; i++) {
        const char *path = request->traces[i].path;
        if (strcmp(path, column->path) == 0 || regular_file_is_same(path, column->path)) {
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

/* Open the terminal for keys: the profile may come from standard input. */
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
    fputs("heap_profile: explore needs a terminal for input and output; heap_profile report prints "
          "the profile as text\n",
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
        compare_source_warn(&request->traces[i]);
    if (code < 0 && code != -EINTR)
        verb_fail(&error);
    for (size_t i = 0; i < request->screen.trace_count; i++)
        profile_free(request->traces[i].profile);
    if (request->screen.in != stdin && request->screen.in != NULL)
        fclose(request->screen.in);
    if (code == -EINTR)
        raise(ended_by); /* with the action it had before */
    return code < 0 ? 1 : 0;
}

int cmd_explore(int argc, char **argv)
{
    struct request request = {.view = VIEW_DEFAULT, .demangling = DEMANGLING_DEFAULT};
    setlocale(LC_CTYPE, "");
    request.reading.filter = &request.filter;
    int code = parse_arguments(argc, argv, &request);
    if (code < 0)
        code = explore(&request, argv + optind, argc - optind);
    profile_filter_clear(&request.filter);
    return code;
}
