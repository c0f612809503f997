/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads heaptrack's interpreted files (heaptrack.APP.PID.zst), file versions 1 to 3. A line is a
 * letter and numbers in hexadecimal:
 *
 *   v heaptrack's version, the file's      X command            I page size, pages
 *   s string                                from version 3 on with its length before it
 *   i address, module, then function, file and line of each function it is in, innermost first
 *   t ip, parent                            a node of the tree of stacks; parent 0: outermost
 *   a size, node                            a kind of allocation
 *   + kind, - kind                          it was allocated, freed
 *   c milliseconds    R pages of RSS    S suppression    A attached    # comment
 *
 * Strings, ips and nodes count from 1, kinds from 0. Events are summed up in order. A callsite's
 * figures at the peak are saved lazily, at its first change after a new peak.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/heap_figures.h"
#include "profile/import/line_reader.h"
#include "profile/import/readers.h"
#include "util/array.h"

#define FRAMES_MAX (1u << 16)
#define CALLSITES_MAX (1u << 25)
#define SIZE_MAX_BYTES (UINT64_C(1) << 48)
#define VERSION_MAX 3
#define BOUND_CALLSITES 65536u
#define MS_NS UINT64_C(1000000)
#define TIMELINE_MAX (1u << 22)
#define NO_KIND UINT64_MAX

/* The figures of a callsite. */
struct tally {
    uint64_t allocated_bytes, allocated_count, freed_bytes, freed_count;
    uint64_t temporary_bytes, temporary_count;
    uint64_t peak_bytes, peak_count; /* at the peak of this epoch, if it is the current one */
    uint64_t epoch;
};

struct reading {
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    struct line_reader lines;
    uint64_t version;
    uint32_t *strings; /* of the builder, by number less 1 */
    size_t string_count, string_capacity;
    uint32_t *frames; /* of ips, innermost first */
    size_t frame_count, frame_capacity;
    struct ip {
        size_t first;
        uint32_t count;
    } * ips;
    size_t ip_count, ip_capacity;
    uint32_t *nodes; /* callsites, by number less 1 */
    size_t node_count, node_capacity;
    struct tally *tallies; /* by sample of the heap */
    size_t tally_count, tally_capacity;
    struct kind {
        uint64_t size;
        uint32_t tally;
    } * kinds;
    size_t kind_count, kind_capacity;
    size_t bound_at;    /* number of callsites at the next check of the memory */
    uint64_t last_kind; /* of the previous event, if it was an allocation */
    uint64_t live, peak, epoch;
    uint64_t live_count, unknown_frees;
    uint64_t time_ms, page_bytes;
    struct profile_memory_point *timeline;
    size_t timeline_count, timeline_capacity;
};

/* Functions that take a line return 0 or a negative errno. After -ENOMEM, which the builder
 * keeps, *error is unset. */

static int malformed(struct error *error)
{
    return error_set(error, -EBADMSG, "a number is missing, or wrong");
}

/* --- tables --- */

static int take_string(struct reading *reading, const char *at, const char *end,
                       struct error *error)
{
    uint64_t length = (uint64_t)(end - at), missing = 0;
    if (reading->version >= 3) {
        if (!line_read_hex(&at, &length) || *at++ != ' ')
            return malformed(error);
        /* A string can contain newlines: the rest is in the next lines. */
        uint64_t here = (uint64_t)(end - at);
        missing = length > here ? length - here : 0;
        length -= missing;
    }
    uint32_t string = builder_string(reading->builder, at, (size_t)length);
    if (ARRAY_ADD(&reading->strings, &reading->string_count, &reading->string_capacity, string) < 0)
        return builder_fail(reading->builder);
    while (missing > 0) {
        char *line;
        size_t more;
        if (line_reader_next(&reading->lines, &line, &more, NULL) <= 0)
            return error_set(error, -EBADMSG, "a string is cut off");
        missing -= more + 1 < missing ? more + 1 : missing;
    }
    return 0;
}

/* Return the builder's string; "" for 0 and unknown numbers. */
static uint32_t string_of(const struct reading *reading, uint64_t number)
{
    return number == 0 || number > reading->string_count ? 0 : reading->strings[number - 1];
}

static int put_frame(struct reading *reading, uint32_t frame)
{
    if (frame == PROFILE_NONE ||
        ARRAY_ADD(&reading->frames, &reading->frame_count, &reading->frame_capacity, frame) < 0)
        return builder_fail(reading->builder);
    return 0;
}

