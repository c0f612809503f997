/* SPDX-License-Identifier: Apache-2.0 */
/* Find a program, and decide how to profile it. The file reader parses the files. */
#include "daemon/processes/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "reader/file_reader.h"
#include "util/regular_file.h"

#define INTERPRETERS_MAX 4 /* as in the kernel: a script's interpreter may be a script */

/* --- finding the program --- */

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static void search_path(const char *command, char *path, size_t size)
{
    path[0] = 0;
    if (strchr(command, '/') != NULL) {
        if (is_program(command))
            snprintf(path, size, "%s", command);
        return;
    }
    const char *directories = getenv("PATH");
    if (directories == NULL)
        directories = "/bin:/usr/bin";
    for (const char *at = directories;; at++) {
        size_t length = strcspn(at, ":");
        snprintf(path, size, "%.*s%s%s", (int)length, at, length > 0 ? "/" : "./", command);
        if (is_program(path))
            return;
        at += length;
        if (*at == 0)
            break;
    }
    path[0] = 0;
}

/* If path is a script, replace it by its interpreter. Return whether it was one. */
static bool follow_script(char *path, size_t size)
{
    char line[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, line, sizeof(line) - 1);
    close(fd);
    if (length < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[length] = 0;
    line[strcspn(line, "\n")] = 0;
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    interpreter[strcspn(interpreter, " \t")] = 0;
    snprintf(path, size, "%s", interpreter);
    return true;
}

void program_find(const char *command, char *path, size_t size)
{
    search_path(command, path, size);
    for (int i = 0; i < INTERPRETERS_MAX && path[0] != 0 && follow_script(path, size); i++)
        ;
}

const char *program_why_not_found(const char *command)
{
    struct stat status;
    if (strchr(command, '/') == NULL)
        return "there is no such program in PATH";
    if (stat(command, &status) < 0)
        return errno == EACCES ? "you may not enter a directory of its path"
                               : "there is no such file";
    if (S_ISDIR(status.st_mode))
        return "it is a directory";
    if (!S_ISREG(status.st_mode))
        return "it is not a file that can be executed";
    if (access(command, X_OK) != 0)
        return "it may not be executed: it lacks the permission (chmod +x), or its file system is "
               "mounted noexec";
    return "the interpreter in its first line does not exist";
}

/* --- reading the program --- */

static const char *const sanitizers[PROGRAM_SANITIZERS] = {
    [PROGRAM_SANITIZER_ADDRESS] = "AddressSanitizer",
    [PROGRAM_SANITIZER_THREAD] = "ThreadSanitizer",
    [PROGRAM_SANITIZER_MEMORY] = "MemorySanitizer",
    [PROGRAM_SANITIZER_HWADDRESS] = "HWAddressSanitizer",
    [PROGRAM_SANITIZER_LEAK] = "LeakSanitizer",
};

int program_read(struct program *program, const char *path)
{
    return program_read_within(program, path, FILE_READER_DEADLINE_MS);
}

int program_read_within(struct program *program, const char *path, unsigned deadline_ms)
{
    struct stat status;
    *program = (struct program){0};
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return fd == -EINVAL ? -ENOEXEC : fd;
    program->gains_rights = ((status.st_mode & S_ISUID) && status.st_uid != geteuid()) ||
                            ((status.st_mode & S_ISGID) && status.st_gid != getegid()) ||
                            (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
    int code = file_reader_program(fd, path, deadline_ms, &program->file);
    close(fd);
    program->is_elf = code == 0;
    if (code == 0)
        program->sanitizer = sanitizers[program->file.sanitizer];
    else
        program->file = (struct program_file){0}; /* an invalid reply */
    return code;
}

/* --- ways of profiling --- */

/* Explain a program that loads the library and has an allocator of its own. */
static void explain_own_allocator(const struct program *program, const char *name, char *reason,
                                  size_t size)
{
    snprintf(reason, size,
             "%s has %s%s of its own (%s), which the preloaded library does not see: the profiler "
             "attaches to it at its start, if the kernel allows that (ptrace).",
             name, program->sanitizer != NULL ? program->sanitizer : "an allocator",
             program->sanitizer != NULL ? " and so an allocator" : "", program->file.allocator);
}

enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size)
{
    bool has_allocator = program->file.allocator[0] != 0;
    reason[0] = 0;
    if (program->file.other_machine) {
        snprintf(reason, size,
                 "%s is a program for another kind of machine (32-bit, or another processor), "
                 "into which the profiling library cannot be loaded: use a build for this machine.",
                 name);
        return PROGRAM_BY_NEITHER;
    }
    if (program->is_elf && !program->file.has_interpreter && program->file.is_go &&
        !has_allocator) {
        snprintf(reason, size,
                 "%s is a static Go program, and Go does not allocate with malloc: use Go's own "
                 "profiler (runtime/pprof), whose files heap_profile report opens.",
                 name);
        return PROGRAM_BY_NEITHER;
    }
    if (program->is_elf && !program->file.has_interpreter) {
        snprintf(reason, size,
                 has_allocator
                     ? "%s is statically linked, so the profiling library cannot be loaded into "
                       "it: heap_profile -n NAME or -p PID attaches to it as it runs."
                     : "%s is statically linked and has no symbols, so the profiling library "
                       "cannot be loaded into it, and its malloc cannot be found: build it with "
                       "symbols (do not strip it), or link it dynamically.",
                 name);
        return has_allocator ? PROGRAM_BY_ATTACHING : PROGRAM_BY_NEITHER;
    }
    if (program->file.is_musl) {
        snprintf(reason, size,
                 "%s runs on musl, and the profiling library was built for glibc: heap_profile -n "
                 "NAME or -p PID attaches to it as it runs.",
                 name);
        return PROGRAM_BY_ATTACHING;
    }
    if (program->gains_rights) {
        snprintf(reason, size,
                 "%s gains rights when it starts (set-user-id, set-group-id or file "
                 "capabilities), so the dynamic loader ignores LD_PRELOAD: run it as the user that "
                 "it becomes, or run a copy without these rights; or attach to it as root, with "
                 "heap_profile -n NAME or -p PID.",
                 name);
        return PROGRAM_BY_ATTACHING;
    }
    if (has_allocator)
        explain_own_allocator(program, name, reason, size);
    return has_allocator ? PROGRAM_BY_BOTH : PROGRAM_BY_PRELOADING;
}
