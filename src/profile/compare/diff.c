/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a difference: collects the atoms of each pair of heaps, adds them up to rows, and judges
 * each row's change. */
#include "profile/compare/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/callsite_nodes.h"
#include "profile/compare/diff_pairs.h"
#include "profile/compare/diff_significance.h"
#include "profile/compare/matching.h"
#include "profile/tree_sums.h"
#include "trace/intern.h"
#include "util/array.h"
#include "util/ranked.h"

/* The smallest unit of a difference: the part of one thread, type and context in a callsite, on
 * both sides. */
struct atom {
    const struct profile *profile; /* the profile of the four below */
    uint32_t callsite;
    int32_t tid;
    const char *type, *context;
    int side;
    bool peak_only; /* of a whole callsite: its parts have no peak of their own */
    struct rollup_values values[2];
};

struct work {
    const struct diff_options *options;
    const struct diff_side *sides[2];
    const struct matching *matching;
    struct diff_pair *pair;
    struct intern_table atom_ids, text_ids, row_ids, type_ids;
    struct atom *atoms;
    size_t atom_capacity, row_capacity, type_capacity;
    uint32_t *rows_of_numbers;      /* of functions or modules: index + 1, 0 between pairs */
    struct callsite_nodes nodes[2]; /* by side */
};

enum diff_figure diff_figure_of(enum export_view view)
{
    return view == EXPORT_MAX                                           ? DIFF_PEAK
           : view == EXPORT_ALLOC_SPACE || view == EXPORT_ALLOC_OBJECTS ? DIFF_ALLOCATED
                                                                        : DIFF_LIVE;
}

struct profile_estimate diff_estimate_of(const struct rollup_values *values,
                                         enum diff_figure figure)
{
    const struct trace_figures *figures = &values->figures;
    switch (figure) {
    case DIFF_ALLOCATED:
        return rollup_allocated_of(figures);
    case DIFF_PEAK:
        return (struct profile_estimate){.bytes = values->peak.bytes,
                                         .count = values->peak.count,
                                         .bytes_variance = values->peak.bytes_variance,
                                         .count_variance = values->peak.count_variance,
                                         .samples = values->peak.samples,
                                         .is_peak = true};
    default:
        return rollup_live_of(figures);
    }
}

/* --- atoms --- */

static struct atom *atom_of(struct work *work, int side, uint32_t callsite,
                            const struct profile_part *part, bool peak_only)
{
    bool added;
    const char *type = part != NULL ? part->type : "", *context = part != NULL ? part->context : "";
    uint64_t key[] = {
        work->matching->sides[side].exact[callsite],
        part != NULL ? (uint32_t)part->tid : 0,
        intern_bytes(&work->text_ids, type, strlen(type), &added),
        intern_bytes(&work->text_ids, context, strlen(context), &added),
        (uint64_t)(part != NULL) + 2 * (uint64_t)peak_only,
    };
    uint64_t id = intern_bytes(&work->atom_ids, key, sizeof(key), &added);
    if (id == 0 || key[2] == 0 || key[3] == 0 ||
        ARRAY_RESERVE(&work->atoms, &work->atom_capacity, id - 1, 1) < 0)
        return NULL;
    struct atom *atom = &work->atoms[id - 1];
    if (added)
        *atom = (struct atom){.profile = work->sides[side]->profile,
                              .callsite = callsite,
                              .tid = part != NULL ? part->tid : 0,
                              .type = type,
                              .context = context,
                              .side = side,
                              .peak_only = peak_only};
    return atom;
}

static int take_sample(struct work *work, int side, const struct profile_sample *sample)
{
    struct rollup_values all = rollup_values_of(sample);
    for (uint32_t i = 0; i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        struct rollup_values values = {.figures = part->figures};
        if (sample->tagged)
            values.peak = part->peak;
        struct atom *atom = atom_of(work, side, sample->callsite, part, false);
        if (atom == NULL)
            return -ENOMEM;
        rollup_values_add(&atom->values[side], &values);
    }
    if (sample->part_count > 0 && sample->tagged)
        return 0;
    struct atom *atom = atom_of(work, side, sample->callsite, NULL, sample->part_count > 0);
    if (atom == NULL)
        return -ENOMEM;
    rollup_values_add(&atom->values[side], &all);
    return 0;
}

