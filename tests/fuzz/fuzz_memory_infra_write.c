/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a trace, written as MemoryInfra's JSON in every form: the reader accepts all of it
 * without a warning, and the figures of each allocator equal the sums of its sites.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "profile/builder/profile_read.h"
#include "profile/memory_infra/read.h"
#include "profile/memory_infra/write.h"

/* The sums of one event's heaps, by their sites and by their allocators. */
struct sums {
    double sites, allocators, calls_of_sites, calls_of_allocators;
};

static int on_event_begin(void *context, uint64_t number, uint64_t offset)
{
    (void)number;
    (void)offset;
    *(struct sums *)context = (struct sums){0};
    return 0;
}

static int on_event_end(void *context, const struct memory_infra_event *event)
{
    const struct sums *sums = context;
    check(!event->spoilt && event->name.length > 0);
    if (event->has_dumps)
        check(sums->sites == sums->allocators && sums->calls_of_sites == sums->calls_of_allocators);
    return 0;
}

static int on_problem(void *context, const struct error *problem)
{
    (void)context;
    fprintf(stderr, "%s\n", problem->message);
    abort();
}

static int on_heap(void *context, const struct memory_infra_heap *heap)
{
    struct sums *sums = context;
    for (size_t i = 0; i < heap->count; i++) {
        check(heap->nodes[i] > 0);
        sums->sites += heap->sizes[i];
        sums->calls_of_sites += heap->counts[i];
    }
    return 0;
}

static int on_attribute(void *context, const struct memory_infra_attribute *attribute)
{
    struct sums *sums = context;
    if (memory_infra_text_is(attribute->name, "shim_allocated_objects_size"))
        sums->allocators += attribute->value;
    if (memory_infra_text_is(attribute->name, "shim_allocated_objects_count"))
        sums->calls_of_allocators += attribute->value;
    return 0;
}

static void hold(const char *text, size_t length)
{
    static const struct memory_infra_visitor visitor = {
        .event_begin = on_event_begin,
        .event_end = on_event_end,
        .problem = on_problem,
        .heap = on_heap,
        .attribute = on_attribute,
    };
    struct sums sums = {0};
    struct error error = {0};
    struct memory_infra_reader *reader = memory_infra_reader_new(&visitor, &sums);
    check(reader != NULL);
    check(memory_infra_reader_feed(reader, text, length, &error) == 0);
    check(memory_infra_reader_end(reader, &error) == 0);
    memory_infra_reader_free(reader);
}

static void write_all(const struct profile *profile, const struct export_dump *dumps, size_t count)
{
    static const struct memory_infra_write_options forms[] = {
        {.stack_mode = HEAP_STACK_NATIVE},
        {.stack_mode = HEAP_STACK_MIXED, .prune_bytes = 500, .prune_count = 3},
        {.stack_mode = HEAP_STACK_PSEUDO, .at_peak = true},
        {.stack_mode = HEAP_STACK_THREAD_NAMES, .prune_bytes = 500, .prune_count = 3},
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        check(out != NULL);
        check(memory_infra_write(profile, dumps, count, &forms[i], out) >= 0);
        check(fclose(out) == 0);
        if (count > 0)
            hold(text, length);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error error;
    struct profile *profile = profile_read_bytes(bytes, length, NULL, &error);
    size_t most = 0, count = 0;
    if (profile == NULL)
        return 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        most += profile->heaps[i].dump_count;
    struct export_dump *dumps = malloc((most + 1) * sizeof(*dumps));
    check(dumps != NULL);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            dumps[count++] = (struct export_dump){&profile->heaps[i], &profile->heaps[i].dumps[j]};
    write_all(profile, dumps, count);
    free(dumps);
    profile_free(profile);
    return 0;
}
