/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the call stacks of a pair that grew or shrank beyond the thresholds. */
#include "profile/compare/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Relative rounding error: sums of the same samples in another order differ by less. */
#define ROUNDING 1e-12

static int compare_entries(const void *left, const void *right)
{
    const struct growth_entry *a = left, *b = right;
    if (a->size != b->size)
        return a->size < b->size ? 1 : -1;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return a->row < b->row ? -1 : a->row > b->row;
}

int growth_list_make(const struct diff_pair *pair, const struct growth_options *options,
                     bool shrunk, struct growth_list *list)
{
    double sign = shrunk ? -1 : 1;
    *list = (struct growth_list){.entries = calloc(pair->row_count + 1, sizeof(*list->entries))};
    if (list->entries == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pair->row_count; i++) {
        const struct diff_row *row = &pair->rows[i];
        struct growth_entry entry = {row, sign * row->changes[EXPORT_SPACE].value,
                                     sign * row->changes[EXPORT_OBJECTS].value};
        if (!(entry.size > options->size_threshold) ||
            (options->has_count_threshold && !(entry.count > options->count_threshold)))
            continue;
        list->entries[list->count++] = entry;
        list->size_sum += entry.size;
        list->count_sum += entry.count;
    }
    if (list->count > 1)
        qsort(list->entries, list->count, sizeof(*list->entries), compare_entries);
    return 0;
}

void growth_list_clear(struct growth_list *list)
{
    free(list->entries);
    *list = (struct growth_list){0};
}

/* Subtract. Return 0 if only rounding differs; whole figures are exact. */
static double subtract(double gained, double lost)
{
    double value = gained - lost;
    bool whole = trunc(gained) == gained && trunc(lost) == lost;
    return !whole && fabs(value) <= ROUNDING * (gained + lost) ? 0 : value;
}

double growth_type_count(const struct diff_type *type)
{
    return subtract(type->gained_count, type->lost_count);
}

double growth_type_size(const struct diff_type *type)
{
    return subtract(type->gained_bytes, type->lost_bytes);
}
