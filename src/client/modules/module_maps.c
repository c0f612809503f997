/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds loaded objects in the process's own maps, on systems without _dl_find_object. An
 * object is a run of mappings of one file (device and inode) that begins with its
 * offset 0. Opens a descriptor for a moment.
 */
#include "client/modules/module_object.h"

#include "client/own_files.h"
#include "client/system.h"

struct line {
    uintptr_t start, end;
    uint64_t offset, device, inode;
    bool executable;
};

struct maps {
    int fd;
    bool failed;
    size_t used, filled;
    char buffer[512];
};

/* Return the next byte of the file; -1: none. */
static int maps_byte(struct maps *maps)
{
    if (maps->used == maps->filled) {
        long got = system_call(CALL_READ, maps->fd, maps->buffer, sizeof(maps->buffer));
        maps->failed = got < 0;
        if (got <= 0)
            return -1;
        maps->filled = (size_t)got;
        maps->used = 0;
    }
    return (unsigned char)maps->buffer[maps->used++];
}

/* Read a number in the given base, and the byte after it. */
static uint64_t maps_number(struct maps *maps, unsigned base, int *after)
{
    uint64_t value = 0;
    for (;;) {
        int byte = maps_byte(maps);
        unsigned digit;
        if (byte >= '0' && byte <= '9')
            digit = (unsigned)byte - '0';
        else if (base == 16 && byte >= 'a' && byte <= 'f')
            digit = (unsigned)byte - 'a' + 10;
        else {
            *after = byte;
            return value;
        }
        value = value * base + digit;
    }
}

/* A path that is read with its line. */
struct line_path {
    char *buffer;
    size_t size, length; /* the path and its end fit if length < size */
};

/* Read the blanks and the path at the end of a line. */
static bool maps_path(struct maps *maps, int byte, struct line_path *path)
{
    path->length = 0;
    for (bool begun = false; byte != '\n'; byte = maps_byte(maps)) {
        if (byte < 0)
            return false;
        begun |= byte != ' ';
        if (begun && path->length < path->size)
            path->buffer[path->length++] = (char)byte;
    }
    return true;
}

/* "start-end perms offset major:minor inode path" */
static bool maps_line(struct maps *maps, struct line *line, struct line_path *path)
{
    int byte;
    line->start = maps_number(maps, 16, &byte);
    if (byte != '-')
        return false;
    line->end = maps_number(maps, 16, &byte);
    line->executable = false;
    while ((byte = maps_byte(maps)) != ' ') {
        if (byte < 0)
            return false;
        line->executable |= byte == 'x';
    }
    line->offset = maps_number(maps, 16, &byte);
    line->device = maps_number(maps, 16, &byte) << 32;
    line->device |= maps_number(maps, 16, &byte);
    line->inode = maps_number(maps, 10, &byte);
    return maps_path(maps, byte, path);
}

static bool maps_open(struct maps *maps)
{
    char path[OWN_FILE_PATH_BYTES];
    maps->used = maps->filled = 0;
    maps->failed = false;
    own_file_path(path, "maps");
    maps->fd = (int)system_call(CALL_OPEN, path);
    return maps->fd >= 0;
}

/* Return whether the line maps more of the object of the lines before it. */
static bool line_continues(const struct line *line, const struct line *run)
{
    return line->inode != 0 && line->inode == run->inode && line->device == run->device &&
           line->offset != 0;
}

/* Data without a file is no object. */
static bool line_is_of_object(const struct line *line)
{
    return line->inode != 0 || line->executable;
}

bool module_maps_find(uintptr_t pc, struct module_object *object)
{
    struct maps maps;
    struct line_path no_path = {0};
    object->start = object->end = 0;
    if (!maps_open(&maps))
        return false;
    struct line run = {0}, line;
    uintptr_t gap_start = 0, gap_end = UINTPTR_MAX;
    bool holds = false;
    while (maps_line(&maps, &line, &no_path)) {
        if (line_continues(&line, &run)) {
            run.end = line.end;
        } else {
            if (holds)
                break;
            run = line;
        }
        if (!line_is_of_object(&line))
            continue;
        if (pc >= line.start && pc < line.end)
            holds = true;
        if (line.start > pc && line.start < gap_end)
            gap_end = line.start;
        if (line.end <= pc)
            gap_start = line.end;
    }
    system_call(CALL_CLOSE, maps.fd);
    if (!holds && maps.failed)
        return false;
    object->start = holds ? run.start : gap_start;
    object->end = holds ? run.end : gap_end;
    object->link_map = NULL;
    object->has_file = run.inode != 0;
    return holds;
}

void module_maps_each(void (*see)(uintptr_t start, uintptr_t end, uint32_t word), uint32_t word)
{
    struct maps maps;
    struct line_path no_path = {0};
    struct line run = {0}, line;
    if (!maps_open(&maps))
        return;
    while (maps_line(&maps, &line, &no_path)) {
        if (line_continues(&line, &run)) {
            run.end = line.end;
            continue;
        }
        if (line_is_of_object(&run))
            see(run.start, run.end, word);
        run = line;
    }
    system_call(CALL_CLOSE, maps.fd);
    if (line_is_of_object(&run))
        see(run.start, run.end, word);
}

int module_maps_path(uintptr_t address, char *buffer, size_t size)
{
    struct maps maps;
    struct line line;
    struct line_path path = {.buffer = buffer, .size = size};
    bool holds = false;
    if (!maps_open(&maps))
        return maps.fd;
    while (!holds && maps_line(&maps, &line, &path))
        holds = address >= line.start && address < line.end;
    system_call(CALL_CLOSE, maps.fd);
    if (!holds || path.length >= size || buffer[0] != '/')
        return 0;
    buffer[path.length] = 0;
    return (int)path.length;
}
