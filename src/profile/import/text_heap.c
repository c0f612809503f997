/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the heap profiles that gperftools, tcmalloc and Go ("heap profile:"), jemalloc ("heap_v2/")
 * and Google's Java ("--- heapz 1 ---") write as text: addresses, and the mappings or names that
 * belong to them. `jeprof --raw` and ClickHouse put the names of addresses before such a profile
 * ("--- symbol").
 *
 * Most have a line for each stack, "live objects: bytes [allocated objects: bytes] @ addresses".
 * The header's last word tells what the figures are: "heapprofile" and "growthz" are exact,
 * "heap_v2/N" and "heapz_v2/N" are sampled at the interval N, and Go's "heap/N" at half of N.
 * jemalloc has a line of addresses, "@ ...", and below it the same figures for all threads ("t*:")
 * and for each ("t3:"); its allocated figures are 0 unless it counts them (opt.prof_accum). Sampled
 * figures are those of the samples: each represents 1 / (1 - exp(-average / interval)) allocations.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/text_heap_reading.h"
#include "util/array.h"
#include "util/base_name.h"

#define JAVA_INTERVAL_BYTES 524288u
#define DEPTH_MAX (1u << 16)
/* Check the memory after this number of new callsites. */
#define BOUND_CALLSITES 65536u

struct figures {
    double live_count, live_bytes, allocated_count, allocated_bytes;
};

struct reading {
    struct text_heap_places places;
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    struct line_reader lines;
    enum {
        KIND_EXACT,   /* gperftools' own counts: all that was allocated, too */
        KIND_SAMPLED, /* tcmalloc's samples */
        KIND_GROWTH,  /* what the allocator took from the system */
        KIND_GO,
        KIND_JEMALLOC,
        KIND_JAVA,
    } kind;
    enum { IN_HEADER, IN_SYMBOLS, IN_STACKS, IN_MAPPINGS } section;
    struct figures header; /* of "heap profile:": its totals */
    bool in_stack;         /* jemalloc: a line of addresses was read */
    bool may_name;         /* Go: the names of the last stack may follow */
    bool allocates;        /* it has figures of what was allocated, apart from what is live */
    double resolution;     /* Java: bytes of its unit */
    const char *program;
    size_t bound_at; /* callsites at the next check of the memory */
    /* Stacks are kept until the end: the mappings are after them in the file. */
    uint64_t *addresses;
    size_t address_count, address_capacity;
    struct stack {
        size_t first;
        uint32_t count;
        struct figures figures;
        uint32_t thread_first, thread_count;
        struct text_heap_names names; /* Go: instead of the addresses, the innermost first */
    } * stacks;
    size_t stack_count, stack_capacity;
    struct thread_figures {
        int32_t thread;
        struct figures figures;
    } * threads;
    size_t thread_count, thread_capacity;
};

/* Functions that take a line return 0, or a negative errno with *error set. After -ENOMEM *error is
 * unset: the builder remembers that error. */

static int malformed(struct error *error)
{
    return error_set(error, -EBADMSG, "figures are missing, or wrong");
}

static bool read_number(const char **at, int64_t *number)
{
    const char *next = *at;
    char *end;
    while (*next == ' ')
        next++;
    if (!isdigit((unsigned char)next[*next == '-']))
        return false;
    *number = strtoll(next, &end, 10);
    *at = end;
    return true;
}

/* Read "12: 3456 [78: 90]", and set *at after it. What was freed without having been seen makes
 * numbers negative. */
static bool read_figures(const char **at, struct figures *figures)
{
    int64_t numbers[4];
    static const char separators[4] = {':', '[', ':', ']'};
    const char *next = *at;
    for (int i = 0; i < 4; i++) {
        if (!read_number(&next, &numbers[i]))
            return false;
        while (*next == ' ')
            next++;
        if (*next++ != separators[i])
            return false;
    }
    *figures = (struct figures){(double)numbers[0], (double)numbers[1], (double)numbers[2],
                                (double)numbers[3]};
    *at = next;
    return true;
}

