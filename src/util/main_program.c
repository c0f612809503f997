/* SPDX-License-Identifier: Apache-2.0 */
/* Look through a process's arguments and mappings. Both may be forged, and only name the file. */
#include "util/main_program.h"

#include <elf.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "util/base_name.h"
#include "util/process_files.h"
#include "util/process_maps.h"
#include "util/process_rights.h"
#include "util/regular_file.h"

#define ARGUMENTS_BYTES 16384
#define ARGUMENTS_MAX 64
/* The loader maps the program first, into an address space that is nearly empty. */
#define MAPPINGS_MAX 4096u

bool main_program_is_loader(const char *path)
{
    static const char *const names[] = {"ld-*.so*", "ld.so*", "ld64.so*", "libc.so", "libc.musl-*"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (fnmatch(names[i], base_name(path), 0) == 0)
            return true;
    }
    return false;
}

/* Return whether the loader's option is followed by its value. musl also accepts "--NAME=VALUE". */
static bool takes_value(const char *option)
{
    static const char *const options[] = {
        "--library-path",         "--inhibit-rpath",     "--audit", "--preload", "--argv0",
        "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask",
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(option, options[i]) == 0)
            return true;
    }
    return false;
}

/* Return whether the loader only says something about the program. */
static bool runs_nothing(const char *option)
{
    static const char *const options[] = {"--list",    "--verify",        "--help",
                                          "--version", "--list-tunables", "--list-diagnostics"};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(option, options[i]) == 0)
            return true;
    }
    return false;
}

size_t main_program_argument(const char *const *arguments, size_t count)
{
    size_t at = 1;
    while (at < count && strncmp(arguments[at], "--", 2) == 0) {
        if (runs_nothing(arguments[at]))
            return 0;
        bool is_last = strcmp(arguments[at], "--") == 0;
        at += takes_value(arguments[at]) ? 2 : 1;
        if (is_last)
            break;
    }
    return at < count ? at : 0;
}

/* --- of a process --- */

/* The auxiliary vector names a loader's address only if the kernel has loaded one. */
static bool has_kernels_loader(pid_t pid)
{
    uint64_t base;
    return process_auxiliary_read(pid, AT_BASE, &base) < 0 || base != 0;
}

/* Copy the path that the loader was given. "": unknown. */
static void read_argument(pid_t pid, char *path, size_t size)
{
    char *bytes = malloc(ARGUMENTS_BYTES);
    const char *arguments[ARGUMENTS_MAX];
    size_t count = 0;
    path[0] = 0;
    ssize_t length = bytes == NULL ? 0 : process_file_read(pid, "cmdline", bytes, ARGUMENTS_BYTES);
    for (ssize_t at = 0; at < length && count < ARGUMENTS_MAX;
         at += (ssize_t)strlen(bytes + at) + 1)
        arguments[count++] = bytes + at;
    size_t program = main_program_argument(arguments, count);
    if (program > 0)
        snprintf(path, size, "%s", arguments[program]);
    free(bytes);
}

/* Write a path under which we can open a mapped file. */
static bool make_path(char path[PATH_MAX], pid_t pid, const struct process_map *map)
{
    struct stat status;
    struct process_rights rights = {0};
    pid_t living = process_living_thread(pid);
    process_rights_read(&rights, pid);
    /* What the path leads to is another file if the process likes, and is opened with our rights.
     */
    for (int way = 0; way < (rights.has_ours ? 3 : 1); way++) {
        int length = way == 0 ? snprintf(path, PATH_MAX, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
                                         (int)living, map->start, map->end)
                     : way == 1
                         ? snprintf(path, PATH_MAX, "/proc/%d/root%s", (int)living, map->path)
                         : snprintf(path, PATH_MAX, "%s", map->path);
        if (length < PATH_MAX && regular_file_look(path, &status) == 0 &&
            status.st_ino == map->inode && S_ISREG(status.st_mode))
            return true;
    }
    return false;
}

/* Return whether the mapped file can be the one that the loader was told to run. The path of the
 * mapping has no links in it; its file is that of the argument as the process sees it. */
static bool is_argument(pid_t pid, const struct process_map *map, const char *argument)
{
    char path[PATH_MAX];
    struct stat status;
    struct process_rights rights = {0};
    if (strcmp(base_name(map->path), base_name(argument)) == 0)
        return true;
    process_rights_read(&rights, pid);
    if (!rights.has_ours)
        return false; /* to follow its path may take as long as its user likes */
    int length = snprintf(path, sizeof(path), "/proc/%d/%s%s%s", (int)process_living_thread(pid),
                          *argument == '/' ? "root" : "cwd", *argument == '/' ? "" : "/", argument);
    return length < PATH_MAX && stat(path, &status) == 0 && status.st_ino == map->inode;
}

static bool is_elf(const char *path)
{
    char magic[SELFMAG];
    struct stat status;
    int fd = process_rights_open_mapped(path, &status);
    bool result =
        fd >= 0 && read(fd, magic, SELFMAG) == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0;
    if (fd >= 0)
        close(fd);
    return result;
}

static bool is_named_like_library(const char *path)
{
    return strstr(base_name(path), ".so") != NULL;
}

/* Search the first mapping of the program. `argument`: as the loader was given it; "": find the
 * only one without a library's name. */
static bool search(struct main_program *program, pid_t pid, const char *argument)
{
    struct process_maps maps;
    struct process_map map;
    uint64_t inode = 0;
    process_maps_open(&maps, pid);
    for (unsigned i = 0; i < MAPPINGS_MAX && process_maps_next(&maps, &map); i++) {
        if (map.inode == 0 || map.inode == inode || map.offset != 0 || *map.path != '/' ||
            strncmp(map.path, "/memfd:", strlen("/memfd:")) == 0)
            continue;
        bool is_it =
            *argument != 0 ? is_argument(pid, &map, argument) : !is_named_like_library(map.path);
        if (!is_it || !make_path(program->path, pid, &map) || !is_elf(program->path))
            continue;
        snprintf(program->file, sizeof(program->file), "%s", map.path);
        program->start = map.start;
        program->by_loader = true;
        break;
    }
    process_maps_close(&maps);
    return program->by_loader;
}

void main_program_find(struct main_program *program, pid_t pid)
{
    char own[64], argument[PATH_MAX];
    program->is_loader = program->by_loader = false;
    program->start = 0;
    snprintf(own, sizeof(own), "/proc/%d/exe", (int)process_living_thread(pid));
    strcpy(program->path, own);
    ssize_t length = readlink(own, program->file, sizeof(program->file) - 1);
    program->file[length > 0 ? length : 0] = 0;
    if (!main_program_is_loader(program->file) || has_kernels_loader(pid))
        return;
    program->is_loader = true;
    read_argument(pid, argument, sizeof(argument));
    if ((argument[0] == 0 || !search(program, pid, argument)) && !search(program, pid, ""))
        strcpy(program->path, own);
}
