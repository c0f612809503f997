/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the heap profiles that gperftools ("heap profile:") and jemalloc ("heap_v2/") write as
 * text: addresses, and the mappings that contain them.
 *
 * gperftools has a line for each stack, "live objects: bytes [allocated objects: bytes] @
 * addresses". Figures are exact, or, after "@ heap_v2/INTERVAL", sampled. jemalloc has a line of
 * addresses, "@ ...", and below it the same figures for all threads ("t*:") and for each ("t3:");
 * its allocated figures are 0 unless it counts them (opt.prof_accum). Sampled figures are those of
 * the samples: each represents 1 / (1 - exp(-average / interval)) allocations.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "import/heap_figures.h"
#include "import/line_reader.h"
#include "import/readers.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/process_maps.h"
#include "util/sorted_search.h"

#define FRAMES_MAX 4096u

struct figures {
    double live_count, live_bytes, allocated_count, allocated_bytes;
};

struct reading {
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    struct line_reader lines;
    bool jemalloc;
    bool in_stack; /* jemalloc: a line of addresses was read */
    bool accumulates;
    /* Stacks are kept until the end: the mappings are after them in the file. */
    uint64_t *addresses;
    size_t address_count, address_capacity;
    struct stack {
        size_t first;
        uint32_t count;
        struct figures figures;
        uint32_t thread_first, thread_count;
    } * stacks;
    size_t stack_count, stack_capacity;
    struct thread_figures {
        int32_t thread;
        struct figures figures;
    } * threads;
    size_t thread_count, thread_capacity;
    struct region {
        uint64_t start, end;
        uint32_t mapping;
    } * regions;
    size_t region_count, region_capacity;
};

/* Functions that take a line return 0, or a negative errno with *error set. After -ENOMEM *error is
 * unset: the builder remembers that error. */

static int malformed(struct error *error)
{
    return error_set(error, -EBADMSG, "figures are missing, or wrong");
}

/* Read "12: 3456 [78: 90]", and set *at after it. */
static bool read_figures(const char **at, struct figures *figures)
{
    uint64_t numbers[4];
    static const char separators[4] = {':', '[', ':', ']'};
    const char *next = *at;
    for (int i = 0; i < 4; i++) {
        char *end;
        while (*next == ' ')
            next++;
        if (!isdigit((unsigned char)*next))
            return false;
        numbers[i] = strtoull(next, &end, 10);
        for (next = end; *next == ' '; next++)
            ;
        if (*next++ != separators[i])
            return false;
    }
    *figures = (struct figures){(double)numbers[0], (double)numbers[1], (double)numbers[2],
                                (double)numbers[3]};
    *at = next;
    return true;
}

static bool read_interval(const char *text, uint64_t *interval)
{
    const char *found = strstr(text, "heap_v2/");
    *interval = found == NULL ? 1 : strtoull(found + 8, NULL, 10);
    return *interval > 0;
}

/* Take the return addresses of a stack, " 0x12 0x34", innermost first. */
static int take_stack(struct reading *reading, const char *at, struct error *error)
{
    struct stack stack = {.first = reading->address_count,
                          .thread_first = (uint32_t)reading->thread_count};
    uint64_t address;
    for (;;) {
        while (*at == ' ')
            at++;
        if (at[0] != '0' || (at[1] | 0x20) != 'x')
            break;
        at += 2;
        if (!line_read_hex(&at, &address))
            return error_set(error, -EBADMSG, "an address is wrong");
        if (++stack.count > FRAMES_MAX)
            return error_set(error, -EBADMSG, "a stack of more than 4,096 frames");
        if (ARRAY_ADD(&reading->addresses, &reading->address_count, &reading->address_capacity,
                      address) < 0)
            return builder_fail(reading->builder);
    }
    if (*at != '\0' && *at != '\r')
        return error_set(error, -EBADMSG, "an address is wrong");
    if (ARRAY_ADD(&reading->stacks, &reading->stack_count, &reading->stack_capacity, stack) < 0)
        return builder_fail(reading->builder);
    return 0;
}

/* --- jemalloc --- */

