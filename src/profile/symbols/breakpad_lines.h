/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a Breakpad symbol file, and the numbers in them. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_BREAKPAD_LINES_H
#define HEAPPROFD_PROFILE_SYMBOLS_BREAKPAD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* Names of C++ templates can be long, but not this long. */
#define BREAKPAD_LINE_BYTES_MAX ((size_t)1 << 20)

struct breakpad_lines {
    const char *path;
    int fd;
    char *buffer;
    size_t at, length, capacity;
    uint64_t number; /* of the line, from 1 */
    bool ended;
};

/* Open a file. Return 0 or a negative errno with *error set. Close it in any case. */
int breakpad_lines_open(struct breakpad_lines *lines, const char *path, struct error *error);
void breakpad_lines_close(struct breakpad_lines *lines);
/* Start again at the first line. */
int breakpad_lines_rewind(struct breakpad_lines *lines, struct error *error);

/* Read the next line. Return 1 with *line, terminated by a zero byte and valid until the next call;
 * 0 at the end; or a negative errno with *error set. */
int breakpad_lines_next(struct breakpad_lines *lines, char **line, struct error *error);

/* Return -EBADMSG, with path, line number and reason in *error. */
int breakpad_lines_fail(const struct breakpad_lines *lines, const char *reason,
                        struct error *error);

/* Read a number and the blanks after it, which only the end of the line may replace. Move *at past
 * them. */
bool breakpad_read_hex(char **at, uint64_t *value);
/* Read a decimal number in the same way. "-1" means none and becomes UINT32_MAX. */
bool breakpad_read_decimal(char **at, uint32_t *value);
/* Return whether the line begins with this word and a blank. If so, move *at past them. */
bool breakpad_read_word(char **at, const char *word);

#endif
