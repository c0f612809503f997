/* SPDX-License-Identifier: Apache-2.0 */
/* Reads baseline files, which anybody may have written. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/compare/baseline_file.h"
#include "util/array.h"
#include "util/json_tokens.h"
#include "util/regular_file.h"
#include "util/utf8.h"

#define NUMBER_MAX 0x1p62

static const char first_name[] = "heap_profile_baseline";

/* Message beginnings that several places share. */
static const char says_again[] = "save it again with heap_profile check --save-baseline";

struct reader {
    struct json_tokens tokens;
    struct error *error;
    struct baseline_file *file;
};

static int baseline_read_fail(struct reader *reader, const char *reason)
{
    if (reader->error->code == 0)
        error_set(reader->error, -EINVAL, "byte %" PRIu64 ": %s; %s", reader->tokens.offset, reason,
                  says_again);
    return -EINVAL;
}

static int fail_memory(struct reader *reader)
{
    return error_set(reader->error, -ENOMEM, "no memory");
}

/* Return the next token. What is none is JSON_BROKEN, with *error set. */
static enum json_token next(struct reader *reader)
{
    enum json_token token = json_tokens_next(&reader->tokens);
    switch (token) {
    case JSON_MORE:
        baseline_read_fail(reader, "it ends in the middle");
        return JSON_BROKEN;
    case JSON_BROKEN:
        baseline_read_fail(reader, reader->tokens.error);
        return JSON_BROKEN;
    case JSON_NO_MEMORY:
        fail_memory(reader);
        return JSON_BROKEN;
    default:
        return token;
    }
}

/* Read the next token, which must be this one. */
static int expect(struct reader *reader, enum json_token wanted, const char *reason)
{
    enum json_token token = next(reader);
    if (token == wanted)
        return 0;
    return token == JSON_BROKEN ? reader->error->code : baseline_read_fail(reader, reason);
}

static bool is_named(const struct reader *reader, const char *name)
{
    return reader->tokens.length == strlen(name) &&
           memcmp(reader->tokens.text, name, strlen(name)) == 0;
}

/* --- values --- */

/* Copy the text that was just read. */
static int take_text(struct reader *reader, char **text)
{
    if (reader->tokens.length > BASELINE_TEXT_BYTES_MAX)
        return baseline_read_fail(reader, "a text has more than 4,096 bytes");
    size_t length = reader->tokens.length;
    *text = malloc(length + 1);
    if (*text == NULL)
        return fail_memory(reader);
    memcpy(*text, reader->tokens.text, length);
    (*text)[length] = '\0';
    if (strlen(*text) != length)
        return baseline_read_fail(reader, "a text has a zero byte");
    for (const unsigned char *at = (const unsigned char *)*text; *at != '\0';) {
        size_t bytes = utf8_length(at);
        if (bytes == 0)
            return baseline_read_fail(reader, "a text is not UTF-8");
        at += bytes;
    }
    return 0;
}

static int read_text(struct reader *reader, char **text)
{
    if (expect(reader, JSON_TEXT, "a text is expected") < 0)
        return -EINVAL;
    return *text != NULL ? baseline_read_fail(reader, "this is here a second time")
                         : take_text(reader, text);
}

static int read_bool(struct reader *reader, bool *value)
{
    enum json_token token = next(reader);
    *value = token == JSON_TRUE;
    if (token == JSON_BROKEN)
        return reader->error->code;
    return token == JSON_TRUE || token == JSON_FALSE
               ? 0
               : baseline_read_fail(reader, "true or false is expected");
}

static int take_number(struct reader *reader, double *value)
{
    char copy[64];
    if (reader->tokens.length >= sizeof(copy))
        return baseline_read_fail(reader, "a number has more than 63 digits");
    memcpy(copy, reader->tokens.text, reader->tokens.length);
    copy[reader->tokens.length] = '\0';
    *value = strtod(copy, NULL);
    return fabs(*value) <= NUMBER_MAX ? 0 : baseline_read_fail(reader, "a number is beyond 2^62");
}

static int read_number(struct reader *reader, double *value)
{
    if (expect(reader, JSON_NUMBER, "a number is expected") < 0)
        return -EINVAL;
    return take_number(reader, value);
}

/* Read [value, low, high]; null is an unknown limit. */
static int read_estimate(struct reader *reader, struct growth_amount *amount)
{
    double limits[2] = {NAN, NAN};
    int code = read_number(reader, &amount->value);
    for (int i = 0; i < 2 && code == 0; i++) {
        enum json_token token = next(reader);
        if (token == JSON_BROKEN)
            code = reader->error->code;
        else if (token == JSON_NUMBER)
            code = take_number(reader, &limits[i]);
        else if (token != JSON_NULL)
            code = baseline_read_fail(reader, "an estimate is [value, low, high]");
    }
    if (code == 0)
        code = expect(reader, JSON_CLOSE, "an estimate is [value, low, high]");
    if (code == 0 && (limits[0] > amount->value || limits[1] < amount->value))
        code = baseline_read_fail(reader, "an estimate is outside of its limits");
    amount->interval = (struct profile_interval){limits[0], limits[1]};
    return code;
}

