/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parse the JSON by yajl (340 MB/s with empty callbacks) and follow it through the table of places,
 * which defines the meaning of values (read.h). Parts outside the table are skipped. yajl keeps a
 * value that spans chunks, so a value must not be longer than VALUE_BYTES_MAX.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory_infra/read_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"

#define DEPTH_MAX 512u
#define VALUE_BYTES_MAX (16u * 1024u * 1024u)
#define CHUNK_BYTES (256u * 1024u)

/* Some editors put it before UTF-8 text. */
static const unsigned char byte_order_mark[] = {0xef, 0xbb, 0xbf};

/* --- problems --- */

uint64_t reader_offset(const struct memory_infra_reader *reader)
{
    return reader->fed + (reader->in_chunk ? yajl_get_bytes_consumed(reader->json) : 0);
}

/* Set the error: "byte 1234, in event 5: " and the text. */
static int set_problem(const struct memory_infra_reader *reader, struct error *error, int code,
                       const char *text)
{
    unsigned long long offset = reader_offset(reader);
    if (!reader->in_event)
        return error_set(error, code, "at byte %llu: %s", offset, text);
    return error_set(error, code, "at byte %llu, in event %llu: %s", offset,
                     (unsigned long long)reader->event.number, text);
}

int reader_stop(struct memory_infra_reader *reader, int code, const char *format, ...)
{
    char text[400];
    va_list arguments;
    if (reader->code < 0)
        return 0;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    reader->code = set_problem(reader, &reader->failure, code, text);
    return 0;
}

int reader_out_of_memory(struct memory_infra_reader *reader)
{
    return reader_stop(reader, -ENOMEM, "no memory to read on");
}

int reader_answer(struct memory_infra_reader *reader, int code)
{
    return code >= 0 ? 1 : reader_stop(reader, code, "the reading was ended");
}

int reader_complain(struct memory_infra_reader *reader, bool spoils, const char *format, ...)
{
    struct error problem;
    char text[400];
    va_list arguments;
    reader->event.spoilt |= spoils;
    if (reader->visitor->problem == NULL)
        return 1;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    set_problem(reader, &problem, -EBADMSG, text);
    return reader_answer(reader, reader->visitor->problem(reader->context, &problem));
}

int reader_keep(struct memory_infra_reader *reader, struct kept_text *kept,
                struct memory_infra_text text)
{
    if (ARRAY_RESERVE(&kept->at, &kept->capacity, 0, text.length + 1) < 0)
        return reader_out_of_memory(reader);
    if (text.length > 0)
        memcpy(kept->at, text.at, text.length);
    kept->length = text.length;
    return 1;
}

/* --- callbacks of yajl --- */

/* Return the way of a value that begins here. NULL: none. */
static const struct way *way_here(const struct memory_infra_reader *reader)
{
    static const struct way file_way = {NULL, 0, PLACE_FILE, FIELD_NONE};
    if (reader->depth == 0)
        return &file_way;
    const struct place_rule *rule = &place_rules[reader->places[reader->depth - 1]];
    return rule->list ? &rule->element : reader->way;
}

static enum place place_here(const struct memory_infra_reader *reader)
{
    return reader->depth == 0 ? PLACE_NONE : reader->places[reader->depth - 1];
}

/* Report a value of the wrong kind. `args` of events other than memory dumps can be anything. */
static int complain_of_kind(struct memory_infra_reader *reader, const char *is)
{
    enum place place = place_here(reader);
    const struct way *way = way_here(reader);
    if (reader->event.spoilt || way == NULL)
        return 1;
    if (!reader->in_event) {
        if (place == PLACE_FILE && way->place == PLACE_EVENTS)
            return reader_stop(reader, -EBADMSG, "traceEvents is %s, not a list", is);
        return 1;
    }
    if (place < PLACE_DUMPS)
        return 1;
    if (way->key != NULL)
        return reader_complain(reader, true, "\"%s\" is %s", way->key, is);
    return reader_complain(reader, true, "%s is %s",
                           place_rules[place].list ? "an element of a list" : "a value", is);
}

