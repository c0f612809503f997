/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a source into lines in one buffer, which grows to the longest line. */
#include "profile/import/line_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (64u * 1024u)

void line_reader_free(struct line_reader *reader)
{
    free(reader->buffer);
}

/* Read more after the present bytes; one byte stays free for the terminator. */
static int read_more(struct line_reader *reader, struct error *error)
{
    if (reader->at > 0) {
        memmove(reader->buffer, reader->buffer + reader->at, reader->length - reader->at);
        reader->length -= reader->at;
        reader->at = 0;
    }
    if (reader->length + 1 >= reader->capacity) {
        size_t capacity = reader->capacity == 0 ? BUFFER_BYTES : reader->capacity * 2;
        if (capacity > LINE_BYTES_MAX)
            return error_set(error, -EBADMSG, "line %llu is longer than 8 MiB",
                             (unsigned long long)reader->number + 1);
        char *grown = realloc(reader->buffer, capacity);
        if (grown == NULL)
            return error_set(error, -ENOMEM, "no memory to read a line");
        reader->buffer = grown;
        reader->capacity = capacity;
    }
    struct error problem = {0};
    ssize_t got = trace_source_read(reader->source, reader->buffer + reader->length,
                                    reader->capacity - reader->length - 1, &problem);
    if (got < 0)
        return error_set(error, (int)got, "after line %llu: %s", (unsigned long long)reader->number,
                         problem.message);
    reader->ended = got == 0;
    reader->length += (size_t)got;
    return 0;
}

int line_reader_next(struct line_reader *reader, char **line, size_t *length, struct error *error)
{
    size_t searched = 0;
    for (;;) {
        size_t left = reader->length - reader->at;
        char *begin = left == 0 ? reader->buffer : reader->buffer + reader->at;
        char *newline = left == searched ? NULL : memchr(begin + searched, '\n', left - searched);
        if (newline != NULL || (reader->ended && left > 0)) {
            reader->cut_off = newline == NULL;
            *line = begin;
            *length = newline == NULL ? left : (size_t)(newline - begin);
            begin[*length] = '\0';
            reader->at += *length + (newline != NULL);
            reader->number++;
            return 1;
        }
        if (reader->ended)
            return 0;
        searched = left;
        int code = read_more(reader, error);
        if (code < 0)
            return code;
    }
}

int line_reader_each(struct line_reader *reader, const struct builder *builder, const char *what,
                     line_reader_take *take, void *context, struct error *error)
{
    struct error problem = {0};
    char *line;
    size_t length;
    int code;
    while ((code = line_reader_next(reader, &line, &length, error)) > 0) {
        uint64_t number = reader->number;
        code = take(context, line, length, &problem);
        if (builder->error < 0)
            return builder->error;
        if (code == -EFBIG)
            return error_set(error, code, "%s", problem.message);
        if (code < 0)
            return error_set(error, code, "line %" PRIu64 " of %s: %s", number, what,
                             problem.message);
    }
    return code;
}