/* Take "t*: ...", the figures of all threads, or "t3: ... name", those of one. */
static int take_thread(struct reading *reading, const char *at, struct error *error)
{
    struct figures figures;
    char *end;
    bool all = at[1] == '*';
    unsigned long long thread = all ? 0 : strtoull(at + 1, &end, 10);
    at = all ? at + 2 : end;
    if (*at++ != ':' || !read_figures(&at, &figures))
        return malformed(error);
    reading->accumulates |= figures.allocated_count > 0;
    /* The sums precede the first stack. */
    if (!reading->in_stack || reading->stack_count == 0)
        return 0;
    struct stack *stack = &reading->stacks[reading->stack_count - 1];
    if (all) {
        stack->figures = figures;
        return 0;
    }
    if (ARRAY_RESERVE(&reading->threads, &reading->thread_capacity, reading->thread_count, 1) < 0 ||
        reading->thread_count >= UINT32_MAX)
        return builder_fail(reading->builder);
    reading->threads[reading->thread_count++] =
        (struct thread_figures){(int32_t)(thread & INT32_MAX), figures};
    stack->thread_count++;
    return 0;
}

static int take_jemalloc(struct reading *reading, const char *at, struct error *error)
{
    if (*at == '@') {
        reading->in_stack = true;
        return take_stack(reading, at + 1, error);
    }
    if (*at == 't' && (at[1] == '*' || isdigit((unsigned char)at[1])))
        return take_thread(reading, at, error);
    return error_set(error, -EBADMSG, "neither a stack nor figures");
}

/* --- gperftools --- */

static int take_gperftools(struct reading *reading, const char *at, struct error *error)
{
    struct figures figures;
    if (!read_figures(&at, &figures))
        return malformed(error);
    while (*at == ' ')
        at++;
    if (*at != '@')
        return error_set(error, -EBADMSG, "there is no stack after the figures");
    reading->accumulates |= figures.allocated_count > 0;
    int code = take_stack(reading, at + 1, error);
    if (code == 0)
        reading->stacks[reading->stack_count - 1].figures = figures;
    return code;
}

/* --- mappings --- */

/* Take a line of /proc/PID/maps; skip other lines. */
static void take_mapping(struct reading *reading, const char *line)
{
    struct process_map map;
    if (!process_map_parse(line, &map) || map.path[0] == '\0' || !map.executable)
        return;
    const struct profile_mapping mapping = {
        .start = map.start, .end = map.end, .exact_offset = map.offset};
    struct region region = {mapping.start, mapping.end, 0};
    region.mapping =
        builder_mapping(reading->builder, &mapping,
                        builder_string(reading->builder, map.path, strcspn(map.path, "\r")), 0);
    if (ARRAY_ADD(&reading->regions, &reading->region_count, &reading->region_capacity, region) < 0)
        builder_fail(reading->builder);
}

static int compare_regions(const void *left_pointer, const void *right_pointer)
{
    const struct region *left = left_pointer, *right = right_pointer;
    return left->start < right->start ? -1 : left->start > right->start;
}

static const struct region *find_region(const struct reading *reading, uint64_t address)
{
    size_t after = SORTED_SEARCH(reading->region_count, i, reading->regions[i].start <= address);
    if (after == 0 || address >= reading->regions[after - 1].end)
        return NULL;
    return &reading->regions[after - 1];
}

/* --- stacks --- */

static uint32_t frame_at(struct reading *reading, uint64_t return_address)
{
    /* The call is before the return address. */
    uint64_t address = return_address > 0 ? return_address - 1 : 0;
    const struct region *region = find_region(reading, address);
    if (region == NULL)
        return builder_frame(reading->builder, PROFILE_NONE, address, 0, 0, 0);
    const struct profile_mapping *mapping = &reading->builder->profile->mappings[region->mapping];
    return builder_frame(reading->builder, region->mapping,
                         address - mapping->start + mapping->exact_offset, 0, 0, 0);
}

static struct trace_figures unsample(const struct reading *reading, const struct figures *figures)
{
    uint64_t interval = reading->head.interval_bytes;
    struct heap_estimate live =
        heap_estimate_of_samples(figures->live_bytes, figures->live_count, interval);
    struct heap_estimate allocated =
        heap_estimate_of_samples(figures->allocated_bytes, figures->allocated_count, interval);
    return heap_figures_of(reading->accumulates ? &allocated : &live, &live);
}

