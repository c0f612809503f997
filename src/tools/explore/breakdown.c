/* SPDX-License-Identifier: Apache-2.0 */
/* The path of a breakdown, and the set of sites at each of its steps. */
#include <stdlib.h>
#include <string.h>

#include "tools/explore/breakdown_state.h"
#include "util/xmalloc.h"

static void add_to_totals(struct breakdown_set *set, const struct sites_entry *entry)
{
    for (int i = 0; i < DIFF_FIGURES; i++) {
        set->totals[i][entry->column].bytes += entry->values[i].bytes;
        set->totals[i][entry->column].count += entry->values[i].count;
    }
}

struct breakdown *breakdown_new(const struct sites *sites)
{
    struct breakdown *breakdown = xcalloc(1, sizeof(*breakdown));
    breakdown->sites = sites;
    breakdown->root.count = sites->entry_count;
    for (size_t i = 0; i < sites->entry_count; i++)
        add_to_totals(&breakdown->root, &sites->entries[i]);
    for (size_t i = 0; i < SITES_DIMENSIONS; i++)
        if (sites->keys[i].count > breakdown->key_room)
            breakdown->key_room = sites->keys[i].count;
    breakdown->row_of = xcalloc(breakdown->key_room + 1, sizeof(*breakdown->row_of));
    breakdown->seen_by = xcalloc(breakdown->key_room + 1, sizeof(*breakdown->seen_by));
    return breakdown;
}

void breakdown_free(struct breakdown *breakdown)
{
    if (breakdown == NULL)
        return;
    while (breakdown_leave(breakdown))
        ;
    free(breakdown->steps);
    free(breakdown->sets);
    free(breakdown->frames);
    free(breakdown->row_of);
    free(breakdown->seen_by);
    free(breakdown);
}

enum breakdown_mode breakdown_mode(const struct breakdown *breakdown)
{
    return breakdown->mode;
}

void breakdown_set_figure(struct breakdown *breakdown, enum diff_figure figure)
{
    breakdown->figure = figure;
}

enum diff_figure breakdown_figure(const struct breakdown *breakdown)
{
    return breakdown->figure;
}

/* --- the path --- */

const struct breakdown_step *breakdown_path(const struct breakdown *breakdown, size_t *count)
{
    *count = breakdown->step_count;
    return breakdown->steps;
}

static const struct breakdown_step *step_of(const struct breakdown *breakdown,
                                            enum sites_dimension dimension)
{
    for (size_t i = 0; i < breakdown->step_count; i++)
        if (breakdown->steps[i].dimension == dimension)
            return &breakdown->steps[i];
    return NULL;
}

static bool has_module(const struct breakdown *breakdown, const struct sites_stack *stack,
                       uint32_t module)
{
    const struct sites *sites = breakdown->sites;
    if (breakdown->mode != BREAKDOWN_HEAVY)
        return stack->module == module;
    for (uint32_t i = 0; i < stack->length; i++)
        if (sites->keys[SITES_FRAME].keys[sites->frames[stack->first + i]].module == module)
            return true;
    return false;
}

/* Return whether an entry of the path still matches after the step. A step into a frame is already
 * in breakdown->frames. */
static bool is_of_step(const struct breakdown *breakdown, const struct sites_entry *entry,
                       const struct breakdown_step *step)
{
    struct breakdown_walk walk;
    switch (step->dimension) {
    case SITES_FRAME:
        walk = breakdown_walk_begin(breakdown, entry);
        return breakdown_walk_next(breakdown, &walk);
    case SITES_MODULE:
        return has_module(breakdown, &breakdown->sites->stacks[entry->stack], step->key);
    default:
        return entry->keys[step->dimension] == step->key;
    }
}

