/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for frames below a path. */
#include <stdlib.h>
#include <string.h>

#include "tools/explore/breakdown_state.h"
#include "trace/intern.h"
#include "util/xmalloc.h"

struct searcher {
    const struct breakdown *breakdown;
    bool *wanted; /* by key */
    struct breakdown_finds *finds;
    struct intern_table sequences;
    uint32_t *seen_by; /* by find: the number of the last entry added, + 1 */
    size_t seen_capacity;
    uint32_t *sequence; /* room for the longest stack */
};

static void add_find(struct searcher *searcher, size_t length, size_t number, double bytes)
{
    struct breakdown_finds *finds = searcher->finds;
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(&searcher->sequences, searcher->sequence,
                                          length * sizeof(*searcher->sequence), &added));
    if (added) {
        uint32_t *frames = xreallocarray(NULL, length, sizeof(*frames));
        memcpy(frames, searcher->sequence, length * sizeof(*frames));
        XARRAY_RESERVE(&searcher->seen_by, &searcher->seen_capacity, finds->count, 1);
        searcher->seen_by[finds->count] = 0;
        const struct breakdown_find find = {frames, length, 0};
        XARRAY_ADD(&finds->finds, &finds->count, &finds->capacity, find);
    }
    if (searcher->seen_by[id - 1] != number + 1)
        finds->finds[id - 1].bytes += bytes;
    searcher->seen_by[id - 1] = (uint32_t)number + 1;
}

/* Add the nearest wanted frame after each place of the path on the stack, unless it is the first
 * frame there: that is one of the path's rows. */
static void search_entry(struct searcher *searcher, const struct sites_entry *entry, size_t number)
{
    const struct breakdown *breakdown = searcher->breakdown;
    struct breakdown_walk walk = breakdown_walk_begin(breakdown, entry);
    ptrdiff_t step = breakdown->mode == BREAKDOWN_BOTTOM_UP ? -1 : 1;
    double bytes = entry->column == breakdown->sites->column_count - 1
                       ? entry->values[breakdown->figure].bytes
                       : 0;
    while (breakdown_walk_next(breakdown, &walk)) {
        size_t length = 0;
        for (ptrdiff_t at = walk.next; at >= 0 && at < (ptrdiff_t)walk.length; at += step) {
            searcher->sequence[length++] = walk.stack[at];
            if (!searcher->wanted[walk.stack[at]])
                continue;
            if (length > 1)
                add_find(searcher, length, number, bytes);
            break;
        }
    }
}

static int compare_finds(const void *left_pointer, const void *right_pointer)
{
    const struct breakdown_find *left = left_pointer, *right = right_pointer;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return left->length < right->length ? -1 : left->length > right->length;
}

void breakdown_search(const struct breakdown *breakdown,
                      bool (*wanted)(void *context, const struct sites_key *key), void *context,
                      struct breakdown_finds *finds)
{
    const struct sites *sites = breakdown->sites;
    const struct sites_keys *keys = &sites->keys[SITES_FRAME];
    struct searcher searcher = {.breakdown = breakdown, .finds = finds};
    const struct breakdown_set *set = breakdown_set_of(breakdown, breakdown->step_count);
    size_t longest = 1, count = set->count;
    for (size_t i = 0; i < sites->stack_count; i++)
        if (sites->stacks[i].length > longest)
            longest = sites->stacks[i].length;
    searcher.wanted = xcalloc(keys->count + 1, sizeof(*searcher.wanted));
    searcher.sequence = xcalloc(longest, sizeof(*searcher.sequence));
    for (size_t i = 0; i < keys->count; i++)
        searcher.wanted[i] = wanted(context, &keys->keys[i]);
    /* In the heavy mode every frame is a row of the empty path, so nothing is below its rows. */
    if (breakdown->mode == BREAKDOWN_HEAVY && breakdown->frame_count == 0)
        count = 0;
    for (size_t i = 0; i < count; i++)
        search_entry(&searcher, breakdown_entry(sites, set, i), i);
    if (finds->count > 1)
        qsort(finds->finds, finds->count, sizeof(*finds->finds), compare_finds);
    free(searcher.wanted);
    free(searcher.sequence);
    free(searcher.seen_by);
    intern_free(&searcher.sequences);
}

void breakdown_finds_free(struct breakdown_finds *finds)
{
    for (size_t i = 0; i < finds->count; i++)
        free(finds->finds[i].frames);
    free(finds->finds);
    *finds = (struct breakdown_finds){0};
}
