/* SPDX-License-Identifier: Apache-2.0 */
/* Walks all stacks of a row outwards at once, from named function to named function, as long as
 * these are the same. */
#include "tools/print/row_stacks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/demangle.h"
#include "tools/print/format.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

#define PARTS_SHOWN 2u   /* callers with their share; the others are counted */
#define STACKS_MAX 4096u /* of a row: the parts of more are not looked for */
#define NAME_COLUMNS 40
#define PARTS_ROOM 20u /* columns that a row keeps for its function beside where stacks part */

static const struct profile_frame *frame_at(const struct profile *profile, uint32_t callsite)
{
    return &profile->frames[profile->callsites[callsite].frame];
}

void row_lines_add(struct row_lines *lines, const struct folding *folding,
                   const struct profile *profile, uint32_t callsite, double change, double weight)
{
    struct folding_row row;
    folding_row_of(folding, profile, callsite, &row);
    const struct profile_frame *frame =
        row.own == PROFILE_NONE ? NULL : frame_at(profile, row.steps[row.own].callsite);
    uint32_t at = 0;
    lines->is_unknown |= frame == NULL || frame->line == 0;
    if (lines->is_unknown)
        return;
    while (at < lines->count && (lines->known[at].number != frame->line ||
                                 strcmp(lines->known[at].file, frame->source_file) != 0))
        at++;
    lines->is_unknown |= at == ROW_LINES_MAX;
    if (lines->is_unknown)
        return;
    struct row_line *line = &lines->known[at];
    if (at == lines->count) {
        *line = (struct row_line){frame->source_file, frame->line, 0, -1, PROFILE_NONE};
        lines->count++;
    }
    line->change += change;
    if (weight > line->heaviest) {
        line->heaviest = weight;
        line->callsite = callsite;
    }
}

uint32_t row_lines_most(const struct row_lines *lines, double direction, uint32_t *callsite)
{
    uint32_t shown = 0;
    double most = 0;
    for (uint32_t i = 0; i < lines->count && !lines->is_unknown; i++) {
        const struct row_line *line = &lines->known[i];
        if (line->callsite == PROFILE_NONE)
            continue;
        if (shown++ == 0 || line->change * direction > most) {
            most = line->change * direction;
            *callsite = line->callsite;
        }
    }
    return shown;
}

/* --- functions of run times --- */

/* Share of a row's memory. */
#define MOST 0.8

uint32_t row_stacks_run_time(const struct folding *folding, const struct profile *profile,
                             const struct row_stack *stacks, size_t count)
{
    size_t heaviest = 0;
    double total = 0, of_same = 0;
    for (size_t i = 0; i < count; i++) {
        total += fabs(stacks[i].rank);
        heaviest = fabs(stacks[i].rank) > fabs(stacks[heaviest].rank) ? i : heaviest;
    }
    uint32_t at = folding_run_time(folding, profile, stacks[heaviest].callsite);
    if (at == PROFILE_NONE)
        return PROFILE_NONE;
    for (size_t i = 0; i < count; i++) {
        uint32_t other = folding_run_time(folding, profile, stacks[i].callsite);
        if (other != PROFILE_NONE && frame_at(profile, other)->name == frame_at(profile, at)->name)
            of_same += fabs(stacks[i].rank);
    }
    return of_same >= MOST * total ? profile->callsites[at].frame : PROFILE_NONE;
}

/* --- parts --- */

struct part {
    const char *name; /* NULL: no further caller has one */
    uint32_t callsite;
    double rank;
};

/* Return the callsite itself, or the next one outwards, that has a name. */
static uint32_t named_from(const struct folding *folding, const struct profile *profile,
                           uint32_t callsite)
{
    while (callsite != PROFILE_NONE && *frame_at(profile, callsite)->name == '\0')
        callsite = folding_caller(folding, profile, callsite);
    return callsite;
}

static const char *name_at(const struct profile *profile, uint32_t callsite)
{
    return callsite == PROFILE_NONE ? NULL : frame_at(profile, callsite)->name;
}

/* Move all stacks outwards to where they part. Return false if they never do. Equal names are the
 * same pointer. How often a function called itself is no difference. */
