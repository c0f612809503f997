/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of entries of a method's map, for builder_naming.c. A method's ranges are sorted by
 * their first line, and form a balanced tree whose root is the middle one. Each range contains the
 * furthest last line of its part, so that parts that end before a line are skipped. All ranges are
 * sorted once. A look-up costs the tree's depth, once and again for each range that it finds.
 */
#include <stdlib.h>

#include "profile/builder/builder_deobfuscation.h"

static int compare_entries(const void *left_pointer, const void *right_pointer, void *context)
{
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    const struct original *originals = context;
    const struct original *a = &originals[left], *b = &originals[right];
    if (a->first_line != b->first_line)
        return a->first_line < b->first_line ? -1 : 1;
    if (a->last_line != b->last_line)
        return a->last_line < b->last_line ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* List the entries of a method with lines, or those without. Return how many. */
static uint32_t list_entries(const struct builder_deobfuscation *all, const struct method *method,
                             bool with_lines, uint32_t *entries)
{
    uint32_t count = 0;
    for (uint32_t i = method->first; i != DEOBFUSCATION_NONE; i = all->originals[i].next)
        if (all->originals[i].has_lines == with_lines)
            entries[count++] = i;
    return count;
}

/* Set the furthest last line for all ranges of a part. Return that of the part. Parts are halved:
 * at most 32 levels. */
static uint32_t set_furthest(struct line_range *ranges, size_t count)
{
    if (count == 0)
        return 0;
    size_t middle = count / 2;
    uint32_t furthest = ranges[middle].last;
    uint32_t before = set_furthest(ranges, middle);
    uint32_t after = set_furthest(ranges + middle + 1, count - middle - 1);
    furthest = before > furthest ? before : furthest;
    furthest = after > furthest ? after : furthest;
    ranges[middle].furthest = furthest;
    return furthest;
}

/* Make the ranges of a method's entries, which begin at `first`. */
static void make_ranges(struct builder_deobfuscation *all, struct method *method, uint32_t first,
                        uint32_t count)
{
    struct line_range *ranges = all->ranges + method->first_range;
    uint32_t *entries = all->range_entries + first;
    if (count > 1)
        qsort_r(entries, count, sizeof(*entries), compare_entries, all->originals);
    for (uint32_t i = 0; i < count; i++) {
        const struct original *original = &all->originals[entries[i]];
        struct line_range *range = ranges + method->range_count - 1;
        if (i == 0 || range->first != original->first_line || range->last != original->last_line) {
            range = ranges + method->range_count++;
            *range = (struct line_range){.first = original->first_line,
                                         .last = original->last_line,
                                         .first_entry = first + i};
        }
        range->entry_count++;
    }
    set_furthest(ranges, method->range_count);
}

int builder_index_lines(struct builder_deobfuscation *all)
{
    uint32_t entries = 0, ranges = 0;
    all->range_entries = calloc(all->original_count + 1, sizeof(*all->range_entries));
    all->ranges = calloc(all->original_count + 1, sizeof(*all->ranges));
    if (all->range_entries == NULL || all->ranges == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < all->method_count; i++) {
        struct method *method = &all->methods[i];
        uint32_t count = list_entries(all, method, true, all->range_entries + entries);
        method->first_range = ranges;
        make_ranges(all, method, entries, count);
        ranges += method->range_count;
        entries += count;
        method->first_any = entries;
        method->any_count = list_entries(all, method, false, all->range_entries + entries);
        entries += method->any_count;
    }
    return 0;
}

struct search {
    const struct line_range **found;
    size_t count, most;
};

static void search_part(struct search *search, const struct line_range *ranges, size_t count,
                        uint32_t line)
{
    while (count > 0 && search->count < search->most) {
        size_t middle = count / 2;
        const struct line_range *range = &ranges[middle];
        if (range->furthest < line)
            return;
        search_part(search, ranges, middle, line);
        if (range->first > line)
            return;
        if (range->last >= line && search->count < search->most)
            search->found[search->count++] = range;
        ranges += middle + 1;
        count -= middle + 1;
    }
}

size_t builder_ranges_at(const struct builder_deobfuscation *all, const struct method *method,
                         uint32_t line, const struct line_range **found, size_t most)
{
    struct search search = {.found = found, .most = most};
    search_part(&search, all->ranges + method->first_range, method->range_count, line);
    return search.count;
}
