/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads massif's files: snapshots of the heap, of which some have a tree of callsites. Each of
 * these is a dump. A tree begins at the functions that allocated, and goes on with their callers:
 *
 *     heap_tree=peak
 *     n1: 7000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 *      n2: 7000 0x109171: make (kept.c:6)
 *       n0: 5000 0x1091B2: keep (kept.c:7)
 *       n0: 2000 in 3 places, all below massif's threshold (1.00%)
 *
 * The peak so far is the largest of the dumps: massif makes one at the highest moment.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/heap_figures.h"
#include "profile/import/line_reader.h"
#include "profile/import/readers.h"
#include "profile/import/valgrind_frame.h"
#include "util/array.h"
#include "util/base_name.h"

/* massif itself has at most 200 (--depth). */
#define FRAMES_MAX 1024u
#define DUMPS_MAX 100000u
#define BELOW_THRESHOLD "[below massif's threshold]"

struct site {
    uint32_t callsite;
    double bytes;
};

struct sites {
    struct site *items;
    size_t count, capacity;
    double total;
};

struct reading {
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    struct line_reader lines;
    bool is_in_ms;
    bool in_tree;
    uint64_t time, heap_bytes; /* of the present snapshot */
    size_t snapshots, last_dumped, dumps;
    uint64_t last_bytes, dumped_bytes; /* of the last snapshot; of the last one with a tree */
    /* The present branch of the tree: its nodes by depth, the root first. */
    struct node {
        uint32_t frame; /* of the root: none */
        double left;    /* bytes that are in none of its callers so far */
    } * nodes;
    size_t node_count, node_capacity;
    struct sites present, best; /* of the present tree; of the one with the most bytes so far */
};

bool massif_begins(const char *text, size_t length)
{
    static const char first[] = "desc: ", second[] = "\ncmd: ";
    const char *newline = memchr(text, '\n', length);
    if (newline == NULL || length < sizeof(first) || memcmp(text, first, sizeof(first) - 1) != 0)
        return false;
    size_t left = length - (size_t)(newline - text);
    return left >= sizeof(second) && memcmp(newline, second, sizeof(second) - 1) == 0;
}

/* --- the tree --- */

/* Add bytes to the stack of the branch, of which `marker` is the outermost frame if it is not
 * PROFILE_NONE. */
static int add_site(struct reading *reading, uint32_t marker, double bytes)
{
    struct builder *builder = reading->builder;
    uint32_t callsite = PROFILE_NONE;
    if (marker != PROFILE_NONE)
        callsite = builder_callsite(builder, PROFILE_NONE, marker);
    for (size_t i = reading->node_count; i-- > 1 && builder->error == 0;)
        callsite = builder_callsite(builder, callsite, reading->nodes[i].frame);
    if (callsite == PROFILE_NONE && builder->error == 0)
        callsite = heap_figures_marker(builder, HEAP_FIGURES_NO_STACK);
    if (builder->error < 0)
        return builder->error;
    const struct site site = {callsite, bytes};
    if (ARRAY_ADD(&reading->present.items, &reading->present.count, &reading->present.capacity,
                  site) < 0)
        return builder_fail(builder);
    reading->present.total += bytes;
    return 0;
}

/* Leave the nodes from this depth on. What none of its callers has is a node's own. */
static int leave_nodes(struct reading *reading, size_t depth)
{
    while (reading->node_count > depth) {
        double left = reading->nodes[reading->node_count - 1].left;
        if (left > 0 && add_site(reading, PROFILE_NONE, left) < 0)
            return reading->builder->error;
        reading->node_count--;
    }
    return 0;
}

static uint32_t marker_of(struct builder *builder)
{
    uint32_t name = builder_string(builder, BELOW_THRESHOLD, strlen(BELOW_THRESHOLD));
    return builder_frame(builder, PROFILE_NONE, 0, name, 0, 0);
}

