/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of figures by function, mapping and thread, and over the tree of callsites. */
#include "profile/rollup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/agreement.h"
#include "profile/interpreter_frames.h"
#include "profile/partial.h"
#include "profile/tree_sums.h"
#include "trace/intern.h"
#include "util/id_map.h"

/* Sums of calibrated estimates differ from the exact total by less than this part. */
#define CALIBRATION_ROUNDING 1e-6
/* Two sums that should be equal differ by less than this part. */
#define SUMS_ROUNDING 1e-9

double rollup_live_bytes_variance(const struct trace_figures *figures)
{
    double variance = figures->allocated_bytes_variance - figures->freed_bytes_variance;
    return variance > 0 ? variance : 0;
}

double rollup_live_count_variance(const struct trace_figures *figures)
{
    double variance = figures->allocated_count_variance - figures->freed_count_variance;
    return variance > 0 ? variance : 0;
}

struct profile_estimate rollup_live_of(const struct trace_figures *figures)
{
    return (struct profile_estimate){
        .bytes = rollup_live_bytes(figures),
        .count = rollup_live_count(figures),
        .bytes_variance = rollup_live_bytes_variance(figures),
        .count_variance = rollup_live_count_variance(figures),
        .samples = (double)trace_figures_live_samples(figures),
    };
}

/* Return whether the samples of a dump add up to its exact total: few samples do not. */
static bool is_calibrated(const struct profile_dump *dump, double sum, double exact)
{
    /* Sums of files of one period are whole numbers. */
    return dump->sampled_calls + dump->earlier.sampled_calls > 0 &&
           fabs(sum - exact) <= CALIBRATION_ROUNDING * exact + 1;
}

struct profile_calibration rollup_calibration_of(const struct profile_heap *heap,
                                                 const struct profile_dump *dump)
{
    struct trace_figures all = dump->total;
    trace_figures_add(&all, &dump->earlier.sampled);
    const struct trace_figures *total = &all;
    double exact_bytes = (double)(dump->exact_bytes + dump->earlier.exact_bytes);
    double exact_calls = (double)(dump->exact_calls + dump->earlier.exact_calls);
    double interval_bytes = (double)heap->interval_bytes;
    struct profile_calibration calibration = {
        .bytes_variance = total->allocated_bytes_variance,
        .count_variance = total->allocated_count_variance,
        .missed_count = fmax(total->allocated_count - (double)total->samples, 0),
        .ratio = dump->calibration_ratio,
        .peak_bytes_bias = dump->peak_bytes_bias,
        .peak_count_bias = dump->peak_count_bias,
    };
    if (!(total->allocated_bytes_variance > 0))
        return calibration;
    /* A sample with p < 1 adds at most the square of its interval. */
    double uncertain = total->allocated_bytes_variance / (interval_bytes * interval_bytes);
    double samples = fmin(uncertain, (double)total->samples);
    bool bytes = is_calibrated(dump, total->allocated_bytes, exact_bytes);
    bool count = is_calibrated(dump, total->allocated_count, exact_calls);
    calibration.samples = bytes ? samples : NAN;
    calibration.samples_of_counts = count ? samples : NAN;
    return calibration;
}

double rollup_most(const struct profile_heap *heap, const struct profile_dump *dump, bool counts)
{
    /* The exact totals lack samples that the program drew itself, and threads without a slot. */
    if (heap->status.weighed_samples > 0 || heap->status.lost[TRACE_LOST_NO_THREAD_SLOT] > 0 ||
        dump->disagrees || dump->earlier.unknown)
        return 0;
    struct profile_agreement agreement = profile_agreement_of(heap, dump);
    const struct profile_gap *gap = counts ? &agreement.calls : &agreement.bytes;
    if (agreement.known && gap->missing < 0 && profile_gap_is_real(gap))
        return 0; /* the samples show that the total is too low */
    return counts ? (double)(dump->exact_calls + dump->earlier.exact_calls)
                  : (double)(dump->exact_bytes + dump->earlier.exact_bytes);
}

bool rollup_totals_are_exact(const struct profile_heap *heap, const struct profile_dump *dump)
{
    return dump->exact_calls > 0 && profile_totals_why_partial(heap, dump) == NULL &&
           rollup_most(heap, dump, false) > 0 && rollup_most(heap, dump, true) > 0;
}

struct rollup_values rollup_total_of(const struct profile_dump *dump)
{
    struct rollup_values total = {dump->total, dump->left_out.sum.peak};
    for (size_t i = 0; i < dump->sample_count; i++)
        trace_peak_figures_add(&total.peak, &dump->samples[i]->peak);
    return total;
}

static double bias_of(double highest, double estimate, double variance)
{
    double bias = highest - estimate;
    return variance > 0 && bias > SUMS_ROUNDING * highest ? bias / variance : 0;
}

