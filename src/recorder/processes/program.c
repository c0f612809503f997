/* SPDX-License-Identifier: Apache-2.0 */
/* Find a program, and decide how to profile it. The file reader parses the files. */
#include "recorder/processes/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "recorder/reader/file_reader.h"
#include "util/main_program.h"
#include "util/process_files.h"
#include "util/process_rights.h"
#include "util/regular_file.h"
#include "wire/static_program.h"

#define INTERPRETERS_MAX 4 /* as in the kernel: a script's interpreter may be a script */

/* --- finding the program --- */

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

void program_locate(const char *command, char *path, size_t size)
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
    program_locate(command, path, size);
    for (int i = 0; i < INTERPRETERS_MAX && path[0] != 0 && follow_script(path, size); i++)
        ;
}

void program_find_of_command(char *const *command, char *path, size_t size)
{
    char real[PATH_MAX];
    size_t count = 0;
    program_find(command[0], path, size);
    if (path[0] == 0 || (!main_program_is_loader(path) &&
                         (realpath(path, real) == NULL || !main_program_is_loader(real))))
        return;
    while (command[count] != NULL)
        count++;
    size_t at = main_program_argument((const char *const *)command, count);
    /* A name without a slash is looked up among libraries; the loader says so if it is not there.
     */
    if (at > 0 && access(command[at], F_OK) == 0)
        snprintf(path, size, "%s", command[at]);
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

/* Return whether the effective user gains rights by executing the file. */
static bool gains_rights(int fd, const struct stat *status)
{
    return ((status->st_mode & S_ISUID) && status->st_uid != geteuid()) ||
           ((status->st_mode & S_ISGID) && status->st_gid != getegid()) ||
           (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

int program_read(struct program *program, const char *path)
{
    struct stat file;
    return program_read_within(program, path, FILE_READER_DEADLINE_MS, &file);
}

int program_read_within(struct program *program, const char *path, unsigned deadline_ms,
                        struct stat *file)
{
    struct stat status;
    *program = (struct program){0};
    int fd = process_rights_open_mapped(path, &status);
    if (fd < 0)
        return fd == -EINVAL ? -ENOEXEC : fd;
    *file = status;
    program->gains_rights = gains_rights(fd, &status);
    const struct reader_file asked = {.path = path, .fd = fd, .debug_fd = -1};
    struct program_debug_file debug;
    int code = program_debug_file_read(&asked, deadline_ms, &program->file, &debug);
    memcpy(program->debug_file, debug.path, sizeof(debug.path));
    if (debug.fd >= 0)
        close(debug.fd);
    close(fd);
    program->is_elf = code == 0;
    if (code == 0)
        program->sanitizer = sanitizers[program->file.sanitizer];
    else
        program->file = (struct program_file){0}; /* an invalid reply */
    return code;
}

bool program_needs_debug_file(const struct program *program)
{
    const struct program_file *file = &program->file;
    return program->is_elf && !file->other_machine && !file->has_interpreter && !file->is_go &&
           file->allocator[0] == 0 && !file->has_all_functions && file->build_id[0] != 0 &&
           file->debug_file != PROGRAM_DEBUG_FILE_USED;
}

/* --- starting the program --- */

/* Return whether the file is a program for this machine without an interpreter. */
static bool is_static(int fd)
{
    Elf64_Ehdr head;
    Elf64_Phdr segments[STATIC_PROGRAM_SEGMENTS_MAX];
    if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || !static_program_head_is_sound(&head))
        return false;
    ssize_t bytes = (ssize_t)(head.e_phnum * sizeof(segments[0]));
    if (pread(fd, segments, (size_t)bytes, (off_t)head.e_phoff) != bytes)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        if (segments[i].p_type == PT_INTERP)
            return false;
    }
    return true;
}

bool program_exec_may_be_traced(pid_t pid)
{
    struct process_status status;
    if (process_status_read(pid, &status) < 0 || status.uid[0] != status.uid[1] ||
        status.gid[0] != status.gid[1])
        return false;
    /* An exec gives root all capabilities that its bounding set has. */
    return status.uid[0] != 0 || (status.bounding & ~status.permitted) == 0;
}

bool program_is_enterable(const char *path)
{
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return false;
    bool result =
        is_static(fd) && !gains_rights(fd, &status) && program_exec_may_be_traced(getpid());
    close(fd);
    return result;
}

bool program_is_foreign(const char *path)
{
    char head[ELF_MACHINE_HEAD_BYTES];
    struct elf_machine machine;
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return false;
    ssize_t got = pread(fd, head, sizeof(head), 0);
    close(fd);
    return got >= 0 && elf_machine_read(&machine, head, (size_t)got) == 0 &&
           !elf_machine_is_own(&machine);
}

/* --- ways of profiling --- */

const char *program_way_name(enum program_way way)
{
    static const char *const words[] = {
        [PROGRAM_BY_PRELOADING] = "preload",
        [PROGRAM_BY_BOTH] = "attach_at_start",
        [PROGRAM_BY_ATTACHING] = "attach",
        [PROGRAM_BY_NEITHER] = "none",
    };
    return words[way];
}

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

static void explain_other_machine(const struct program *program, const char *name, char *reason,
                                  size_t size)
{
    char machine[ELF_MACHINE_NAME_BYTES];
    elf_machine_name(&program->file.machine, machine);
    snprintf(reason, size,
             "%s is a program for %s, and this heapprofd profiles programs for %s only: use a "
             "build for that.",
             name, machine, elf_machine_own);
}

/* Explain a static program whose malloc has no symbol. */
static void explain_no_allocator(const struct program *program, const char *name, char *reason,
                                 size_t size)
{
    char missing[PROGRAM_MISSING_BYTES];
    program_debug_file_explain(&program->file, program->debug_file, missing, sizeof(missing));
    snprintf(
        reason, size,
        program->file.is_go
            ? "%s is a static Go program, and %s."
            : "%s is statically linked, so the profiling library cannot be loaded into it, and "
              "its malloc was not found: %s.",
        name, missing);
}

enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size)
{
    bool has_allocator = program->file.allocator[0] != 0;
    reason[0] = 0;
    if (program->file.other_machine) {
        explain_other_machine(program, name, reason, size);
        return PROGRAM_BY_NEITHER;
    }
    if (program->is_elf && !program->file.has_interpreter && !has_allocator) {
        explain_no_allocator(program, name, reason, size);
        return PROGRAM_BY_NEITHER;
    }
    if (program->is_elf && !program->file.has_interpreter && !program->gains_rights) {
        snprintf(reason, size,
                 "%s is statically linked, so the profiling library cannot be loaded into it: "
                 "heap_profile host attaches to it at its first instruction, if the kernel allows "
                 "that (ptrace), and -n NAME or -p PID as it runs.",
                 name);
        return PROGRAM_BY_BOTH;
    }
    if (program->gains_rights) {
        snprintf(
            reason, size,
            "%s gains rights when it starts (set-user-id, set-group-id or file "
            "capabilities), so neither the loader nor the kernel lets a profiler in at its "
            "start: run it as the user that it becomes, or run a copy without these rights; or "
            "attach to it as root, with heap_profile -n NAME or -p PID.",
            name);
        return PROGRAM_BY_ATTACHING;
    }
    if (has_allocator)
        explain_own_allocator(program, name, reason, size);
    return has_allocator ? PROGRAM_BY_BOTH : PROGRAM_BY_PRELOADING;
}