/* Read " n2: 7000 0x109171: make (kept.c:6)". */
static int massif_take_node(struct reading *reading, const char *line, size_t length,
                            struct error *error)
{
    size_t depth = strspn(line, " ");
    const char *at = line + depth;
    char *end;
    if (*at != 'n' || !isdigit((unsigned char)at[1]))
        return error_set(error, -EBADMSG, "this is not a node of the heap's tree");
    (void)strtoul(at + 1, &end, 10);
    if (end[0] != ':' || end[1] != ' ' || !isdigit((unsigned char)end[2]))
        return error_set(error, -EBADMSG, "a node without its bytes");
    double bytes = (double)strtoull(end + 2, &end, 10);
    if (depth > reading->node_count || (depth == 0 && reading->node_count > 0))
        return error_set(error, -EBADMSG, "a node that has no place in the tree");
    if (depth > FRAMES_MAX)
        return error_set(error, -EBADMSG, "a stack of more than 1,024 frames");
    if (leave_nodes(reading, depth) < 0)
        return reading->builder->error;
    if (depth > 0)
        reading->nodes[depth - 1].left -= bytes;
    at = end + strspn(end, " ");
    if (strncmp(at, "in ", 3) == 0 && strstr(at, "below massif's threshold") != NULL)
        return bytes > 0 ? add_site(reading, marker_of(reading->builder), bytes) : 0;
    struct node node = {PROFILE_NONE, bytes};
    if (depth > 0)
        node.frame = valgrind_frame(reading->builder, at, length - (size_t)(at - line));
    if (reading->builder->error < 0 ||
        ARRAY_ADD(&reading->nodes, &reading->node_count, &reading->node_capacity, node) < 0)
        return builder_fail(reading->builder);
    return 0;
}

/* --- snapshots --- */

/* Keep the present tree if it has the most bytes so far. */
static int note_best(struct reading *reading)
{
    struct sites *best = &reading->best;
    const struct sites *present = &reading->present;
    if (present->total <= best->total)
        return 0;
    if (ARRAY_RESERVE(&best->items, &best->capacity, 0, present->count) < 0)
        return builder_fail(reading->builder);
    memcpy(best->items, present->items, present->count * sizeof(*best->items));
    best->count = present->count;
    best->total = present->total;
    reading->head.peak_boottime_ns = reading->head.boottime_ns;
    reading->head.peak_bytes = best->total;
    return 0;
}

/* Make a dump of the present tree. After -EFBIG, *error is set. */
static int end_tree(struct reading *reading, struct error *error)
{
    struct builder *builder = reading->builder;
    reading->in_tree = false;
    reading->head.boottime_ns = reading->is_in_ms ? reading->time * 1000000 : 0;
    if (leave_nodes(reading, 0) < 0 || note_best(reading) < 0)
        return builder->error;
    for (size_t i = 0; i < reading->present.count; i++) {
        struct profile_sample *sample =
            heap_figures_sample(&reading->heap, reading->present.items[i].callsite);
        if (sample == NULL)
            return builder->error;
        sample->figures.allocated_bytes += reading->present.items[i].bytes;
    }
    for (size_t i = 0; i < reading->best.count; i++) {
        struct profile_sample *sample =
            heap_figures_sample(&reading->heap, reading->best.items[i].callsite);
        if (sample == NULL)
            return builder->error;
        sample->peak.bytes += reading->best.items[i].bytes;
    }
    reading->present.count = 0;
    reading->present.total = 0;
    reading->last_dumped = reading->snapshots;
    reading->dumped_bytes = reading->heap_bytes;
    reading->dumps++;
    if (heap_figures_add_dump(&reading->heap, &reading->head) < 0)
        return builder->error;
    /* Each dump has the stacks of the peak, too. */
    return trace_source_check(reading->lines.source, error);
}

static bool read_field(const char *line, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || !isdigit((unsigned char)line[length]))
        return false;
    *value = strtoull(line + length, NULL, 10);
    return true;
}

