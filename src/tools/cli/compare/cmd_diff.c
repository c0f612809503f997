/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile diff: reports what grew and what shrank between two profiles. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/compare/compare.h"
#include "tools/cli/compare/compare_format.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/profile_options.h"
#include "tools/export/diff_pprof.h"
#include "util/output_file.h"
#include "util/packed_file.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: heap_profile diff [options] BEFORE AFTER\n"
    "       heap_profile diff [options] TRACE         its first dump and its last\n"
    "\n"
    "Shows what grew and what shrank, with 95 % limits, and marks changes that sampling alone\n"
    "does not explain. BEFORE and AFTER are profiles (a DIR or TRACE that heap_profile wrote,\n"
    "pprof files and others), or dumps of a trace: TRACE@2 (by number), TRACE@12.5s (nearest to\n"
    "that time), TRACE@max (with most live bytes), TRACE@last.\n"
    "\n"
    "  --by WHAT       rows: callsite (default), function or module (including callees), thread,\n"
    "                  type, context\n"
    "  --view VIEW     space (bytes live), objects (allocations live), alloc_space,\n"
    "                  alloc_objects (ever allocated), max (live at the heap's peak). Default:\n"
    "                  space or, where both programs freed nearly all at their end or differ\n"
    "                  ten times as much at the peak, max (with --json space)\n"
    "  --lines         show source lines, and distinguish callsites by them\n"
    "  --stacks        show whole stacks\n"
    "  --top N         rows of a table (20; 0: all)\n"
    "  --pid PID[,PID], --heap NAME   only this process (before and after), only this "
    "heap\n" FILTER_HELP FRAMES_HELP
    "  --demangle full|simple|none   form of functions' names (simple; with --json full)\n"
    "  --json          print all figures as JSON (docs/diff.md)\n"
    "  --pprof FILE    also write the difference as a pprof file (gzipped: FILE.gz), with losses\n"
    "                  as negative values\n"
    "\n"
    "Functions are matched by name, so two builds of a program can be compared.\n"
    "\n"
    "Examples:\n"
    "  heap_profile diff old/raw-trace new/raw-trace\n"
    "  heap_profile diff --by function --view alloc_space old new\n"
    "  heap_profile diff trace@1 trace@last           what accumulated during the run\n";

struct request {
    struct compare_options compare;
    struct compare_choice choices[2];
    struct profile_read_options reading;
    struct profile_filter filter;
    struct compare_pids pids;
    const char *heap, *pprof;
    int demangling;
    bool json, all_frames;
};

static const struct option_entry options[] = {
    OPTION_ENTRY_CHOICE("by", struct request, compare.diff.by, dimension_names),
    VIEW_OPTION(struct request, compare.view),
    OPTION_ENTRY("lines", 0, OPTION_SET, struct request, compare.diff.lines),
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct request, compare.stacks),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct request, compare.top),
    OPTION_ENTRY_CALL("pid", 0, struct request, pids, take_compare_pids),
    OPTION_ENTRY("heap", 0, OPTION_TEXT, struct request, heap),
    DEMANGLE_OPTION(struct request, demangling),
    FILTER_OPTIONS(struct request, filter),
    FRAMES_OPTION(struct request, all_frames),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTION_ENTRY("pprof", 0, OPTION_TEXT, struct request, pprof),
    OPTIONS_END,
};

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *request)
{
    static const struct verb_line line = {"heap_profile diff", help, options, false};
    int code = options_parse(&line, argc, argv, request);
    if (code >= 0)
        return code;
    if (argc - optind < 1 || argc - optind > 2) {
        fputs("heap_profile: which two profiles? As in: heap_profile diff BEFORE AFTER\n", stderr);
        return VERB_USAGE;
    }
    request->reading.demangling = demangling_of(request->demangling, request->json);
    request->reading.filter = &request->filter;
    for (int i = 0; i < 2; i++) {
        request->choices[i].pid = request->pids.of[i];
        request->choices[i].heap = request->heap;
    }
    return -1;
}

static bool is_one_dump(const struct compare_source *source)
{
    for (size_t i = 0; i < source->dump_count; i++)
        if (source->dumps[i].heap->dump_count > 1)
            return false;
    return true;
}

