/* SPDX-License-Identifier: Apache-2.0 */
/* A treap of pieces ordered by address, and the allocations that they belong to. */
#include "recorder/ledger/ranges.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

void ranges_init(struct ranges *ranges, uint64_t seed)
{
    *ranges = (struct ranges){.random = seed};
}

void ranges_clear(struct ranges *ranges)
{
    free(ranges->pieces);
    free(ranges->allocations);
    ranges_init(ranges, ranges->random);
}

/* --- places --- */

/* Reserve room for `pieces` more pieces and one more allocation. */
static int ranges_reserve(struct ranges *ranges, uint32_t pieces)
{
    if (ranges->live_pieces + pieces > RANGES_MAX)
        return -ENOMEM;
    if (ARRAY_RESERVE(&ranges->allocations, &ranges->allocation_capacity, ranges->allocation_count,
                      1) < 0)
        return -ENOMEM;
    if (ranges->piece_count == 0) {
        if (ARRAY_RESERVE(&ranges->pieces, &ranges->piece_capacity, 0, 1) < 0)
            return -ENOMEM;
        ranges->pieces[0] = (struct range_piece){.oldest = UINT64_MAX};
        ranges->piece_count = 1;
    }
    return ARRAY_RESERVE(&ranges->pieces, &ranges->piece_capacity, ranges->piece_count, pieces);
}