static void take_command(struct reading *reading, const char *command, size_t length)
{
    size_t first = strcspn(command, " ");
    reading->head.command = builder_text(reading->builder, command, length);
    reading->head.name = base_name(builder_text(reading->builder, command, first));
}

static int take_field(struct reading *reading, const char *line, size_t length, struct error *error)
{
    uint64_t number;
    if (strncmp(line, "cmd: ", 5) == 0)
        take_command(reading, line + 5, length - 5);
    else if (strncmp(line, "time_unit: ", 11) == 0)
        reading->is_in_ms = strncmp(line + 11, "ms", 2) == 0;
    else if (read_field(line, "snapshot=", &number))
        reading->snapshots++;
    else if (read_field(line, "mem_heap_B=", &reading->heap_bytes))
        reading->last_bytes = reading->heap_bytes;
    else if (read_field(line, "time=", &reading->time))
        reading->time = reading->time < UINT64_MAX / 2000000 ? reading->time : 0;
    else if (strcmp(line, "heap_tree=detailed") == 0 || strcmp(line, "heap_tree=peak") == 0)
        reading->in_tree = true;
    if (reading->dumps > DUMPS_MAX)
        return error_set(error, -EBADMSG, "more than 100,000 snapshots with a tree");
    return 0;
}

static int massif_take_line(void *context, char *line, size_t length, struct error *error)
{
    struct reading *reading = context;
    if (length > 0 && line[length - 1] == '\r')
        line[--length] = '\0';
    if (reading->in_tree && *line == '#')
        return end_tree(reading, error);
    if (*line == '\0' || *line == '#')
        return 0;
    return reading->in_tree ? massif_take_node(reading, line, length, error)
                            : take_field(reading, line, length, error);
}

static int take_lines(struct reading *reading, struct error *error)
{
    int code = line_reader_each(&reading->lines, reading->builder, "the massif file",
                                massif_take_line, reading, error);
    if (code == 0 && reading->in_tree)
        code = end_tree(reading, error);
    return code;
}

/* --- the whole --- */

/* Say which snapshot the figures of live memory are of, if it is not the last one. */
static const char *remark_of(struct reading *reading)
{
    char text[200];
    if (reading->last_dumped == reading->snapshots)
        return NULL;
    int length = snprintf(text, sizeof(text),
                          "massif's snapshot %zu of %zu is the last one with stacks, with %" PRIu64
                          " bytes live; the last snapshot of all has %" PRIu64 ".",
                          reading->last_dumped, reading->snapshots, reading->dumped_bytes,
                          reading->last_bytes);
    return builder_text(reading->builder, text, (size_t)length);
}

static int massif_finish(struct reading *reading, struct error *error)
{
    if (reading->dumps == 0)
        return error_set(error, -EINVAL, "none of the %zu snapshots of the massif file has stacks",
                         reading->snapshots);
    struct profile_heap *heap = &reading->builder->profile->heaps[reading->heap.made];
    heap->status.remark = remark_of(reading);
    return reading->builder->error;
}

struct profile *import_massif(struct trace_source *source,
                              const struct profile_read_options *options, struct error *error)
{
    struct reading reading = {
        .builder = builder_new(options),
        .lines = {.source = source},
        .head = {.interval_bytes = 1,
                 .unknown = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS |
                            PROFILE_UNKNOWN_TEMPORARY},
    };
    int code = reading.builder == NULL ? -ENOMEM : 0;
    reading.heap.builder = reading.builder;
    if (code == 0)
        code = take_lines(&reading, error);
    if (code == 0)
        code = massif_finish(&reading, error);
    struct profile *profile = builder_end(reading.builder, &code, NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the massif file");
    heap_figures_free(&reading.heap);
    line_reader_free(&reading.lines);
    free(reading.nodes);
    free(reading.present.items);
    free(reading.best.items);
    return profile;
}