static int put_stack(struct reading *reading, const struct stack *stack)
{
    struct builder *builder = reading->builder;
    uint32_t callsite = PROFILE_NONE;
    for (uint32_t i = stack->count; i-- > 0 && builder->error == 0;) {
        uint32_t frame = frame_at(reading, reading->addresses[stack->first + i]);
        if (builder->error == 0)
            callsite = builder_callsite(builder, callsite, frame);
    }
    if (stack->count == 0)
        callsite = heap_figures_marker(builder, HEAP_FIGURES_NO_STACK);
    struct profile_sample *sample =
        builder->error < 0 ? NULL : heap_figures_sample(&reading->heap, callsite);
    if (sample == NULL)
        return builder_fail(builder);
    struct trace_figures figures = unsample(reading, &stack->figures);
    trace_figures_add(&sample->figures, &figures);
    /* A single thread needs no parts, and the parts' sum must equal the whole. */
    for (uint32_t i = 0; i < stack->thread_count && stack->thread_count > 1; i++) {
        const struct thread_figures *thread = &reading->threads[stack->thread_first + i];
        struct profile_part part = {.tid = thread->thread};
        part.type = part.context = builder->strings[0];
        part.figures = unsample(reading, &thread->figures);
        if (heap_figures_part(&reading->heap, sample, &part) < 0)
            return builder->error;
    }
    return 0;
}

/* --- the whole --- */

static int take_lines(struct reading *reading, struct error *error)
{
    struct error problem = {0};
    bool mappings = false;
    char *line;
    size_t length;
    int code;
    while ((code = line_reader_next(&reading->lines, &line, &length, error)) > 0) {
        const char *at = line + strspn(line, " \t");
        code = 0;
        if (reading->lines.number == 1) {
            reading->jemalloc = strncmp(line, "heap_v2/", 8) == 0;
            if (!read_interval(line, &reading->head.interval_bytes))
                code = error_set(&problem, -EBADMSG, "its sampling interval is 0");
        } else if (strncmp(at, "MAPPED_LIBRARIES:", 17) == 0) {
            mappings = true;
        } else if (mappings) {
            take_mapping(reading, line);
        } else if (*at != '\0' && *at != '\r') {
            code = reading->jemalloc ? take_jemalloc(reading, at, &problem)
                                     : take_gperftools(reading, at, &problem);
        }
        if (reading->builder->error < 0)
            return reading->builder->error;
        if (code < 0)
            return error_set(error, code, "line %" PRIu64 " of the heap profile: %s",
                             reading->lines.number, problem.message);
    }
    return code;
}

static int put_stacks(struct reading *reading)
{
    if (reading->region_count > 0)
        qsort(reading->regions, reading->region_count, sizeof(*reading->regions), compare_regions);
    for (size_t i = 0; i < reading->stack_count; i++) {
        if (put_stack(reading, &reading->stacks[i]) < 0)
            return reading->builder->error;
    }
    if (reading->region_count > 0) {
        const struct profile_mapping *first = &reading->builder->profile->mappings[0];
        reading->head.name = base_name(first->path);
    }
    reading->head.unknown = PROFILE_UNKNOWN_TEMPORARY;
    if (!reading->accumulates) {
        reading->head.unknown |= PROFILE_UNKNOWN_ALLOCATED;
        reading->head.remark =
            "The file has figures of live memory only: allocations that were freed are unknown.";
    }
    return heap_figures_finish(&reading->heap, &reading->head);
}

struct profile *import_text_heap(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error)
{
    struct reading reading = {.builder = builder_new(options), .lines = {.source = source}};
    reading.heap.builder = reading.builder;
    int code = reading.builder == NULL ? -ENOMEM : take_lines(&reading, error);
    if (code == 0)
        code = put_stacks(&reading);
    struct profile *profile = builder_end(reading.builder, &code, NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the heap profile");
    heap_figures_free(&reading.heap);
    line_reader_free(&reading.lines);
    free(reading.addresses);
    free(reading.stacks);
    free(reading.threads);
    free(reading.regions);
    return profile;
}