/* The program that maps memory must not be able to predict the shape of the tree. */
static uint32_t random_priority(struct ranges *ranges)
{
    uint64_t z = (ranges->random += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(z >> 32);
}

/* Make a piece. ranges_reserve() has made room for it. */
static uint32_t piece_make(struct ranges *ranges, uint64_t start, uint64_t end, uint32_t allocation)
{
    uint32_t index = ranges->free_piece;
    if (index != 0)
        ranges->free_piece = ranges->pieces[index].left;
    else
        index = (uint32_t)ranges->piece_count++;
    ranges->pieces[index] = (struct range_piece){
        .start = start,
        .end = end,
        .oldest = ranges->allocations[allocation].position,
        .allocation = allocation,
        .priority = random_priority(ranges),
    };
    ranges->allocations[allocation].pieces++;
    ranges->live_pieces++;
    return index;
}

static void piece_release(struct ranges *ranges, uint32_t index)
{
    struct range_piece *piece = &ranges->pieces[index];
    struct range_allocation *allocation = &ranges->allocations[piece->allocation];
    if (allocation->pieces == 0) {
        allocation->figures = ranges->free_allocation;
        ranges->free_allocation = piece->allocation + 1;
    }
    piece->left = ranges->free_piece;
    ranges->free_piece = index;
    ranges->live_pieces--;
}

/* Make an allocation. ranges_reserve() has made room for it. */
static uint32_t allocation_make(struct ranges *ranges, const struct range_allocation *allocation)
{
    uint32_t index = ranges->free_allocation;
    if (index != 0)
        ranges->free_allocation = ranges->allocations[--index].figures;
    else
        index = (uint32_t)ranges->allocation_count++;
    ranges->allocations[index] = *allocation;
    ranges->allocations[index].pieces = 0;
    return index;
}

/* --- the treap; recursion is as deep as the tree, some 60 for millions of pieces --- */

static uint64_t position_of(const struct ranges *ranges, uint32_t index)
{
    return ranges->allocations[ranges->pieces[index].allocation].position;
}

static void update(struct ranges *ranges, uint32_t index)
{
    struct range_piece *piece = &ranges->pieces[index];
    uint64_t oldest = position_of(ranges, index);
    if (ranges->pieces[piece->left].oldest < oldest)
        oldest = ranges->pieces[piece->left].oldest;
    if (ranges->pieces[piece->right].oldest < oldest)
        oldest = ranges->pieces[piece->right].oldest;
    piece->oldest = oldest;
}

/* Split a tree into the pieces that start below the address, and the rest. */
static void split(struct ranges *ranges, uint32_t root, uint64_t at, uint32_t *below,
                  uint32_t *rest)
{
    if (root == 0) {
        *below = *rest = 0;
        return;
    }
    struct range_piece *piece = &ranges->pieces[root];
    if (piece->start < at) {
        split(ranges, piece->right, at, &piece->right, rest);
        *below = root;
    } else {
        split(ranges, piece->left, at, below, &piece->left);
        *rest = root;
    }
    update(ranges, root);
}

/* Merge two trees. All of `below` is below all of `above`. */
static uint32_t merge(struct ranges *ranges, uint32_t below, uint32_t above)
{
    if (below == 0 || above == 0)
        return below + above;
    if (ranges->pieces[below].priority > ranges->pieces[above].priority) {
        ranges->pieces[below].right = merge(ranges, ranges->pieces[below].right, above);
        update(ranges, below);
        return below;
    }
    ranges->pieces[above].left = merge(ranges, below, ranges->pieces[above].left);
    update(ranges, above);
    return above;
}

static void insert(struct ranges *ranges, uint32_t index)
{
    uint32_t below, rest;
    split(ranges, ranges->root, ranges->pieces[index].start, &below, &rest);
    ranges->root = merge(ranges, merge(ranges, below, index), rest);
}

/* Return the last piece that starts below the address; 0: none. */
static uint32_t find_below(const struct ranges *ranges, uint64_t at)
{
    uint32_t found = 0, index = ranges->root;
    while (index != 0) {
        bool is_below = ranges->pieces[index].start < at;
        if (is_below)
            found = index;
        index = is_below ? ranges->pieces[index].right : ranges->pieces[index].left;
    }
    return found;
}

/* Divide the piece across the address in two, if it is older than `before`. ranges_reserve() has
 * made room. */
static void ranges_divide(struct ranges *ranges, uint64_t at, uint64_t before)
{
    uint32_t index = find_below(ranges, at);
    struct range_piece *piece = &ranges->pieces[index];
    if (index == 0 || piece->end <= at || position_of(ranges, index) >= before)
        return;
    uint32_t upper = piece_make(ranges, at, piece->end, piece->allocation);
    piece->end = at;
    insert(ranges, upper);
}

struct cut {
    struct ranges *ranges;
    uint64_t before;
    ranges_freed *freed;
    void *context;
};

/* Free the pieces in the tree that are older than the cut. Return the remaining tree. */
static uint32_t prune(const struct cut *cut, uint32_t root)
{
    struct ranges *ranges = cut->ranges;
    struct range_piece *piece = &ranges->pieces[root];
    if (root == 0 || piece->oldest >= cut->before)
        return root;
    uint32_t left = prune(cut, piece->left);
    if (position_of(ranges, root) >= cut->before) {
        piece->left = left;
        piece->right = prune(cut, piece->right);
        update(ranges, root);
        return root;
    }
    uint32_t right = piece->right;
    struct range_allocation *allocation = &ranges->allocations[piece->allocation];
    allocation->pieces--;
    cut->freed(cut->context, allocation, piece->end - piece->start);
    piece_release(ranges, root);
    return merge(ranges, left, prune(cut, right));
}

static void cut_out(struct ranges *ranges, uint64_t start, uint64_t end, uint64_t before,
                    ranges_freed *freed, void *context)
{
    if (ranges->root == 0 || ranges->pieces[ranges->root].oldest >= before)
        return;
    ranges_divide(ranges, start, before);
    ranges_divide(ranges, end, before);
    const struct cut cut = {ranges, before, freed, context};
    uint32_t below, inside, above;
    split(ranges, ranges->root, start, &below, &inside);
    split(ranges, inside, end, &inside, &above);
    inside = prune(&cut, inside);
    ranges->root = merge(ranges, below, merge(ranges, inside, above));
}

int ranges_cut(struct ranges *ranges, uint64_t start, uint64_t end, uint64_t before,
               ranges_freed *freed, void *context)
{
    if (start >= end)
        return 0;
    int code = ranges_reserve(ranges, 2);
    if (code == 0)
        cut_out(ranges, start, end, before, freed, context);
    return code;
}

int ranges_add(struct ranges *ranges, const struct range_allocation *allocation,
               ranges_freed *freed, void *context)
{
    uint64_t start = allocation->address, end = start + allocation->size;
    int code = ranges_reserve(ranges, 3);
    if (code < 0)
        return code;
    cut_out(ranges, start, end, UINT64_MAX, freed, context);
    insert(ranges, piece_make(ranges, start, end, allocation_make(ranges, allocation)));
    return 0;
}

/* --- all pieces --- */

/* The depth of a treap is logarithmic, whatever the program maps. */
static void visit(const struct ranges *ranges, uint32_t index,
                  void (*visitor)(void *context, uint64_t start, uint64_t end), void *context)
{
    if (index == 0)
        return;
    const struct range_piece *piece = &ranges->pieces[index];
    visit(ranges, piece->left, visitor, context);
    visitor(context, piece->start, piece->end);
    visit(ranges, piece->right, visitor, context);
}

void ranges_visit(const struct ranges *ranges,
                  void (*visitor)(void *context, uint64_t start, uint64_t end), void *context)
{
    visit(ranges, ranges->root, visitor, context);
}
