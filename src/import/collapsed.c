/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads collapsed stacks: "main;f;g 12" a line, outermost frame first. The number counts as live
 * bytes; everything else is unknown.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "import/heap_figures.h"
#include "import/line_reader.h"
#include "import/readers.h"

#define FRAMES_MAX (1u << 16)
#define CALLSITES_MAX (1u << 25)

/* Find the callsite of a stack. Return 0 or a negative errno; -ENOMEM leaves *error alone. */
static int find_callsite(struct builder *builder, char *at, char *end, uint32_t *callsite,
                         struct error *error)
{
    *callsite = PROFILE_NONE;
    for (;;) {
        char *semicolon = memchr(at, ';', (size_t)(end - at));
        char *stop = semicolon == NULL ? end : semicolon;
        uint32_t name = stop == at ? builder_string(builder, "?", 1)
                                   : builder_string(builder, at, (size_t)(stop - at));
        uint32_t frame = builder_frame(builder, PROFILE_NONE, 0, name, 0, 0);
        if (builder->error == 0)
            *callsite = builder_callsite(builder, *callsite, frame);
        if (builder->error < 0)
            return builder->error;
        if (builder->profile->callsites[*callsite].depth >= FRAMES_MAX)
            return error_set(error, -EBADMSG, "a stack of more than 65,536 frames");
        if (builder->profile->callsite_count > CALLSITES_MAX)
            return error_set(error, -EBADMSG, "more than 33,554,432 callsites");
        if (semicolon == NULL)
            return 0;
        at = semicolon + 1;
    }
}

/* Return 0 or a negative errno; -ENOMEM leaves *error alone. */
static int take_line(struct heap_figures *heap, char *line, size_t length, struct error *error)
{
    char *end = line + length, *number, *after;
    uint32_t callsite;
    while (end > line && isspace((unsigned char)end[-1]))
        end--;
    if (end == line || *line == '#')
        return 0;
    *end = '\0';
    for (number = end; number > line && !isspace((unsigned char)number[-1]); number--)
        ;
    double value = strtod(number, &after);
    if (!isdigit((unsigned char)*number) || after != end || !(value < 1e300))
        return error_set(error, -EBADMSG, "there is no number at its end");
    for (end = number; end > line && isspace((unsigned char)end[-1]); end--)
        ;
    if (end == line)
        return error_set(error, -EBADMSG, "there is no stack before the number");
    int code = find_callsite(heap->builder, line, end, &callsite, error);
    if (code < 0)
        return code;
    struct profile_sample *sample = heap_figures_sample(heap, callsite);
    if (sample == NULL)
        return heap->builder->error;
    sample->figures.allocated_bytes += value;
    return 0;
}

static int take_lines(struct heap_figures *heap, struct line_reader *lines, struct error *error)
{
    struct error problem = {0};
    char *line;
    size_t length;
    int code;
    while ((code = line_reader_next(lines, &line, &length, error)) > 0) {
        code = take_line(heap, line, length, &problem);
        if (heap->builder->error < 0)
            return heap->builder->error;
        if (code < 0)
            return error_set(error, code, "line %llu of the collapsed stacks: %s",
                             (unsigned long long)lines->number, problem.message);
    }
    return code;
}

struct profile *import_collapsed(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error)
{
    struct heap_figures heap = {.builder = builder_new(options)};
    struct line_reader lines = {.source = source};
    struct heap_figures_head head = {.unknown = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS |
                                                PROFILE_UNKNOWN_TEMPORARY,
                                     .remark = "These are collapsed stacks: their numbers count as "
                                               "live bytes; counts and frees are unknown."};
    int code = heap.builder == NULL ? -ENOMEM : 0;
    if (code == 0) {
        head.heap = builder_text(heap.builder, "heap", 4);
        code = take_lines(&heap, &lines, error);
    }
    if (code == 0)
        code = heap_figures_finish(&heap, &head);
    struct profile *profile = builder_end(heap.builder, &code, NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the collapsed stacks");
    heap_figures_free(&heap);
    line_reader_free(&lines);
    return profile;
}
