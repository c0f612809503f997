/* SPDX-License-Identifier: Apache-2.0 */
/* Try the places of a debug file, and let the file reader check what is there. */
#include "recorder/reader/program_debug_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/symbols/debuginfod.h"
#include "util/clock.h"
#include "util/process_rights.h"
#include "util/regular_file.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"

struct search {
    const struct reader_file *file;
    uint64_t deadline_ms; /* CLOCK_MONOTONIC */
    struct program_file *program;
    struct program_debug_file *debug;
    char directory[PATH_MAX];     /* of the program; "": unknown */
    int root;                     /* of the process, if it is not ours; else -1 */
    uid_t owner;                  /* of the program */
    bool is_of_process;           /* false: the program is a file that our user named */
    struct process_rights rights; /* of the process */
};

/* --- the places --- */

/* The kernel writes paths as we see them: those in a chroot begin with its directory. */
static void cut_root(char directory[PATH_MAX], int root)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", root);
    ssize_t length = readlink(link, path, sizeof(path));
    if (length > 1 && strncmp(directory, path, (size_t)length) == 0 && directory[length] == '/')
        memmove(directory, directory + length, strlen(directory + length) + 1);
}

/* Find the directory of the program. In a container it leads from the process's root. */
static void find_directory(struct search *search)
{
    char link[32];
    struct stat status;
    int pid = 0;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", search->file->fd);
    ssize_t length = readlink(link, search->directory, sizeof(search->directory) - 1);
    search->directory[length > 0 ? length : 0] = 0;
    char *slash = strrchr(search->directory, '/');
    *(slash != NULL ? slash : search->directory) = 0;
    search->owner = fstat(search->file->fd, &status) == 0 ? status.st_uid : 0;
    search->root = -1;
    search->is_of_process = sscanf(search->file->path, "/proc/%d/", &pid) == 1;
    if (search->is_of_process) {
        process_rights_read(&search->rights, pid);
        if (!regular_file_shares_root(pid))
            search->root = regular_file_root_of(pid);
    }
    if (search->root >= 0)
        cut_root(search->directory, search->root);
}

/* Return whether the owner of the program may read the file. Else a link would let a user's program
 * that root runs show the daemon's reader files that the user may not read. */
static bool may_be_shown(const struct search *search, const struct stat *status)
{
    return status->st_uid == search->owner || (status->st_mode & S_IROTH) != 0;
}

/* Check the file. Keep it if the program's symbols are in it. Return whether that is so. */
static bool try_file(struct search *search, int fd, const char *path)
{
    struct program_file facts;
    struct reader_file file = *search->file;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    file.debug_fd = fd;
    if (fd < 0)
        return false;
    bool is_read =
        now_ms < search->deadline_ms &&
        file_reader_program(&file, (unsigned)(search->deadline_ms - now_ms), &facts) == 0;
    bool is_used = is_read && facts.debug_file == PROGRAM_DEBUG_FILE_USED;
    if (is_used || search->debug->path[0] == 0)
        snprintf(search->debug->path, sizeof(search->debug->path), "%.*s",
                 PROGRAM_DEBUG_PATH_BYTES - 1, path);
    if (is_used || (is_read && search->program->debug_file == PROGRAM_DEBUG_FILE_NONE))
        *search->program = facts;
    if (is_used)
        search->debug->fd = fd;
    else
        close(fd);
    return is_used;
}

static bool try_place(struct search *search, int root, const char *path)
{
    struct stat status;
    int fd = search->is_of_process ? process_rights_open(&search->rights, root, path, 0, &status)
                                   : regular_file_open(path, &status);
    if (fd >= 0 && !may_be_shown(search, &status)) {
        close(fd);
        return false;
    }
    return try_file(search, fd, path);
}

/* The places that .gnu_debuglink means. */
static bool try_link(struct search *search, int root)
{
    static const char *const formats[] = {"%s/%s", "%s/.debug/%s", DEBUG_DIRECTORY "%s/%s"};
    const char *name = search->program->debug_link;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && name[0] != 0; i++) {
        char path[PATH_MAX + PROGRAM_DEBUG_LINK_BYTES + sizeof(DEBUG_DIRECTORY)];
        snprintf(path, sizeof(path), formats[i], search->directory, name);
        if (search->directory[0] == '/' && try_place(search, root, path))
            return true;
    }
    return false;
}

static void write_place(const char *build_id, char path[PROGRAM_DEBUG_PATH_BYTES])
{
    snprintf(path, PROGRAM_DEBUG_PATH_BYTES, DEBUG_DIRECTORY "/.build-id/%.2s/%s.debug", build_id,
             strlen(build_id) > 2 ? build_id + 2 : "");
}

/* The caches of debuginfod's client, of our own user. */
static bool try_caches(struct search *search)
{
    char path[PATH_MAX];
    struct stat status;
    for (size_t i = 0; debuginfod_cache_path(i, search->program->build_id, path, sizeof(path));
         i++) {
        int fd = path[0] != 0 ? regular_file_open(path, &status) : -1;
        if (fd >= 0 && status.st_size == 0)
            close(fd);
        else if (try_file(search, fd, path))
            return true;
    }
    return false;
}

static bool try_all(struct search *search)
{
    char path[PROGRAM_DEBUG_PATH_BYTES];
    write_place(search->program->build_id, path);
    bool has_build_id = search->program->build_id[0] != 0;
    if (search->root >= 0 && has_build_id && try_place(search, search->root, path))
        return true;
    if (has_build_id && try_place(search, -1, path))
        return true;
    if (try_link(search, search->root))
        return true;
    return has_build_id && try_caches(search);
}

int program_debug_file_read(const struct reader_file *file, unsigned deadline_ms,
                            struct program_file *program, struct program_debug_file *debug)
{
    struct search search = {.file = file,
                            .deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + deadline_ms,
                            .program = program,
                            .debug = debug};
    *debug = (struct program_debug_file){.fd = -1};
    int code = file_reader_program(file, deadline_ms, program);
    if (code < 0 || program->has_all_functions || program->other_machine)
        return code;
    find_directory(&search);
    try_all(&search);
    if (search.root >= 0)
        close(search.root);
    return 0;
}

void program_debug_file_explain(const struct program_file *program, const char *debug_path,
                                char *text, size_t size)
{
    char path[PROGRAM_DEBUG_PATH_BYTES];
    write_place(program->build_id, path);
    if (program->is_go)
        snprintf(text, size,
                 "Go does not allocate with malloc (use Go's own profiler, runtime/pprof, whose "
                 "files heap_profile report opens)");
    else if (program->has_all_functions)
        snprintf(text, size, "none of its symbols is called malloc");
    else if (program->debug_file == PROGRAM_DEBUG_FILE_USED)
        snprintf(text, size, "none of the symbols in its debug file %s is called malloc",
                 debug_path);
    else if (program->debug_file == PROGRAM_DEBUG_FILE_OTHER)
        snprintf(text, size, "its symbols are stripped, and %s is the debug file of another build",
                 debug_path);
    else if (program->debug_file == PROGRAM_DEBUG_FILE_EMPTY)
        snprintf(text, size, "its symbols are stripped, and its debug file %s has none either",
                 debug_path);
    else if (program->build_id[0] == 0)
        snprintf(text, size,
                 "its symbols are stripped, and it has no build id by which a debug file could be "
                 "found (do not strip it)");
    else
        snprintf(
            text, size,
            "its symbols are stripped, and there is no debug file %s (do not strip it, install "
            "the package with its debug symbols, such as NAME-dbgsym, or set DEBUGINFOD_URLS "
            "to a server that has it)",
            path);
}