/* Take the return addresses of a stack, " 0x12 0x34", innermost first. */
static int take_stack(struct reading *reading, const char *at, const struct figures *figures,
                      struct error *error)
{
    struct stack stack = {.first = reading->address_count,
                          .thread_first = (uint32_t)reading->thread_count,
                          .figures = *figures};
    uint64_t address;
    for (;;) {
        while (*at == ' ')
            at++;
        if (at[0] != '0' || (at[1] | 0x20) != 'x')
            break;
        at += 2;
        if (!line_read_hex(&at, &address))
            return error_set(error, -EBADMSG, "an address is wrong");
        if (++stack.count > TEXT_HEAP_FRAMES_MAX)
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

/* --- headers --- */

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* Lines that may precede the header: jemalloc's warnings, and those that jeprof skips. */
static bool is_before_header(const char *line)
{
    return line[strspn(line, " \t\r")] == '\0' || *line == '%' || begins(line, "<jemalloc>");
}

bool text_heap_begins(const char *text, size_t length)
{
    static const char *const headers[] = {"heap profile:", "heap_v2/",   "--- symbol",
                                          "--- heapz 1 ",  "--- heap\n", "--- growth\n"};
    char line[128];
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        size_t whole = newline == NULL ? length : (size_t)(newline - text) + 1;
        size_t kept = whole < sizeof(line) ? whole : sizeof(line) - 1;
        memcpy(line, text, kept);
        line[kept] = '\0';
        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
            if (begins(line, headers[i]))
                return true;
        if (line[strspn(line, " \t\r\n")] != '\0' && !is_before_header(line))
            return false;
        text += whole;
        length -= whole;
    }
    return false;
}

/* Read what the figures are, after "@ ". */
static int take_kind(struct reading *reading, const char *word, struct error *error)
{
    static const struct {
        const char *word;
        int kind;
        uint64_t divisor; /* of the number after the word; 0: it has no interval, every allocation
                           * counts */
    } kinds[] = {
        {"heapprofile", KIND_EXACT, 0}, {"heapz_v2", KIND_SAMPLED, 1}, {"heap_v2", KIND_SAMPLED, 1},
        {"growthz", KIND_GROWTH, 0},    {"growth", KIND_GROWTH, 0},    {"heap", KIND_GO, 2},
    };
    size_t length = strcspn(word, "/ \t\r");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].word) != length || memcmp(kinds[i].word, word, length) != 0)
            continue;
        reading->kind = kinds[i].kind;
        reading->head.interval_bytes = 1;
        if (kinds[i].divisor == 0)
            return 0;
        uint64_t number = word[length] == '/' ? strtoull(word + length + 1, NULL, 10) : 0;
        if (word[length] == '/' && number == 0)
            return error_set(error, -EBADMSG, "its sampling interval is 0");
        reading->head.interval_bytes = number == 1 ? 1 : number / kinds[i].divisor;
        return 0;
    }
    return error_set(error, -EBADMSG,
                     "its figures are of an unknown kind, '%.*s': known are heapprofile, "
                     "heap_v2/N, heapz_v2/N, heap/N and growthz",
                     length < 40 ? (int)length : 40, word);
}

static int take_header(struct reading *reading, const char *line, struct error *error)
{
    reading->section = IN_STACKS;
    if (begins(line, "heap_v2/")) {
        reading->kind = KIND_JEMALLOC;
        reading->head.interval_bytes = strtoull(line + 8, NULL, 10);
        return reading->head.interval_bytes > 0
                   ? 0
                   : error_set(error, -EBADMSG, "its sampling interval is 0");
    }
    if (begins(line, "heap profile:")) {
        const char *at = line + strlen("heap profile:");
        (void)read_figures(&at, &reading->header);
        at = strchr(line, '@');
        return take_kind(reading, at == NULL ? "" : at + 1 + strspn(at + 1, " "), error);
    }
    if (begins(line, "--- heapz 1 ")) {
        reading->kind = KIND_JAVA;
        reading->head.interval_bytes = JAVA_INTERVAL_BYTES;
        reading->resolution = 1;
        return 0;
    }
    if (begins(line, "--- profile"))
        return error_set(error, -EINVAL,
                         "a CPU profile in gperftools' binary form, in which PHP's memprof writes "
                         "its memory, too; it is not read here, but go tool pprof reads it");
    reading->section = IN_HEADER;
    if (begins(line, "--- symbol"))
        reading->section = IN_SYMBOLS;
    else if (!begins(line, "--- heap") && !begins(line, "--- growth") && !is_before_header(line))
        return error_set(error, -EBADMSG,
                         "there should be a heap profile here (\"heap profile:\" or \"heap_v2/\")");
    return 0;
}