static int take_ip(struct reading *reading, const char *at, struct error *error)
{
    struct builder *builder = reading->builder;
    struct profile_mapping module = {0};
    uint64_t address, number = 0, name, file, line;
    if (!line_read_hex(&at, &address))
        return malformed(error);
    uint32_t mapping = PROFILE_NONE;
    if (line_read_hex(&at, &number) && string_of(reading, number) != 0)
        mapping = builder_mapping(builder, &module, string_of(reading, number), 0);
    struct ip ip = {.first = reading->frame_count};
    while (line_read_hex(&at, &name)) {
        file = line = 0;
        if (line_read_hex(&at, &file))
            line_read_hex(&at, &line);
        if (put_frame(reading, builder_frame(builder, mapping, address, string_of(reading, name),
                                             string_of(reading, file),
                                             line <= UINT32_MAX ? (uint32_t)line : 0)) < 0)
            return builder->error;
    }
    if (reading->frame_count == ip.first &&
        put_frame(reading, builder_frame(builder, mapping, address, 0, 0, 0)) < 0)
        return builder->error;
    ip.count = (uint32_t)(reading->frame_count - ip.first);
    if (ARRAY_ADD(&reading->ips, &reading->ip_count, &reading->ip_capacity, ip) < 0)
        return builder_fail(reading->builder);
    return 0;
}

static int heaptrack_take_node(struct reading *reading, const char *at, struct error *error)
{
    struct builder *builder = reading->builder;
    uint64_t number, parent;
    if (!line_read_hex(&at, &number) || !line_read_hex(&at, &parent))
        return malformed(error);
    if (number == 0 || number > reading->ip_count)
        return error_set(error, -EBADMSG, "an unknown instruction pointer");
    if (parent > reading->node_count)
        return error_set(error, -EBADMSG, "an unknown caller");
    const struct ip *ip = &reading->ips[number - 1];
    uint32_t callsite = parent == 0 ? PROFILE_NONE : reading->nodes[parent - 1];
    for (uint32_t i = ip->count; i-- > 0;) {
        callsite = builder_callsite(builder, callsite, reading->frames[ip->first + i]);
        if (builder->error < 0)
            return builder->error;
        if (builder->profile->callsites[callsite].depth >= FRAMES_MAX)
            return error_set(error, -EBADMSG, "a stack of more than 65,536 frames");
        if (builder->profile->callsite_count > CALLSITES_MAX)
            return error_set(error, -EBADMSG, "more than 33,554,432 callsites");
    }
    if (ARRAY_ADD(&reading->nodes, &reading->node_count, &reading->node_capacity, callsite) < 0)
        return builder_fail(reading->builder);
    return 0;
}

/* Return the index of a callsite's tally, which is also that of its sample. */
static uint32_t tally_of(struct reading *reading, uint32_t callsite)
{
    const struct profile_sample *sample = heap_figures_sample(&reading->heap, callsite);
    if (sample == NULL)
        return 0;
    uint32_t index = (uint32_t)(sample - reading->heap.samples);
    if (index == reading->tally_count && ARRAY_ADD(&reading->tallies, &reading->tally_count,
                                                   &reading->tally_capacity, (struct tally){0}) < 0)
        builder_fail(reading->builder);
    return index;
}

static int take_kind(struct reading *reading, const char *at, struct error *error)
{
    struct builder *builder = reading->builder;
    uint64_t size, node;
    if (!line_read_hex(&at, &size) || !line_read_hex(&at, &node))
        return malformed(error);
    if (node > reading->node_count)
        return error_set(error, -EBADMSG, "an unknown stack");
    if (size > SIZE_MAX_BYTES)
        return error_set(error, -EBADMSG, "an allocation of more than 256 TiB");
    uint32_t callsite =
        node > 0 ? reading->nodes[node - 1] : heap_figures_marker(builder, HEAP_FIGURES_NO_STACK);
    if (builder->error < 0 ||
        ARRAY_RESERVE(&reading->kinds, &reading->kind_capacity, reading->kind_count, 1) < 0)
        return builder_fail(reading->builder);
    uint32_t tally = tally_of(reading, callsite);
    reading->kinds[reading->kind_count++] = (struct kind){size, tally};
    return 0;
}

/* --- events --- */

/* Called before a tally changes. If it has not changed since the latest peak, its present figures
 * are those of the peak. */
static inline void remember_peak(const struct reading *reading, struct tally *tally)
{
    if (tally->epoch == reading->epoch)
        return;
    tally->epoch = reading->epoch;
    tally->peak_bytes = tally->allocated_bytes - tally->freed_bytes;
    tally->peak_count = tally->allocated_count - tally->freed_count;
}

