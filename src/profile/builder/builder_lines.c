/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of entries of a method's map, for builder_naming.c. A method's ranges are sorted once
 * by their first line. Each has the furthest last line of those up to it, so a look-up begins at
 * the first range that may contain the line. R8's ranges seldom contain each other; looking through
 * those that do counts as steps (NAMING_STEPS_MAX).
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
        range->furthest = range->last;
        if (range > ranges && range[-1].furthest > range->last)
            range->furthest = range[-1].furthest;
    }
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

/* Return the index of the first range of a method up to which one may contain a line. */
static uint32_t first_range_at(const struct line_range *ranges, uint32_t count, uint32_t line)
{
    uint32_t first = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        if (ranges[first + half].furthest >= line) {
            count = half;
        } else {
            first += half + 1;
            count -= half + 1;
        }
    }
    return first;
}

size_t builder_ranges_at(struct builder_deobfuscation *all, const struct method *method,
                         uint32_t line, const struct line_range **found, size_t most)
{
    const struct line_range *ranges = all->ranges + method->first_range;
    uint32_t i = first_range_at(ranges, method->range_count, line);
    size_t count = 0;
    for (; i < method->range_count && ranges[i].first <= line && count < most; i++) {
        all->steps++;
        if (ranges[i].last >= line)
            found[count++] = &ranges[i];
    }
    return count;
}