static void take_symbol_line(struct reading *reading, const char *line)
{
    if (begins(line, "---"))
        reading->section = IN_HEADER;
    else if (begins(line, "binary="))
        reading->program = builder_text(reading->builder, line + 7, strcspn(line + 7, "\r"));
    else
        text_heap_take_symbol(&reading->places, line);
}

/* --- jemalloc --- */

static void note_allocated(struct reading *reading, const struct figures *figures)
{
    bool differs = figures->allocated_count != figures->live_count ||
                   figures->allocated_bytes != figures->live_bytes;
    bool counts_all =
        reading->kind == KIND_EXACT || reading->kind == KIND_GO || reading->kind == KIND_JEMALLOC;
    reading->allocates |= figures->allocated_count > 0 && (counts_all || differs);
}

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
    note_allocated(reading, &figures);
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
        return take_stack(reading, at + 1, &(struct figures){0}, error);
    }
    if (*at == 't' && (at[1] == '*' || isdigit((unsigned char)at[1])))
        return take_thread(reading, at, error);
    return error_set(error, -EBADMSG, "neither a stack nor figures");
}

/* --- the others --- */

static int take_figures(struct reading *reading, const char *at, struct error *error)
{
    struct figures figures;
    if (!read_figures(&at, &figures))
        return malformed(error);
    while (*at == ' ')
        at++;
    if (*at != '@')
        return error_set(error, -EBADMSG, "there is no stack after the figures");
    note_allocated(reading, &figures);
    reading->may_name = reading->kind == KIND_GO;
    return take_stack(reading, at + 1, &figures, error);
}

/* Take a line that begins with "#": of Go a name of the last stack, or anything. */
static void take_comment(struct reading *reading, const char *line)
{
    if (!reading->may_name || reading->stack_count == 0)
        return;
    struct stack *stack = &reading->stacks[reading->stack_count - 1];
    size_t first = reading->places.name_count;
    reading->may_name = stack->names.count < TEXT_HEAP_FRAMES_MAX &&
                        text_heap_take_go_name(&reading->places, line + 1);
    if (!reading->may_name)
        return;
    if (stack->names.count++ == 0)
        stack->names.first = first;
}

/* Take "resolution = bytes", "12 3 @ 0x1 0x2" (bytes, objects and a stack) or the name of one of
 * its numbers. */
static int take_java(struct reading *reading, const char *at, struct error *error)
{
    int64_t bytes, count;
    const char *next = at, *equals = strchr(at, '=');
    if (isdigit((unsigned char)*at) && at[1] != 'x') {
        if (!read_number(&next, &bytes) || !read_number(&next, &count))
            return malformed(error);
        while (*next == ' ')
            next++;
        if (*next++ != '@' || count <= 0)
            return malformed(error);
        const struct figures figures = {(double)count, (double)bytes * reading->resolution, 0, 0};
        return take_stack(reading, next, &figures, error);
    }
    if (isdigit((unsigned char)*at))
        text_heap_take_java_symbol(&reading->places, at);
    else if (begins(at, "resolution") && equals != NULL)
        reading->resolution = begins(equals + 1 + strspn(equals + 1, " "), "kilobytes") ? 1024 : 1;
    return 0;
}

static int text_heap_take_line(void *context, char *line, size_t length, struct error *error)
{
    struct reading *reading = context;
    (void)length;
    const char *at = line + strspn(line, " \t");
    if (*at == '\0' || *at == '\r') {
        reading->may_name = false;
        return 0;
    }
    if (reading->section == IN_MAPPINGS) {
        text_heap_take_mapping(&reading->places, line);
        return 0;
    }
    if (reading->section == IN_HEADER)
        return take_header(reading, line, error);
    if (reading->section == IN_SYMBOLS) {
        take_symbol_line(reading, line);
        return 0;
    }
    if (begins(at, "MAPPED_LIBRARIES:") || begins(at, "--- Memory map: ---")) {
        reading->section = IN_MAPPINGS;
        return 0;
    }
    if (*at == '#' && reading->kind != KIND_JEMALLOC) {
        take_comment(reading, at);
        return 0;
    }
    reading->may_name = false;
    if (reading->kind == KIND_JAVA)
        return take_java(reading, at, error);
    return reading->kind == KIND_JEMALLOC ? take_jemalloc(reading, at, error)
                                          : take_figures(reading, at, error);
}

