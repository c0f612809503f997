/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feed the JSON to yajl, chunk by chunk. Its callbacks follow the table of places (read_walk.c),
 * which defines the meaning of values (read.h). yajl keeps a value that spans chunks, however long
 * it is; so a file in which it calls back too rarely is refused.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/read_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"

#define CHUNK_BYTES (256u * 1024u)
#define VALUE_MIB_MAX 16u

/* Some editors put it before UTF-8 text. */
static const unsigned char byte_order_mark[] = {0xef, 0xbb, 0xbf};

/* --- problems --- */

uint64_t reader_offset(const struct memory_infra_reader *reader)
{
    return reader->fed + (reader->in_chunk ? yajl_get_bytes_consumed(reader->parser) : 0);
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

/* --- open, feed, close --- */

struct memory_infra_reader *memory_infra_reader_new(const struct memory_infra_visitor *visitor,
                                                    void *context)
{
    struct memory_infra_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return NULL;
    reader->visitor = visitor;
    reader->context = context;
    reader->parser = yajl_alloc(&reader_callbacks, NULL, reader);
    if (reader->parser == NULL) {
        free(reader);
        return NULL;
    }
    /* Names are any bytes, as in a trace. */
    yajl_config(reader->parser, yajl_dont_validate_strings, 1);
    return reader;
}

void memory_infra_reader_free(struct memory_infra_reader *reader)
{
    if (reader == NULL)
        return;
    yajl_free(reader->parser);
    for (size_t i = 0; i < PLACES_DEEP; i++)
        free(reader->keys[i].at);
    for (size_t i = 0; i < FIELD_TEXTS; i++)
        free(reader->texts[i].at);
    for (size_t i = 0; i < 4; i++)
        free(reader->columns[i].ids);
    free(reader->zeroless.at);
    free(reader);
}

static void stop_at_malformed(struct memory_infra_reader *reader)
{
    unsigned char *error = yajl_get_error(reader->parser, 0, NULL, 0);
    const char *text = error == NULL ? "malformed" : (const char *)error;
    reader_stop(reader, -EBADMSG, "this is not JSON: %.*s", (int)strcspn(text, "\n"), text);
    yajl_free_error(reader->parser, error);
}

static void feed(struct memory_infra_reader *reader, const char *bytes, size_t length)
{
    reader->in_chunk = true;
    reader->quiet += length;
    if (yajl_parse(reader->parser, (const unsigned char *)bytes, length) != yajl_status_ok) {
        stop_at_malformed(reader); /* unless a callback has */
        return;
    }
    reader->in_chunk = false;
    reader->fed += length;
    if (reader->quiet > (uint64_t)VALUE_MIB_MAX << 20)
        reader_stop(reader, -EBADMSG, "a single value of more than %u MiB", VALUE_MIB_MAX);
}

/* Skip the byte order mark. Return the number of its bytes in this chunk. */
static size_t take_mark(struct memory_infra_reader *reader, const char *bytes, size_t length)
{
    size_t taken = 0;
    while (taken < length && reader->fed < sizeof(byte_order_mark) && reader->fed == reader->mark &&
           (unsigned char)bytes[taken] == byte_order_mark[reader->mark]) {
        reader->mark++;
        reader->fed++;
        taken++;
    }
    return taken;
}

int memory_infra_reader_feed(struct memory_infra_reader *reader, const void *bytes, size_t length,
                             struct error *error)
{
    size_t marked = length > 0 ? take_mark(reader, bytes, length) : 0;
    if (reader->code == 0 && marked < length)
        feed(reader, (const char *)bytes + marked, length - marked);
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
        reader_stop(reader, -EBADMSG,
                    "there is no list of events (traceEvents): of JSON files only Chrome's memory "
                    "dumps and DHAT's are read");
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
        if (got == 0)
            break;
        code = got < 0 ? set_problem(reader, error, (int)got, problem.message)
                       : memory_infra_reader_feed(reader, chunk, (size_t)got, error);
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
