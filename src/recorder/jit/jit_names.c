/* SPDX-License-Identifier: Apache-2.0 */
/* Assign names to addresses. Addresses with the same name share a text, which is reference-counted.
 */
#include "recorder/jit/jit_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/sorted_search.h"

/* At most a few seconds. */
#define WORK_MAX (UINT64_C(1) << 27)

int jit_names_open(struct jit_names *names, const uint64_t *addresses, size_t count)
{
    *names = (struct jit_names){.items = calloc(count + 1, sizeof(*names->items)), .count = count};
    if (names->items == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        names->items[i].pc = addresses[i];
    return 0;
}

/* --- texts --- */

static struct jit_text *text_new(const char *bytes, size_t length)
{
    if (length > JIT_NAME_BYTES_MAX)
        length = JIT_NAME_BYTES_MAX;
    struct jit_text *text = malloc(sizeof(*text) + length + 1);
    if (text == NULL)
        return NULL;
    text->users = 1;
    memcpy(text->bytes, bytes, length);
    text->bytes[length] = 0;
    return text;
}

static void text_release(struct jit_text *text)
{
    if (text != NULL && --text->users == 0)
        free(text);
}

static void text_put(struct jit_text **place, struct jit_text *text)
{
    if (text != NULL)
        text->users++;
    text_release(*place);
    *place = text;
}

void jit_names_close(struct jit_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        text_release(names->items[i].name);
        text_release(names->items[i].file);
    }
    free(names->items);
    names->items = NULL;
    names->count = 0;
}

/* --- addresses --- */

/* Return the index of the first address that is not below `pc`. */
static size_t position_of(const struct jit_names *names, uint64_t pc)
{
    return SORTED_SEARCH(names->count, i, names->items[i].pc < pc);
}

static uint64_t end_of(uint64_t start, uint64_t size)
{
    uint64_t end;
    return __builtin_add_overflow(start, size, &end) ? UINT64_MAX : end;
}

const struct jit_address *jit_names_first(const struct jit_names *names, uint64_t start,
                                          uint64_t size)
{
    size_t at = position_of(names, start);
    return at < names->count && names->items[at].pc < end_of(start, size) ? &names->items[at]
                                                                          : NULL;
}

bool jit_names_wants(const struct jit_names *names, uint64_t start, uint64_t size)
{
    return jit_names_first(names, start, size) != NULL;
}

const struct jit_address *jit_names_find(const struct jit_names *names, uint64_t pc)
{
    size_t at = position_of(names, pc);
    bool found = at < names->count && names->items[at].pc == pc && names->items[at].name != NULL;
    return found ? &names->items[at] : NULL;
}

/* --- the parts of a name --- */

struct parts {
    size_t name_length; /* of the whole name */
    const char *file;   /* NULL: absent */
    size_t file_length;
    uint32_t line;
    bool by_v8, interpreted;
};

static bool begins_with(const char *text, size_t length, const char *with)
{
    size_t wanted = strlen(with);
    return length >= wanted && memcmp(text, with, wanted) == 0;
}

/* Cut off a number and the colon before it at the end of text. Return the length without them, or
 * `length` if there is none. */
static size_t cut_number(const char *text, size_t length, uint32_t *number)
{
    size_t at = length;
    uint64_t value = 0, unit = 1;
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && length - at < 9) {
        value += (uint64_t)(text[--at] - '0') * unit;
        unit *= 10;
    }
    if (at == length || at == 0 || text[at - 1] != ':')
        return length;
    *number = (uint32_t)value;
    return at - 1;
}

static bool begins_a_path(const char *text, size_t length)
{
    return begins_with(text, length, "/") || begins_with(text, length, "node:") ||
           begins_with(text, length, "file://");
}

/* Return the position of the space between function and file, which may contain spaces, too. 0:
 * ambiguous. */
static size_t v8_space(const char *text, size_t from, size_t length)
{
    size_t spaces = 0, likely = 0, last = 0, last_likely = 0;
    for (size_t i = from; i < length; i++) {
        if (text[i] != ' ')
            continue;
        spaces++;
        last = i;
        if (begins_a_path(text + i + 1, length - i - 1)) {
            likely++;
            last_likely = i;
        }
    }
    if (likely == 1)
        return last_likely;
    return spaces == 1 && likely == 0 ? last : 0;
}

