/* SPDX-License-Identifier: Apache-2.0 */
/* Names dimensions, and classifies samples by size and lifetime. */
#include "tools/view/model/dimension.h"

#include <stdlib.h>
#include <string.h>

#include "profile/compare/estimates.h"

const char *const view_dimension_names[VIEW_DIMENSIONS] = {
    [VIEW_FUNCTION] = "function", [VIEW_HOLDER] = "holder", [VIEW_MODULE] = "module",
    [VIEW_FILE] = "file",         [VIEW_THREAD] = "thread", [VIEW_TYPE] = "type",
    [VIEW_CONTEXT] = "context",   [VIEW_SIZE] = "size",     [VIEW_LIFETIME] = "lifetime",
};

enum view_dimension view_dimension_of(const char *name, size_t length)
{
    enum view_dimension dimension = 0;
    while (dimension < VIEW_DIMENSIONS &&
           (strlen(view_dimension_names[dimension]) != length ||
            strncmp(view_dimension_names[dimension], name, length) != 0))
        dimension++;
    return dimension;
}

/* --- what a file can tell --- */

static bool part_tells(const struct profile_part *part, enum view_dimension dimension)
{
    return dimension == VIEW_THREAD ? part->tid != 0
           : dimension == VIEW_TYPE ? *part->type != '\0'
                                    : *part->context != '\0';
}

/* Return whether any sample of the last dump, which has those of all dumps, has a thread, type or
 * context. A heap without samples has none to tell. */
static bool samples_tell(const struct profile_heap *heap, enum view_dimension dimension)
{
    const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
    for (size_t i = 0; i < last->sample_count; i++)
        for (uint32_t j = 0; j < last->samples[i]->part_count; j++)
            if (part_tells(&last->samples[i]->parts[j], dimension))
                return true;
    return last->sample_count == 0;
}

/* Other profilers' files have no lifetimes: their sum is 0. */
static bool has_lifetimes(const struct profile_heap *heap)
{
    const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
    return (heap->unknown & PROFILE_UNKNOWN_TEMPORARY) == 0 &&
           (last->total.lifetime_ms_sum > 0 || !(last->total.freed_count > 0));
}

const char *view_dimension_why_unknown(const struct profile_heap *heap,
                                       enum view_dimension dimension)
{
    switch (dimension) {
    case VIEW_THREAD:
        return samples_tell(heap, dimension) ? NULL : "the file does not contain threads";
    case VIEW_TYPE:
        return samples_tell(heap, dimension) ? NULL : "no allocation of this heap has a type";
    case VIEW_CONTEXT:
        return samples_tell(heap, dimension) ? NULL : "no allocation of this heap has a context";
    case VIEW_SIZE:
        return (heap->unknown & PROFILE_UNKNOWN_COUNTS) == 0
                   ? NULL
                   : "the file does not contain numbers of allocations, and so no mean sizes";
    case VIEW_LIFETIME:
        return has_lifetimes(heap)
                   ? NULL
                   : "the file does not contain lifetimes, or none was as long as a millisecond";
    default:
        return NULL;
    }
}

/* --- classes --- */

static const int64_t lifetime_classes_ms[] = {
    0, 1, 10, 100, 1000, 10000, 60000, 600000, 3600000,
};
#define LIFETIME_CLASSES (sizeof(lifetime_classes_ms) / sizeof(lifetime_classes_ms[0]))
#define SIZE_CLASS_MOST (INT64_C(1) << 62)

int64_t view_size_class(const struct profile_sample *sample, enum export_view view)
{
    const struct rollup_values values = rollup_values_of(sample);
    const struct profile_estimate figure = estimate_of_view(&values, view);
    if (!(figure.count > 0))
        return VIEW_CLASS_UNKNOWN;
    double mean = figure.bytes / figure.count;
    int64_t least = 0;
    for (int64_t next = 1; next < SIZE_CLASS_MOST && mean >= (double)next; next *= 2)
        least = next;
    return least;
}

int64_t view_lifetime_class(const struct profile_sample *sample)
{
    const struct trace_figures *figures = &sample->figures;
    if (!(figures->freed_count > 0))
        return VIEW_CLASS_NOTHING_FREED;
    double mean = figures->lifetime_ms_sum / figures->freed_count;
    size_t class = LIFETIME_CLASSES - 1;
    while (class > 0 && mean < (double)lifetime_classes_ms[class])
        class --;
    return lifetime_classes_ms[class];
}

int64_t view_class_parse(enum view_dimension dimension, const char *text)
{
    char *end;
    if (dimension == VIEW_LIFETIME && strcmp(text, "none") == 0)
        return VIEW_CLASS_NOTHING_FREED;
    if (*text < '0' || *text > '9')
        return VIEW_CLASS_UNKNOWN;
    int64_t number = strtoll(text, &end, 10);
    bool known = dimension == VIEW_SIZE && (number & (number - 1)) == 0 && number < SIZE_CLASS_MOST;
    for (size_t i = 0; i < LIFETIME_CLASSES && dimension == VIEW_LIFETIME; i++)
        known |= number == lifetime_classes_ms[i];
    return known && *end == '\0' ? number : VIEW_CLASS_UNKNOWN;
}
