/* SPDX-License-Identifier: Apache-2.0 */
/* Parse map files line by line. */
#include "profile/deobfuscate/proguard_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/regular_file.h"

/* Lines must fit, except comments: R8 writes the positions of outlined code into one comment. */
#define BUFFER_BYTES ((size_t)1 << 20)
#define SHOWN_BYTES 60
/* No real map comes close to these limits. They end the reading of endless input. */
#define MAP_BYTES_MAX (UINT64_C(4) << 30)
#define LINES_WITHOUT_CLASS_MAX 100000u

struct proguard_map {
    char *name;
    int fd; /* negative: the bytes are in memory */
    char *buffer;
    const char *at, *end;
    bool ended;     /* nothing follows the buffer's contents */
    uint64_t taken; /* bytes read from the file */
    size_t line, unknown;
    bool in_class;
};

static struct proguard_map *new_map(const char *name, struct error *error)
{
    struct proguard_map *map = calloc(1, sizeof(*map));
    if (map != NULL)
        map->name = strdup(name);
    if (map == NULL || map->name == NULL) {
        free(map);
        error_set(error, -ENOMEM, "%s: no memory to read it", name);
        return NULL;
    }
    map->fd = -1;
    return map;
}

struct proguard_map *proguard_map_open(const char *path, struct error *error)
{
    struct proguard_map *map = new_map(path, error);
    if (map == NULL)
        return NULL;
    map->buffer = malloc(BUFFER_BYTES);
    map->fd = regular_file_open_named(path);
    int code = map->buffer == NULL ? -ENOMEM : map->fd;
    if (code < 0) {
        error_set(error, code, "%s: the ProGuard map cannot be read: %s", path, strerror(-code));
        proguard_map_close(map);
        return NULL;
    }
    map->at = map->end = map->buffer;
    return map;
}

struct proguard_map *proguard_map_open_bytes(const char *name, const void *bytes, size_t length,
                                             struct error *error)
{
    struct proguard_map *map = new_map(name, error);
    if (map == NULL)
        return NULL;
    map->at = bytes;
    map->end = map->at + length;
    map->ended = true;
    return map;
}

void proguard_map_close(struct proguard_map *map)
{
    if (map == NULL)
        return;
    if (map->fd >= 0)
        close(map->fd);
    free(map->buffer);
    free(map->name);
    free(map);
}

size_t proguard_map_lines(const struct proguard_map *map)
{
    return map->line;
}

size_t proguard_map_unknown_lines(const struct proguard_map *map)
{
    return map->unknown;
}

/* --- text --- */

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static struct proguard_text between(const char *at, const char *end)
{
    while (at < end && is_space(*at))
        at++;
    while (end > at && is_space(end[-1]))
        end--;
    return (struct proguard_text){at, (size_t)(end - at)};
}

static const char *end_of(struct proguard_text text)
{
    return text.at + text.length;
}

/* Return whether a text is a name: without spaces and control characters. */
static bool is_name(struct proguard_text text)
{
    if (text.length == 0 || text.length > PROGUARD_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        if ((unsigned char)text.at[i] <= ' ')
            return false;
    }
    return true;
}

/* Read a number at the text's beginning and remove it. Return false if there is none or it is too
 * large. */
static bool take_number(struct proguard_text *text, uint32_t *number)
{
    uint64_t value = 0;
    size_t digits = 0;
    while (digits < text->length && text->at[digits] >= '0' && text->at[digits] <= '9') {
        value = value * 10 + (uint64_t)(text->at[digits++] - '0');
        if (value > UINT32_MAX)
            return false;
    }
    text->at += digits;
    text->length -= digits;
    *number = (uint32_t)value;
    return digits > 0;
}

static bool take_byte(struct proguard_text *text, char byte)
{
    if (text->length == 0 || *text->at != byte)
        return false;
    text->at++;
    text->length--;
    return true;
}

/* Set an error that shows the line without control characters. Return its code. */
static int proguard_map_complain(const struct proguard_map *map, struct proguard_text line,
                                 const char *why, struct error *error)
{
    char shown[SHOWN_BYTES + 1];
    line = between(line.at, end_of(line));
    size_t length = line.length < SHOWN_BYTES ? line.length : SHOWN_BYTES;
    for (size_t i = 0; i < length; i++)
        shown[i] = (unsigned char)line.at[i] < ' ' ? '?' : line.at[i];
    shown[length] = '\0';
    return error_set(error, -EINVAL, "%.200s:%zu: not a ProGuard or R8 map: %s: %s", map->name,
                     map->line, why, shown);
}

/* --- lines --- */

static int proguard_map_fill(struct proguard_map *map, struct error *error)
{
    size_t kept = (size_t)(map->end - map->at);
    struct proguard_text rest = between(map->at, map->end);
    if (kept == BUFFER_BYTES) {
        if (rest.length > 0 && *rest.at != '#') {
            map->line++;
            return proguard_map_complain(map, rest, "a line of more than 1 MB", error);
        }
        /* Keep only the mark of a comment. */
        map->buffer[0] = '#';
        map->at = map->buffer;
        kept = 1;
    }
    memmove(map->buffer, map->at, kept);
    map->at = map->buffer;
    map->end = map->buffer + kept;
    ssize_t length;
    do
        length = read(map->fd, map->buffer + kept, BUFFER_BYTES - kept);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return error_set(error, -errno, "%s: the ProGuard map cannot be read: %s", map->name,
                         strerror(errno));
    map->end += length;
    map->ended = length == 0;
    map->taken += (uint64_t)length;
    if (map->taken > MAP_BYTES_MAX)
        return error_set(error, -EFBIG, "%s: not a ProGuard or R8 map: more than 4 GB", map->name);
    return 0;
}