static int take_atoms(struct work *work, int side, const struct export_dump *dumps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < dumps[i].dump->sample_count; j++)
            if (take_sample(work, side, dumps[i].dump->samples[j]) < 0)
                return -ENOMEM;
    return 0;
}

/* --- gained and lost --- */

static struct profile_estimate less(const struct profile_estimate *whole,
                                    const struct profile_estimate *part)
{
    return (struct profile_estimate){.bytes = whole->bytes - part->bytes,
                                     .count = whole->count - part->count,
                                     .bytes_variance = whole->bytes_variance - part->bytes_variance,
                                     .count_variance = whole->count_variance - part->count_variance,
                                     .samples = whole->samples - part->samples};
}

static struct profile_estimate freed_of(const struct rollup_values *values)
{
    const struct trace_figures *figures = &values->figures;
    return (struct profile_estimate){.bytes = figures->freed_bytes,
                                     .count = figures->freed_count,
                                     .bytes_variance = figures->freed_bytes_variance,
                                     .count_variance = figures->freed_count_variance,
                                     .samples = (double)(int64_t)figures->freed_samples};
}

/* Return a lower bound of what both dumps have in common; see estimate_change.h. */
static struct profile_estimate common_at_least(const struct rollup_values values[2],
                                               enum diff_figure figure,
                                               const struct profile_estimate *first)
{
    /* The earlier dump has the smaller sum of all allocations. */
    double one = values[0].figures.allocated_count, other = values[1].figures.allocated_count;
    const struct rollup_values *late = &values[other >= one], *early = &values[other < one];
    struct profile_estimate freed = freed_of(late), before = freed_of(early), at_least;
    if (figure == DIFF_ALLOCATED)
        return *first;
    if (figure == DIFF_LIVE)
        freed = less(&freed, &before);
    at_least = less(first, &freed);
    return at_least;
}

struct change_parts diff_parts_of(const struct rollup_values values[2], enum diff_figure figure,
                                  bool same_process)
{
    struct profile_estimate before = diff_estimate_of(&values[0], figure);
    struct profile_estimate after = diff_estimate_of(&values[1], figure);
    if (!same_process)
        return (struct change_parts){.gained = after, .lost = before};
    if (profile_estimate_is_same(&before, &after))
        return (struct change_parts){0};
    bool forward = values[1].figures.allocated_count >= values[0].figures.allocated_count;
    struct profile_estimate common = common_at_least(values, figure, forward ? &before : &after);
    return change_parts_of_common(&before, &after, &common);
}

/* --- rows --- */

static void add_parts(struct change_parts *sum, const struct change_parts *more)
{
    profile_estimate_add(&sum->gained, &more->gained);
    profile_estimate_add(&sum->lost, &more->lost);
}

static void add_to_row(const struct work *work, struct diff_row *row, const struct atom *atom)
{
    for (enum diff_figure figure = 0; figure < DIFF_FIGURES; figure++) {
        if (figure == DIFF_PEAK ? row->peak_is_unknown : atom->peak_only)
            continue;
        struct profile_estimate before = diff_estimate_of(&atom->values[0], figure);
        struct profile_estimate after = diff_estimate_of(&atom->values[1], figure);
        struct change_parts parts = diff_parts_of(atom->values, figure, work->pair->same_process);
        profile_estimate_add(&row->before[figure], &before);
        profile_estimate_add(&row->after[figure], &after);
        add_parts(&row->parts[figure], &parts);
    }
}

static struct diff_row *diff_row_of(struct work *work, const void *key, size_t length,
                                    const struct diff_row *fresh)
{
    bool added;
    struct diff_pair *pair = work->pair;
    uint64_t id = intern_bytes(&work->row_ids, key, length, &added);
    if (id == 0 || ARRAY_RESERVE(&pair->rows, &work->row_capacity, id - 1, 1))
        return NULL;
    if (added) {
        pair->rows[id - 1] = *fresh;
        pair->row_count = id;
    }
    return &pair->rows[id - 1];
}