static inline int take_allocation(struct reading *reading, const char *at, struct error *error)
{
    uint64_t number;
    if (!line_read_hex(&at, &number))
        return malformed(error);
    if (number >= reading->kind_count)
        return error_set(error, -EBADMSG, "an unknown allocation");
    const struct kind *kind = &reading->kinds[number];
    struct tally *tally = &reading->tallies[kind->tally];
    remember_peak(reading, tally);
    tally->allocated_bytes += kind->size;
    tally->allocated_count++;
    reading->live += kind->size;
    reading->live_count++;
    reading->last_kind = number;
    if (reading->live > reading->peak) {
        reading->peak = reading->live;
        reading->head.peak_count = (double)reading->live_count;
        reading->head.peak_boottime_ns = reading->time_ms * MS_NS;
        reading->epoch++;
    }
    return 0;
}

static inline int take_free(struct reading *reading, const char *at, struct error *error)
{
    uint64_t number;
    if (!line_read_hex(&at, &number))
        return malformed(error);
    if (number >= reading->kind_count)
        return error_set(error, -EBADMSG, "an unknown allocation");
    const struct kind *kind = &reading->kinds[number];
    struct tally *tally = &reading->tallies[kind->tally];
    bool temporary = reading->last_kind == number;
    reading->last_kind = NO_KIND;
    if (tally->freed_count == tally->allocated_count ||
        tally->allocated_bytes - tally->freed_bytes < kind->size) {
        reading->unknown_frees++;
        return 0;
    }
    remember_peak(reading, tally);
    tally->freed_bytes += kind->size;
    tally->freed_count++;
    if (temporary) {
        tally->temporary_bytes += kind->size;
        tally->temporary_count++;
    }
    reading->live -= kind->size;
    reading->live_count--;
    return 0;
}

static int take_time(struct reading *reading, const char *at, struct error *error)
{
    uint64_t time;
    if (!line_read_hex(&at, &time) || time > UINT64_MAX / MS_NS / 2)
        return malformed(error);
    if (time > reading->time_ms)
        reading->time_ms = time;
    return 0;
}

static int take_rss(struct reading *reading, const char *at, struct error *error)
{
    uint64_t pages;
    if (!line_read_hex(&at, &pages) || pages > UINT32_MAX)
        return malformed(error);
    if (reading->timeline_count >= TIMELINE_MAX)
        return 0;
    if (ARRAY_RESERVE(&reading->timeline, &reading->timeline_capacity, reading->timeline_count, 1) <
        0)
        return builder_fail(reading->builder);
    reading->timeline[reading->timeline_count++] =
        (struct profile_memory_point){.boottime_ns = reading->time_ms * MS_NS,
                                      .rss_bytes = pages * reading->page_bytes,
                                      .heap_bytes = reading->live,
                                      .rss_file_bytes = PROFILE_UNKNOWN_BYTES,
                                      .rss_shmem_bytes = PROFILE_UNKNOWN_BYTES,
                                      .profiler_bytes = PROFILE_UNKNOWN_BYTES,
                                      .swap_bytes = PROFILE_UNKNOWN_BYTES};
    return 0;
}

/* --- lines --- */

static int take_version(struct reading *reading, const char *at, struct error *error)
{
    uint64_t version;
    reading->version = 0;
    if (!line_read_hex(&at, &version))
        return malformed(error);
    if (!line_read_hex(&at, &reading->version))
        reading->version = version == 0x010200 ? 1 : 0;
    if (reading->version == 0)
        return error_set(error, -EBADMSG,
                         "the file is from a heaptrack before 1.0, which is not supported");
    if (reading->version > VERSION_MAX)
        return error_set(error, -EBADMSG,
                         "the file is from a newer heaptrack: its format version is above 3");
    return 0;
}