static int on_value(struct memory_infra_reader *reader, enum value_kind kind, const char *at,
                    size_t length)
{
    static const char *const names[] = {[VALUE_NULL] = "null",
                                        [VALUE_BOOL] = "true or false",
                                        [VALUE_NUMBER] = "a number",
                                        [VALUE_TEXT] = "a text"};
    struct value value = {kind, {at, length}};
    reader->calls++;
    if (reader->skipped > 0)
        return 1;
    if (reader->depth == 0)
        return reader_stop(reader, -EBADMSG, "the file is %s, not an object or list", names[kind]);
    enum place place = place_here(reader);
    const struct way *way = way_here(reader);
    if (reader->in_event && reader->event.spoilt && place != PLACE_EVENT)
        return 1;
    bool column = place >= PLACE_COLUMN_NODES && place <= PLACE_COLUMN_SIZES;
    if (!column && (way == NULL || way->field == FIELD_NONE))
        return way == NULL || way->place == PLACE_NONE || kind == VALUE_NULL
                   ? 1
                   : complain_of_kind(reader, names[kind]);
    return reader_value(reader, place, way, &value);
}

static int on_null(void *context)
{
    return on_value(context, VALUE_NULL, "null", 4);
}

static int on_boolean(void *context, int yes)
{
    return on_value(context, VALUE_BOOL, yes ? "true" : "false", yes ? 4 : 5);
}

static int on_number(void *context, const char *text, size_t length)
{
    return on_value(context, VALUE_NUMBER, text, length);
}

/* Replace zeros in the text by U+FFFD. */
static int without_zeros(struct memory_infra_reader *reader, struct memory_infra_text *text)
{
    struct kept_text *into = &reader->zeroless;
    if (ARRAY_RESERVE(&into->at, &into->capacity, 0, 3 * text->length + 1) < 0)
        return reader_out_of_memory(reader);
    into->length = 0;
    for (size_t i = 0; i < text->length; i++) {
        if (text->at[i] == '\0') {
            memcpy(into->at + into->length, "\xef\xbf\xbd", 3);
            into->length += 3;
        } else {
            into->at[into->length++] = text->at[i];
        }
    }
    *text = (struct memory_infra_text){into->at, into->length};
    return 1;
}

static int on_text(void *context, const unsigned char *bytes, size_t length)
{
    struct memory_infra_reader *reader = context;
    struct memory_infra_text text = {(const char *)bytes, length};
    if (reader->skipped == 0 && length > 0 && memchr(text.at, '\0', length) != NULL &&
        !without_zeros(reader, &text))
        return 0;
    return on_value(reader, VALUE_TEXT, text.at, text.length);
}

/* Find a key among a place's ways. */
static const struct way *find_way(const struct way *way, const unsigned char *key, size_t length)
{
    for (; way->key != NULL; way++)
        if (way->length == length && (unsigned char)way->key[0] == key[0] &&
            memcmp(way->key, key, length) == 0)
            break;
    return way;
}

static int on_key(void *context, const unsigned char *bytes, size_t length)
{
    struct memory_infra_reader *reader = context;
    struct memory_infra_text key = {(const char *)bytes, length};
    reader->calls++;
    if (reader->skipped > 0)
        return 1;
    enum place place = place_here(reader);
    const struct way *way = find_way(place_rules[place].ways, bytes, length);
    reader->way = way;
    if (reader->in_event && reader->event.spoilt && place != PLACE_EVENT)
        reader->way = NULL;
    if (way->key != NULL || (way->place == PLACE_NONE && way->field == FIELD_NONE))
        return 1;
    if (length > 0 && memchr(key.at, '\0', length) != NULL && !without_zeros(reader, &key))
        return 0;
    return reader_keep(reader, &reader->keys[reader->depth - 1], key);
}