/* Return the row of all stacks that a line of the table shows alike. */
static struct diff_row *row_as_shown(struct work *work, int number, uint32_t callsite,
                                     const struct diff_row *fresh)
{
    const struct matching_side *side = &work->matching->sides[number];
    const struct profile *profile = fresh->profile;
    const struct folding *folding = work->options->foldings[number];
    uint64_t key[2 * FOLDING_STEPS_MAX + 2] = {0};
    struct folding_row row;
    size_t used = 0;
    folding_row_of(folding, profile, callsite, &row);
    key[used++] = side->modules[profile->callsites[row.steps[0].callsite].frame];
    for (uint32_t i = 0; i < row.count; i++) {
        const struct folding_step *step = &row.steps[i];
        uint32_t frame = profile->callsites[step->callsite].frame;
        key[used++] = step->nameless > 0 ? side->modules[frame] : side->functions[frame];
        key[used++] = step->nameless;
    }
    key[used] = row.next != PROFILE_NONE;
    return diff_row_of(work, key, sizeof(key), fresh);
}

static struct diff_row *row_of_callsite(struct work *work, int side, uint32_t callsite)
{
    struct diff_row fresh = {
        .profile = work->sides[side]->profile, .callsite = callsite, .frame = PROFILE_NONE};
    const uint64_t *key = &work->matching->sides[side].callsites[callsite];
    return work->options->as_shown ? row_as_shown(work, side, callsite, &fresh)
                                   : diff_row_of(work, key, sizeof(*key), &fresh);
}

static const uint64_t *numbers_of(const struct work *work, int side)
{
    const struct matching_side *matched = &work->matching->sides[side];
    return work->options->by == DIMENSION_FUNCTION ? matched->functions : matched->modules;
}

static void diff_add_row(void *to, const void *from)
{
    struct diff_row *sum = to;
    const struct diff_row *more = from;
    for (enum diff_figure figure = 0; figure < DIFF_FIGURES; figure++) {
        profile_estimate_add(&sum->before[figure], &more->before[figure]);
        profile_estimate_add(&sum->after[figure], &more->after[figure]);
        add_parts(&sum->parts[figure], &more->parts[figure]);
    }
}

/* Return the row of a frame's function or module. The first frame of a row makes it. */
static struct diff_row *row_of_frame(struct work *work, int side, uint32_t frame)
{
    struct diff_pair *pair = work->pair;
    uint32_t *row = &work->rows_of_numbers[numbers_of(work, side)[frame]];
    if (*row == 0) {
        const struct diff_row fresh = {
            .profile = work->sides[side]->profile, .callsite = PROFILE_NONE, .frame = frame};
        if (ARRAY_ADD(&pair->rows, &pair->row_count, &work->row_capacity, fresh) < 0)
            return NULL;
        *row = (uint32_t)pair->row_count;
    }
    return &pair->rows[*row - 1];
}

/* Make the rows of all frames on the stacks of a side's atoms, and mark their callsites. */
static int mark_stacks(struct work *work, int side, struct callsite_nodes *nodes)
{
    const struct profile_callsite *callsites = nodes->profile->callsites;
    for (size_t i = 0; i < work->atom_ids.count; i++) {
        uint32_t at = work->atoms[i].callsite;
        for (; work->atoms[i].side == side && at != PROFILE_NONE && callsite_nodes_mark(nodes, at);
             at = callsites[at].parent)
            if (row_of_frame(work, side, callsites[at].frame) == NULL)
                return -ENOMEM;
    }
    return callsite_nodes_list(nodes);
}

