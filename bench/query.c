/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_bench TRACE: measure the memory of a trace that is opened for SQL. Print "rows BYTES", the
 * data behind the rows of the tables: structs of the profile and the texts that they refer to, each
 * once; and "peak BYTES", the maximum resident memory of the process with its libraries.
 *
 * Neither includes rows that are created at the first use of a table (heap_profile_allocation, the
 * summary tree).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/query/database_state.h"

/* A set of pointers, to count each only once. */
struct pointers {
    const void **items;
    size_t count, capacity;
};

static void take(struct pointers *pointers, const void *pointer)
{
    if (pointers->count == pointers->capacity) {
        pointers->capacity = pointers->capacity * 2 + 1024;
        pointers->items =
            reallocarray(pointers->items, pointers->capacity, sizeof(*pointers->items));
        if (pointers->items == NULL)
            abort();
    }
    if (pointer != NULL)
        pointers->items[pointers->count++] = pointer;
}

static int compare(const void *left, const void *right)
{
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    return a < b ? -1 : a > b;
}

static void make_unique(struct pointers *pointers)
{
    size_t kept = 0;
    if (pointers->count > 0)
        qsort(pointers->items, pointers->count, sizeof(*pointers->items), compare);
    for (size_t i = 0; i < pointers->count; i++)
        if (kept == 0 || pointers->items[i] != pointers->items[kept - 1])
            pointers->items[kept++] = pointers->items[i];
    pointers->count = kept;
}

static size_t dumps_bytes(const struct profile *profile)
{
    struct pointers samples = {0}, parts = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        bytes += sizeof(*heap) + heap->dump_count * sizeof(*heap->dumps);
        for (size_t j = 0; j < heap->dump_count; j++) {
            const struct profile_dump *dump = &heap->dumps[j];
            bytes += dump->sample_count * sizeof(*dump->samples);
            for (size_t k = 0; k < dump->sample_count; k++)
                take(&samples, dump->samples[k]);
        }
    }
    make_unique(&samples);
    for (size_t i = 0; i < samples.count; i++) {
        const struct profile_sample *sample = samples.items[i];
        for (uint32_t j = 0; j < sample->part_count; j++)
            take(&parts, &sample->parts[j]);
    }
    make_unique(&parts);
    bytes +=
        samples.count * sizeof(struct profile_sample) + parts.count * sizeof(struct profile_part);
    free(samples.items);
    free(parts.items);
    return bytes;
}

static size_t texts_bytes(const struct profile *profile)
{
    struct pointers texts = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < profile->frame_count; i++) {
        take(&texts, profile->frames[i].name);
        take(&texts, profile->frames[i].linkage_name);
        take(&texts, profile->frames[i].obfuscated_name);
        take(&texts, profile->frames[i].source_file);
    }
    for (size_t i = 0; i < profile->mapping_count; i++) {
        take(&texts, profile->mappings[i].path);
        take(&texts, profile->mappings[i].build_id);
    }
    for (size_t i = 0; i < profile->symbol_line_count; i++) {
        take(&texts, profile->symbol_lines[i].name);
        take(&texts, profile->symbol_lines[i].source_file);
    }
    make_unique(&texts);
    for (size_t i = 0; i < texts.count; i++)
        bytes += strlen(texts.items[i]) + 1;
    free(texts.items);
    return bytes;
}

static size_t rows_bytes(const struct profile *profile)
{
    return dumps_bytes(profile) + texts_bytes(profile) +
           profile->mapping_count * sizeof(*profile->mappings) +
           profile->frame_count * sizeof(*profile->frames) +
           profile->callsite_count * sizeof(*profile->callsites) +
           profile->symbol_line_count * sizeof(*profile->symbol_lines) +
           profile->process_count * sizeof(*profile->processes) +
           profile->thread_count * sizeof(*profile->threads) +
           profile->smaps_count * sizeof(*profile->smaps);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct rusage usage;
    struct query_database *database = query_database_new(&error);
    if (argc != 2 || database == NULL || query_database_add(database, argv[1], &error) < 0 ||
        query_database_register(database, &error) < 0) {
        fprintf(stderr, "query_bench: %s\n", argc != 2 ? "a trace is needed" : error.message);
        query_database_close(database);
        return 1;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("rows %zu\npeak %zu\n", rows_bytes(database->traces.items[0].profile),
           (size_t)usage.ru_maxrss * 1024);
    query_database_close(database);
    return 0;
}