/* Split V8's "JS:*name file:line:column": kind, how it was compiled, where it begins. */
static void read_v8(const char *text, size_t length, struct parts *parts)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Eval:", "Script:"};
    size_t from = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && from == 0; i++)
        from = begins_with(text, length, kinds[i]) ? strlen(kinds[i]) : 0;
    if (from == 0)
        return;
    parts->by_v8 = true;
    /* ~ is bytecode. Its entry contains code only if frames use copies of the interpreter
     * (--interpreted-frames-native-stack); else no address is in it. */
    parts->interpreted = from < length && text[from] == '~';
    if (from < length && strchr("~^+*", text[from]) != NULL)
        from++;
    uint32_t line, column;
    size_t before_column = cut_number(text, length, &column);
    size_t before_line = cut_number(text, before_column, &line);
    if (before_column == length || before_line == before_column)
        return;
    size_t space = v8_space(text, from, before_line);
    if (space == 0 || space + 1 == before_line)
        return;
    parts->file = text + space + 1;
    parts->file_length = before_line - space - 1;
    parts->line = line;
    /* A function without a name keeps the place as its name. */
    if (space > from)
        parts->name_length = space;
}

/* Split "py::name:file": CPython's trampoline to the interpreter for one function. */
static void read_cpython(const char *text, size_t length, struct parts *parts)
{
    static const char prefix[] = "py::";
    if (!begins_with(text, length, prefix))
        return;
    const char *colon = memchr(text + strlen(prefix), ':', length - strlen(prefix));
    parts->interpreted = true;
    if (colon == NULL || colon + 1 == text + length || (colon[1] != '/' && colon[1] != '<'))
        return;
    parts->file = colon + 1;
    parts->file_length = (size_t)(text + length - parts->file);
    parts->name_length = (size_t)(colon - text);
}

static struct parts read_parts(const char *text, size_t length)
{
    struct parts parts = {.name_length = length};
    read_v8(text, length, &parts);
    if (!parts.by_v8)
        read_cpython(text, length, &parts);
    /* HotSpot's interpreter: one piece of code for all bytecodes. */
    if (length == strlen("Interpreter") && memcmp(text, "Interpreter", length) == 0)
        parts.interpreted = true;
    return parts;
}

/* --- setting --- */

int jit_names_count_work(struct jit_names *names, uint64_t items)
{
    names->work += items;
    return names->work > WORK_MAX ? -E2BIG : 0;
}

int jit_names_set(struct jit_names *names, uint64_t start, uint64_t size, const char *name,
                  size_t length)
{
    size_t first = position_of(names, start), last = first;
    uint64_t end = end_of(start, size);
    while (last < names->count && names->items[last].pc < end)
        last++;
    if (first == last)
        return 0;
    int result = jit_names_count_work(names, last - first);
    struct parts parts = read_parts(name, length);
    struct jit_text *text = result < 0 ? NULL : text_new(name, parts.name_length);
    struct jit_text *file =
        text == NULL || parts.file == NULL ? NULL : text_new(parts.file, parts.file_length);
    if (text == NULL || (parts.file != NULL && file == NULL)) {
        text_release(text);
        return result < 0 ? result : -ENOMEM;
    }
    for (size_t i = first; i < last; i++) {
        struct jit_address *item = &names->items[i];
        text_put(&item->name, text);
        text_put(&item->file, file);
        item->line = parts.line;
        item->by_v8 = parts.by_v8;
        item->interpreted = parts.interpreted;
    }
    text_release(text);
    text_release(file);
    return 0;
}

int jit_names_set_line(struct jit_names *names, uint64_t start, uint64_t end, const char *file,
                       size_t length, uint32_t line)
{
    size_t first = position_of(names, start), last = first;
    while (last < names->count && names->items[last].pc < end)
        last++;
    if (first == last)
        return 0;
    int result = jit_names_count_work(names, last - first);
    if (result < 0)
        return result;
    struct jit_text *text = text_new(file, length);
    if (text == NULL)
        return -ENOMEM;
    for (size_t i = first; i < last; i++) {
        text_put(&names->items[i].file, text);
        names->items[i].line = line;
    }
    text_release(text);
    return 0;
}