void rollup_find_peak_bias(struct profile_dump *dump)
{
    if (!(dump->peak_highest_bytes > 0))
        return;
    const struct trace_peak_figures peak = rollup_total_of(dump).peak;
    dump->peak_bytes_bias = bias_of(dump->peak_highest_bytes, peak.bytes, peak.bytes_variance);
    dump->peak_count_bias = bias_of(dump->peak_highest_count, peak.count, peak.count_variance);
}

struct rollup_size rollup_size_of(const struct profile_dump *dump)
{
    double live = rollup_live_bytes(&dump->total), peak = 0;
    for (size_t i = 0; i < dump->sample_count; i++)
        peak += dump->samples[i]->peak.bytes;
    return (struct rollup_size){peak > live ? peak : live, dump->total.allocated_bytes};
}

int rollup_size_compare(const struct rollup_size *left, const struct rollup_size *right)
{
    if (left->held != right->held)
        return left->held > right->held ? -1 : 1;
    return left->allocated > right->allocated ? -1 : left->allocated < right->allocated;
}

/* --- by function or mapping --- */

/* Return the number of a text; equal texts have equal numbers. `known` has the number by pointer,
 * so that a long text which many frames share is compared once. 0: no memory. */
static uint64_t number_text(struct intern_table *texts, struct id_map *known, const char *text)
{
    bool added;
    uint32_t number = id_map_find(known, (uint64_t)(uintptr_t)text);
    if (number != ID_MAP_NONE)
        return number;
    uint64_t id = intern_bytes(texts, text, strlen(text), &added);
    return id_map_set(known, (uint64_t)(uintptr_t)text, (uint32_t)id) < 0 ? 0 : id;
}

/* Return an array with the row of each frame, and the number of rows in *row_count. NULL: no
 * memory.
 */
static uint32_t *row_of_frames(const struct profile *profile, enum rollup_key key,
                               size_t *row_count)
{
    struct intern_table names = {0}, table = {0};
    struct id_map known = {0};
    uint32_t *rows = calloc(profile->frame_count + 1, sizeof(*rows));
    for (size_t i = 0; rows != NULL && i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        const char *path =
            frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
        uint64_t parts[3] = {0};
        bool added;
        parts[0] = number_text(&names, &known, path);
        bool is_named = key == ROLLUP_FUNCTION && *frame->name != '\0';
        if (is_named)
            parts[1] = number_text(&names, &known, frame->name);
        else if (key == ROLLUP_FUNCTION)
            parts[2] = frame->function_start;
        /* Many functions have one name, as "<module>", in a mapping of them all. */
        bool has_source = key == ROLLUP_FUNCTION && interpreter_frames_has(profile, frame);
        if (has_source)
            parts[2] = number_text(&names, &known, frame->source_file);
        bool has_memory =
            parts[0] != 0 && (!is_named || parts[1] != 0) && (!has_source || parts[2] != 0);
        uint64_t id = has_memory ? intern_bytes(&table, parts, sizeof(parts), &added) : 0;
        if (id == 0) {
            free(rows);
            rows = NULL;
            break;
        }
        rows[i] = (uint32_t)(id - 1);
    }
    *row_count = table.count;
    intern_free(&names);
    intern_free(&table);
    id_map_free(&known);
    return rows;
}

void rollup_tables_clear(struct rollup_tables *tables)
{
    if (tables->nodes.profile != NULL)
        callsite_nodes_free(&tables->nodes);
    for (size_t i = 0; i < sizeof(tables->rows) / sizeof(tables->rows[0]); i++) {
        free(tables->rows[i].of_frames);
        free(tables->rows[i].places);
    }
    *tables = (struct rollup_tables){.profile = tables->profile};
}

/* Return the rows of all frames by function or mapping. NULL: no memory. */
static struct rollup_rows *rows_by(struct rollup_tables *tables, enum rollup_key key)
{
    struct rollup_rows *rows = &tables->rows[key == ROLLUP_MAPPING];
    if (rows->of_frames == NULL)
        rows->of_frames = row_of_frames(tables->profile, key, &rows->count);
    if (rows->of_frames != NULL && rows->places == NULL)
        rows->places = calloc(rows->count + 1, sizeof(*rows->places));
    return rows->of_frames == NULL || rows->places == NULL ? NULL : rows;
}

const uint32_t *rollup_functions(struct rollup_tables *tables, size_t *count)
{
    const struct rollup_rows *rows = rows_by(tables, ROLLUP_FUNCTION);
    *count = rows != NULL ? rows->count + 1 : 0;
    return rows != NULL ? rows->of_frames : NULL;
}

