/* SPDX-License-Identifier: Apache-2.0 */
/* Check a program's file and its process for reasons why the library is not loaded. */
#include "recorder/processes/preload_obstacle.h"
#include "recorder/processes/program.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/base_name.h"
#include "util/main_program.h"
#include "util/process_files.h"
#include "util/process_rights.h"
#include "util/regular_file.h"
#include "wire/handshake.h"

static const struct {
    const char *name, *words;
    struct program example; /* for program_way(), which has the text */
} kinds[OBSTACLE_KINDS] = {
    [OBSTACLE_NONE] = {"none", "", {0}},
    [OBSTACLE_STATIC] =
        {"static",
         "it is statically linked, and the profiler could not attach to it before it ended: as the "
         "command of heap_profile host it is profiled from its first instruction.",
         {0}},
    [OBSTACLE_STRIPPED] =
        {"stripped",
         "it is statically linked, and its malloc was not found: heap_profile doctor -- PROGRAM "
         "says what is missing.",
         {0}},
    [OBSTACLE_GO] = {"go", NULL, {.is_elf = true, .file = {.is_go = 1}}},
    [OBSTACLE_MACHINE] = {"machine", NULL, {.is_elf = true, .file = {.other_machine = 1}}},
    [OBSTACLE_RIGHTS] = {"rights",
                         NULL,
                         {.is_elf = true, .gains_rights = true, .file = {.has_interpreter = 1}}},
    [OBSTACLE_ALLOCATOR] =
        {"allocator",
         "it has its own allocator, which the preloaded library does not see: heap_profile "
         "-n NAME or -p PID attaches to it as it runs.",
         {0}},
    [OBSTACLE_ENVIRONMENT] =
        {"environment",
         "it was started without LD_PRELOAD in its environment (as env -i and sudo do): keep "
         "LD_PRELOAD and HEAPPROFD_SOCKET there, or attach to it as it runs, with heap_profile "
         "-n NAME or -p PID.",
         {0}},
    [OBSTACLE_PLACE] =
        {"place",
         "the library's file is not visible where it runs (chroot, a container): heap_profile -n "
         "NAME or -p PID attaches to it as it runs.",
         {0}},
};

const char *preload_obstacle_name(enum preload_obstacle obstacle)
{
    return kinds[obstacle].name;
}

void preload_obstacle_explain(enum preload_obstacle obstacle, char *text, size_t size)
{
    if (kinds[obstacle].words != NULL)
        snprintf(text, size, "%s", kinds[obstacle].words);
    else
        program_way(&kinds[obstacle].example, "it", text, size);
}

static enum preload_obstacle preload_obstacle_of_program(const struct program *program)
{
    bool has_allocator = program->file.allocator[0] != 0;
    if (!program->is_elf)
        return OBSTACLE_NONE;
    if (program->file.other_machine)
        return OBSTACLE_MACHINE;
    if (!program->file.has_interpreter)
        return has_allocator         ? OBSTACLE_STATIC
               : program->file.is_go ? OBSTACLE_GO
                                     : OBSTACLE_STRIPPED;
    return has_allocator ? OBSTACLE_ALLOCATOR : OBSTACLE_NONE;
}

/* Judge a program by its file, except for gained rights: those show in the process. */
static enum preload_obstacle preload_obstacle_of_file(struct preload_obstacle_cache *cache,
                                                      const char *path)
{
    struct stat status;
    struct program program;
    if (regular_file_look(path, &status) < 0)
        return OBSTACLE_NONE;
    int64_t changed_ns = status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec;
    const size_t room = sizeof(cache->files) / sizeof(cache->files[0]);
    for (size_t i = 0; i < room; i++) {
        const struct preload_obstacle_file *known = &cache->files[i];
        if (known->inode == status.st_ino && known->device == status.st_dev &&
            known->changed_ns == changed_ns)
            return known->obstacle;
    }
    if (program_read(&program, path) < 0)
        return OBSTACLE_NONE;
    enum preload_obstacle obstacle = preload_obstacle_of_program(&program);
    cache->files[cache->next++ % room] =
        (struct preload_obstacle_file){status.st_dev, status.st_ino, changed_ns, obstacle};
    return obstacle;
}

/* Return whether the process gained rights at its start, by its auxiliary vector. */
static bool has_gained_rights(pid_t pid)
{
    uint64_t secure;
    int code = process_auxiliary_read(pid, AT_SECURE, &secure);
    /* The file exists and we may not read it: the process has another user now. */
    return code == -EACCES || code == -EPERM || secure != 0;
}

/* Return whether the library's file is, or may be, where the process sees it. */
static bool has_library(pid_t pid, const char *library)
{
    struct process_rights rights = {0};
    struct stat status;
    int root = regular_file_root_of(pid);
    if (root < 0)
        return root != -ENOENT;
    process_rights_read(&rights, pid);
    int fd = process_rights_open(&rights, root, library, 0, &status);
    if (fd >= 0)
        close(fd);
    close(root);
    return fd != -ENOENT;
}

enum preload_obstacle preload_obstacle_of_process(struct preload_obstacle_cache *cache,
                                                  const struct process_info *info,
                                                  const char *library)
{
    struct main_program program;
    main_program_find(&program, info->pid);
    enum preload_obstacle obstacle = preload_obstacle_of_file(cache, program.path);
    if (obstacle != OBSTACLE_NONE && obstacle != OBSTACLE_ALLOCATOR)
        return obstacle;
    if (has_gained_rights(info->pid))
        return OBSTACLE_RIGHTS;
    bool is_named = process_info_file_contains(info->pid, "environ", base_name(library));
    /* Where the library's file is missing, our library takes it out, and leaves this entry. */
    if (!is_named && !process_info_file_contains(info->pid, "environ", HANDSHAKE_SOCKET_ENV "="))
        return OBSTACLE_ENVIRONMENT;
    if (!has_library(info->pid, library))
        return OBSTACLE_PLACE;
    return is_named ? obstacle : OBSTACLE_ENVIRONMENT;
}
