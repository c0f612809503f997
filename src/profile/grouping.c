/* SPDX-License-Identifier: Apache-2.0 */
/* Sums samples by one key, and within each by a second one. */
#include "profile/grouping.h"

#include <stdlib.h>

#include "trace/intern.h"
#include "util/array.h"

struct builder_rows {
    struct grouping_row *rows;
    size_t capacity;
    struct intern_table ids;
};

struct grouping_builder {
    struct grouping *grouping;
    enum grouping_key keys[2];
    const uint32_t *alike;
    struct builder_rows outer, inner;
};

static struct grouping_row grouping_row_of(enum grouping_key key, uint32_t callsite,
                                           const struct profile_part *part)
{
    struct grouping_row row = {.callsite = PROFILE_NONE};
    if (key == GROUPING_BACKTRACE)
        row.callsite = callsite;
    else if (part == NULL)
        row.label = "";
    else
        row.label = key == GROUPING_TYPE ? part->type : part->context;
    return row;
}

/* Return the index of the group's row with the same key. SIZE_MAX: no memory. */
static size_t grouping_find_row(struct builder_rows *rows, size_t *count,
                                const struct grouping_row *like, size_t group)
{
    /* Equal labels of a profile are the same pointer, except "" of a sample without parts. */
    const char *label = like->label != NULL && *like->label == '\0' ? "" : like->label;
    uint64_t key[] = {group, like->callsite, (uint64_t)(uintptr_t)label};
    bool added;
    uint64_t id = intern_bytes(&rows->ids, key, sizeof(key), &added);
    if (id == 0)
        return SIZE_MAX;
    if (!added)
        return id - 1;
    if (ARRAY_RESERVE(&rows->rows, &rows->capacity, *count, 1) < 0)
        return SIZE_MAX;
    rows->rows[*count] = *like;
    rows->rows[*count].first = group;
    return (*count)++;
}

static int add_part(struct grouping_builder *builder, uint32_t callsite,
                    const struct profile_part *part, const struct rollup_values *values)
{
    struct grouping *grouping = builder->grouping;
    struct grouping_row like = grouping_row_of(builder->keys[0], callsite, part);
    size_t outer = grouping_find_row(&builder->outer, &grouping->outer_count, &like, 0);
    if (outer == SIZE_MAX)
        return -ENOMEM;
    rollup_values_add(&builder->outer.rows[outer].values, values);
    if (builder->keys[1] == GROUPING_NONE)
        return 0;
    like = grouping_row_of(builder->keys[1], callsite, part);
    size_t inner = grouping_find_row(&builder->inner, &grouping->inner_count, &like, outer);
    if (inner == SIZE_MAX)
        return -ENOMEM;
    rollup_values_add(&builder->inner.rows[inner].values, values);
    return 0;
}

static int add_sample(struct grouping_builder *builder, const struct profile_sample *sample)
{
    uint32_t callsite =
        builder->alike != NULL ? builder->alike[sample->callsite] : sample->callsite;
    /* Without tags, all of it has no type and no context, and the peak is known. */
    if (!sample->tagged) {
        struct rollup_values values = rollup_values_of(sample);
        return add_part(builder, callsite, NULL, &values);
    }
    for (uint32_t i = 0; i < sample->part_count; i++) {
        const struct profile_part *part = &sample->parts[i];
        struct rollup_values values = {part->figures, part->peak};
        if (add_part(builder, callsite, part, &values) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int compare_groups(const void *left_pointer, const void *right_pointer)
{
    const struct grouping_row *left = left_pointer, *right = right_pointer;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Up to here, an inner row's `first` is the index of its outer row. */
static void gather_inner(struct grouping *grouping)
{
    if (grouping->inner_count > 1)
        qsort(grouping->inner, grouping->inner_count, sizeof(*grouping->inner), compare_groups);
    for (size_t i = 0; i < grouping->inner_count; i++) {
        struct grouping_row *outer = &grouping->outer[grouping->inner[i].first];
        if (outer->count++ == 0)
            outer->first = i;
    }
}

struct grouping *grouping_new(const struct profile_dump *dump, enum grouping_key first,
                              enum grouping_key second, const uint32_t *alike)
{
    struct grouping *grouping = calloc(1, sizeof(*grouping));
    if (grouping == NULL)
        return NULL;
    struct grouping_builder builder = {
        .grouping = grouping, .keys = {first, second}, .alike = alike};
    int code = 0;
    for (size_t i = 0; i < dump->sample_count && code == 0; i++)
        code = add_sample(&builder, dump->samples[i]);
    grouping->outer = builder.outer.rows;
    grouping->inner = builder.inner.rows;
    intern_free(&builder.outer.ids);
    intern_free(&builder.inner.ids);
    if (code < 0) {
        grouping_free(grouping);
        return NULL;
    }
    gather_inner(grouping);
    return grouping;
}

void grouping_free(struct grouping *grouping)
{
    if (grouping == NULL)
        return;
    free(grouping->outer);
    free(grouping->inner);
    free(grouping);
}
