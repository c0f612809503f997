/* SPDX-License-Identifier: Apache-2.0 */
/* Converts totals of version 1 to self values: outwards to complete pruned entries, then inwards to
 * distribute memory without a type (totals.h). */
#include "profile/import/memory_infra/totals.h"

#include <stdbool.h>
#include <stdlib.h>

#include "util/array.h"
#include "util/id_map.h"

#define FIGURES 2 /* bytes, count */
#define NO_AMOUNT UINT32_MAX
/* Number of types visited, and added to callers, for entries that are missing; each may cost 100
 * bytes. Chrome's files have thousands of frames, and at most hundreds of types. */
#define WORK_MAX (1u << 22)

/* The figures of a type at a frame. */
struct amount {
    uint32_t type;
    uint32_t next; /* of the same frame */
    bool has_entry;
    double sums[FIGURES], callees[FIGURES], left[FIGURES];
};

/* A frame, or the whole heap. */
struct total {
    uint32_t callsite, parent; /* parent: index of a total */
    uint32_t first_amount;     /* by type */
    bool has_entry;
    double sums[FIGURES], callees[FIGURES];
    double unknown[FIGURES]; /* of no known type */
};

struct totals {
    const struct profile_callsite *callsites;
    struct total *items;
    size_t count, capacity;
    struct id_map by_callsite; /* callsite + 1; 0: the whole heap */
    struct id_map by_type;     /* total and type: index of amounts */
    struct amount *amounts;
    size_t amount_count, amount_capacity;
    uint64_t work;
};

static double larger(double one, double other)
{
    return one > other ? one : other;
}

/* Return the index of a callsite's total. UINT32_MAX: no memory. */
static uint32_t add_total(struct totals *totals, uint32_t callsite)
{
    uint32_t key = callsite + 1, known = id_map_find(&totals->by_callsite, key);
    if (known != ID_MAP_NONE)
        return known;
    if (ARRAY_RESERVE(&totals->items, &totals->capacity, totals->count, 1) < 0 ||
        id_map_set(&totals->by_callsite, key, (uint32_t)totals->count) < 0)
        return UINT32_MAX;
    totals->items[totals->count] = (struct total){.callsite = callsite, .first_amount = NO_AMOUNT};
    return (uint32_t)totals->count++;
}

/* Add totals of all callsites of the rows, and of their callers. */
static int add_totals(struct totals *totals, const struct heap_site *rows, size_t count)
{
    if (add_total(totals, PROFILE_NONE) == UINT32_MAX)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint32_t callsite = rows[i].callsite;
        while (callsite != PROFILE_NONE &&
               id_map_find(&totals->by_callsite, callsite + 1) == ID_MAP_NONE) {
            if (add_total(totals, callsite) == UINT32_MAX)
                return -ENOMEM;
            callsite = totals->callsites[callsite].parent;
        }
    }
    return 0;
}

/* The whole heap comes first, and every caller before its callees, as callsites do. */
static int compare_totals(const void *left_pointer, const void *right_pointer)
{
    const struct total *left = left_pointer, *right = right_pointer;
    uint32_t left_key = left->callsite + 1, right_key = right->callsite + 1;
    return left_key < right_key ? -1 : left_key > right_key;
}

static int order_totals(struct totals *totals)
{
    int code = 0;
    qsort(totals->items, totals->count, sizeof(*totals->items), compare_totals);
    for (size_t i = 0; i < totals->count && code == 0; i++)
        code = id_map_set(&totals->by_callsite, totals->items[i].callsite + 1, (uint32_t)i);
    for (size_t i = 1; i < totals->count; i++)
        totals->items[i].parent = id_map_find(
            &totals->by_callsite, totals->callsites[totals->items[i].callsite].parent + 1);
    return code;
}