static int read_amount(struct reader *reader, struct growth_amount *amount)
{
    enum json_token token = next(reader);
    switch (token) {
    case JSON_NULL:
        amount->unknown = "the figure is not in the baseline file";
        return 0;
    case JSON_NUMBER:
        amount->exact = true;
        if (take_number(reader, &amount->value) < 0)
            return -EINVAL;
        amount->interval = (struct profile_interval){amount->value, amount->value};
        return 0;
    case JSON_LIST:
        return read_estimate(reader, amount);
    case JSON_BROKEN:
        return reader->error->code;
    default:
        return baseline_read_fail(reader, "a figure is a number, [value, low, high] or null");
    }
}

/* --- rows --- */

/* Return the figure of the member that was just read; GROWTH_FIGURES: it is none. */
static enum growth_figure baseline_read_figure_of(const struct reader *reader)
{
    static const char *const names[GROWTH_FIGURES] = {"live", "peak", "allocated", "calls"};
    int figure = 0;
    while (figure < GROWTH_FIGURES && !is_named(reader, names[figure]))
        figure++;
    return (enum growth_figure)figure;
}

/* Read the next member's name. Return 1, 0 at the object's end, or a negative errno. */
static int next_member(struct reader *reader)
{
    enum json_token token = next(reader);
    if (token == JSON_BROKEN)
        return reader->error->code;
    return token == JSON_KEY;
}

static int read_row(struct reader *reader, struct baseline_row *row)
{
    unsigned figures = 0;
    int code;
    while ((code = next_member(reader)) > 0) {
        enum growth_figure figure = baseline_read_figure_of(reader);
        if (figure < GROWTH_FIGURES && (figures & 1u << figure) != 0)
            code = baseline_read_fail(reader, "this is here a second time");
        else if (figure < GROWTH_FIGURES)
            code = read_amount(reader, &row->amounts[figure]);
        else if (is_named(reader, "of"))
            code = read_text(reader, &row->of);
        else if (is_named(reader, "partial"))
            code = read_text(reader, &row->partial);
        else if (is_named(reader, "totals_partial"))
            code = read_text(reader, &row->totals_partial);
        else if (is_named(reader, "lacks_frees"))
            code = read_bool(reader, &row->lacks_frees);
        else
            code = baseline_read_fail(reader, "a row has no such member");
        if (code < 0)
            return code;
        figures |= figure < GROWTH_FIGURES ? 1u << figure : 0;
    }
    if (code == 0 && figures != (1u << GROWTH_FIGURES) - 1)
        code = baseline_read_fail(reader, "a row needs live, peak, allocated and calls");
    return code;
}

/* `text`: NULL if the object has none. */
static int read_stack(struct reader *reader, double amounts[GROWTH_FIGURES], char **text)
{
    unsigned members = text == NULL ? 1u << GROWTH_FIGURES : 0;
    int code;
    while ((code = next_member(reader)) > 0) {
        enum growth_figure figure = baseline_read_figure_of(reader);
        if (figure < GROWTH_FIGURES && (members & 1u << figure) != 0)
            code = baseline_read_fail(reader, "this is here a second time");
        else if (figure < GROWTH_FIGURES)
            code = read_number(reader, &amounts[figure]);
        else if (text != NULL && is_named(reader, "stack"))
            code = read_text(reader, text);
        else
            code = baseline_read_fail(reader, "a stack has no such member");
        if (code < 0)
            return code;
        members |= 1u << figure;
    }
    if (code == 0 && members != (1u << (GROWTH_FIGURES + 1)) - 1)
        code = baseline_read_fail(reader, "a stack needs stack, live, peak, allocated and calls");
    return code;
}

/* Begin the next object in a list. Return 1, 0 at the list's end, or a negative errno. */
static int next_object(struct reader *reader, size_t count)
{
    enum json_token token = next(reader);
    if (token == JSON_BROKEN)
        return reader->error->code;
    if (token == JSON_CLOSE)
        return 0;
    if (count >= BASELINE_ROWS_MAX)
        return baseline_read_fail(reader, "more than 4,096 rows");
    return token == JSON_OBJECT ? 1 : baseline_read_fail(reader, "a row is an object");
}