static int on_begin(struct memory_infra_reader *reader, bool list)
{
    reader->calls++;
    if (reader->skipped > 0 || (reader->in_event && reader->event.spoilt)) {
        if (reader->skipped + reader->depth >= DEPTH_MAX)
            return reader_stop(reader, -EBADMSG, "objects and lists deeper than %u", DEPTH_MAX);
        reader->skipped++;
        return 1;
    }
    const struct way *way = way_here(reader);
    enum place next = way == NULL ? PLACE_NONE : way->place;
    if (reader->depth == 0 && list) {
        next = PLACE_EVENTS;
        reader->bare_list = true;
    }
    if (next == PLACE_NONE || place_rules[next].list != list) {
        /* A column has no key: its place shows that this is wrong. */
        enum place place = place_here(reader);
        bool wrong = next != PLACE_NONE || (way != NULL && way->field >= FIELD_TEXTS) ||
                     (place >= PLACE_COLUMN_NODES && place <= PLACE_COLUMN_SIZES);
        reader->skipped = 1;
        return wrong ? complain_of_kind(reader, list ? "a list" : "an object") : 1;
    }
    reader->places[reader->depth++] = (uint8_t)next;
    reader->way = NULL;
    return reader_enter(reader, next);
}

static int on_end(struct memory_infra_reader *reader)
{
    reader->calls++;
    if (reader->skipped > 0) {
        reader->skipped--;
        return 1;
    }
    enum place place = place_here(reader);
    int go_on = 1;
    if (place == PLACE_EVENT || !(reader->in_event && reader->event.spoilt))
        go_on = reader_leave(reader, place);
    reader->depth--;
    reader->way = NULL;
    return go_on;
}

static int on_object(void *context)
{
    return on_begin(context, false);
}

static int on_list(void *context)
{
    return on_begin(context, true);
}

static int on_close(void *context)
{
    return on_end(context);
}

/* --- open, feed, close --- */

struct memory_infra_reader *memory_infra_reader_new(const struct memory_infra_visitor *visitor,
                                                    void *context)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = on_null,
        .yajl_boolean = on_boolean,
        .yajl_number = on_number,
        .yajl_string = on_text,
        .yajl_start_map = on_object,
        .yajl_map_key = on_key,
        .yajl_end_map = on_close,
        .yajl_start_array = on_list,
        .yajl_end_array = on_close,
    };
    struct memory_infra_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return NULL;
    reader->visitor = visitor;
    reader->context = context;
    reader->json = yajl_alloc(&callbacks, NULL, reader);
    if (reader->json == NULL) {
        free(reader);
        return NULL;
    }
    /* Names are any bytes, here as in a trace. */
    yajl_config(reader->json, yajl_dont_validate_strings, 1);
    return reader;
}

void memory_infra_reader_free(struct memory_infra_reader *reader)
{
    if (reader == NULL)
        return;
    yajl_free(reader->json);
    for (size_t i = 0; i < PLACES_DEEP; i++)
        free(reader->keys[i].at);
    for (size_t i = 0; i < FIELD_TEXTS; i++)
        free(reader->texts[i].at);
    for (size_t i = 0; i < 4; i++)
        free(reader->columns[i].ids);
    free(reader->zeroless.at);
    free(reader);
}

/* Stop with the first line of yajl's message. */
static int stop_at_malformed(struct memory_infra_reader *reader)
{
    unsigned char *said = yajl_get_error(reader->json, 0, NULL, 0);
    char text[200];
    snprintf(text, sizeof(text), "%s", said == NULL ? "malformed" : (const char *)said);
    if (said != NULL)
        yajl_free_error(reader->json, said);
    text[strcspn(text, "\n")] = '\0';
    reader_stop(reader, -EBADMSG, "this is not JSON: %s", text);
    return reader->code;
}

static int feed_chunk(struct memory_infra_reader *reader, const unsigned char *bytes, size_t length)
{
    uint64_t calls = reader->calls;
    reader->in_chunk = true;
    yajl_status status = yajl_parse(reader->json, bytes, length);
    if (reader->code < 0)
        return reader->code;
    if (status != yajl_status_ok)
        return stop_at_malformed(reader);
    reader->in_chunk = false;
    reader->fed += length;
    reader->quiet = reader->calls == calls ? reader->quiet + length : 0;
    return 0;
}

