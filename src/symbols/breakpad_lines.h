/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a Breakpad symbol file, and the numbers in them. */
#ifndef HEAPPROFD_SYMBOLS_BREAKPAD_LINES_H
#define HEAPPROFD_SYMBOLS_BREAKPAD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* Names of C++ templates may be long, but not so long. */
#define BREAKPAD_LINE_BYTES_MAX ((size_t)1 << 20)

struct breakpad_lines {
    const char *path;
    int fd;
    char *buffer;
    size_t at, length, capacity;
    uint64_t number; /* of the line, from 1 */
    bool ended;
};

/* 0 or a negative errno with *error set; to be closed in any case. */
int breakpad_lines_open(struct breakpad_lines *lines, const char *path, struct error *error);
void breakpad_lines_close(struct breakpad_lines *lines);
/* From the first line on again. */
int breakpad_lines_rewind(struct breakpad_lines *lines, struct error *error);

/* 1: *line, ended by a zero byte in place, until the next call; 0: the end; or a negative errno
 * with *error set. */
int breakpad_lines_next(struct breakpad_lines *lines, char **line, struct error *error);

/* -EBADMSG with path, line and reason in *error. */
int breakpad_lines_fail(const struct breakpad_lines *lines, const char *reason,
                        struct error *error);

/* A number and the blanks behind it, which must be there unless the line ends; moves *at. */
bool breakpad_read_hex(char **at, uint64_t *value);
/* "-1", which stands for none, is UINT32_MAX. */
bool breakpad_read_decimal(char **at, uint32_t *value);
/* Whether the line begins with this word and a blank; moves *at behind them. */
bool breakpad_read_word(char **at, const char *word);

#endif
