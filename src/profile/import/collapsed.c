/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads collapsed stacks: "main;f;g 12" a line, outermost frame first. The number counts as live
 * bytes; everything else is unknown.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/heap_figures.h"
#include "profile/import/line_reader.h"
#include "profile/import/readers.h"

#define FRAMES_MAX (1u << 16)
#define CALLSITES_MAX (1u << 25)

struct reading {
    struct heap_figures heap;
    struct line_reader lines;
    size_t lines_read, lines_of_two; /* with two numbers */
};

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

/* Return whether the text before a line's number ends in a number, too: a comparison of two
 * profiles, as difffolded.pl writes it, has two in each line. */
static bool has_two_numbers(const char *line, const char *end)
{
    const char *number = end;
    while (number > line && isdigit((unsigned char)number[-1]))
        number--;
    return number < end && number > line + 1 && isspace((unsigned char)number[-1]);
}

/* Return 0 or a negative errno; -ENOMEM leaves *error alone. */
static int collapsed_take_line(void *context, char *line, size_t length, struct error *error)
{
    struct reading *reading = context;
    struct heap_figures *heap = &reading->heap;
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
    reading->lines_read++;
    reading->lines_of_two += has_two_numbers(line, end);
    int code = find_callsite(heap->builder, line, end, &callsite, error);
    if (code < 0)
        return code;
    struct profile_sample *sample = heap_figures_sample(heap, callsite);
    if (sample == NULL)
        return heap->builder->error;
    sample->figures.allocated_bytes += value;
    return 0;
}

static int take_lines(struct reading *reading, struct error *error)
{
    int code = line_reader_each(&reading->lines, reading->heap.builder, "the collapsed stacks",
                                collapsed_take_line, reading, error);
    if (code == 0 && reading->lines_of_two > 0 && reading->lines_of_two == reading->lines_read)
        return error_set(error, -EINVAL,
                         "all %zu lines have two numbers: this is a comparison of two profiles, as "
                         "difffolded.pl writes it, and not a profile; heap_profile diff compares "
                         "the two files that it was made from",
                         reading->lines_read);
    return code;
}

struct profile *import_collapsed(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error)
{
    struct reading reading = {.heap.builder = builder_new(options), .lines.source = source};
    struct builder *builder = reading.heap.builder;
    struct heap_figures_head head = {.unknown = PROFILE_UNKNOWN_ALLOCATED | PROFILE_UNKNOWN_COUNTS |
                                                PROFILE_UNKNOWN_TEMPORARY,
                                     .remark = "These are collapsed stacks: their numbers count as "
                                               "live bytes; counts and frees are unknown."};
    int code = builder == NULL ? -ENOMEM : 0;
    if (code == 0) {
        head.heap = builder_text(builder, "heap", 4);
        code = take_lines(&reading, error);
    }
    if (code == 0)
        code = heap_figures_finish(&reading.heap, &head);
    struct profile *profile = builder_end(builder, &code, NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the collapsed stacks");
    heap_figures_free(&reading.heap);
    line_reader_free(&reading.lines);
    return profile;
}
