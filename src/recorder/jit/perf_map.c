/* SPDX-License-Identifier: Apache-2.0 */
/* Read a perf map as a stream, one line at a time. */
#include "recorder/jit/perf_map.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "util/hex.h"

/* Lines are truncated to two numbers and a name. */
#define LINE_BYTES_MAX (JIT_NAME_BYTES_MAX + 64u)
#define CHUNK_BYTES 65536u

struct line {
    char bytes[LINE_BYTES_MAX];
    size_t length;
};

/* Read a hexadecimal number and the space after it. */
static bool take_number(const char **at, const char *end, uint64_t *number)
{
    uint64_t value = 0;
    unsigned digits = 0;
    if (end - *at > 2 && (*at)[0] == '0' && (*at)[1] == 'x')
        *at += 2;
    for (; *at < end && **at != ' '; (*at)++) {
        unsigned digit = hex_digit(**at);
        if (digit > 15 || value >> 60 != 0)
            return false;
        value = value << 4 | digit;
        digits++;
    }
    if (digits == 0 || *at == end)
        return false;
    (*at)++;
    *number = value;
    return true;
}

static int perf_map_take_line(struct jit_names *names, const struct line *line,
                              struct jit_file_report *report)
{
    const char *at = line->bytes, *end = at + line->length;
    uint64_t start, size;
    if (at < end && end[-1] == '\r')
        end--;
    if (!take_number(&at, end, &start) || !take_number(&at, end, &size) || at == end ||
        memchr(at, 0, (size_t)(end - at)) != NULL) {
        report->damaged += line->length > 0;
        return 0;
    }
    report->entries++;
    return jit_names_set(names, start, size, at, (size_t)(end - at));
}

static void perf_map_append(struct line *line, const char *bytes, size_t length)
{
    size_t room = sizeof(line->bytes) - line->length;
    if (length > room)
        length = room;
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
}

static int take_chunk(struct jit_names *names, struct line *line, const char *bytes, size_t length,
                      struct jit_file_report *report)
{
    const char *at = bytes, *end = bytes + length;
    int result = 0;
    while (at < end && result == 0) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        perf_map_append(line, at, (size_t)(stop - at));
        if (newline == NULL)
            break;
        result = perf_map_take_line(names, line, report);
        line->length = 0;
        at = newline + 1;
    }
    return result;
}

int perf_map_read(int fd, struct jit_names *names, struct jit_file_report *report)
{
    char chunk[CHUNK_BYTES];
    struct line line;
    uint64_t offset = 0;
    int result = 0;
    line.length = 0;
    *report = (struct jit_file_report){0};
    while (result == 0) {
        ssize_t got = pread(fd, chunk, sizeof(chunk), (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        report->error = got < 0 ? -errno : 0;
        report->error_offset = offset;
        if (got <= 0)
            break;
        if (offset >= PERF_MAP_BYTES_MAX) {
            report->cut = true;
            break;
        }
        result = take_chunk(names, &line, chunk, (size_t)got, report);
        offset += (size_t)got;
        if (names->pause != NULL)
            names->pause(names->pause_context);
    }
    report->cut |= result == -E2BIG;
    return result == -E2BIG ? 0 : result;
}
