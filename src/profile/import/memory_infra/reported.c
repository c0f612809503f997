/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes that a process reports of its outermost allocators, and of itself. They stand beside the
 * heaps: Chrome reports many allocators, and has backtraces of few.
 */
#include <math.h>
#include <string.h>

#include "profile/import/memory_infra/state.h"
#include "util/array.h"

static bool is(struct memory_infra_text text, const char *wanted)
{
    return strlen(wanted) == text.length && memcmp(text.at, wanted, text.length) == 0;
}

/* Return the row of a name in the event, which is the last one or new; NULL: no memory. */
static struct profile_reported *row_of(struct importing *importing, struct memory_infra_text name,
                                       bool is_allocator)
{
    const char *text = builder_text(importing->builder, name.at, name.length);
    struct profile_reported *last =
        importing->event_reported_count == 0
            ? NULL
            : &importing->event_reported[importing->event_reported_count - 1];
    if (last != NULL && last->is_allocator == is_allocator && strcmp(last->name, text) == 0)
        return last;
    const struct profile_reported fresh = {
        .name = text, .is_allocator = is_allocator, .size_bytes = NAN, .effective_bytes = NAN};
    if (ARRAY_ADD(&importing->event_reported, &importing->event_reported_count,
                  &importing->event_reported_capacity, fresh) < 0)
        return NULL;
    return &importing->event_reported[importing->event_reported_count - 1];
}

/* The attributes of an allocator are together. What "global" has belongs to no process. */
int import_reported_attribute(void *context, const struct memory_infra_attribute *attribute)
{
    struct importing *importing = context;
    const struct memory_infra_text name = attribute->allocator;
    bool is_size = is(attribute->name, "size"),
         is_effective = is(attribute->name, "effective_size");
    if (!attribute->scalar || (!is_size && !is_effective) || !is(attribute->units, "bytes") ||
        name.length == 0 || memchr(name.at, '/', name.length) != NULL || is(name, "global"))
        return 0;
    struct profile_reported *row = row_of(importing, name, true);
    if (row == NULL)
        return builder_fail(importing->builder);
    *(is_size ? &row->size_bytes : &row->effective_bytes) = attribute->value;
    return 0;
}

int import_reported_total(struct importing *importing, struct memory_infra_text name, double value)
{
    /* Chrome has renamed totals over time. */
    static const struct {
        const char *of_chrome, *name;
    } totals[] = {
        {"private_footprint_bytes", "private_footprint"},
        {"peak_resident_set_bytes", "peak_resident"},
        {"peak_resident_set_size", "peak_resident"},
    };
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        const struct memory_infra_text ours = {totals[i].name, strlen(totals[i].name)};
        if (!is(name, totals[i].of_chrome))
            continue;
        struct profile_reported *row = row_of(importing, ours, false);
        if (row == NULL)
            return builder_fail(importing->builder);
        row->size_bytes = value;
    }
    return importing->builder->error;
}

int import_take_reported(struct importing *importing, uint32_t index)
{
    const struct import_process_dump *process_dump = &importing->process_dumps[index];
    struct builder *builder = importing->builder;
    struct profile *profile = builder->profile;
    if (importing->event_reported_count == 0)
        return 0;
    uint32_t process = builder_process(builder, importing->processes[process_dump->process].pid);
    if (process == PROFILE_NONE ||
        ARRAY_RESERVE(&profile->reported, &importing->reported_capacity, profile->reported_count,
                      importing->event_reported_count) < 0)
        return builder_fail(builder);
    for (size_t i = 0; i < importing->event_reported_count; i++) {
        struct profile_reported *row = &profile->reported[profile->reported_count++];
        *row = importing->event_reported[i];
        row->process = process;
        row->boottime_ns = import_nanoseconds(process_dump->ts_us);
    }
    return 0;
}