static void take_command(struct reading *reading, const char *at, const char *end)
{
    const char *first = at, *stop = memchr(at, ' ', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    for (const char *next = at; next < stop; next++)
        if (*next == '/' && next + 1 < stop)
            first = next + 1;
    reading->head.command = builder_text(reading->builder, at, (size_t)(end - at));
    reading->head.name = builder_text(reading->builder, first, (size_t)(stop - first));
}

static int heaptrack_take_line(struct reading *reading, const char *line, size_t length,
                               struct error *error)
{
    const char *at = line + 1, *rest = length > 2 ? line + 2 : line + length;
    switch (*line) {
    case '+':
        return take_allocation(reading, at, error);
    case '-':
        return take_free(reading, at, error);
    case 'a':
        return take_kind(reading, at, error);
    case 't':
        return heaptrack_take_node(reading, at, error);
    case 'i':
        return take_ip(reading, at, error);
    case 's':
        return take_string(reading, rest, line + length, error);
    case 'c':
        return take_time(reading, at, error);
    case 'R':
        return take_rss(reading, at, error);
    case 'v':
        return take_version(reading, at, error);
    case 'X':
        take_command(reading, rest, line + length);
        return 0;
    case 'I':
        return line_read_hex(&at, &reading->page_bytes) && reading->page_bytes < (1u << 30)
                   ? 0
                   : malformed(error);
    case 'x':
    case 'm':
        return error_set(
            error, -EBADMSG,
            "this is heaptrack's raw data; heaptrack_interpret converts it to a readable file");
    }
    /* Comments, suppressions, and lines of newer versions. */
    return 0;
}

/* If the process was killed, the last line can be incomplete. */
static int take_whole_line(void *context, char *line, size_t length, struct error *error)
{
    struct reading *reading = context;
    if (reading->lines.cut_off)
        return error_set(error, -EBADMSG, "the file is cut off");
    int code = heaptrack_take_line(reading, line, length, error);
    /* One line can name any number of inlined functions, and other lines can refer to it. */
    size_t callsites = reading->builder->profile->callsite_count;
    if (code < 0 || callsites < reading->bound_at)
        return code;
    reading->bound_at = callsites + BOUND_CALLSITES;
    return trace_source_check(reading->lines.source, error);
}

/* --- the end --- */

static int heaptrack_finish(struct reading *reading)
{
    struct heap_figures_head *head = &reading->head;
    for (size_t i = 0; i < reading->tally_count; i++) {
        struct tally *tally = &reading->tallies[i];
        struct profile_sample *sample = &reading->heap.samples[i];
        remember_peak(reading, tally);
        sample->figures = (struct trace_figures){
            .allocated_bytes = (double)tally->allocated_bytes,
            .freed_bytes = (double)tally->freed_bytes,
            .allocated_count = (double)tally->allocated_count,
            .freed_count = (double)tally->freed_count,
            .samples = tally->allocated_count,
            .freed_samples = tally->freed_count,
            .temporary_bytes = (double)tally->temporary_bytes,
            .temporary_count = (double)tally->temporary_count,
        };
        sample->peak.bytes = (double)tally->peak_bytes;
        sample->peak.count = (double)tally->peak_count;
        head->exact_bytes += tally->allocated_bytes;
        head->exact_calls += tally->allocated_count;
    }
    head->interval_bytes = 1;
    head->peak_bytes = (double)reading->peak;
    head->boottime_ns = reading->time_ms * MS_NS;
    if (reading->unknown_frees > 0)
        head->remark = "Some frees belong to allocations from before heaptrack attached.";
    int code = heap_figures_finish(&reading->heap, head);
    if (code == 0) {
        struct profile *profile = reading->builder->profile;
        struct profile_process *process = &profile->processes[profile->heaps[0].process];
        process->timeline = reading->timeline;
        process->timeline_count = reading->timeline_count;
        reading->timeline = NULL;
    }
    return code;
}

/* The file ended early, but the part before has figures to show. */
static bool is_partial(const struct reading *reading, int code)
{
    return code < 0 && reading->builder->error == 0 && reading->live_count + reading->peak > 0;
}

struct profile *import_heaptrack(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error)
{
    struct reading reading = {.builder = builder_new(options),
                              .lines = {.source = source},
                              .last_kind = NO_KIND,
                              .page_bytes = 4096};
    struct error problem = {0};
    bool partial = false;
    int code = -ENOMEM;
    reading.heap.builder = reading.builder;
    if (reading.builder != NULL) {
        code = line_reader_each(&reading.lines, reading.builder, "the heaptrack file",
                                take_whole_line, &reading, &problem);
        partial = is_partial(&reading, code);
        if (code == 0 || partial)
            code = heaptrack_finish(&reading);
    }
    struct profile *profile = builder_end(reading.builder, &code, partial ? problem.message : NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the heaptrack file");
    else if (code < 0)
        error_set(error, code, "%s", problem.message);
    heap_figures_free(&reading.heap);
    line_reader_free(&reading.lines);
    free(reading.strings);
    free(reading.frames);
    free(reading.ips);
    free(reading.nodes);
    free(reading.tallies);
    free(reading.kinds);
    free(reading.timeline);
    return profile;
}
