/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find addresses in Breakpad symbol files.
 *
 * A FUNC line precedes the records of its function. For each function that covers wanted addresses,
 * only the ranges that contain one of them are kept. At the end of the function they become
 * answers: for each address, the frames with their lines and the numbers of their names and files.
 * FILE and INLINE_ORIGIN lines may be anywhere in the file, so a second pass looks up the names of
 * these numbers. It ends when all names are found: usually before the first function.
 *
 * Functions should not overlap. If they do, an address belongs to the function that begins nearest
 * before it. A file with so many overlaps that this would take long is damaged. An address outside
 * all functions belongs to the PUBLIC before it, unless a function begins in between.
 */
#include "profile/symbols/breakpad.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/breakpad_lines.h"
#include "util/array.h"
#include "util/sorted_search.h"

/* Limits per address, plus a constant. In a real file an address has one function and, in the worst
 * C++ code, a few dozen frames. */
#define FUNCTIONS_PER_ADDRESS 16u
#define FRAMES_PER_ADDRESS 64u
#define SOME_MORE 65536u
#define RANGES_PER_FUNCTION_MAX ((size_t)4 << 20)
#define NAME_BYTES_MAX 8192u
#define NAMES_BYTES_MAX ((size_t)1 << 30)

#define NONE UINT32_MAX
static const char omitted[] = "<name omitted>";

struct line_range {
    uint64_t start, end;
    uint32_t line, file;
};

struct inline_range {
    uint64_t start, end;
    uint32_t level, line, file, origin;
};

struct frame {
    uint32_t origin; /* NONE: the function itself */
    uint32_t line, file;
};

struct answer {
    uint64_t function; /* start of the function, if there are frames */
    size_t name;       /* of the function: position in `names`, from 1 */
    size_t frame;      /* index of its first frame; the outermost comes first */
    uint32_t frames;   /* 0: no function covers the address */
    uint64_t nearest;  /* start of the nearest function after the previous address */
    uint64_t linker;   /* the same for PUBLIC */
    char *linker_name; /* NULL: none */
    bool has_nearest;
};

/* A number and the name that FILE or INLINE_ORIGIN gives it. */
struct numbered {
    uint32_t number;
    size_t name; /* position in `names`, from 1; 0: not found */
};

struct numbers {
    struct numbered *items;
    size_t count, capacity, found;
};

struct search {
    struct breakpad_lines lines;
    const uint64_t *addresses;
    size_t count;
    struct error *error;
    struct answer *answers;
    struct frame *frames;
    size_t frame_count, frame_capacity;
    char *names;
    size_t names_length, names_capacity;
    struct numbers files, origins;
    size_t covered; /* sum of the wanted addresses of all functions */
    /* The current function. */
    bool in_function;
    uint64_t start;
    size_t first, end; /* range of its addresses; empty: its records are skipped */
    size_t name;
    struct line_range *line_ranges;
    size_t line_count, line_capacity;
    struct inline_range *inline_ranges;
    size_t inline_count, inline_capacity;
};

static int fail_memory(struct search *search)
{
    return error_set(search->error, -ENOMEM, "%s: no memory for its names", search->lines.path);
}

static int breakpad_fail(struct search *search, const char *reason)
{
    return breakpad_lines_fail(&search->lines, reason, search->error);
}

/* Return the index of the first address that is not below `address`. */
static size_t lower_bound(const struct search *search, size_t from, size_t to, uint64_t address)
{
    return from + SORTED_SEARCH(to - from, i, search->addresses[from + i] < address);
}

static uint64_t end_of(uint64_t start, uint64_t size)
{
    return size > UINT64_MAX - start ? UINT64_MAX : start + size;
}

/* Append a name. Return its position in `names`, from 1, or 0: no memory, or too many bytes of
 * names. */
