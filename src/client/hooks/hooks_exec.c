/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that becomes a static program leaves this library behind. So the hooks of exec tell the
 * command's profiler in advance: it traces the process through the exec, and attaches to the new
 * program at its first instruction (attach/entry.h). Other programs are executed as ever.
 *
 * The functions are async-signal-safe, as exec is, and may run in a vfork child: they use the stack
 * and raw system calls only. The C library's own calls of exec (posix_spawn, system, execl) do not
 * come here.
 */
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "client/elf_lookup.h"
#include "client/join/handshake.h"
#include "client/libc/libc.h"
#include "client/real_allocator.h"
#include "client/system.h"
#include "wire/static_program.h"

/* Programs with longer paths are not announced. */
#define PATH_BYTES 1024

EXPORT int execve(const char *path, char *const arguments[], char *const environment[]);
EXPORT int execv(const char *path, char *const arguments[]);
EXPORT int execvp(const char *name, char *const arguments[]);
EXPORT int execvpe(const char *name, char *const arguments[], char *const environment[]);

/* --- the file --- */

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return system_call(CALL_READ_PROGRAM, fd, to, bytes, offset) == (long)bytes;
}

/* Return whether the open file is a program without an interpreter. */
static bool is_static(int fd)
{
    Elf64_Ehdr head;
    if (!read_at(fd, &head, sizeof(head), 0) || !static_program_head_is_sound(&head))
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_at(fd, &segment, sizeof(segment), head.e_phoff + i * sizeof(segment)) ||
            segment.p_type == PT_INTERP)
            return false;
    }
    return true;
}

/* Return whether the file is a static program that gives no rights: a traced process does not get
 * them. */
static bool may_be_traced(const char *path)
{
    struct stat status;
    if (system_call(CALL_PATH_STATUS, path, &status) != 0 || !S_ISREG(status.st_mode) ||
        (status.st_mode & (S_ISUID | S_ISGID)) != 0 || system_call(CALL_MAY_EXECUTE, path) != 0)
        return false;
    int fd = (int)system_call(CALL_OPEN_PROGRAM, path);
    if (fd < 0)
        return false;
    bool result = is_static(fd) && system_call(CALL_FILE_RIGHTS, fd, "security.capability") <= 0;
    system_call(CALL_CLOSE, fd);
    return result;
}

/* --- telling the profiler --- */

/* Only the first thread tells it: the process has its id after the exec. */
static bool can_tell(void)
{
    return handshake_socket_of_command()[0] != '\0' && !system_calls_are_forbidden() &&
           system_call(CALL_OWN_THREAD) == system_call(CALL_OWN_PROCESS);
}

static void tell(const char *path)
{
    struct handshake_reply reply;
    int ring_fd;
    int32_t daemon_pid;
    if (path != NULL && can_tell() && may_be_traced(path))
        handshake_ask(handshake_socket_of_command(), HANDSHAKE_EXEC, &reply, &ring_fd, &daemon_pid);
}

/* Return the directories in which a program is searched for. */
static const char *search_path(void)
{
    const char *const *entry = libc_present_environment();
    for (; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, "PATH=", 5) == 0)
            return *entry + 5;
    }
    return "/bin:/usr/bin";
}

/* Write the path of `name` in the first of the directories. Return the directories after that one,
 * or NULL after the last. The path is "" if it is too long. */
static const char *next_path(const char *directories, const char *name, char path[PATH_BYTES])
{
    size_t length = 0, name_bytes = strlen(name) + 1;
    while (directories[length] != '\0' && directories[length] != ':')
        length++;
    path[0] = '\0';
    if (length + 1 + name_bytes <= PATH_BYTES) {
        memcpy(path, directories, length);
        if (length > 0)
            path[length] = '/';
        memcpy(path + length + (length > 0), name, name_bytes);
    }
    return directories[length] == ':' ? directories + length + 1 : NULL;
}

/* The same for the program that execvp() would find. */
static void tell_by_name(const char *name)
{
    char path[PATH_BYTES];
    if (name == NULL || !can_tell())
        return;
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == '/') {
            tell(name);
            return;
        }
    }
    for (const char *rest = search_path(); rest != NULL && name[0] != '\0';) {
        rest = next_path(rest, name, path);
        if (system_call(CALL_MAY_EXECUTE, path) == 0) {
            tell(path);
            return;
        }
    }
}

/* --- the hooks --- */

/* The real functions; NULL: not looked up yet. */
static struct {
    int (*execve)(const char *, char *const[], char *const[]);
    int (*execv)(const char *, char *const[]);
    int (*execvp)(const char *, char *const[]);
    int (*execvpe)(const char *, char *const[], char *const[]);
} next;

__attribute__((constructor(101))) static void resolve_at_start(void)
{
    next.execve = elf_lookup_next("execve", 1).address;
    next.execv = elf_lookup_next("execv", 1).address;
    next.execvp = elf_lookup_next("execvp", 1).address;
    next.execvpe = elf_lookup_next("execvpe", 1).address;
}

/* Call the real function. A hook may be called before our constructor has run. */
#define CALL(name, ...)                                                                            \
    __extension__({                                                                                \
        __typeof__(next.name) function = next.name;                                                \
        if (function == NULL)                                                                      \
            function = (__typeof__(next.name))real_next(#name);                                    \
        function(__VA_ARGS__);                                                                     \
    })

int execve(const char *path, char *const arguments[], char *const environment[])
{
    tell(path);
    return CALL(execve, path, arguments, environment);
}

int execv(const char *path, char *const arguments[])
{
    tell(path);
    return CALL(execv, path, arguments);
}

int execvp(const char *name, char *const arguments[])
{
    tell_by_name(name);
    return CALL(execvp, name, arguments);
}

int execvpe(const char *name, char *const arguments[], char *const environment[])
{
    tell_by_name(name);
    return CALL(execvpe, name, arguments, environment);
}