/* Add a side's atoms to the rows of functions or modules, each including its callees. */
static int add_side_by_frames(struct work *work, int side, struct callsite_nodes *nodes)
{
    int code = mark_stacks(work, side, nodes);
    struct diff_row *values = code == 0 ? calloc(nodes->count + 1, sizeof(*values)) : NULL;
    uint32_t *rows = code == 0 ? calloc(nodes->count + 1, sizeof(*rows)) : NULL;
    code = values == NULL || rows == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < nodes->count && code == 0; i++) {
        uint32_t frame = nodes->profile->callsites[nodes->nodes[i].callsite].frame;
        rows[i] = work->rows_of_numbers[numbers_of(work, side)[frame]] - 1;
    }
    for (size_t i = 0; i < work->atom_ids.count && code == 0; i++)
        if (work->atoms[i].side == side)
            add_to_row(work, &values[nodes->places[work->atoms[i].callsite] - 1], &work->atoms[i]);
    const struct tree_sums sums = {
        .count = nodes->count,
        .row_count = work->pair->row_count,
        .parents = TREE_COLUMN(nodes->nodes, parent),
        .rows = rows,
        .values = values,
        .value_bytes = sizeof(*values),
        .totals = {work->pair->rows, sizeof(*work->pair->rows), 0},
        .add = diff_add_row,
    };
    code = code == 0 ? tree_sums_add(&sums) : code;
    free(values);
    free(rows);
    return code;
}

static int add_by_frames(struct work *work)
{
    const struct matching *matching = work->matching;
    uint64_t most = matching->function_count > matching->module_count ? matching->function_count
                                                                      : matching->module_count;
    if (work->rows_of_numbers == NULL)
        work->rows_of_numbers = calloc(most + 1, sizeof(*work->rows_of_numbers));
    int code = work->rows_of_numbers == NULL ? -ENOMEM : 0;
    for (int side = 0; side < 2 && code == 0; side++) {
        struct callsite_nodes *nodes = &work->nodes[side];
        if (nodes->profile == NULL)
            code = callsite_nodes_begin(nodes, work->sides[side]->profile);
        if (code == 0)
            code = add_side_by_frames(work, side, nodes);
        callsite_nodes_clear(nodes);
    }
    for (size_t i = 0; i < work->pair->row_count; i++) {
        const struct diff_row *row = &work->pair->rows[i];
        int side = row->profile != work->sides[0]->profile;
        work->rows_of_numbers[numbers_of(work, side)[row->frame]] = 0;
    }
    return code;
}

static const char *thread_label(const struct work *work, const struct atom *atom)
{
    int32_t pid = 0;
    const struct diff_pair *pair = work->pair;
    const struct export_dump *dumps = atom->side == 0 ? pair->before : pair->after;
    size_t count = atom->side == 0 ? pair->before_count : pair->after_count;
    const char *name = "";
    for (size_t i = 0; i < count && *name == '\0'; i++) {
        pid = atom->profile->processes[dumps[i].heap->process].pid;
        name = profile_thread_name(atom->profile, pid, atom->tid);
    }
    return name;
}

static int add_by_label(struct work *work, const struct atom *atom)
{
    struct diff_row fresh = {
        .profile = atom->profile, .callsite = PROFILE_NONE, .frame = PROFILE_NONE};
    enum dimension by = work->options->by;
    fresh.peak_is_unknown = by == DIMENSION_THREAD;
    struct diff_row *row;
    if (by == DIMENSION_THREAD && atom->peak_only)
        return 0;
    if (by == DIMENSION_THREAD && work->pair->same_process) {
        fresh.tid = atom->tid;
        fresh.label = thread_label(work, atom);
        row = diff_row_of(work, &fresh.tid, sizeof(fresh.tid), &fresh);
    } else {
        fresh.label = by == DIMENSION_THREAD ? thread_label(work, atom)
                      : by == DIMENSION_TYPE ? atom->type
                                             : atom->context;
        row = diff_row_of(work, fresh.label, strlen(fresh.label), &fresh);
    }
    if (row == NULL)
        return -ENOMEM;
    add_to_row(work, row, atom);
    return 0;
}

