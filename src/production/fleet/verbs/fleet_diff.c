/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet diff: two selections, each as the profile of a mean process, compared as
 * heap_profile diff compares profiles. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/verbs/fleet.h"
#include "tools/cli/compare/compare_format.h"
#include "tools/print/stack_format.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: heap_profile fleet diff [options] BEFORE AFTER\n"
    "\n"
    "Shows what grew and what shrank between two selections, with 95 % limits, and marks changes\n"
    "that sampling alone does not explain. All figures are of a mean process, so that selections\n"
    "of different size can be compared: live at a mean moment, or allocated in an hour. BEFORE "
    "and\n"
    "AFTER are conditions, joined by commas: version=1.4, build_id=8f2e..., host=web-7, any other\n"
    "label, since=TIME, until=TIME; or 'rest': all others within --service, --label and the time.\n"
    "\n" FLEET_SELECTION_HELP "  --by WHAT       rows: callsite (default), function or module\n"
    "  --view VIEW     space (default), objects, alloc_space, alloc_objects\n"
    "  --lines, --stacks, --top N   as for heap_profile diff\n" FILTER_HELP FRAMES_HELP
        DEMANGLE_FULL_HELP
    "  --json          print all figures as JSON (docs/diff.md)\n" FLEET_SERVER_HELP "\n"
    "Examples:\n"
    "  heap_profile fleet diff --service checkout version=1.4 version=1.5\n"
    "  heap_profile fleet diff --service checkout since=14d,until=7d since=7d\n"
    "  heap_profile fleet diff --service checkout rest host=canary-1\n";

static const char *const by_names[] = {
    [DIMENSION_CALLSITE] = "callsite",
    [DIMENSION_FUNCTION] = "function",
    [DIMENSION_MODULE] = "module",
    [DIMENSION_MODULE + 1] = NULL,
};

static const struct option_entry options[] = {
    FLEET_SERVER_OPTIONS,
    FLEET_SELECTION_OPTIONS,
    OPTION_ENTRY_CHOICE("by", struct fleet_request, by, by_names),
    VIEW_OPTION(struct fleet_request, report.view),
    OPTION_ENTRY("lines", 0, OPTION_SET, struct fleet_request, lines),
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct fleet_request, report.stacks),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct fleet_request, report.top),
    FILTER_OPTIONS(struct fleet_request, filter),
    FRAMES_OPTION(struct fleet_request, report.all_frames),
    DEMANGLE_OPTION(struct fleet_request, demangling),
    OPTION_ENTRY("json", 0, OPTION_SET, struct fleet_request, json),
    OPTIONS_END,
};

static bool is_rest(const char *operand)
{
    return strcmp(operand, "rest") == 0;
}

/* Make the selections of both operands from the common one. */
static int parse_sides(char *const *operands, const struct fleet_request *request,
                       struct fleet_selection sides[2], struct fleet_selection alone[2],
                       struct error *error)
{
    int code = 0;
    if (is_rest(operands[0]) && is_rest(operands[1]))
        return error_set(error, -EINVAL, "'rest' can be only one of BEFORE and AFTER");
    for (int i = 0; i < 2 && code == 0; i++) {
        sides[i] = request->selection;
        alone[i] = (struct fleet_selection){0};
        if (!is_rest(operands[i])) {
            code = fleet_selection_add(&alone[i], operands[i], request->now_s, error);
            if (code == 0)
                code = fleet_selection_add(&sides[i], operands[i], request->now_s, error);
        }
        if (sides[i].since_s < 0)
            sides[i].since_s = request->now_s - FLEET_DAY_S;
        fleet_selection_round(&sides[i]);
    }
    for (int i = 0; i < 2 && code == 0; i++)
        if (is_rest(operands[i])) {
            if (alone[1 - i].condition_count == 0)
                return error_set(error, -EINVAL, "'rest' is the rest of which label?");
            sides[i].since_s = sides[1 - i].since_s;
            sides[i].until_s = sides[1 - i].until_s;
            sides[i].except = &alone[1 - i];
        }
    return code;
}

static int choose(struct compare_source *source, struct profile *profile, const char *argument)
{
    source->argument = argument;
    source->profile = profile;
    source->dumps = calloc(profile->heap_count + 1, sizeof(*source->dumps));
    if (source->dumps == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < profile->heap_count; i++)
        source->dumps[source->dump_count++] =
            (struct export_dump){&profile->heaps[i], &profile->heaps[i].dumps[0]};
    return 0;
}

static int fleet_diff_print(const struct fleet_request *request,
                            const struct compare_source sources[2])
{
    struct diff_side before = {sources[0].profile, sources[0].dumps, sources[0].dump_count};
    struct diff_side after = {sources[1].profile, sources[1].dumps, sources[1].dump_count};
    struct compare_stacks stacks = {
        .profiles = {before.profile, after.profile},
        .all_frames = request->report.all_frames,
        .lines = request->lines,
        .columns = stack_format_columns(stdout),
    };
    struct compare_options compare = {
        .diff = {.by = request->by, .lines = request->lines},
        .view = request->report.view,
        .top = request->report.top,
        .stacks = request->report.stacks,
        .colours = request->report.colours,
    };
    compare_stacks_make(&stacks);
    if (!request->json) {
        compare.shown = &stacks;
        compare.diff.as_shown = !request->lines && !compare.stacks;
        for (int i = 0; i < 2 && !request->report.all_frames; i++)
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

static int fleet_diff_compare(const struct fleet_request *request, char *const *operands)
{
    struct fleet_selection sides[2], alone[2];
    struct compare_source sources[2] = {0};
    struct error error = {0};
    struct fleet_facts facts[2];
    int code = VERB_FAILED;
    if (parse_sides(operands, request, sides, alone, &error) < 0) {
        verb_fail(&error);
        return VERB_USAGE;
    }
    struct clickhouse *server = fleet_connect(request);
    struct profile *before = NULL, *after = NULL;
    if (server != NULL)
        before = fleet_read(server, request, &sides[0], 1, &facts[0]);
    if (before != NULL)
        after = fleet_read(server, request, &sides[1], 2, &facts[1]);
    if (after != NULL && choose(&sources[0], before, operands[0]) == 0 &&
        choose(&sources[1], after, operands[1]) == 0) {
        if (compare_sources_check_size(sources, request->json || request->report.stacks, &error) <
            0)
            verb_fail(&error);
        else
            code = fleet_diff_print(request, sources);
    }
    free(sources[0].dumps);
    free(sources[1].dumps);
    profile_free(before);
    profile_free(after);
    clickhouse_close(server);
    return code;
}

int fleet_diff(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet diff", help, options, false};
    struct fleet_request request = {0};
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0 && argc - optind != 2) {
        fputs("heap_profile: which two selections? As in: heap_profile fleet diff version=1.4 "
              "version=1.5\n",
              stderr);
        code = VERB_USAGE;
    }
    if (code < 0)
        code = fleet_diff_compare(&request, argv + optind);
    fleet_request_clear(&request);
    return code;
}
