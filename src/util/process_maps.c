/* SPDX-License-Identifier: Apache-2.0 */
/* Parse lines of the form "start-end rwxp offset major:minor inode   path". */
#include "util/process_maps.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/process_files.h"

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* Read a number and the character after it, and move after both. */
static bool read_number(const char **at, int base, char after, uint64_t *number)
{
    char *end;
    *at = skip_blanks(*at);
    if (!isxdigit((unsigned char)**at))
        return false;
    errno = 0;
    *number = strtoull(*at, &end, base);
    if (errno != 0 || end == *at || *end != after)
        return false;
    *at = end + 1;
    return true;
}

static bool read_flags(const char **at, struct process_map *map)
{
    const char *flags = skip_blanks(*at);
    if (strcspn(flags, " \t") != 4)
        return false;
    map->readable = flags[0] == 'r';
    map->writable = flags[1] == 'w';
    map->executable = flags[2] == 'x';
    map->shared = flags[3] == 's';
    *at = flags + 4;
    return true;
}

bool process_map_parse(const char *line, struct process_map *map)
{
    const char *at = line;
    uint64_t major, minor;
    if (!read_number(&at, 16, '-', &map->start) || !read_number(&at, 16, ' ', &map->end) ||
        !read_flags(&at, map) || !read_number(&at, 16, ' ', &map->offset) ||
        !read_number(&at, 16, ':', &major) || !read_number(&at, 16, ' ', &minor))
        return false;
    char *end;
    at = skip_blanks(at);
    if (!isdigit((unsigned char)*at))
        return false;
    map->inode = strtoull(at, &end, 10);
    if (*end != ' ' && *end != '\t' && *end != '\0')
        return false;
    map->device = major << 32 | (uint32_t)minor;
    map->path = skip_blanks(end);
    return map->start < map->end;
}

int process_maps_open_file(struct process_maps *maps, const char *path)
{
    *maps = (struct process_maps){.file = fopen(path, "re")};
    return maps->file != NULL ? 0 : -errno;
}

int process_maps_open(struct process_maps *maps, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)process_living_thread(pid));
    return process_maps_open_file(maps, path);
}

bool process_maps_next(struct process_maps *maps, struct process_map *map)
{
    /* Whole lines: the rest of a long path must not be taken for a line. */
    while (maps->file != NULL && getline(&maps->line, &maps->capacity, maps->file) > 0) {
        maps->line[strcspn(maps->line, "\n")] = '\0';
        if (process_map_parse(maps->line, map))
            return true;
    }
    return false;
}

int process_maps_close(struct process_maps *maps)
{
    int code = maps->file != NULL && ferror(maps->file) ? -EIO : 0;
    if (maps->file != NULL)
        fclose(maps->file);
    free(maps->line);
    *maps = (struct process_maps){0};
    return code;
}