static uint32_t find_amount(struct totals *totals, struct total *total, uint32_t type)
{
    uint64_t key = (uint64_t)(total - totals->items) << 32 | type;
    uint32_t known = id_map_find(&totals->by_type, key);
    if (known != ID_MAP_NONE)
        return known;
    if (totals->amount_count >= NO_AMOUNT ||
        ARRAY_RESERVE(&totals->amounts, &totals->amount_capacity, totals->amount_count, 1) < 0 ||
        id_map_set(&totals->by_type, key, (uint32_t)totals->amount_count) < 0)
        return NO_AMOUNT;
    totals->amounts[totals->amount_count] =
        (struct amount){.type = type, .next = total->first_amount};
    total->first_amount = (uint32_t)totals->amount_count;
    return (uint32_t)totals->amount_count++;
}

/* Rows of the same frame and type are added up: they are two frames with one name and one
 * caller. */
static int take_rows(struct totals *totals, const struct heap_site *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double values[FIGURES] = {rows[i].bytes, rows[i].count};
        struct total *total =
            &totals->items[id_map_find(&totals->by_callsite, rows[i].callsite + 1)];
        double *into = total->sums;
        if (rows[i].type == TOTALS_ALL_TYPES) {
            total->has_entry = true;
        } else {
            uint32_t amount = find_amount(totals, total, rows[i].type);
            if (amount == NO_AMOUNT)
                return -ENOMEM;
            totals->amounts[amount].has_entry = true;
            into = totals->amounts[amount].sums;
        }
        for (int figure = 0; figure < FIGURES; figure++)
            into[figure] += values[figure];
    }
    return 0;
}

/* Go outwards: raise each frame to at least the sum of its callees, and of its types. */
static int fill_in(struct totals *totals)
{
    for (size_t i = totals->count; i-- > 0;) {
        struct total *total = &totals->items[i];
        struct total *parent = i == 0 ? NULL : &totals->items[total->parent];
        double typed[FIGURES] = {0};
        for (uint32_t at = total->first_amount; at != NO_AMOUNT; at = totals->amounts[at].next) {
            size_t known = totals->amount_count;
            uint32_t above =
                parent == NULL ? NO_AMOUNT : find_amount(totals, parent, totals->amounts[at].type);
            totals->work += totals->amount_count - known;
            if (totals->work > WORK_MAX)
                return -E2BIG;
            if (parent != NULL && above == NO_AMOUNT)
                return -ENOMEM;
            struct amount *amount = &totals->amounts[at];
            for (int figure = 0; figure < FIGURES; figure++) {
                amount->sums[figure] = larger(amount->sums[figure], amount->callees[figure]);
                typed[figure] += amount->sums[figure];
                if (parent != NULL)
                    totals->amounts[above].callees[figure] += amount->sums[figure];
            }
        }
        for (int figure = 0; figure < FIGURES; figure++) {
            double least = larger(typed[figure], total->callees[figure]);
            total->sums[figure] = larger(total->sums[figure], least);
            total->unknown[figure] = total->sums[figure] - typed[figure];
            if (parent != NULL)
                parent->callees[figure] += total->sums[figure];
        }
    }
    return 0;
}

/* Return whether the frame has an entry of a type. */
static bool has_type_entry(const struct totals *totals, const struct total *total, uint32_t type)
{
    uint64_t key = (uint64_t)(total - totals->items) << 32 | type;
    uint32_t known = id_map_find(&totals->by_type, key);
    return known != ID_MAP_NONE && totals->amounts[known].has_entry;
}

/* Take up to `wanted` from the remainder of a frame's caller, in proportion. same_types: only from
 * types without an entry at the frame, and as these types. Return the taken amount; negative: no
 * memory. */