static int take_lines(struct reading *reading, struct error *error)
{
    int code = line_reader_each(&reading->lines, reading->builder, "the heap profile",
                                text_heap_take_line, reading, error);
    if (code == 0 && reading->section != IN_STACKS && reading->section != IN_MAPPINGS)
        return error_set(error, -EBADMSG, "the heap profile is cut off before its first stack");
    return code;
}

/* --- stacks --- */

/* The call is before the return address. */
static uint64_t call_of(const struct reading *reading, uint64_t address)
{
    return reading->kind == KIND_JAVA || address == 0 ? address : address - 1;
}

static struct trace_figures unsample(const struct reading *reading, const struct figures *figures)
{
    uint64_t interval = reading->head.interval_bytes;
    struct heap_estimate live =
        heap_estimate_of_samples(figures->live_bytes, figures->live_count, interval);
    struct heap_estimate allocated =
        heap_estimate_of_samples(figures->allocated_bytes, figures->allocated_count, interval);
    return heap_figures_of(reading->allocates ? &allocated : &live, &live);
}

/* Return whether a stack has grown too deep: few bytes can name any number of functions for each of
 * its addresses. */
static bool is_too_deep(const struct builder *builder, uint32_t callsite)
{
    return callsite != PROFILE_NONE && builder->error == 0 &&
           builder->profile->callsites[callsite].depth >= DEPTH_MAX;
}

/* Return 0 or a negative errno; -ENOMEM leaves *error alone. */
static int find_callsite(struct reading *reading, const struct stack *stack, uint32_t *callsite,
                         struct error *error)
{
    struct builder *builder = reading->builder;
    struct text_heap_places *places = &reading->places;
    uint32_t addresses = stack->names.count > 0 ? 0 : stack->count;
    *callsite = PROFILE_NONE;
    for (uint32_t i = stack->names.count; i-- > 0 && builder->error == 0;)
        *callsite =
            text_heap_places_name(places, *callsite, &places->names[stack->names.first + i]);
    for (uint32_t i = addresses; i-- > 0 && builder->error == 0;) {
        *callsite = text_heap_places_call(places, *callsite,
                                          call_of(reading, reading->addresses[stack->first + i]),
                                          reading->kind == KIND_JAVA);
        if (is_too_deep(builder, *callsite))
            return error_set(error, -EBADMSG,
                             "the heap profile has a stack of more than 65,536 "
                             "frames");
    }
    if (*callsite == PROFILE_NONE && builder->error == 0)
        *callsite = heap_figures_marker(builder, HEAP_FIGURES_NO_STACK);
    if (builder->error < 0)
        return builder->error;
    size_t callsites = builder->profile->callsite_count;
    if (callsites < reading->bound_at)
        return 0;
    reading->bound_at = callsites + BOUND_CALLSITES;
    return trace_source_check(reading->lines.source, error);
}