/* Skip the byte order mark. Return the number of its bytes in this chunk. */
static size_t take_mark(struct memory_infra_reader *reader, const unsigned char *bytes,
                        size_t length)
{
    size_t taken = 0;
    while (taken < length && reader->fed < sizeof(byte_order_mark) && reader->fed == reader->mark &&
           bytes[taken] == byte_order_mark[reader->mark]) {
        reader->mark++;
        reader->fed++;
        taken++;
    }
    return taken;
}

int memory_infra_reader_feed(struct memory_infra_reader *reader, const void *bytes, size_t length,
                             struct error *error)
{
    const unsigned char *at = bytes;
    size_t marked = take_mark(reader, at, length);
    at += marked;
    length -= marked;
    while (reader->code == 0 && length > 0) {
        size_t chunk = length < CHUNK_BYTES ? length : CHUNK_BYTES;
        if (feed_chunk(reader, at, chunk) == 0 && reader->quiet > VALUE_BYTES_MAX)
            reader_stop(reader, -EBADMSG, "a single value of more than 16 MiB");
        at += chunk;
        length -= chunk;
    }
    if (reader->code < 0 && error != NULL)
        *error = reader->failure;
    return reader->code;
}

int memory_infra_reader_end(struct memory_infra_reader *reader, struct error *error)
{
    /* The closing bracket of a bare list may be missing: killed writers leave it out. */
    bool open_list = reader->bare_list && reader->depth == 1 && reader->skipped == 0;
    if (reader->code == 0 && reader->depth > 0 && !open_list)
        reader_stop(reader, -EBADMSG, "the file is cut off");
    if (reader->code == 0 && !reader->has_events)
        reader_stop(reader, -EBADMSG, "there is no list of events (traceEvents)");
    if (reader->code < 0 && error != NULL)
        *error = reader->failure;
    return reader->code;
}

int memory_infra_read_source(struct trace_source *source,
                             const struct memory_infra_visitor *visitor, void *context,
                             struct error *error)
{
    struct memory_infra_reader *reader = memory_infra_reader_new(visitor, context);
    char *chunk = malloc(CHUNK_BYTES);
    int code = reader == NULL || chunk == NULL
                   ? error_set(error, -ENOMEM, "no memory to read the file")
                   : 0;
    while (code == 0) {
        struct error problem = {0};
        ssize_t got = trace_source_read(source, chunk, CHUNK_BYTES, &problem);
        if (got < 0)
            code = set_problem(reader, error, (int)got, problem.message);
        else if (got == 0)
            break;
        else
            code = memory_infra_reader_feed(reader, chunk, (size_t)got, error);
    }
    if (code == 0)
        code = memory_infra_reader_end(reader, error);
    memory_infra_reader_free(reader);
    free(chunk);
    return code;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Return whether the bytes are the end of a key and a colon, without control characters. */
static bool is_key_of_text(const char *at, const char *end)
{
    const char *quote = memchr(at, '"', (size_t)(end - at));
    if (quote == NULL)
        return false;
    while (++quote < end && is_blank(*quote))
        ;
    if (quote >= end || *quote != ':')
        return false;
    for (; at < end; at++)
        if ((unsigned char)*at < ' ' && !is_blank(*at))
            return false;
    return true;
}

/* JSON begins with a brace and a quote, or a bracket before them. A Perfetto trace can begin with
 * the same bytes, a newline and a length equal to a brace: require a whole key then. */
bool memory_infra_begins(const void *bytes, size_t length)
{
    const char *at = bytes, *end = at + length;
    char last = '\0';
    bool may_be_trace = length > 0 && *at == '\n';
    if (length >= sizeof(byte_order_mark) &&
        memcmp(at, byte_order_mark, sizeof(byte_order_mark)) == 0)
        at += sizeof(byte_order_mark);
    for (; at < end; at++) {
        if (is_blank(*at))
            continue;
        if (last == '{')
            return *at == '"' && (!may_be_trace || is_key_of_text(at + 1, end));
        if (*at != '{' && (*at != '[' || last == '['))
            return false;
        last = *at;
    }
    return last != '\0' && !may_be_trace;
}