static double take_left(struct totals *totals, struct total *total, int figure, double wanted,
                        bool same_types)
{
    struct total *parent = &totals->items[total->parent];
    double there = 0;
    if (!(wanted > 0))
        return 0;
    for (uint32_t at = parent->first_amount; at != NO_AMOUNT; at = totals->amounts[at].next) {
        totals->work++;
        if (!same_types || !has_type_entry(totals, total, totals->amounts[at].type))
            there += totals->amounts[at].left[figure];
    }
    if (!(there > 0))
        return 0;
    double share = wanted < there ? wanted / there : 1;
    for (uint32_t at = parent->first_amount; at != NO_AMOUNT; at = totals->amounts[at].next) {
        double part = totals->amounts[at].left[figure] * share;
        if (!(part > 0) || (same_types && has_type_entry(totals, total, totals->amounts[at].type)))
            continue;
        uint32_t own =
            same_types ? find_amount(totals, total, totals->amounts[at].type) : NO_AMOUNT;
        if (same_types && own == NO_AMOUNT)
            return -1;
        totals->amounts[at].left[figure] -= part;
        if (same_types)
            totals->amounts[own].left[figure] += part;
    }
    return wanted < there ? wanted : there;
}

/* The part of a frame without a known type is part of its caller, too: of the caller's unknown
 * part, or of types without an entry at the frame. If other callees have used those up, take any
 * type: the sum of a frame has priority over the sums of its types. */
static int share_out(struct totals *totals, struct total *total, int figure)
{
    struct total *parent = &totals->items[total->parent];
    double wanted = total->unknown[figure];
    double same = wanted < parent->unknown[figure] ? wanted : parent->unknown[figure];
    parent->unknown[figure] -= same;
    double typed = take_left(totals, total, figure, wanted - same, true);
    if (typed < 0)
        return -ENOMEM;
    total->unknown[figure] -= typed;
    take_left(totals, total, figure, wanted - same - typed, false);
    return totals->work > WORK_MAX ? -E2BIG : 0;
}

/* Go inwards, after the share of callees was taken from every frame's types. */
static int share_all_out(struct totals *totals)
{
    int code = 0;
    for (size_t i = 0; i < totals->amount_count; i++)
        for (int figure = 0; figure < FIGURES; figure++)
            totals->amounts[i].left[figure] =
                totals->amounts[i].sums[figure] - totals->amounts[i].callees[figure];
    for (size_t i = 1; i < totals->count && code == 0; i++)
        for (int figure = 0; figure < FIGURES && code == 0; figure++)
            code = share_out(totals, &totals->items[i], figure);
    return code;
}

int heap_site_compare(const void *left_pointer, const void *right_pointer)
{
    const struct heap_site *left = left_pointer, *right = right_pointer;
    if (left->callsite != right->callsite)
        return left->callsite < right->callsite ? -1 : 1;
    return left->type < right->type ? -1 : left->type > right->type;
}

static int put_selves(const struct totals *totals, struct heap_site **selves, size_t *self_count)
{
    size_t most = totals->count + totals->amount_count, used = 0;
    struct heap_site *sites = reallocarray(NULL, most + 1, sizeof(*sites));
    if (sites == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < totals->count; i++) {
        const struct total *total = &totals->items[i];
        if (total->unknown[0] > 0 || total->unknown[1] > 0)
            sites[used++] = (struct heap_site){total->callsite, TOTALS_ALL_TYPES, total->unknown[0],
                                               total->unknown[1]};
        for (uint32_t at = total->first_amount; at != NO_AMOUNT; at = totals->amounts[at].next) {
            const double *left = totals->amounts[at].left;
            if (left[0] > 0 || left[1] > 0)
                sites[used++] =
                    (struct heap_site){total->callsite, totals->amounts[at].type, left[0], left[1]};
        }
    }
    qsort(sites, used, sizeof(*sites), heap_site_compare);
    *selves = sites;
    *self_count = used;
    return 0;
}

int totals_to_selves(const struct profile_callsite *callsites, const struct heap_site *totals,
                     size_t count, struct heap_site **selves, size_t *self_count)
{
    struct totals work = {.callsites = callsites};
    int code = add_totals(&work, totals, count);
    if (code == 0)
        code = order_totals(&work);
    if (code == 0)
        code = take_rows(&work, totals, count);
    if (code == 0)
        code = fill_in(&work);
    if (code == 0)
        code = share_all_out(&work);
    if (code == 0)
        code = put_selves(&work, selves, self_count);
    id_map_free(&work.by_callsite);
    id_map_free(&work.by_type);
    free(work.items);
    free(work.amounts);
    return code;
}