int breakdown_enter(struct breakdown *breakdown, struct breakdown_step step)
{
    const struct sites *sites = breakdown->sites;
    struct breakdown_set set = {0};
    if (step.dimension != SITES_FRAME && step_of(breakdown, step.dimension) != NULL)
        return -EEXIST;
    size_t most = breakdown_set_of(breakdown, breakdown->step_count)->count;
    set.entries = xreallocarray(NULL, most + 1, sizeof(*set.entries));
    XARRAY_RESERVE(&breakdown->steps, &breakdown->step_capacity, breakdown->step_count, 1);
    XARRAY_RESERVE(&breakdown->sets, &breakdown->set_capacity, breakdown->step_count, 1);
    if (step.dimension == SITES_FRAME)
        XARRAY_ADD(&breakdown->frames, &breakdown->frame_count, &breakdown->frame_capacity,
                   step.key);
    const struct breakdown_set *all = breakdown_set_of(breakdown, breakdown->step_count);
    for (size_t i = 0; i < all->count; i++) {
        uint32_t index = all->entries == NULL ? (uint32_t)i : all->entries[i];
        if (!is_of_step(breakdown, &sites->entries[index], &step))
            continue;
        set.entries[set.count++] = index;
        add_to_totals(&set, &sites->entries[index]);
    }
    set.entries = xreallocarray(set.entries, set.count + 1, sizeof(*set.entries));
    breakdown->steps[breakdown->step_count] = step;
    breakdown->sets[breakdown->step_count++] = set;
    return 0;
}

bool breakdown_leave(struct breakdown *breakdown)
{
    if (breakdown->step_count == 0)
        return false;
    breakdown->step_count--;
    free(breakdown->sets[breakdown->step_count].entries);
    if (breakdown->steps[breakdown->step_count].dimension == SITES_FRAME)
        breakdown->frame_count--;
    return true;
}

/* Replace the path. `steps` must not be the breakdown's own array. */
static int enter_all(struct breakdown *breakdown, const struct breakdown_step *steps, size_t count)
{
    while (breakdown_leave(breakdown))
        ;
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = breakdown_enter(breakdown, steps[i]);
    return code;
}

int breakdown_go(struct breakdown *breakdown, const struct breakdown_step *steps, size_t count)
{
    size_t old_count = breakdown->step_count;
    struct breakdown_step *copies = xreallocarray(NULL, count + old_count + 1, sizeof(*copies));
    if (count > 0)
        memcpy(copies, steps, count * sizeof(*copies));
    if (old_count > 0)
        memcpy(copies + count, breakdown->steps, old_count * sizeof(*copies));
    int code = enter_all(breakdown, copies, count);
    if (code < 0)
        enter_all(breakdown, copies + count, old_count);
    free(copies);
    return code;
}

void breakdown_set_mode(struct breakdown *breakdown, enum breakdown_mode mode)
{
    struct breakdown_step *kept = xreallocarray(NULL, breakdown->step_count + 1, sizeof(*kept));
    size_t count = 0;
    for (size_t i = 0; i < breakdown->step_count; i++) {
        enum sites_dimension dimension = breakdown->steps[i].dimension;
        if (dimension != SITES_FRAME && dimension != SITES_MODULE)
            kept[count++] = breakdown->steps[i];
    }
    breakdown_go(breakdown, kept, count);
    breakdown->mode = mode;
    free(kept);
}

/* --- figures --- */

struct breakdown_row breakdown_total(const struct breakdown *breakdown, size_t steps)
{
    struct breakdown_row total = {.key = PROFILE_NONE};
    const struct breakdown_set *set = breakdown_set_of(breakdown, steps);
    memcpy(total.values, set->totals[breakdown->figure], sizeof(total.values));
    breakdown_end_sum(&total);
    return total;
}

struct breakdown_row breakdown_whole(const struct breakdown *breakdown)
{
    struct breakdown_row whole = breakdown_total(breakdown, 0);
    const struct sites *sites = breakdown->sites;
    for (size_t i = 0; i < sites->column_count; i++)
        if (sites->has_whole[i])
            whole.values[i] = sites->whole[breakdown->figure][i];
    return whole;
}

struct sites_value breakdown_aggregate_of(const struct breakdown_row *row, size_t columns,
                                          enum breakdown_aggregate aggregate)
{
    struct sites_value value = row->values[0];
    if (columns < 2)
        return value;
    if (aggregate == BREAKDOWN_DIFFERENCE)
        return (struct sites_value){row->values[columns - 1].bytes - value.bytes,
                                    row->values[columns - 1].count - value.count};
    for (size_t i = 1; i < columns; i++) {
        if (row->values[i].bytes > value.bytes)
            value.bytes = row->values[i].bytes;
        if (row->values[i].count > value.count)
            value.count = row->values[i].count;
    }
    return value;
}
