/* SPDX-License-Identifier: Apache-2.0 */
/* Sum up live samples by piece of memory, and then by callsite. */
#include "recorder/dump/memory_sites.h"

#include <math.h>
#include <stdlib.h>

#include "util/array.h"
#include "util/heartbeat.h"
#include "util/keyed_hash.h"

#define DEVIATIONS 1.96 /* 95 % of a normal distribution */
#define INTERVALS_OF_PIECE 64u
#define HALVINGS_MAX 32u
/* Less is not worth a row. */
#define WORTH_BYTES (64u << 10)

uint64_t memory_sites_piece_bytes(uint64_t interval_bytes, uint64_t page_bytes)
{
    uint64_t piece = page_bytes;
    while (interval_bytes > 1 && piece < INTERVALS_OF_PIECE * interval_bytes && piece < 1u << 30)
        piece *= 2;
    return piece;
}

static bool is_taken(const struct memory_sites *sites, uint64_t piece)
{
    return sites->halvings == 0 || keyed_hash(piece) >> (64 - sites->halvings) == 0;
}

/* Halve the part of the pieces that is taken, all blocks of a piece or none. */
static void halve(struct memory_sites *sites)
{
    size_t count = 0;
    sites->halvings++;
    for (size_t i = 0; i < sites->count; i++)
        if (is_taken(sites, sites->blocks[i].piece))
            sites->blocks[count++] = sites->blocks[i];
    sites->count = count;
}

void memory_sites_add(struct memory_sites *sites, const struct memory_site_block *block)
{
    sites->visited++;
    if (!is_taken(sites, block->piece))
        return;
    if (sites->count >= MEMORY_SITE_BLOCKS_MAX && sites->halvings < HALVINGS_MAX)
        halve(sites);
    if (sites->count < MEMORY_SITE_BLOCKS_MAX && is_taken(sites, block->piece))
        (void)ARRAY_ADD(&sites->blocks, &sites->count, &sites->capacity, *block);
}

void memory_sites_clear(struct memory_sites *sites)
{
    free(sites->blocks);
    *sites = (struct memory_sites){0};
}

static int by_piece(const void *left_pointer, const void *right_pointer)
{
    const struct memory_site_block *left = left_pointer, *right = right_pointer;
    return (left->piece > right->piece) - (left->piece < right->piece);
}

static int by_figures(const void *left_pointer, const void *right_pointer)
{
    const struct memory_site_block *left = left_pointer, *right = right_pointer;
    int order = (left->figures > right->figures) - (left->figures < right->figures);
    return order != 0 ? order : by_piece(left, right);
}

static int by_size(const void *left_pointer, const void *right_pointer)
{
    const struct trace_memory_site *left = left_pointer, *right = right_pointer;
    double of_left = fmax(left->absent_bytes, left->free_bytes);
    double of_right = fmax(right->absent_bytes, right->free_bytes);
    return (of_left < of_right) - (of_left > of_right);
}

/* Replace what the blocks of a piece take by what is free around them. Return false if it is
 * unknown how much of the piece is resident. */
static bool divide_piece(struct memory_site_block *blocks, size_t count, double resident)
{
    double taken = 0;
    for (size_t i = 0; i < count; i++)
        taken += blocks[i].is_large ? 0 : blocks[i].taken;
    double free_bytes = fmax(resident - taken, 0);
    for (size_t i = 0; i < count; i++)
        blocks[i].taken =
            taken > 0 && !blocks[i].is_large ? free_bytes * blocks[i].taken / taken : 0;
    return resident >= 0;
}

static bool has_small(const struct memory_site_block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!blocks[i].is_large)
            return true;
    return false;
}

/* Return whether the free memory around blocks is known. */
static bool memory_sites_divide(struct memory_sites *sites, memory_sites_resident *resident,
                                void *context)
{
    bool is_known = true;
    qsort(sites->blocks, sites->count, sizeof(*sites->blocks), by_piece);
    for (size_t first = 0, end; first < sites->count && is_known; first = end) {
        struct memory_site_block *blocks = &sites->blocks[first];
        for (end = first; end < sites->count && sites->blocks[end].piece == blocks->piece;)
            end++;
        heartbeat_send();
        double bytes = has_small(blocks, end - first) ? resident(context, blocks->piece) : 0;
        is_known = divide_piece(blocks, end - first, bytes);
    }
    return is_known;
}

static void memory_sites_keep(struct memory_sites_found *found, struct trace_memory_site site)
{
    site.live_margin = DEVIATIONS * sqrt(fmax(site.live_margin, 0));
    if (fmax(site.absent_bytes, site.free_bytes) < WORTH_BYTES)
        return;
    if (found->count < TRACE_MEMORY_SITES_MAX)
        found->items[found->count++] = site;
    else if (by_size(&site, &found->items[found->count - 1]) < 0)
        found->items[found->count - 1] = site;
    qsort(found->items, found->count, sizeof(*found->items), by_size);
}

void memory_sites_find(struct memory_sites *sites, bool with_free, memory_sites_resident *resident,
                       void *context, struct memory_sites_found *found)
{
    double scale = sites->count > 0 ? (double)sites->visited / (double)sites->count : 1;
    *found = (struct memory_sites_found){.piece_bytes = sites->piece_bytes};
    if (sites->count == 0)
        return;
    bool has_free = with_free && memory_sites_divide(sites, resident, context);
    qsort(sites->blocks, sites->count, sizeof(*sites->blocks), by_figures);
    struct trace_memory_site site = {.callsite = sites->blocks[0].figures};
    double of_piece = 0;
    for (size_t i = 0; i < sites->count; i++) {
        const struct memory_site_block *block = &sites->blocks[i];
        bool is_last = i + 1 == sites->count || block[1].figures != block->figures;
        site.live_bytes += block->live * scale;
        site.live_margin += block->count_variance * scale;
        site.absent_bytes += block->absent * scale;
        site.free_bytes += has_free ? block->taken * scale : 0;
        of_piece += block->live;
        if (is_last || block[1].piece != block->piece) {
            /* That of the choice of pieces, each with the probability 1 / scale. */
            site.live_margin += scale * (scale - 1) * of_piece * of_piece;
            of_piece = 0;
        }
        if (is_last) {
            memory_sites_keep(found, site);
            site =
                (struct trace_memory_site){.callsite = i + 1 < sites->count ? block[1].figures : 0};
        }
    }
    if (!has_free)
        found->piece_bytes = 0;
}
