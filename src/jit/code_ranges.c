/* SPDX-License-Identifier: Apache-2.0 */
/* Read executable mappings from /proc/PID/maps. */
#include "jit/code_ranges.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/sorted_search.h"

struct line {
    uint64_t start, end, offset, inode;
    bool executable, closed; /* closed: not readable, writable or executable */
    const char *path;        /* "" if it has none */
};

static bool parse_line(char *text, struct line *line)
{
    char permissions[5];
    int path = 0;
    text[strcspn(text, "\n")] = 0;
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n", &line->start,
               &line->end, permissions, &line->offset, &line->inode, &path) < 5 ||
        path == 0 || line->start >= line->end)
        return false;
    line->executable = strchr(permissions, 'x') != NULL;
    line->closed = strncmp(permissions, "---", 3) == 0;
    line->path = text + path;
    return true;
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Return whether memory belongs to no file with a name: it is anonymous, or shared so that it can
 * be mapped twice, once for writing and once for execution. */
static bool is_generated(const struct line *line)
{
    if (line->path[0] != '/')
        return line->path[0] == 0 || begins_with(line->path, "[anon") ||
               begins_with(line->path, "[heap]") || begins_with(line->path, "[stack");
    return begins_with(line->path, "/memfd:") || begins_with(line->path, "/dev/zero") ||
           begins_with(line->path, "/SYSV") || begins_with(line->path, "/dev/shm/");
}

static bool is_jitdump(const char *path)
{
    const char *name = strrchr(path, '/');
    return name != NULL && fnmatch("/jit-[0-9]*.dump", name, 0) == 0;
}

/* Return the text's position in `texts`, or 0: no memory. */
static uint32_t keep_text(struct code_ranges *ranges, const char *text)
{
    size_t length = strlen(text) + 1;
    if (ranges->text_length + length > UINT32_MAX ||
        ARRAY_RESERVE(&ranges->texts, &ranges->text_capacity, ranges->text_length, length) < 0)
        return 0;
    uint32_t at = (uint32_t)ranges->text_length;
    memcpy(ranges->texts + at, text, length);
    ranges->text_length += length;
    return at;
}

static int add_range(struct code_ranges *ranges, const struct line *line)
{
    struct code_range range = {line->start, line->end, line->offset, 0};
    if (!is_generated(line) && line->path[0] == '/' &&
        (range.path = keep_text(ranges, line->path)) == 0)
        return -ENOMEM;
    return ARRAY_ADD(&ranges->items, &ranges->count, &ranges->capacity, range);
}

/* Take a line. Generated code grows into address space that was reserved beside it: a closed range
 * that adjoins generated code counts as part of it. */
static int take_line(struct code_ranges *ranges, const struct line *line, const struct line *before)
{
    struct code_range *last = ranges->count > 0 ? &ranges->items[ranges->count - 1] : NULL;
    bool adjoins = last != NULL && last->end == line->start && last->path == 0;
    if (line->executable && is_jitdump(line->path)) {
        ranges->jitdump = keep_text(ranges, line->path);
        return ranges->jitdump != 0 ? 0 : -ENOMEM;
    }
    if (line->executable && line->path[0] == '[' && !is_generated(line))
        return 0; /* the kernel's code */
    bool is_room = line->closed && line->inode == 0 && line->path[0] == 0;
    if (adjoins && (is_room || (line->executable && is_generated(line)))) {
        last->end = line->end;
        return 0;
    }
    if (!line->executable)
        return 0;
    int result = add_range(ranges, line);
    if (result == 0 && is_generated(line) && before->end == line->start && before->closed &&
        before->inode == 0 && before->path[0] == 0)
        ranges->items[ranges->count - 1].start = before->start;
    return result;
}

static int read_lines(struct code_ranges *ranges, FILE *file)
{
    char *text = NULL;
    size_t size = 0;
    struct line line, before = {.path = ""};
    int result = keep_text(ranges, "") == 0 && ranges->text_length == 0 ? -ENOMEM : 0;
    /* Read whole lines: a path may exceed any limit, and its rest must not be taken for a line. */
    while (result == 0 && ranges->count < CODE_RANGES_MAX && getline(&text, &size, file) > 0) {
        if (!parse_line(text, &line))
            continue;
        result = take_line(ranges, &line, &before);
        before = line;
        before.path = line.path[0] == 0 ? "" : "/"; /* getline() overwrites the text */
    }
    free(text);
    return result == 0 && ferror(file) ? -EIO : result;
}

int code_ranges_read_file(struct code_ranges *ranges, const char *path)
{
    struct code_ranges fresh = {0};
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    int result = read_lines(&fresh, file);
    fclose(file);
    /* A process that is ending has no memory left, and its file is empty. */
    if (result == 0 && fresh.count == 0)
        result = -ESRCH;
    code_ranges_clear(result == 0 ? ranges : &fresh);
    if (result == 0)
        *ranges = fresh;
    return result;
}

int code_ranges_read(struct code_ranges *ranges, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    return code_ranges_read_file(ranges, path);
}

void code_ranges_clear(struct code_ranges *ranges)
{
    free(ranges->items);
    free(ranges->texts);
    *ranges = (struct code_ranges){0};
}

const struct code_range *code_ranges_find(const struct code_ranges *ranges, uint64_t pc)
{
    size_t at = SORTED_SEARCH(ranges->count, i, ranges->items[i].end <= pc);
    return at < ranges->count && ranges->items[at].start <= pc ? &ranges->items[at] : NULL;
}
