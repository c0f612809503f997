/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile leaks: lists, by call stack, the memory that a program holds or has accumulated
 * between two dumps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/compare/leaks.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/parse.h"
#include "tools/cli/options/profile_options.h"
#include "tools/cli/view/saved_page.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"

static const char help[] =
    "usage: heap_profile leaks [options] [A]    call stacks with live memory in A\n"
    "       heap_profile leaks [options] A B    call stacks that have grown from A to B\n"
    "\n"
    "Lists callsites by the memory that they allocated themselves and still hold, for each "
    "process\n"
    "and heap, with 95 % limits, and by type if types are known: those that grow beyond chance "
    "first,\n"
    "then the largest. A line below each says how much of what it allocated was freed, how old is\n"
    "what is live, and whether it grows, turns over (a cache), or no longer grows. A and B are\n"
    "profiles (a DIR or TRACE that heap_profile wrote, Chrome's heap dumps, pprof files and "
    "others:\n"
    "docs/formats.md), or dumps of a trace: TRACE@2 (by number), TRACE@12.5s (nearest to that\n"
    "time), TRACE@max, TRACE@last (default; before the end if the program freed all then), "
    "TRACE@final.\n"
    "Without A: the latest profile.\n"
    "\n"
    "  --threshold N         only call stacks of more than N allocations\n"
    "  --size-threshold BYTES   only call stacks of more bytes (k, M, G)\n"
    "  --shrunk        list call stacks that shrank, too\n"
    "  --top N         rows of each heap (on a terminal 20, else all; 0: all)\n"
    "  --lines, --stacks   show source lines, and distinguish call stacks by them; show whole "
    "stacks,\n"
    "                  each in a row of its own\n"
    "  --match-by-labels   pair processes by name and command line instead of pid\n"
    "  --filter-by-name NAME, --filter-by-labels TEXT   only processes of this name; only those\n"
    "                  with TEXT in their command line\n"
    "  --pid PID[,PID], --heap NAME   only this process (in A and B), only this heap\n" FILTER_HELP
        FRAMES_HELP
    "  --demangle full|simple|none   form of functions' names (simple; with --json or --output "
    "full)\n"
    "  --output DIR    write DIR/process_PID_HEAP-leaks.json, for scripts made for Chrome's\n"
    "  --flame-graph   with --output: also write DIR/graph/index.html, the page of heap_profile "
    "view\n"
    "                  on this comparison, and the stacks as JSON\n"
    "  --json          print one JSON object (docs/leaks.md)\n"
    "\n"
    "Without A, lists what is live at the end of the latest profile. Processes are paired by pid.\n"
    "If each side has one process, these two are compared.\n"
    "\n"
    "Examples:\n"
    "  heap_profile leaks --size-threshold 1M profile\n"
    "  heap_profile leaks trace@1 trace@last           what accumulated during the run\n"
    "  heap_profile leaks --match-by-labels before.json.gz after.json.gz\n";

#define PEAK_TOLD_BYTES 1e6 /* less is not worth a hint */

struct request {
    struct leaks_options leaks;
    struct compare_choice choices[2];
    struct profile_read_options reading;
    struct profile_filter filter;
    struct compare_pids pids;
    const char *heap, *name, *labels, *directory;
    int demangling;
    bool json, flame_graph, by_labels;
};

static bool take_threshold(void *member, const char *name, const char *value)
{
    (void)name;
    struct growth_options *growth = member;
    uint64_t count;
    if (!parse_number("--threshold", value, INT64_MAX, &count))
        return false;
    growth->has_count_threshold = true;
    growth->count_threshold = (double)count;
    return true;
}

static bool take_size_threshold(void *member, const char *name, const char *value)
{
    (void)name;
    struct growth_options *growth = member;
    uint64_t bytes;
    if (!parse_bytes("--size-threshold", value, &bytes))
        return false;
    growth->size_threshold = (double)bytes;
    return true;
}