static bool find_parting(const struct folding *folding, const struct profile *profile, uint32_t *at,
                         size_t count)
{
    for (;;) {
        const char *name = name_at(profile, at[0]);
        for (size_t i = 1; i < count; i++)
            if (name_at(profile, at[i]) != name)
                return true;
        if (name == NULL)
            return false;
        for (size_t i = 0; i < count; i++)
            while (name_at(profile, at[i]) == name)
                at[i] = named_from(folding, profile, folding_caller(folding, profile, at[i]));
    }
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? 1 : -1;
    if (left->name == NULL || right->name == NULL)
        return (left->name == NULL) - (right->name == NULL);
    return strcmp(left->name, right->name);
}

static size_t sum_up(const struct profile *profile, const struct row_stack *stacks,
                     const uint32_t *at, size_t count, struct part *parts)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t j = 0;
        while (j < used && parts[j].name != name_at(profile, at[i]))
            j++;
        if (j == used)
            parts[used++] = (struct part){name_at(profile, at[i]), at[i], 0};
        parts[j].rank += stacks[i].rank;
    }
    qsort(parts, used, sizeof(*parts), compare_parts);
    return used;
}

static void print_name(const struct profile *profile, const struct part *part, FILE *out)
{
    if (part->name == NULL) {
        fputs("no further caller", out);
        return;
    }
    const struct profile_frame *frame = frame_at(profile, part->callsite);
    char *simple = *frame->obfuscated_name == '\0' && *frame->linkage_name != '\0'
                       ? demangle_name_as(frame->linkage_name, DEMANGLE_SIMPLE)
                       : NULL;
    format_print(out, simple != NULL ? simple : frame->name, NAME_COLUMNS);
    free(simple);
}

static void print_parts(const struct profile *profile, const struct part *parts, size_t count,
                        FILE *out)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += parts[i].rank;
    size_t shown = count <= PARTS_SHOWN + 1 ? count : PARTS_SHOWN;
    while (shown > 1 && 100 * parts[shown - 1].rank < total / 2) /* it would be 0 % */
        shown--;
    for (size_t i = 0; i < shown; i++) {
        fputs(i > 0 ? ", " : "", out);
        print_name(profile, &parts[i], out);
        fprintf(out, " %.0f %%", total > 0 ? 100 * parts[i].rank / total : 0);
    }
    if (shown < count)
        fprintf(out, ", %zu other%s", count - shown, count - shown == 1 ? "" : "s");
}

bool row_stacks_print_parts(const struct folding *folding, const struct profile *profile,
                            const struct row_stack *stacks, size_t count, FILE *out)
{
    if (count < 2 || count > STACKS_MAX)
        return false;
    uint32_t *at = xcalloc(count, sizeof(*at));
    struct part *parts = xcalloc(count, sizeof(*parts));
    for (size_t i = 0; i < count; i++) {
        struct folding_row row;
        folding_row_of(folding, profile, stacks[i].callsite, &row);
        at[i] = named_from(folding, profile, row.next);
    }
    bool done = find_parting(folding, profile, at, count);
    if (done)
        print_parts(profile, parts, sum_up(profile, stacks, at, count, parts), out);
    free(at);
    free(parts);
    return done;
}

void row_stacks_print(const struct stack_format *format, uint32_t callsite,
                      const struct row_stack *stacks, size_t count, FILE *out)
{
    const struct folding *folding = format->folding;
    const struct profile *profile = format->profile;
    struct stack_format to = *format;
    char *parts = NULL;
    size_t length = 0;
    FILE *text = xopen_memstream(&parts, &length);
    bool parting = row_stacks_print_parts(folding, profile, stacks, count, text);
    xclose_memstream(text);
    uint32_t run_time = row_stacks_run_time(folding, profile, stacks, count);
    to.run_time_frame = run_time == PROFILE_NONE ? 0 : 1 + run_time;
    struct row_lines lines = {.is_unknown = count > STACKS_MAX};
    for (size_t i = 0; i < count && !lines.is_unknown; i++)
        row_lines_add(&lines, folding, profile, stacks[i].callsite, stacks[i].rank,
                      fabs(stacks[i].rank));
    to.own_lines = row_lines_most(&lines, 1, &callsite);
    size_t used = parting ? utf8_count(parts) + 3 : 0;
    if (format->columns > 0 && used > 0) {
        parting = used + PARTS_ROOM <= format->columns;
        to.columns = parting ? format->columns - used : format->columns;
    }
    stack_format_print_row(&to, callsite, out);
    fprintf(out, "%s%s\n", parting ? " < " : "", parting ? parts : "");
    free(parts);
}