/* Read the next line. Return 1, 0 at the end, or a negative errno. */
static int next_line(struct proguard_map *map, struct proguard_text *line, struct error *error)
{
    for (;;) {
        size_t length = (size_t)(map->end - map->at);
        const char *newline = length == 0 ? NULL : memchr(map->at, '\n', length);
        if (newline != NULL || (map->ended && length > 0)) {
            const char *end = newline != NULL ? newline : map->end;
            *line = (struct proguard_text){map->at, (size_t)(end - map->at)};
            map->at = newline != NULL ? newline + 1 : map->end;
            map->line++;
            return 1;
        }
        if (map->ended)
            return 0;
        int result = proguard_map_fill(map, error);
        if (result < 0)
            return result;
    }
}

/* --- entries --- */

static int take_class(struct proguard_map *map, struct proguard_text line, const char *arrow,
                      struct proguard_entry *entry, struct error *error)
{
    entry->kind = PROGUARD_CLASS;
    entry->original = between(line.at, arrow);
    entry->obfuscated = between(arrow + 4, end_of(line));
    if (entry->obfuscated.length == 0 || entry->obfuscated.at[entry->obfuscated.length - 1] != ':')
        return proguard_map_complain(map, line, "a class must end with a colon", error);
    entry->obfuscated.length--;
    if (!is_name(entry->original) || !is_name(entry->obfuscated))
        return proguard_map_complain(map, line, "a class must have two names", error);
    map->in_class = true;
    return 1;
}

/* Read "1:3:" before the type. */
static bool take_lines(struct proguard_text *text, struct proguard_entry *entry)
{
    if (text->length == 0 || *text->at < '0' || *text->at > '9')
        return true;
    if (!take_number(text, &entry->first_line) || !take_byte(text, ':'))
        return false;
    entry->last_line = entry->first_line;
    entry->has_lines = true;
    if (text->length == 0 || *text->at < '0' || *text->at > '9')
        return true;
    return take_number(text, &entry->last_line) && take_byte(text, ':') &&
           entry->last_line >= entry->first_line;
}

/* Read ":10:12" after the arguments. */
static bool take_source(struct proguard_text text, struct proguard_entry *entry)
{
    text = between(text.at, end_of(text));
    if (text.length == 0)
        return true;
    if (!take_byte(&text, ':') || !take_number(&text, &entry->source_first))
        return false;
    entry->source_last = entry->source_first;
    entry->source = PROGUARD_SOURCE_LINE;
    if (text.length == 0)
        return true;
    entry->source = PROGUARD_SOURCE_RANGE;
    return take_byte(&text, ':') && take_number(&text, &entry->source_last) && text.length == 0;
}

static int take_member(struct proguard_map *map, struct proguard_text line, const char *arrow,
                       struct proguard_entry *entry, struct error *error)
{
    struct proguard_text left = between(line.at, arrow);
    entry->obfuscated = between(arrow + 4, end_of(line));
    if (!map->in_class)
        return proguard_map_complain(map, line, "a member before the first class", error);
    if (!take_lines(&left, entry))
        return proguard_map_complain(map, line, "the line numbers before the type", error);
    const char *space = memchr(left.at, ' ', left.length);
    if (space == NULL || space == left.at)
        return proguard_map_complain(map, line, "a member must have a type and a name", error);
    struct proguard_text name = between(space, end_of(left));
    const char *parenthesis = memchr(name.at, '(', name.length);
    entry->kind = parenthesis == NULL ? PROGUARD_FIELD : PROGUARD_METHOD;
    if (parenthesis != NULL) {
        const char *closing = memrchr(parenthesis, ')', (size_t)(end_of(name) - parenthesis));
        if (closing == NULL)
            return proguard_map_complain(map, line, "the arguments do not end", error);
        struct proguard_text source = {closing + 1, (size_t)(end_of(name) - closing - 1)};
        if (!take_source(source, entry))
            return proguard_map_complain(map, line, "the line numbers after the arguments", error);
        name = between(name.at, parenthesis);
    }
    entry->original = name;
    if (!is_name(entry->original) || !is_name(entry->obfuscated))
        return proguard_map_complain(map, line, "a member must have two names", error);
    return 1;
}

int proguard_map_next(struct proguard_map *map, struct proguard_entry *entry, struct error *error)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct proguard_text line;
    int status;
    while ((status = next_line(map, &line, error)) > 0) {
        if (map->line == 1 && line.length >= 3 && memcmp(line.at, byte_order_mark, 3) == 0)
            line = (struct proguard_text){line.at + 3, line.length - 3};
        struct proguard_text text = between(line.at, end_of(line));
        if (text.length == 0 || *text.at == '#')
            continue;
        const char *arrow = memmem(line.at, line.length, " -> ", 4);
        if (arrow == NULL) {
            if (++map->unknown > LINES_WITHOUT_CLASS_MAX && !map->in_class)
                return proguard_map_complain(map, text, "lines without end, and none names a class",
                                             error);
            continue;
        }
        *entry = (struct proguard_entry){0};
        return is_space(*line.at) ? take_member(map, line, arrow, entry, error)
                                  : take_class(map, line, arrow, entry, error);
    }
    return status;
}