/* List the callsites that are on the stacks of a dump. */
static int list_callsites(struct rollup_tables *tables, const struct profile_dump *dump)
{
    if (tables->nodes.profile == NULL && callsite_nodes_begin(&tables->nodes, tables->profile) < 0)
        return -ENOMEM;
    callsite_nodes_clear(&tables->nodes);
    callsite_nodes_mark_dump(&tables->nodes, dump);
    return callsite_nodes_list(&tables->nodes);
}

struct seen_row {
    uint32_t row, frame;
};

static int compare_rows(const void *left_pointer, const void *right_pointer)
{
    const struct seen_row *left = left_pointer, *right = right_pointer;
    return left->row < right->row ? -1 : left->row > right->row;
}

/* Make a rollup row for each function, or mapping, of the listed callsites, in the order of row
 * numbers. Set node_rows[i] to that of node i. */
static int make_rows(struct rollup *rollup, const struct rollup_tables *tables,
                     const struct rollup_rows *rows, uint32_t *node_rows)
{
    const struct callsite_nodes *nodes = &tables->nodes;
    struct seen_row *seen = reallocarray(NULL, nodes->count + 1, sizeof(*seen));
    for (size_t i = 0; seen != NULL && i < nodes->count; i++) {
        uint32_t frame = tables->profile->callsites[nodes->nodes[i].callsite].frame;
        node_rows[i] = rows->of_frames[frame];
        if (rows->places[node_rows[i]] == 0)
            seen[rollup->row_count++] = (struct seen_row){node_rows[i], frame};
        rows->places[node_rows[i]] = 1;
    }
    rollup->rows = calloc(rollup->row_count + 1, sizeof(*rollup->rows));
    bool has_memory = seen != NULL && rollup->rows != NULL;
    if (has_memory)
        qsort(seen, rollup->row_count, sizeof(*seen), compare_rows);
    for (size_t i = 0; has_memory && i < rollup->row_count; i++) {
        rollup->rows[i].frame = seen[i].frame;
        rows->places[seen[i].row] = (uint32_t)i;
    }
    for (size_t i = 0; has_memory && i < nodes->count; i++)
        node_rows[i] = rows->places[node_rows[i]];
    for (size_t i = 0; seen != NULL && i < rollup->row_count; i++)
        rows->places[seen[i].row] = 0;
    free(seen);
    return has_memory ? 0 : -ENOMEM;
}

static void rollup_add_values(void *sum, const void *more)
{
    rollup_values_add(sum, more);
}

static int rollup_by_frame(struct rollup *rollup, struct rollup_tables *tables,
                           const struct profile_dump *dump, enum rollup_key key)
{
    const struct callsite_nodes *nodes = &tables->nodes;
    struct rollup_rows *rows = rows_by(tables, key);
    if (rows == NULL || list_callsites(tables, dump) < 0)
        return -ENOMEM;
    uint32_t *node_rows = calloc(nodes->count + 1, sizeof(*node_rows));
    struct rollup_values *values = calloc(nodes->count + 1, sizeof(*values));
    int code = node_rows == NULL || values == NULL ? -ENOMEM : 0;
    if (code == 0)
        code = make_rows(rollup, tables, rows, node_rows);
    for (size_t i = 0; i < dump->sample_count && code == 0; i++) {
        const struct rollup_values own = rollup_values_of(dump->samples[i]);
        uint32_t node = nodes->places[dump->samples[i]->callsite] - 1;
        rollup_values_add(&rollup->rows[node_rows[node]].self, &own);
        rollup_values_add(&values[node], &own);
    }
    const struct tree_sums sums = {
        .count = nodes->count,
        .row_count = rollup->row_count,
        .parents = TREE_COLUMN(nodes->nodes, parent),
        .rows = node_rows,
        .values = values,
        .value_bytes = sizeof(*values),
        .totals = TREE_COLUMN(rollup->rows, cumulative),
        .add = rollup_add_values,
    };
    code = code == 0 ? tree_sums_add(&sums) : code;
    free(node_rows);
    free(values);
    return code;
}

/* --- by thread --- */

static int add_thread(struct rollup *rollup, struct id_map *rows, const struct profile_part *thread)
{
    uint32_t index = id_map_find(rows, (uint32_t)thread->tid);
    if (index == ID_MAP_NONE) {
        index = (uint32_t)rollup->row_count++;
        if (id_map_set(rows, (uint32_t)thread->tid, index) < 0)
            return -ENOMEM;
        rollup->rows[index].frame = PROFILE_NONE;
        rollup->rows[index].tid = thread->tid;
    }
    trace_figures_add(&rollup->rows[index].self.figures, &thread->figures);
    return 0;
}