static int read_rows(struct reader *reader)
{
    struct baseline_file *file = reader->file;
    int code = expect(reader, JSON_LIST, "rows are a list");
    while (code == 0 && (code = next_object(reader, file->row_count)) > 0) {
        if (ARRAY_RESERVE(&file->rows, &file->row_capacity, file->row_count, 1) < 0)
            return fail_memory(reader);
        struct baseline_row *row = &file->rows[file->row_count++];
        *row = (struct baseline_row){0};
        code = read_row(reader, row);
        if (code == 0 && row->of == NULL)
            code = baseline_read_fail(reader, "a row needs of");
        if (code == 0 && file->row_count > 1 && strcmp(row[-1].of, row->of) >= 0)
            code = baseline_read_fail(reader, "rows are not in the order of their names");
    }
    return code;
}

static int read_stacks(struct reader *reader)
{
    struct baseline_file *file = reader->file;
    int code = expect(reader, JSON_LIST, "stacks are a list");
    while (code == 0 && (code = next_object(reader, file->stack_count)) > 0) {
        if (ARRAY_RESERVE(&file->stacks, &file->stack_capacity, file->stack_count, 1) < 0)
            return fail_memory(reader);
        struct baseline_stack *stack = &file->stacks[file->stack_count++];
        *stack = (struct baseline_stack){0};
        code = read_stack(reader, stack->amounts, &stack->text);
        if (code == 0 && file->stack_count > 1 && strcmp(stack[-1].text, stack->text) >= 0)
            code = baseline_read_fail(reader, "stacks are not in the order of their names");
    }
    return code;
}

static int read_suppressions(struct reader *reader)
{
    struct baseline_file *file = reader->file;
    int code = expect(reader, JSON_LIST, "suppressions are a list");
    while (code == 0) {
        enum json_token token = next(reader);
        if (token == JSON_CLOSE)
            return 0;
        if (token != JSON_TEXT || file->suppression_count >= BASELINE_ROWS_MAX)
            return token == JSON_BROKEN
                       ? reader->error->code
                       : baseline_read_fail(reader, "suppressions are up to 4,096 texts");
        char *text = NULL;
        code = take_text(reader, &text);
        if (code == 0 && ARRAY_ADD(&file->suppressions, &file->suppression_count,
                                   &file->suppression_capacity, text) < 0)
            code = fail_memory(reader);
        if (code < 0) {
            free(text);
            return code;
        }
        char **last = &file->suppressions[file->suppression_count - 1];
        int order = file->suppression_count > 1 ? strcmp(last[-1], last[0]) : -1;
        if (order == 0)
            code = baseline_read_fail(reader, "a suppression is here twice: save the file again");
        else if (order > 0)
            code = baseline_read_fail(reader, "suppressions are not in their order");
    }
    return code;
}

/* --- the file --- */

enum {
    HAS_TOTAL = 1,
    HAS_ROWS = 2,
    HAS_STACKS = 4,
    HAS_OTHERS = 8,
    HAS_INTERVAL = 16,
    HAS_SUPPRESSIONS = 32,
    HAS_ALL = 63,
};

static int read_once(struct reader *reader, unsigned *members, unsigned member,
                     int (*read)(struct reader *reader))
{
    if ((*members & member) != 0)
        return baseline_read_fail(reader, "this is here a second time");
    *members |= member;
    return read(reader);
}

static int read_total(struct reader *reader)
{
    int code = expect(reader, JSON_OBJECT, "the total is an object");
    return code < 0 ? code : read_row(reader, &reader->file->total);
}

static int read_other_stacks(struct reader *reader)
{
    int code = expect(reader, JSON_OBJECT, "other_stacks is an object");
    return code < 0 ? code : read_stack(reader, reader->file->other_stacks, NULL);
}

static int read_interval(struct reader *reader)
{
    double value = 0;
    int code = read_number(reader, &value);
    if (code == 0 && (value < 0 || value != floor(value)))
        code = baseline_read_fail(reader, "an interval is in bytes");
    reader->file->interval_bytes = code == 0 ? (uint64_t)value : 0;
    return code;
}

static int read_version(struct reader *reader)
{
    double version = 0;
    if (expect(reader, JSON_OBJECT, "this is not a baseline file") < 0 ||
        expect(reader, JSON_KEY, "this is not a baseline file") < 0)
        return -EINVAL;
    if (!is_named(reader, first_name))
        return baseline_read_fail(reader, "this is not a baseline file");
    int code = read_number(reader, &version);
    return code == 0 && version != 1 ? baseline_read_fail(reader, "another version wrote this file")
                                     : code;
}

