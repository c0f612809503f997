/* SPDX-License-Identifier: Apache-2.0 */
/* Read lines and numbers. Files are read, not mapped, so that a file that shrinks meanwhile only
 * ends early. */
#include "profile/symbols/breakpad_lines.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/hex.h"

#define BUFFER_BYTES ((size_t)256 << 10)

int breakpad_lines_open(struct breakpad_lines *lines, const char *path, struct error *error)
{
    struct stat status;
    *lines = (struct breakpad_lines){.path = path, .capacity = BUFFER_BYTES};
    lines->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (lines->fd < 0 || fstat(lines->fd, &status) != 0)
        return error_set(error, -errno, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s: not a regular file", path);
    lines->buffer = malloc(lines->capacity);
    if (lines->buffer == NULL)
        return error_set(error, -ENOMEM, "%s: no memory to read it", path);
    return 0;
}

void breakpad_lines_close(struct breakpad_lines *lines)
{
    if (lines->fd >= 0)
        close(lines->fd);
    free(lines->buffer);
    *lines = (struct breakpad_lines){.fd = -1};
}

int breakpad_lines_rewind(struct breakpad_lines *lines, struct error *error)
{
    if (lseek(lines->fd, 0, SEEK_SET) != 0)
        return error_set(error, -errno, "%s: cannot be read again: %s", lines->path,
                         strerror(errno));
    lines->at = lines->length = 0;
    lines->number = 0;
    lines->ended = false;
    return 0;
}

int breakpad_lines_fail(const struct breakpad_lines *lines, const char *reason, struct error *error)
{
    return error_set(error, -EBADMSG, "%s: line %llu: %s", lines->path,
                     (unsigned long long)lines->number, reason);
}

/* Append bytes of the file to the buffer. One byte stays free for the terminating zero. */
static int read_more(struct breakpad_lines *lines, struct error *error)
{
    if (lines->at > 0) {
        memmove(lines->buffer, lines->buffer + lines->at, lines->length - lines->at);
        lines->length -= lines->at;
        lines->at = 0;
    }
    if (lines->length + 1 >= lines->capacity) {
        if (lines->capacity >= BREAKPAD_LINE_BYTES_MAX) {
            lines->number++;
            return breakpad_lines_fail(lines, "is longer than 1 MiB", error);
        }
        char *grown = realloc(lines->buffer, lines->capacity * 2);
        if (grown == NULL)
            return error_set(error, -ENOMEM, "%s: no memory to read it", lines->path);
        lines->buffer = grown;
        lines->capacity *= 2;
    }
    ssize_t got;
    do {
        got = read(lines->fd, lines->buffer + lines->length, lines->capacity - lines->length - 1);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_set(error, -errno, "%s: cannot be read: %s", lines->path, strerror(errno));
    lines->ended = got == 0;
    lines->length += (size_t)got;
    return 0;
}

int breakpad_lines_next(struct breakpad_lines *lines, char **line, struct error *error)
{
    size_t searched = 0;
    for (;;) {
        size_t left = lines->length - lines->at;
        char *begin = lines->buffer + lines->at;
        char *newline = memchr(begin + searched, '\n', left - searched);
        if (newline != NULL || (lines->ended && left > 0)) {
            size_t length = newline == NULL ? left : (size_t)(newline - begin);
            lines->at += length + (newline != NULL);
            lines->number++;
            if (length > 0 && begin[length - 1] == '\r')
                length--;
            begin[length] = '\0';
            *line = begin;
            return 1;
        }
        if (lines->ended)
            return 0;
        searched = left;
        int result = read_more(lines, error);
        if (result < 0)
            return result;
    }
}

static bool end_number(char **at, char *next, const char *first)
{
    if (next == first || (*next != ' ' && *next != '\0'))
        return false;
    while (*next == ' ')
        next++;
    *at = next;
    return true;
}

bool breakpad_read_hex(char **at, uint64_t *value)
{
    char *next = *at;
    uint64_t result = 0;
    for (unsigned digit; (digit = hex_digit(*next)) < 16; next++) {
        if (result >> 60 != 0)
            return false;
        result = result << 4 | digit;
    }
    *value = result;
    return end_number(at, next, *at);
}

bool breakpad_read_decimal(char **at, uint32_t *value)
{
    char *next = *at;
    uint64_t result = 0;
    if (next[0] == '-' && next[1] == '1') {
        *value = UINT32_MAX;
        return end_number(at, next + 2, next);
    }
    for (; *next >= '0' && *next <= '9'; next++) {
        result = result * 10 + (unsigned)(*next - '0');
        if (result > INT32_MAX)
            return false;
    }
    *value = (uint32_t)result;
    return end_number(at, next, *at);
}

bool breakpad_read_word(char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0 || (*at)[length] != ' ')
        return false;
    *at += length;
    while (**at == ' ')
        (*at)++;
    return true;
}
