/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and sorts the rows of a breakdown: the sites of a path by one dimension. */
#include <stdlib.h>
#include <string.h>

#include "tools/explore/breakdown_state.h"
#include "util/xmalloc.h"

struct adder {
    struct breakdown *breakdown;
    struct breakdown_rows *rows;
    const struct sites_entry *entry;
    uint32_t number; /* of the entry, from 1, so that each row counts it once */
};

/* Add the entry to the row of a key. row_of[key] is the row's index + 1; the caller has cleared
 * it. */
static void add_to_row(struct adder *adder, uint32_t key)
{
    struct breakdown *breakdown = adder->breakdown;
    struct breakdown_rows *rows = adder->rows;
    if (key >= breakdown->key_room || breakdown->seen_by[key] == adder->number)
        return;
    breakdown->seen_by[key] = adder->number;
    if (breakdown->row_of[key] == 0) {
        XARRAY_RESERVE(&rows->rows, &rows->capacity, rows->count, 1);
        rows->rows[rows->count++] = (struct breakdown_row){.key = key};
        breakdown->row_of[key] = (uint32_t)rows->count;
    }
    struct breakdown_row *row = &rows->rows[breakdown->row_of[key] - 1];
    const struct sites_value *value = &adder->entry->values[breakdown->figure];
    row->values[adder->entry->column].bytes += value->bytes;
    row->values[adder->entry->column].count += value->count;
}

static void add_frames(struct adder *adder)
{
    struct breakdown_walk walk = breakdown_walk_begin(adder->breakdown, adder->entry);
    while (breakdown_walk_next(adder->breakdown, &walk))
        if (walk.next >= 0 && walk.next < (ptrdiff_t)walk.length)
            add_to_row(adder, walk.stack[walk.next]);
}

static void add_modules(struct adder *adder)
{
    const struct sites *sites = adder->breakdown->sites;
    const struct sites_stack *stack = &sites->stacks[adder->entry->stack];
    if (adder->breakdown->mode != BREAKDOWN_HEAVY) {
        add_to_row(adder, stack->module);
        return;
    }
    for (uint32_t i = 0; i < stack->length; i++)
        add_to_row(adder, sites->keys[SITES_FRAME].keys[sites->frames[stack->first + i]].module);
}

static void add_entry(struct adder *adder, enum sites_dimension dimension)
{
    if (dimension == SITES_FRAME)
        add_frames(adder);
    else if (dimension == SITES_MODULE)
        add_modules(adder);
    else
        add_to_row(adder, adder->entry->keys[dimension]);
}

/* Return whether a row is empty: all of it was freed, up to rounding errors of sums. */
static bool is_nothing(const struct breakdown_row *row)
{
    for (size_t i = 0; i < SITES_COLUMNS; i++)
        if (row->values[i].bytes >= 0.5 || row->values[i].count >= 0.5)
            return false;
    return true;
}

static void end_rows(struct breakdown_rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        struct breakdown_row *row = &rows->rows[i];
        breakdown_end_sum(row);
        if (!is_nothing(row))
            rows->rows[kept++] = *row;
    }
    rows->count = kept;
}

void breakdown_rows(struct breakdown *breakdown, enum sites_dimension dimension,
                    struct breakdown_rows *rows)
{
    const struct breakdown_set *set = breakdown_set_of(breakdown, breakdown->step_count);
    struct adder adder = {.breakdown = breakdown, .rows = rows};
    rows->count = 0;
    memset(breakdown->seen_by, 0, breakdown->key_room * sizeof(*breakdown->seen_by));
    memset(breakdown->row_of, 0, breakdown->key_room * sizeof(*breakdown->row_of));
    const struct breakdown_step *within = NULL;
    for (size_t i = 0; dimension != SITES_FRAME && i < breakdown->step_count; i++)
        if (breakdown->steps[i].dimension == dimension)
            within = &breakdown->steps[i];
    for (size_t i = 0; i < set->count; i++) {
        adder.entry = breakdown_entry(breakdown->sites, set, i);
        adder.number = (uint32_t)i + 1;
        if (within != NULL)
            add_to_row(&adder, within->key);
        else
            add_entry(&adder, dimension);
    }
    end_rows(rows);
}

void breakdown_rows_free(struct breakdown_rows *rows)
{
    free(rows->rows);
    *rows = (struct breakdown_rows){0};
}

/* --- order --- */

struct sorting {
    const struct sites_key *keys, *self; /* self is NULL unless by frame */
    size_t columns;
    struct breakdown_order order;
};

static double rank_of(const struct sorting *sorting, const struct breakdown_row *row)
{
    const struct breakdown_order *order = &sorting->order;
    struct sites_value value =
        order->column < sorting->columns
            ? row->values[order->column]
            : breakdown_aggregate_of(row, sorting->columns, order->aggregate);
    return order->key == BREAKDOWN_BY_COUNT ? value.count : value.bytes;
}

static int compare_names(const struct sorting *sorting, const struct breakdown_row *left,
                         const struct breakdown_row *right)
{
    /* <self> precedes all others: it is the path's own part. */
    bool is_left = &sorting->keys[left->key] == sorting->self,
         is_right = &sorting->keys[right->key] == sorting->self;
    if (is_left || is_right)
        return is_right - is_left;
    return strcmp(sorting->keys[left->key].label, sorting->keys[right->key].label);
}

static int compare_rows(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct breakdown_row *left = left_pointer, *right = right_pointer;
    const struct sorting *sorting = context;
    int order;
    if (sorting->order.key == BREAKDOWN_BY_NAME) {
        order = compare_names(sorting, left, right);
    } else {
        double a = rank_of(sorting, left), b = rank_of(sorting, right);
        order = a > b ? -1 : a < b;
    }
    if (sorting->order.reverse)
        order = -order;
    if (order == 0)
        order = compare_names(sorting, left, right);
    return order != 0 ? order : left->key < right->key ? -1 : left->key > right->key;
}

void breakdown_sort(const struct breakdown *breakdown, enum sites_dimension dimension,
                    const struct breakdown_order *order, struct breakdown_rows *rows)
{
    struct sorting sorting = {.keys = breakdown->sites->keys[dimension].keys,
                              .columns = breakdown->sites->column_count,
                              .order = *order};
    if (dimension == SITES_FRAME)
        sorting.self = &sorting.keys[SITES_SELF];
    if (rows->count > 1)
        qsort_r(rows->rows, rows->count, sizeof(*rows->rows), compare_rows, &sorting);
}