static int read_member(struct reader *reader, unsigned *members)
{
    struct baseline_file *file = reader->file;
    char *made_by = NULL;
    int code;
    if (is_named(reader, "made_by")) {
        code = read_text(reader, &made_by);
        free(made_by);
        return code;
    }
    if (is_named(reader, "command"))
        return read_text(reader, &file->command);
    if (is_named(reader, "heap"))
        return read_text(reader, &file->heap);
    if (is_named(reader, "unseen"))
        return read_text(reader, &file->unseen);
    if (is_named(reader, "unprofiled"))
        return read_bool(reader, &file->unprofiled);
    if (is_named(reader, "other_stacks"))
        return read_once(reader, members, HAS_OTHERS, read_other_stacks);
    if (is_named(reader, "interval_bytes"))
        return read_once(reader, members, HAS_INTERVAL, read_interval);
    if (is_named(reader, "suppressions"))
        return read_once(reader, members, HAS_SUPPRESSIONS, read_suppressions);
    if (is_named(reader, "total"))
        return read_once(reader, members, HAS_TOTAL, read_total);
    if (is_named(reader, "rows"))
        return read_once(reader, members, HAS_ROWS, read_rows);
    if (is_named(reader, "stacks"))
        return read_once(reader, members, HAS_STACKS, read_stacks);
    return baseline_read_fail(reader, "the file has no such member");
}

/* Give the figures of a row what the file says once. */
static void complete_row(struct baseline_row *row, const struct baseline_file *file)
{
    const char *heap = row->of != NULL ? growth_heap_pattern(row->of) : NULL;
    for (int i = 0; i < GROWTH_FIGURES; i++) {
        struct growth_amount *amount = &row->amounts[i];
        amount->interval_bytes = file->interval_bytes;
        amount->lacks_frees = row->lacks_frees;
        amount->counted = (row->of == NULL || heap != NULL) && i >= GROWTH_ALLOCATED;
        if ((amount->counted ? row->totals_partial : row->partial) != NULL)
            amount->exact = false;
    }
}

int baseline_file_read_text(struct baseline_file *file, const char *text, size_t length,
                            struct error *error)
{
    struct reader reader = {.error = error, .file = file};
    unsigned members = 0;
    *file = (struct baseline_file){0};
    *error = (struct error){0};
    json_tokens_feed(&reader.tokens, text, length);
    int code = read_version(&reader);
    while (code == 0 && (code = next_member(&reader)) > 0)
        code = read_member(&reader, &members);
    if (code == 0 && members != HAS_ALL)
        code = baseline_read_fail(
            &reader, "interval_bytes, suppressions, total, rows, stacks or other_stacks is "
                     "missing");
    if (code == 0 && file->total.of != NULL)
        code = baseline_read_fail(&reader, "the total has no of");
    if (code == 0 && json_tokens_next(&reader.tokens) != JSON_MORE)
        code = baseline_read_fail(&reader, "something follows its end");
    complete_row(&file->total, file);
    for (size_t i = 0; i < file->row_count && code == 0; i++)
        complete_row(&file->rows[i], file);
    json_tokens_free(&reader.tokens);
    return code;
}

/* Read up to `size` bytes. Return their number or a negative errno. */
static ssize_t read_bytes(const char *path, char *buffer, size_t size)
{
    int fd = regular_file_open_named(path);
    size_t used = 0;
    ssize_t got = fd;
    while (fd >= 0 && used < size) {
        got = read(fd, buffer + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    if (fd >= 0 && got < 0)
        got = -errno;
    if (fd >= 0)
        close(fd);
    return got < 0 ? got : (ssize_t)used;
}

bool baseline_file_is(const char *path)
{
    char begin[256];
    struct stat status;
    ssize_t length = regular_file_look(path, &status) == 0 && S_ISREG(status.st_mode)
                         ? read_bytes(path, begin, sizeof(begin))
                         : -1;
    struct json_tokens tokens = {0};
    json_tokens_feed(&tokens, begin, length > 0 ? (size_t)length : 0);
    bool found = json_tokens_next(&tokens) == JSON_OBJECT &&
                 json_tokens_next(&tokens) == JSON_KEY && tokens.length == strlen(first_name) &&
                 memcmp(tokens.text, first_name, tokens.length) == 0;
    json_tokens_free(&tokens);
    return found;
}

int baseline_file_read(struct baseline_file *file, const char *path, struct error *error)
{
    struct error inner = {0};
    char *text = malloc(BASELINE_FILE_BYTES_MAX + 1);
    *file = (struct baseline_file){0};
    ssize_t length = text != NULL ? read_bytes(path, text, BASELINE_FILE_BYTES_MAX + 1) : 0;
    int code = 0;
    if (text == NULL)
        code = error_set(&inner, -ENOMEM, "no memory");
    else if (length < 0)
        code = error_set(&inner, (int)length, "%s", strerror((int)-length));
    else if (length > BASELINE_FILE_BYTES_MAX)
        code = error_set(&inner, -EFBIG, "more than 1 MiB: this is not a baseline file");
    else
        code = baseline_file_read_text(file, text, (size_t)length, &inner);
    if (code < 0)
        error_set(error, code, "%s: %s", path, inner.message);
    free(text);
    return code;
}