static int add_type(struct work *work, const struct diff_row *row, const struct atom *atom)
{
    bool added;
    struct diff_pair *pair = work->pair;
    const char *type = *atom->type != '\0' ? atom->type : DIFF_NO_TYPE;
    uint64_t key[] = {(uint64_t)(row - pair->rows),
                      intern_bytes(&work->text_ids, type, strlen(type), &added)};
    uint64_t id = intern_bytes(&work->type_ids, key, sizeof(key), &added);
    if (key[1] == 0 || id == 0 || ARRAY_RESERVE(&pair->types, &work->type_capacity, id - 1, 1) < 0)
        return -ENOMEM;
    struct diff_type *sum = &pair->types[id - 1];
    if (added) {
        *sum = (struct diff_type){.row = key[0], .type = type};
        pair->type_count = id;
    }
    struct change_parts parts = diff_parts_of(atom->values, DIFF_LIVE, work->pair->same_process);
    sum->gained_bytes += parts.gained.bytes;
    sum->lost_bytes += parts.lost.bytes;
    sum->gained_count += parts.gained.count;
    sum->lost_count += parts.lost.count;
    return 0;
}

static int compare_types(const void *left, const void *right)
{
    const struct diff_type *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return strcmp(a->type, b->type);
}

/* Order types by row. */
static void order_types(struct diff_pair *pair)
{
    if (pair->type_count > 1)
        qsort(pair->types, pair->type_count, sizeof(*pair->types), compare_types);
    for (size_t i = 0; i < pair->type_count; i++) {
        struct diff_row *row = &pair->rows[pair->types[i].row];
        if (row->type_count++ == 0)
            row->type_first = i;
    }
}

static int add_atom(struct work *work, const struct atom *atom)
{
    add_to_row(work, &work->pair->total, atom);
    if (dimension_info[work->options->by].on_stacks)
        return 0; /* add_by_frames() adds all atoms at once */
    if (work->options->by != DIMENSION_CALLSITE)
        return add_by_label(work, atom);
    struct diff_row *row = row_of_callsite(work, atom->side, atom->callsite);
    if (row == NULL)
        return -ENOMEM;
    add_to_row(work, row, atom);
    return work->options->types && !atom->peak_only ? add_type(work, row, atom) : 0;
}

/* --- stacks --- */

static int compare_stacks(const void *left, const void *right)
{
    const struct diff_stack *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->sample->callsite < b->sample->callsite ? -1
                                                     : a->sample->callsite > b->sample->callsite;
}

static int list_side(struct work *work, int side, const struct export_dump *dumps, size_t count)
{
    struct diff_pair *pair = work->pair;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < dumps[i].dump->sample_count; j++) {
            const struct profile_sample *sample = dumps[i].dump->samples[j];
            struct diff_row *row = row_of_callsite(work, side, sample->callsite);
            if (row == NULL)
                return -ENOMEM;
            pair->stacks[pair->stack_count++] =
                (struct diff_stack){(size_t)(row - pair->rows), side, sample};
        }
    return 0;
}

static size_t count_samples(const struct export_dump *dumps, size_t count)
{
    size_t samples = 0;
    for (size_t i = 0; i < count; i++)
        samples += dumps[i].dump->sample_count;
    return samples;
}

static int list_stacks(struct work *work)
{
    struct diff_pair *pair = work->pair;
    size_t count = count_samples(pair->before, pair->before_count) +
                   count_samples(pair->after, pair->after_count);
    pair->stacks = calloc(count + 1, sizeof(*pair->stacks));
    if (pair->stacks == NULL || list_side(work, 0, pair->before, pair->before_count) < 0 ||
        list_side(work, 1, pair->after, pair->after_count) < 0)
        return -ENOMEM;
    if (count > 1)
        qsort(pair->stacks, count, sizeof(*pair->stacks), compare_stacks);
    for (size_t i = 0; i < count; i++) {
        struct diff_row *row = &pair->rows[pair->stacks[i].row];
        if (row->stack_count++ == 0)
            row->stack_first = i;
    }
    return 0;
}

/* --- the difference --- */