static int rollup_by_thread(struct rollup *rollup, const struct profile_dump *dump)
{
    struct id_map rows = {0};
    int code = 0;
    rollup->rows = calloc(dump->part_count + 1, sizeof(*rollup->rows));
    if (rollup->rows == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < dump->sample_count; i++) {
        for (uint32_t j = 0; j < dump->samples[i]->part_count && code == 0; j++)
            code = add_thread(rollup, &rows, &dump->samples[i]->parts[j]);
    }
    for (size_t i = 0; i < rollup->row_count; i++)
        rollup->rows[i].cumulative = rollup->rows[i].self;
    id_map_free(&rows);
    return code;
}

struct rollup *rollup_new(struct rollup_tables *tables, const struct profile_dump *dump,
                          enum rollup_key key)
{
    struct rollup *rollup = calloc(1, sizeof(*rollup));
    if (rollup == NULL)
        return NULL;
    int code = key == ROLLUP_THREAD ? rollup_by_thread(rollup, dump)
                                    : rollup_by_frame(rollup, tables, dump, key);
    if (code < 0) {
        rollup_free(rollup);
        return NULL;
    }
    return rollup;
}

void rollup_free(struct rollup *rollup)
{
    if (rollup == NULL)
        return;
    free(rollup->rows);
    free(rollup);
}

/* --- the tree --- */

void rollup_tree_free(struct rollup_tree *tree)
{
    if (tree == NULL)
        return;
    free(tree->nodes);
    free(tree);
}

/* Make the tree's nodes, and set by_callsite to the node of each listed callsite. Without rows
 * (NULL) each callsite has a node of its own. With rows, callsites of the same row share a node if
 * their parents share one. */
static int make_nodes(struct rollup_tree *tree, const struct rollup_tables *tables,
                      const struct rollup_rows *rows, uint32_t *by_callsite)
{
    const struct callsite_nodes *nodes = &tables->nodes;
    struct id_map first = {0}; /* by parent's node and row */
    int code = 0;
    for (size_t i = 0; i < nodes->count && code == 0; i++) {
        const struct listed_callsite *from = &nodes->nodes[i];
        uint32_t parent = from->parent == PROFILE_NONE ? PROFILE_NONE : by_callsite[from->parent];
        uint32_t known = ID_MAP_NONE;
        if (rows != NULL) {
            uint32_t row = rows->of_frames[tables->profile->callsites[from->callsite].frame];
            uint64_t key = (uint64_t)parent << 32 | row;
            known = id_map_find(&first, key);
            if (known == ID_MAP_NONE)
                code = id_map_set(&first, key, (uint32_t)tree->count);
        }
        by_callsite[i] = known != ID_MAP_NONE ? known : (uint32_t)tree->count;
        if (known == ID_MAP_NONE)
            tree->nodes[tree->count++] = (struct rollup_node){
                .callsite = from->callsite,
                .parent = parent,
                .first_child = PROFILE_NONE,
                .next_sibling = PROFILE_NONE,
            };
    }
    id_map_free(&first);
    return code;
}

/* Link children to their parents, and add them up. Children come after their parents, so going
 * backwards each node is complete when it is added to its parent. */
static void link_nodes(struct rollup_tree *tree)
{
    tree->first_root = PROFILE_NONE;
    for (size_t i = tree->count; i-- > 0;) {
        struct rollup_node *node = &tree->nodes[i];
        struct rollup_node *parent =
            node->parent == PROFILE_NONE ? NULL : &tree->nodes[node->parent];
        uint32_t *list = parent == NULL ? &tree->first_root : &parent->first_child;
        node->next_sibling = *list;
        *list = (uint32_t)i;
        if (parent != NULL)
            rollup_values_add(&parent->cumulative, &node->cumulative);
    }
}

struct rollup_tree *rollup_tree_new(struct rollup_tables *tables, const struct profile_dump *dump,
                                    bool by_function)
{
    struct rollup_tree *tree = calloc(1, sizeof(*tree));
    struct rollup_rows *rows = by_function ? rows_by(tables, ROLLUP_FUNCTION) : NULL;
    uint32_t *by_callsite = NULL;
    if (tree == NULL || (by_function && rows == NULL) || list_callsites(tables, dump) < 0)
        goto no_memory;
    by_callsite = calloc(tables->nodes.count + 1, sizeof(*by_callsite));
    tree->nodes = calloc(tables->nodes.count + 1, sizeof(*tree->nodes));
    if (by_callsite == NULL || tree->nodes == NULL ||
        make_nodes(tree, tables, rows, by_callsite) < 0)
        goto no_memory;
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        uint32_t place = tables->nodes.places[dump->samples[i]->callsite] - 1;
        rollup_values_add(&tree->nodes[by_callsite[place]].cumulative, &values);
    }
    link_nodes(tree);
    free(by_callsite);
    return tree;

no_memory:
    free(by_callsite);
    rollup_tree_free(tree);
    return NULL;
}
