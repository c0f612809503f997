/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses dumps and computes facts that the text and JSON reports share. */
#include "tools/cli/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "util/ranked.h"
#include "util/xmalloc.h"

int32_t report_pid_of_stream(const struct profile *profile, const struct profile_stream *stream)
{
    return stream->process != PROFILE_NONE ? profile->processes[stream->process].pid : 0;
}

int report_check_size(const struct profile *profile, const struct report_options *options,
                      bool whole_stacks, struct error *error)
{
    struct export_callers callers = {0};
    uint64_t frames = 0;
    int code = 0;
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_dump *dump =
            dump_choice_of(&options->choice, profile, &profile->heaps[i]);
        if (dump != NULL)
            code = whole_stacks ? export_count_frames(profile, dump, &frames, error)
                                : export_callers_add(&callers, profile, dump, error);
    }
    export_callers_clear(&callers);
    return code;
}

/* --- groups --- */

const char *report_group_key_name(enum dimension key)
{
    return key == DIMENSION_CALLSITE ? "backtrace" : dimension_names[key];
}

static enum dimension parse_key(const char *text, size_t length)
{
    static const enum dimension keys[] = {DIMENSION_TYPE, DIMENSION_CONTEXT, DIMENSION_CALLSITE};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *name = report_group_key_name(keys[i]);
        if (strlen(name) == length && strncmp(name, text, length) == 0)
            return keys[i];
    }
    return DIMENSIONS;
}

bool report_parse_groups(const char *text, struct report_groups *groups)
{
    size_t length = strcspn(text, ",");
    enum dimension *by = groups->by;
    groups->depth = text[length] == ',' ? 2 : 1;
    by[0] = parse_key(text, length);
    by[1] = DIMENSIONS;
    if (groups->depth == 2)
        by[1] = parse_key(text + length + 1, strlen(text + length + 1));
    /* Backtraces alone would be the ordinary report. */
    return by[0] != DIMENSIONS && by[0] != by[1] &&
           (groups->depth == 2 ? by[1] != DIMENSIONS : by[0] != DIMENSION_CALLSITE);
}

size_t *report_rank_rows(const struct sums_row *rows, size_t count, enum export_view view,
                         size_t *ranked_count)
{
    struct ranked *ranked = xcalloc(count + 1, sizeof(*ranked));
    size_t *order = xcalloc(count + 1, sizeof(*order)), used = 0;
    for (size_t i = 0; i < count; i++) {
        struct profile_estimate figure = estimate_of_view(&rows[i].values, view);
        double rank = estimate_rank(&figure, view);
        if (rank >= 0.5)
            ranked[used++] = (struct ranked){i, rank};
    }
    ranked_sort(ranked, used);
    for (size_t i = 0; i < used; i++)
        order[i] = ranked[i].index;
    free(ranked);
    *ranked_count = used;
    return order;
}