static size_t keep_name(struct search *search, const char *name)
{
    size_t length = strnlen(name, NAME_BYTES_MAX);
    if (search->names_length + length + 1 > NAMES_BYTES_MAX ||
        ARRAY_RESERVE(&search->names, &search->names_capacity, search->names_length, length + 1) <
            0)
        return 0;
    size_t place = search->names_length;
    memcpy(search->names + place, name, length);
    search->names[place + length] = '\0';
    search->names_length += length + 1;
    return place + 1;
}

static const char *name_at(const struct search *search, size_t place)
{
    return search->names + place - 1;
}

/* --- a function --- */

static int compare_lines(const void *a, const void *b)
{
    const struct line_range *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

static int compare_inlines(const void *a, const void *b)
{
    const struct inline_range *left = a, *right = b;
    if (left->level != right->level)
        return left->level < right->level ? -1 : 1;
    return left->start < right->start ? -1 : left->start > right->start;
}

static const struct line_range *find_line(const struct search *search, uint64_t address)
{
    size_t after = SORTED_SEARCH(search->line_count, i, search->line_ranges[i].start <= address);
    if (after == 0 || address >= search->line_ranges[after - 1].end)
        return NULL;
    return &search->line_ranges[after - 1];
}

static const struct inline_range *find_inline(const struct search *search, uint32_t level,
                                              uint64_t address)
{
    const struct inline_range *ranges = search->inline_ranges;
    size_t after = SORTED_SEARCH(search->inline_count, i,
                                 ranges[i].level < level ||
                                     (ranges[i].level == level && ranges[i].start <= address));
    if (after == 0 || ranges[after - 1].level != level || address >= ranges[after - 1].end)
        return NULL;
    return &ranges[after - 1];
}

static int add_frame(struct search *search, uint32_t origin)
{
    if (search->frame_count >= FRAMES_PER_ADDRESS * search->count + SOME_MORE)
        return breakpad_fail(search, "functions are inlined too deeply");
    if (ARRAY_RESERVE(&search->frames, &search->frame_capacity, search->frame_count, 1) < 0)
        return fail_memory(search);
    search->frames[search->frame_count++] = (struct frame){origin, 0, NONE};
    return 0;
}

/* Add the frames of an address, outermost first. The call site of a frame comes from the INLINE
 * record of the next inner one. */
static int answer_address(struct search *search, size_t index)
{
    struct answer *answer = &search->answers[index];
    uint64_t address = search->addresses[index];
    const struct inline_range *inlined;
    const struct line_range *line = find_line(search, address);
    if (answer->frames > 0 && answer->function >= search->start)
        return 0;
    answer->function = search->start;
    answer->name = search->name;
    answer->frame = search->frame_count;
    answer->frames = 0;
    int result = add_frame(search, NONE);
    for (uint32_t level = 0; result == 0 && level + 1 < SOURCE_FRAMES_MAX; level++) {
        inlined = find_inline(search, level, address);
        if (inlined == NULL)
            break;
        struct frame *caller = &search->frames[search->frame_count - 1];
        caller->line = inlined->line;
        caller->file = inlined->file;
        result = add_frame(search, inlined->origin);
    }
    if (result < 0)
        return result;
    struct frame *innermost = &search->frames[search->frame_count - 1];
    innermost->line = line == NULL ? 0 : line->line;
    innermost->file = line == NULL ? NONE : line->file;
    answer->frames = (uint32_t)(search->frame_count - answer->frame);
    return 0;
}

static int end_function(struct search *search)
{
    int result = 0;
    if (search->first < search->end) {
        if (search->line_count > 1)
            qsort(search->line_ranges, search->line_count, sizeof(*search->line_ranges),
                  compare_lines);
        if (search->inline_count > 1)
            qsort(search->inline_ranges, search->inline_count, sizeof(*search->inline_ranges),
                  compare_inlines);
        for (size_t i = search->first; i < search->end && result == 0; i++)
            result = answer_address(search, i);
    }
    search->in_function = false;
    search->first = search->end = 0;
    search->line_count = search->inline_count = 0;
    return result;
}

/* --- records --- */

static int take_function(struct search *search, char *at)
{
    uint64_t start, size, parameters;
    int result = end_function(search);
    breakpad_read_word(&at, "m"); /* optional */
    if (result < 0)
        return result;
    if (!breakpad_read_hex(&at, &start) || !breakpad_read_hex(&at, &size) ||
        !breakpad_read_hex(&at, &parameters))
        return breakpad_fail(search, "FUNC needs address, size, size of parameters and name");
    search->in_function = true;
    search->start = start;
    size_t first = lower_bound(search, 0, search->count, start);
    if (first == search->count)
        return 0;
    struct answer *answer = &search->answers[first];
    if (!answer->has_nearest || answer->nearest < start)
        answer->nearest = start;
    answer->has_nearest = true;
    search->first = first;
    search->end = lower_bound(search, first, search->count, end_of(start, size));
    if (search->first == search->end)
        return 0;
    search->covered += search->end - search->first;
    if (search->covered > FUNCTIONS_PER_ADDRESS * search->count + SOME_MORE)
        return breakpad_fail(search, "functions overlap");
    search->name = keep_name(search, *at == '\0' ? omitted : at);
    return search->name == 0 ? fail_memory(search) : 0;
}

static int take_public(struct search *search, char *at)
{
    uint64_t start, parameters;
    int result = end_function(search);
    breakpad_read_word(&at, "m"); /* optional */
    if (result < 0)
        return result;
    if (!breakpad_read_hex(&at, &start) || !breakpad_read_hex(&at, &parameters))
        return breakpad_fail(search, "PUBLIC needs address, size of parameters and name");
    size_t first = lower_bound(search, 0, search->count, start);
    if (first == search->count)
        return 0;
    struct answer *answer = &search->answers[first];
    if (answer->linker_name != NULL && answer->linker >= start)
        return 0;
    free(answer->linker_name);
    answer->linker = start;
    answer->linker_name = strndup(*at == '\0' ? omitted : at, NAME_BYTES_MAX);
    return answer->linker_name == NULL ? fail_memory(search) : 0;
}

/* Return whether a range contains one of the function's addresses. */
static bool is_wanted(const struct search *search, uint64_t start, uint64_t end)
{
    size_t index = lower_bound(search, search->first, search->end, start);
    return index < search->end && search->addresses[index] < end;
}

static int breakpad_take_line(struct search *search, char *at)
{
    uint64_t start, size;
    uint32_t line, file;
    if (!search->in_function)
        return breakpad_fail(search, "unknown record outside a function");
    if (search->first == search->end)
        return 0;
    if (!breakpad_read_hex(&at, &start) || !breakpad_read_hex(&at, &size) ||
        !breakpad_read_decimal(&at, &line) || !breakpad_read_decimal(&at, &file))
        return breakpad_fail(search, "a line of a function needs address, size, line and file");
    uint64_t end = end_of(start, size);
    if (!is_wanted(search, start, end))
        return 0;
    if (search->line_count == RANGES_PER_FUNCTION_MAX)
        return breakpad_fail(search, "the function has too many lines");
    if (ARRAY_RESERVE(&search->line_ranges, &search->line_capacity, search->line_count, 1) < 0)
        return fail_memory(search);
    search->line_ranges[search->line_count++] =
        (struct line_range){start, end, line == NONE ? 0 : line, file};
    return 0;
}

static size_t count_words(const char *at)
{
    size_t count = 0;
    for (bool in_word = false; *at != '\0'; at++) {
        count += !in_word && *at != ' ';
        in_word = *at != ' ';
    }
    return count;
}

static int add_inline(struct search *search, const struct inline_range *range)
{
    if (!is_wanted(search, range->start, range->end))
        return 0;
    if (search->inline_count == RANGES_PER_FUNCTION_MAX)
        return breakpad_fail(search, "too many functions are inlined");
    if (ARRAY_ADD(&search->inline_ranges, &search->inline_count, &search->inline_capacity, *range) <
        0)
        return fail_memory(search);
    return 0;
}

/* Read an INLINE record: level, line and file of the call, origin, and pairs of address and size.
 * Early files omit the file. */
static int take_inline(struct search *search, char *at)
{
    struct inline_range range = {.file = NONE};
    uint64_t size;
    int result = 0;
    if (!search->in_function)
        return breakpad_fail(search, "INLINE is outside a function");
    if (search->first == search->end)
        return 0;
    bool has_file = count_words(at) % 2 == 0;
    if (!breakpad_read_decimal(&at, &range.level) || !breakpad_read_decimal(&at, &range.line) ||
        (has_file && !breakpad_read_decimal(&at, &range.file)) ||
        !breakpad_read_decimal(&at, &range.origin) || *at == '\0')
        return breakpad_fail(search, "INLINE needs level, line, file, origin and ranges");
    if (range.line == NONE)
        range.line = 0;
    while (*at != '\0' && result == 0) {
        if (!breakpad_read_hex(&at, &range.start) || !breakpad_read_hex(&at, &size))
            return breakpad_fail(search, "a range of INLINE needs address and size");
        range.end = end_of(range.start, size);
        result = add_inline(search, &range);
    }
    return result;
}

/* Return whether a line is a record of an unknown kind (a word in capitals), which a later
 * dump_syms may write. */
static bool is_other_record(const char *line)
{
    size_t length = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    return length >= 3 && (line[length] == ' ' || line[length] == '\0') &&
           strspn(line, "ABCDEF") < length;
}

static int take_record(struct search *search, char *line)
{
    char *at = line;
    if (*at == '\0')
        return 0;
    if (*at < 'A' || *at > 'Z')
        return breakpad_take_line(search, at);
    if (breakpad_read_word(&at, "FUNC"))
        return take_function(search, at);
    if (breakpad_read_word(&at, "PUBLIC"))
        return take_public(search, at);
    if (breakpad_read_word(&at, "INLINE"))
        return take_inline(search, at);
    return is_other_record(line) ? 0 : breakpad_take_line(search, line);
}

/* --- names of numbers --- */

static int add_number(struct search *search, struct numbers *numbers, uint32_t number)
{
    if (number == NONE)
        return 0;
    if (ARRAY_RESERVE(&numbers->items, &numbers->capacity, numbers->count, 1) < 0)
        return fail_memory(search);
    numbers->items[numbers->count++] = (struct numbered){.number = number};
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct numbered *left = a, *right = b;
    return left->number < right->number ? -1 : left->number > right->number;
}

static void sort_numbers(struct numbers *numbers)
{
    size_t kept = 0;
    if (numbers->count > 1)
        qsort(numbers->items, numbers->count, sizeof(*numbers->items), compare_numbers);
    for (size_t i = 0; i < numbers->count; i++)
        if (kept == 0 || numbers->items[kept - 1].number != numbers->items[i].number)
            numbers->items[kept++] = numbers->items[i];
    numbers->count = kept;
}

static struct numbered *find_number(const struct numbers *numbers, uint32_t number)
{
    const struct numbered key = {.number = number};
    if (numbers->count == 0)
        return NULL;
    return bsearch(&key, numbers->items, numbers->count, sizeof(key), compare_numbers);
}

static int take_name(struct search *search, struct numbers *numbers, char *at, bool is_origin)
{
    uint32_t number, file;
    if (!breakpad_read_decimal(&at, &number))
        return breakpad_fail(search, is_origin ? "INLINE_ORIGIN needs number and name"
                                               : "FILE needs number and name");
    struct numbered *item = find_number(numbers, number);
    if (item == NULL || item->name != 0)
        return 0;
    /* In early files INLINE_ORIGIN has a file number, too. */
    char *name = at;
    if (is_origin && breakpad_read_decimal(&at, &file) && *at != '\0')
        name = at;
    item->name = keep_name(search, *name == '\0' ? omitted : name);
    numbers->found++;
    return item->name == 0 ? fail_memory(search) : 0;
}

static int collect_numbers(struct search *search)
{
    int result = 0;
    for (size_t i = 0; i < search->frame_count && result == 0; i++) {
        result = add_number(search, &search->files, search->frames[i].file);
        if (result == 0)
            result = add_number(search, &search->origins, search->frames[i].origin);
    }
    sort_numbers(&search->files);
    sort_numbers(&search->origins);
    return result;
}

static int find_names(struct search *search)
{
    char *line;
    int result = collect_numbers(search);
    if (result == 0)
        result = breakpad_lines_rewind(&search->lines, search->error);
    while (result == 0 && (search->files.found < search->files.count ||
                           search->origins.found < search->origins.count)) {
        result = breakpad_lines_next(&search->lines, &line, search->error);
        if (result <= 0)
            return result;
        result = 0;
        if (breakpad_read_word(&line, "FILE"))
            result = take_name(search, &search->files, line, false);
        else if (breakpad_read_word(&line, "INLINE_ORIGIN"))
            result = take_name(search, &search->origins, line, true);
    }
    return result;
}

/* --- answers --- */

static const char *breakpad_name_of(const struct search *search, const struct numbers *numbers,
                                    uint32_t number)
{
    const struct numbered *item = number == NONE ? NULL : find_number(numbers, number);
    return item == NULL || item->name == 0 ? NULL : name_at(search, item->name);
}

/* Fill `frames` innermost first. Return how many there are. */
static size_t make_frames(const struct search *search, const struct answer *answer,
                          struct source_frame *frames)
{
    for (uint32_t i = 0; i < answer->frames; i++) {
        const struct frame *frame = &search->frames[answer->frame + answer->frames - 1 - i];
        const char *name = frame->origin == NONE
                               ? name_at(search, answer->name)
                               : breakpad_name_of(search, &search->origins, frame->origin);
        frames[i] = (struct source_frame){
            .function = name == NULL ? omitted : name,
            .file = breakpad_name_of(search, &search->files, frame->file),
            .line = frame->line,
        };
    }
    return answer->frames;
}

static int report_answers(const struct search *search, debug_info_sink *sink, void *context)
{
    struct source_frame frames[SOURCE_FRAMES_MAX];
    const struct answer *linker = NULL, *nearest = NULL;
    int result = 0;
    for (size_t i = 0; i < search->count && result == 0; i++) {
        const struct answer *answer = &search->answers[i];
        if (answer->linker_name != NULL)
            linker = answer;
        if (answer->has_nearest)
            nearest = answer;
        if (answer->frames > 0) {
            result = sink(context, i, frames, make_frames(search, answer, frames));
        } else if (linker != NULL && (nearest == NULL || linker->linker > nearest->nearest)) {
            frames[0] = (struct source_frame){.function = linker->linker_name};
            result = sink(context, i, frames, 1);
        }
    }
    return result;
}

/* --- the file --- */

static int read_functions(struct search *search)
{
    struct breakpad_module module;
    char *line;
    int more, result = breakpad_take_module(&search->lines, &module, search->error);
    while (result == 0 && (more = breakpad_lines_next(&search->lines, &line, search->error)) != 0)
        result = more < 0 ? more : take_record(search, line);
    return result == 0 ? end_function(search) : result;
}

static void clear(struct search *search)
{
    for (size_t i = 0; search->answers != NULL && i < search->count; i++)
        free(search->answers[i].linker_name);
    free(search->answers);
    free(search->frames);
    free(search->names);
    free(search->files.items);
    free(search->origins.items);
    free(search->line_ranges);
    free(search->inline_ranges);
    breakpad_lines_close(&search->lines);
}

int breakpad_find(const char *path, const uint64_t *addresses, size_t count, debug_info_sink *sink,
                  void *context, struct error *error)
{
    struct search search = {.addresses = addresses, .count = count, .error = error};
    int result = breakpad_lines_open(&search.lines, path, error);
    if (result == 0 && (search.answers = calloc(count + 1, sizeof(*search.answers))) == NULL)
        result = fail_memory(&search);
    if (result == 0)
        result = read_functions(&search);
    if (result == 0)
        result = find_names(&search);
    if (result == 0)
        result = report_answers(&search, sink, context);
    clear(&search);
    return result;
}