static const struct option_entry options[] = {
    OPTION_ENTRY_CALL("threshold", 0, struct request, leaks.growth, take_threshold),
    OPTION_ENTRY_CALL("size-threshold", 0, struct request, leaks.growth, take_size_threshold),
    OPTION_ENTRY("shrunk", 0, OPTION_SET, struct request, leaks.shrunk),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct request, leaks.top),
    OPTION_ENTRY("lines", 0, OPTION_SET, struct request, leaks.lines),
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct request, leaks.stacks),
    OPTION_ENTRY("match-by-labels", 0, OPTION_SET, struct request, by_labels),
    OPTION_ENTRY("filter-by-name", 0, OPTION_TEXT, struct request, name),
    OPTION_ENTRY("filter-by-labels", 0, OPTION_TEXT, struct request, labels),
    OPTION_ENTRY_CALL("pid", 0, struct request, pids, take_compare_pids),
    OPTION_ENTRY("heap", 0, OPTION_TEXT, struct request, heap),
    DEMANGLE_OPTION(struct request, demangling),
    OPTION_ENTRY("output", 0, OPTION_TEXT, struct request, directory),
    OPTION_ENTRY("flame-graph", 0, OPTION_SET, struct request, flame_graph),
    FILTER_OPTIONS(struct request, filter),
    FRAMES_OPTION(struct request, leaks.all_frames),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTIONS_END,
};

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *request)
{
    static const struct verb_line line = {"heap_profile leaks", help, options, false};
    int code = options_parse(&line, argc, argv, request);
    if (code >= 0)
        return code;
    if (argc - optind > 2) {
        format_printf(stderr,
                      "heap_profile: leaks takes a profile, or one before and one after: not also "
                      "'%s'\n",
                      argv[optind + 2]);
        return VERB_USAGE;
    }
    if (request->flame_graph && request->directory == NULL) {
        fputs("heap_profile: --flame-graph needs --output DIR to write to\n", stderr);
        return VERB_USAGE;
    }
    struct error error;
    if (request->flame_graph && saved_page_check(&error) < 0) {
        fprintf(stderr, "heap_profile: %s\n", error.message);
        return VERB_FAILED;
    }
    if (argc - optind < 2 && request->pids.of[0] != request->pids.of[1]) {
        fputs("heap_profile: --pid takes one process of one profile\n", stderr);
        return VERB_USAGE;
    }
    request->leaks.pairing = request->by_labels ? DIFF_PAIR_LABELS : DIFF_PAIR_PIDS;
    request->reading.demangling =
        demangling_of(request->demangling, request->json || request->directory != NULL);
    request->reading.filter = &request->filter;
    for (int i = 0; i < 2; i++)
        request->choices[i] = (struct compare_choice){request->pids.of[i], request->heap,
                                                      request->name, request->labels, true};
    return -1;
}

static int read_sources(struct compare_source sources[2], int count,
                        const struct profile_read_options *reading, struct error *error)
{
    if (count == 2)
        return compare_sources_read(sources, reading, error);
    sources[1].profile = progress_import(sources[1].path, reading, error);
    return sources[1].profile == NULL ? error->code : 0;
}

static void drop_profiles(struct compare_source sources[2])
{
    if (sources[1].profile != sources[0].profile)
        profile_free(sources[1].profile);
    profile_free(sources[0].profile);
    sources[0].profile = sources[1].profile = NULL;
}

/* Return whether a source lacks an earlier moment, which its checkpoints may have: it has one dump
 * only, and another one is named, or the program had freed most by then. */
static bool lacks_moment(const struct compare_source *source)
{
    bool freed = false;
    struct stat file;
    /* What is no file cannot be read again. */
    if (stat(source->path, &file) < 0 || !S_ISREG(file.st_mode))
        return false;
    for (size_t i = 0; i < source->profile->heap_count; i++) {
        const struct profile_heap *heap = &source->profile->heaps[i];
        if (heap->dump_count > 1)
            return false;
        freed |= heap->dump_count == 1 && compare_is_freed_at_end(heap);
    }
    return source->which == COMPARE_LAST ? freed && !source->is_final : true;
}

static bool wants_checkpoints(const struct compare_source sources[2], int count)
{
    return lacks_moment(&sources[1]) || (count == 2 && lacks_moment(&sources[0]));
}

/* Say so if the program freed most of its memory at its end: whether the list is of before. */
static void tell_moment(const struct compare_source *source)
{
    const struct profile_heap *lost = NULL;
    for (size_t i = 0; i < source->dump_count; i++) {
        const struct profile_heap *heap = source->dumps[i].heap;
        double peak = heap->status.peak_live_bytes, live;
        live = rollup_live_bytes(&source->dumps[i].dump->total);
        if (compare_is_before_end(source, &source->dumps[i]))
            format_printf(stderr,
                          "heap_profile: %s: the program had freed most of its memory at its end: "
                          "this is of %s, and nothing later is in it (-c 1s takes a dump each "
                          "second); @final is the end\n",
                          source->argument, compare_time_of(heap, source->dumps[i].dump).bytes);
        if (compare_is_before_end(source, &source->dumps[i]))
            return;
        if (source->which == COMPARE_LAST && !source->is_final && source->dumps[i].dump->final &&
            live < peak / 4 && peak > PEAK_TOLD_BYTES)
            lost = heap;
    }
    if (lost != NULL)
        format_printf(stderr,
                      "heap_profile: %s: the program had freed most of its memory at its end, and "
                      "it has no earlier dump: record with -c 1s for one each second; "
                      "heap_profile report --view max shows the peak\n",
                      source->argument);
}