static int fill_pair(struct work *work, struct diff_pair *pair)
{
    work->pair = pair;
    work->row_capacity = work->type_capacity = 0;
    pair->total =
        (struct diff_row){.callsite = PROFILE_NONE, .frame = PROFILE_NONE, .label = "total"};
    int code = take_atoms(work, 0, pair->before, pair->before_count);
    if (code == 0)
        code = take_atoms(work, 1, pair->after, pair->after_count);
    for (uint64_t i = 0; code == 0 && i < work->atom_ids.count; i++)
        code = add_atom(work, &work->atoms[i]);
    if (code == 0 && dimension_info[work->options->by].on_stacks)
        code = add_by_frames(work);
    if (code == 0 && work->options->stacks)
        code = list_stacks(work);
    if (code == 0) {
        order_types(pair);
        code = diff_judge_significance(work->options, pair);
    }
    intern_free(&work->atom_ids);
    intern_free(&work->text_ids);
    intern_free(&work->row_ids);
    intern_free(&work->type_ids);
    work->atom_ids = work->text_ids = (struct intern_table){0};
    work->row_ids = work->type_ids = (struct intern_table){0};
    return code;
}

/* Return whether any pair is of one process. Only then must frames without names be distinguished
 * by address, so that samples in both dumps cancel out. */
static bool has_same_process(const struct diff *diff)
{
    for (size_t i = 0; i < diff->pair_count; i++)
        if (diff->pairs[i].same_process)
            return true;
    return false;
}

struct diff *diff_new(const struct diff_side *before, const struct diff_side *after,
                      const struct diff_options *options)
{
    struct matching_options match = {.lines = options->lines};
    struct work work = {.options = options, .sides = {before, after}};
    struct diff *diff = calloc(1, sizeof(*diff));
    struct matching *matching = NULL;
    int code = diff == NULL ? -ENOMEM : diff_pairs_make(before, after, options->pairing, diff);
    if (code == 0) {
        diff_pairs_programs(before, after, diff, match.programs);
        match.addresses = has_same_process(diff);
        work.matching = matching = matching_new(before->profile, after->profile, &match);
        code = matching == NULL ? -ENOMEM : 0;
    }
    for (size_t i = 0; code == 0 && i < diff->pair_count; i++)
        code = fill_pair(&work, &diff->pairs[i]);
    callsite_nodes_free(&work.nodes[0]);
    callsite_nodes_free(&work.nodes[1]);
    free(work.atoms);
    free(work.rows_of_numbers);
    matching_free(matching);
    if (code < 0) {
        diff_free(diff);
        return NULL;
    }
    return diff;
}

void diff_free(struct diff *diff)
{
    if (diff == NULL)
        return;
    for (size_t i = 0; i < diff->pair_count; i++) {
        free(diff->pairs[i].before);
        free(diff->pairs[i].after);
        free(diff->pairs[i].rows);
        free(diff->pairs[i].types);
        free(diff->pairs[i].stacks);
    }
    free(diff->pairs);
    free(diff);
}

/* --- ranking --- */

bool diff_is_unknown(const struct diff_pair *pair, enum export_view view)
{
    for (size_t i = 0; i < pair->before_count; i++)
        if (export_view_is_unknown(pair->before[i].heap, view))
            return true;
    for (size_t i = 0; i < pair->after_count; i++)
        if (export_view_is_unknown(pair->after[i].heap, view))
            return true;
    return false;
}

const struct diff_row **diff_rank(const struct diff_pair *pair, enum export_view view,
                                  size_t *count)
{
    struct ranked *ranked = calloc(pair->row_count + 1, sizeof(*ranked));
    const struct diff_row **rows = calloc(pair->row_count + 1, sizeof(struct diff_row *));
    size_t used = 0;
    if (ranked == NULL || rows == NULL) {
        free(ranked);
        free(rows);
        return NULL;
    }
    for (size_t i = 0; i < pair->row_count; i++)
        if (pair->rows[i].changes[view].value != 0)
            ranked[used++] = (struct ranked){i, fabs(pair->rows[i].changes[view].value)};
    ranked_sort(ranked, used);
    for (size_t i = 0; i < used; i++)
        rows[i] = &pair->rows[ranked[i].index];
    free(ranked);
    *count = used;
    return rows;
}
