/* SPDX-License-Identifier: Apache-2.0 */
/* Sum up live samples by piece of memory, and then by callsite. */
#include "daemon/dump/memory_sites.h"

#include <math.h>
#include <stdlib.h>

#include "util/array.h"
#include "util/heartbeat.h"

#define DEVIATIONS 1.96 /* 95 % of a normal distribution */
#define INTERVALS_OF_PIECE 64u
/* Less is not worth a row. */
#define WORTH_BYTES (64u << 10)

uint64_t memory_sites_piece_bytes(uint64_t interval_bytes, uint64_t page_bytes)
{
    uint64_t piece = page_bytes;
    while (interval_bytes > 1 && piece < INTERVALS_OF_PIECE * interval_bytes && piece < 1u << 30)
        piece *= 2;
    return piece;
}

void memory_sites_add(struct memory_sites *sites, const struct memory_site_block *block)
{
    sites->visited++;
    if (sites->count < MEMORY_SITE_BLOCKS_MAX)
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
    return (left->figures > right->figures) - (left->figures < right->figures);
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
static bool divide_piece(struct memory_site_block *blocks, size_t count, double scale,
                         double resident)
{
    double taken = 0;
    for (size_t i = 0; i < count; i++)
        taken += blocks[i].taken * scale;
    double free_bytes = fmax(resident - taken, 0);
    for (size_t i = 0; i < count; i++)
        blocks[i].taken = taken > 0 ? free_bytes * blocks[i].taken / taken : 0;
    return resident >= 0;
}

/* Return whether the free memory around blocks is known. */
static bool divide(struct memory_sites *sites, double scale, memory_sites_resident *resident,
                   void *context)
{
    bool is_known = true;
    qsort(sites->blocks, sites->count, sizeof(*sites->blocks), by_piece);
    for (size_t first = 0, end; first < sites->count; first = end) {
        uint64_t piece = sites->blocks[first].piece;
        for (end = first; end < sites->count && sites->blocks[end].piece == piece;)
            end++;
        heartbeat_send();
        double bytes = piece != 0 && is_known ? resident(context, piece) : 0;
        is_known &= divide_piece(&sites->blocks[first], end - first, scale, bytes);
    }
    return is_known;
}

static void keep(struct memory_sites_found *found, struct trace_memory_site site)
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
    bool has_free = with_free && divide(sites, scale, resident, context);
    qsort(sites->blocks, sites->count, sizeof(*sites->blocks), by_figures);
    struct trace_memory_site site = {.callsite = sites->blocks[0].figures};
    for (size_t i = 0; i < sites->count; i++) {
        const struct memory_site_block *block = &sites->blocks[i];
        if (block->figures != site.callsite) {
            keep(found, site);
            site = (struct trace_memory_site){.callsite = block->figures};
        }
        site.live_bytes += block->live * scale;
        site.live_margin += block->count_variance * scale;
        site.absent_bytes += block->absent * scale;
        site.free_bytes += has_free ? block->taken : 0;
    }
    keep(found, site);
    if (!with_free || !has_free)
        found->piece_bytes = 0;
}