/* Open one or two sources. With one argument, or none, sources[0] stays empty. */
static int open_sources(char *const *arguments, int count, struct compare_source sources[2],
                        const struct request *request, struct error *error)
{
    int code = compare_source_parse(count > 0 ? arguments[count - 1] : NULL, &sources[1], error);
    count = count < 1 ? 1 : count;
    if (code == 0 && count == 2)
        code = compare_source_parse(arguments[0], &sources[0], error);
    if (code == 0)
        code = read_sources(sources, count, &request->reading, error);
    if (code == 0 && wants_checkpoints(sources, count)) {
        struct profile_read_options reading = request->reading;
        reading.withdrawn = true;
        drop_profiles(sources);
        code = read_sources(sources, count, &reading, error);
    }
    for (int i = 2 - count; i < 2 && code == 0; i++)
        code = compare_source_choose(&sources[i], &request->choices[i], error);
    return code;
}

static int leaks_print(const struct request *request, const struct leaks *leaks,
                       struct error *error)
{
    if (request->json)
        leaks_print_json(leaks, stdout);
    else
        leaks_print_text(leaks, stdout);
    if (fflush(stdout) != 0 || ferror(stdout))
        return error_set(error, -errno, "cannot write the list: %s", strerror(errno));
    return 0;
}

/* Write the files, in which each call stack is an entry. */
static int write_files(const struct request *request, struct compare_source *before,
                       struct compare_source *after, struct error *error)
{
    struct leaks_options exact = request->leaks;
    struct leaks_written written;
    struct leaks leaks;
    exact.by_stack = true;
    leaks_make(before, after, &exact, &leaks);
    int code = leaks_write_files(&leaks, request->directory, request->flame_graph, &written, error);
    if (code == 0 && written.removed > 0)
        format_printf(stderr, "heap_profile: %zu file%s of an earlier run removed from %s\n",
                      written.removed, written.removed == 1 ? "" : "s", request->directory);
    leaks_clear(&leaks);
    return code;
}

static int find_leaks(const struct request *request, struct compare_source sources[2],
                      bool compared, struct error *error)
{
    struct leaks leaks;
    bool whole_stacks = request->json || request->directory != NULL || request->leaks.stacks;
    if (compare_sources_check_size(sources, whole_stacks, error) < 0)
        return error->code;
    struct compare_source *before = compared ? &sources[0] : NULL;
    int code = 0;
    leaks_make(before, &sources[1], &request->leaks, &leaks);
    if (leaks.heap_count == 0)
        code = error_set(error, -ENOENT, "no process of %.100s is in %.100s, too: %s",
                         sources[0].argument, sources[1].argument,
                         request->leaks.pairing == DIFF_PAIR_PIDS
                             ? "none has the same pid; --match-by-labels pairs them by name and "
                               "command line, --pid PID,PID names one of each"
                             : "none has the same name and command line; without "
                               "--match-by-labels, --pid PID,PID names one of each");
    else if (request->directory != NULL)
        code = write_files(request, before, &sources[1], error);
    if (code == 0)
        code = leaks_print(request, &leaks, error);
    leaks_clear(&leaks);
    return code;
}

/* Return whether both sources chose the same dumps of one profile: nothing can have grown. */
static bool are_same(const struct compare_source sources[2])
{
    bool same =
        sources[0].profile == sources[1].profile && sources[0].dump_count == sources[1].dump_count;
    for (size_t i = 0; i < sources[0].dump_count && same; i++)
        same = sources[0].dumps[i].dump == sources[1].dumps[i].dump;
    return same;
}

/* Return whether there are two moments to compare. If the profile has only one, say so: what is
 * live then is listed. */
static bool has_two_moments(const struct compare_source sources[2], int count)
{
    if (count < 2 || !are_same(sources))
        return count == 2;
    for (size_t i = 0; i < sources[1].dump_count; i++)
        if (sources[1].dumps[i].heap->dump_count > 1)
            return true;
    format_printf(stderr,
                  "heap_profile: %s has only one dump: this lists what is live in it, not what "
                  "grew; -c 1s takes a dump each second\n",
                  sources[1].argument);
    return false;
}

int cmd_leaks(int argc, char **argv)
{
    bool terminal = isatty(STDOUT_FILENO);
    struct request request = {
        .leaks = {.top = terminal ? 20 : 0, .colours = terminal && getenv("NO_COLOR") == NULL},
        .demangling = DEMANGLING_DEFAULT,
    };
    struct compare_source sources[2] = {0};
    struct error error = {0};
    int code = parse_arguments(argc, argv, &request);
    if (code < 0) {
        int count = argc - optind;
        code = VERB_DONE;
        if (open_sources(argv + optind, count, sources, &request, &error) < 0 ||
            find_leaks(&request, sources, has_two_moments(sources, count), &error) < 0)
            code = verb_fail(&error);
        else
            tell_moment(&sources[1]);
        compare_sources_warn(sources);
    }
    compare_sources_close(sources);
    profile_filter_clear(&request.filter);
    return code;
}
