/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a text of any size line by line. Each line is terminated by a zero byte in place. A last
 * line without a newline counts as a line.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_LINE_READER_H
#define HEAPPROFD_PROFILE_IMPORT_LINE_READER_H

#include <stdbool.h>

#include "profile/builder/builder.h"
#include "trace/read/trace_source.h"
#include "util/hex.h"

#define LINE_BYTES_MAX (16u << 20)

struct line_reader {
    struct trace_source *source;
    char *buffer;
    size_t at, length, capacity;
    uint64_t number; /* number of the line, from 1 */
    bool ended;
    bool cut_off; /* the last line had no newline */
};

/* Return 1 with *line and *length, which are valid until the next call; 0 at the end; or a negative
 * errno with *error set. */
int line_reader_next(struct line_reader *reader, char **line, size_t *length, struct error *error);
/* Receive a line. Return 0, or a negative errno with *problem set, which may be unset if the
 * builder has failed. */
typedef int line_reader_take(void *context, char *line, size_t length, struct error *problem);
/* Call `take` for all lines that are left. Return 0, the builder's error, which leaves *error
 * alone, or a negative errno: *error names the line of `what` ("the heap profile"). Limits (-EFBIG)
 * are reported as they are. */
int line_reader_each(struct line_reader *reader, const struct builder *builder, const char *what,
                     line_reader_take *take, void *context, struct error *error);
void line_reader_free(struct line_reader *reader);

/* Read hexadecimal digits after blanks, at most 16, and move *at after them. */
static inline bool line_read_hex(const char **at, uint64_t *value)
{
    const char *next = *at, *first;
    uint64_t result = 0;
    while (*next == ' ')
        next++;
    first = next;
    for (unsigned digit; (digit = hex_digit(*next)) < 16; next++)
        result = result << 4 | digit;
    if (next == first || next - first > 16)
        return false;
    *at = next;
    *value = result;
    return true;
}

#endif