static int open_sources(char *const *arguments, int count, struct compare_source sources[2],
                        const struct request *request, struct error *error)
{
    int code = compare_source_parse(arguments[0], &sources[0], error);
    if (code == 0)
        code = compare_source_parse(arguments[count - 1], &sources[1], error);
    if (code < 0)
        return code;
    if (count == 1 && sources[0].which != COMPARE_LAST)
        return error_set(error, -EINVAL, "%s is a single dump: name a second one to compare",
                         arguments[0]);
    if (count == 1) {
        sources[0].which = COMPARE_NUMBER;
        sources[0].number = 1;
    }
    code = compare_sources_read(sources, &request->reading, error);
    for (int i = 0; i < 2 && code == 0; i++)
        code = compare_source_choose(&sources[i], &request->choices[i], error);
    if (code == 0 && count == 1 && is_one_dump(&sources[0]))
        code = error_set(error, -EINVAL,
                         "%s has only one dump: name a second profile, or record several dumps "
                         "with --continuous-dump",
                         arguments[0]);
    return code;
}

/* Write the difference by callsite, even if the table has other rows. */
static int write_pprof(const char *path, const struct compare_source sources[2],
                       const struct diff_side *before, const struct diff_side *after)
{
    const struct diff_options by_callsite = {.by = DIMENSION_CALLSITE, .lines = true};
    struct error error = {0};
    char title[512];
    snprintf(title, sizeof(title), "heap_profile diff %.200s %.200s", sources[0].argument,
             sources[1].argument);
    struct output_file file;
    int code = output_file_open(&file, path, 0, &error);
    if (code < 0) {
        verb_fail(&error);
        return code;
    }
    struct diff *diff = xmalloc_made(diff_new(before, after, &by_callsite));
    code = diff_pprof_write(diff, before, after, title, packed_file_is_name(path), file.fd, &error);
    code = output_file_close(&file, code, &error);
    if (code < 0)
        verb_fail(&error);
    diff_free(diff);
    return code;
}

static int diff_print(const struct request *request, const struct compare_source sources[2])
{
    struct diff_side before = {sources[0].profile, sources[0].dumps, sources[0].dump_count};
    struct diff_side after = {sources[1].profile, sources[1].dumps, sources[1].dump_count};
    if (request->pprof != NULL && write_pprof(request->pprof, sources, &before, &after) < 0)
        return VERB_FAILED;
    struct compare_options compare = request->compare;
    struct compare_stacks stacks = {
        .profiles = {before.profile, after.profile},
        .all_frames = request->all_frames,
        .lines = compare.diff.lines,
        .columns = stack_format_columns(stdout),
    };
    compare_stacks_make(&stacks);
    if (request->json && compare.view == EXPORT_VIEWS) {
        compare.view = EXPORT_SPACE;
    } else if (!request->json) {
        compare.shown = &stacks;
        compare.diff.as_shown = !compare.diff.lines && !compare.stacks;
        compare.diff.stacks = compare.diff.as_shown && compare.diff.by == DIMENSION_CALLSITE;
        for (int i = 0; i < 2 && !request->all_frames; i++)
            compare.diff.foldings[i] = &stacks.foldings[i];
    }
    struct diff *diff = xmalloc_made(diff_new(&before, &after, &compare.diff));
    if (request->json)
        compare_print_json(diff, sources, &compare, stdout);
    else
        compare_print_text(diff, sources, &compare, stdout);
    diff_free(diff);
    compare_stacks_clear(&stacks);
    return verb_end_output("difference", VERB_DONE);
}

int cmd_diff(int argc, char **argv)
{
    struct request request = {
        .compare = {.view = EXPORT_VIEWS,
                    .top = 20,
                    .colours = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL},
        .demangling = DEMANGLING_DEFAULT,
    };
    struct compare_source sources[2] = {0};
    struct error error = {0};
    int code = parse_arguments(argc, argv, &request);
    if (code < 0) {
        bool whole_stacks = request.json || request.compare.stacks;
        if (open_sources(argv + optind, argc - optind, sources, &request, &error) == 0 &&
            compare_sources_check_size(sources, whole_stacks, &error) == 0)
            code = diff_print(&request, sources);
        else
            code = verb_fail(&error);
    }
    compare_sources_warn(sources);
    compare_sources_close(sources);
    profile_filter_clear(&request.filter);
    return code;
}