static int put_stack(struct reading *reading, const struct stack *stack, struct error *error)
{
    struct builder *builder = reading->builder;
    uint32_t callsite;
    int code = find_callsite(reading, stack, &callsite, error);
    if (code < 0)
        return code;
    struct profile_sample *sample = heap_figures_sample(&reading->heap, callsite);
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

/* Find names on this machine. The memory that this takes is not the file's. */
static int find_local_names(struct reading *reading, struct error *error)
{
    struct text_heap_places *places = &reading->places;
    text_heap_places_sort(places);
    if (places->local == NULL)
        return 0;
    if (trace_source_check(reading->lines.source, error) < 0)
        return -EFBIG;
    for (size_t i = 0; i < reading->stack_count && reading->builder->error == 0; i++) {
        const struct stack *stack = &reading->stacks[i];
        for (uint32_t j = 0; j < stack->count && stack->names.count == 0; j++)
            text_heap_places_want(places, call_of(reading, reading->addresses[stack->first + j]));
    }
    int code =
        reading->builder->error < 0 ? reading->builder->error : local_names_find(places->local);
    trace_source_measure_again(reading->lines.source);
    return code;
}

static void take_head(struct reading *reading)
{
    struct heap_figures_head *head = &reading->head;
    const struct profile *profile = reading->builder->profile;
    if (reading->kind == KIND_GO || reading->kind == KIND_JAVA)
        head->heap = builder_text(reading->builder, "heap", 4);
    else if (reading->kind == KIND_GROWTH)
        head->heap = builder_text(reading->builder, "growth", 6);
    if (reading->program != NULL)
        head->name = base_name(reading->program);
    else if (reading->places.region_count > 0)
        head->name = base_name(profile->mappings[0].path);
    head->unknown = PROFILE_UNKNOWN_TEMPORARY;
    if (reading->allocates)
        return;
    head->unknown |= PROFILE_UNKNOWN_ALLOCATED;
    head->remark =
        reading->kind == KIND_GROWTH
            ? "The file has what the allocator took from the system, not what the program "
              "allocated."
            : "The file has figures of live memory only: allocations that were freed are unknown.";
}

static void add_figures(struct figures *sum, const struct figures *more)
{
    sum->live_count += more->live_count;
    sum->live_bytes += more->live_bytes;
    sum->allocated_count += more->allocated_count;
    sum->allocated_bytes += more->allocated_bytes;
}

static bool equal_figures(const struct figures *one, const struct figures *other)
{
    return one->live_count == other->live_count && one->live_bytes == other->live_bytes &&
           one->allocated_count == other->allocated_count &&
           one->allocated_bytes == other->allocated_bytes;
}

/* gperftools lists what was mapped (HEAP_PROFILE_MMAP) before what was allocated, whose totals are
 * those of the header. Return how many stacks were mapped. */
static size_t count_mapped(const struct reading *reading)
{
    struct figures sum = {0};
    size_t first = reading->stack_count;
    if (reading->kind != KIND_EXACT)
        return 0;
    while (first > 0 && !equal_figures(&sum, &reading->header))
        add_figures(&sum, &reading->stacks[--first].figures);
    if (!equal_figures(&sum, &reading->header))
        return 0;
    /* Stacks without any memory are allocated, too: all of it was freed before the counts began. */
    const struct figures nothing = {0};
    while (first > 0 && equal_figures(&reading->stacks[first - 1].figures, &nothing))
        first--;
    return first;
}

static int put_heap(struct reading *reading, size_t first, size_t end, struct error *error)
{
    for (size_t i = first; i < end; i++) {
        int code = put_stack(reading, &reading->stacks[i], error);
        if (code < 0)
            return code;
    }
    return heap_figures_finish(&reading->heap, &reading->head);
}

static int put_stacks(struct reading *reading, struct error *error)
{
    size_t mapped = count_mapped(reading);
    take_head(reading);
    int code = put_heap(reading, mapped, reading->stack_count, error);
    if (code < 0 || mapped == 0)
        return code;
    heap_figures_free(&reading->heap);
    reading->heap = (struct heap_figures){.builder = reading->builder};
    reading->head.heap = builder_text(reading->builder, "mmap", 4);
    return put_heap(reading, 0, mapped, error);
}

struct profile *import_text_heap(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error)
{
    struct reading reading = {.builder = builder_new(options), .lines = {.source = source}};
    int code = reading.builder == NULL ? -ENOMEM : 0;
    reading.heap.builder = reading.places.builder = reading.builder;
    if (code == 0 && options->find_names) {
        reading.places.local = local_names_new(reading.builder, NULL);
        code = reading.places.local == NULL ? -ENOMEM : 0;
    }
    if (code == 0)
        code = take_lines(&reading, error);
    if (code == 0)
        code = find_local_names(&reading, error);
    if (code == 0)
        code = put_stacks(&reading, error);
    char problems[LOCAL_NAMES_PROBLEMS_BYTES];
    bool has_problems = reading.places.local != NULL &&
                        local_names_problems(reading.places.local, problems, sizeof(problems)) > 0;
    struct profile *profile = builder_end(reading.builder, &code, has_problems ? problems : NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the heap profile");
    heap_figures_free(&reading.heap);
    line_reader_free(&reading.lines);
    text_heap_places_free(&reading.places);
    free(reading.addresses);
    free(reading.stacks);
    free(reading.threads);
    return profile;
}
