/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that becomes a static program leaves this library behind. So the hooks of exec tell the
 * command's profiler in advance: it traces the process through the exec, and attaches to the new
 * program at its first instruction (recorder/attach/entry.h). Other programs are executed as ever.
 *
 * In another root directory (chroot) the loader of a new program may not find this library, and
 * would say so on the program's standard error. There it is taken out of LD_PRELOAD. The profiler
 * knows such a process by HEAPPROFD_SOCKET, and attaches to it.
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

/* Environments with more entries, or a longer LD_PRELOAD, are left as they are. */
#define ENTRIES_MAX 1024u
#define PRELOAD_BYTES 2048u
#define PRELOAD "LD_PRELOAD="
#define LIBRARY "/libheapprofd_preload.so"

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

/* --- another root directory --- */

/* Where an environment names this library. */
struct mention {
    size_t entry;       /* index of LD_PRELOAD in the environment */
    size_t start, end;  /* the library's path in that entry */
    size_t entry_count; /* of the environment */
};

static bool begins(const char *text, const char *start)
{
    while (*start != '\0' && *text == *start)
        text++, start++;
    return *start == '\0';
}

static bool ends(const char *text, size_t length, const char *end)
{
    size_t end_length = strlen(end);
    return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

/* Find the library in an entry of LD_PRELOAD, whose paths end at blanks and colons. */
static bool find_mention(const char *entry, struct mention *mention)
{
    size_t at = strlen(PRELOAD);
    while (entry[at] != '\0') {
        size_t start = at;
        while (entry[at] != '\0' && entry[at] != ':' && entry[at] != ' ')
            at++;
        if (ends(entry + start, at - start, LIBRARY)) {
            mention->start = start;
            mention->end = at;
            return true;
        }
        at += entry[at] != '\0';
    }
    return false;
}

/* Return whether the environment names this library, and its file is not there. */
static bool lacks_library(char *const environment[], struct mention *mention)
{
    char path[PATH_BYTES];
    bool is_named = false;
    size_t count = 0;
    for (; environment != NULL && environment[count] != NULL; count++) {
        if (!is_named && begins(environment[count], PRELOAD) &&
            find_mention(environment[count], mention)) {
            is_named = true;
            mention->entry = count;
        }
    }
    mention->entry_count = count;
    size_t length = is_named ? mention->end - mention->start : PATH_BYTES;
    if (length >= PATH_BYTES || count > ENTRIES_MAX ||
        strlen(environment[mention->entry]) >= PRELOAD_BYTES)
        return false;
    memcpy(path, environment[mention->entry] + mention->start, length);
    path[length] = '\0';
    return system_call(CALL_IS_THERE, path) == -ENOENT;
}

static char *const *present_environment(void)
{
    return (char *const *)(uintptr_t)libc_present_environment();
}

/* Return whether the new program is not to have the library in this environment. Read the program's
 * present one first: almost always it shows that the library is there, and a wrong pointer to
 * another one is for the kernel to find. */
static bool must_leave_out(char *const environment[], struct mention *mention)
{
    return lacks_library(present_environment(), mention) &&
           (environment == present_environment() || lacks_library(environment, mention));
}

typedef int execute_function(const char *, char *const[], char *const[]);

/* Execute the program without this library in its LD_PRELOAD. */
static __attribute__((noinline)) int execute_without(execute_function *execute, const char *program,
                                                     char *const arguments[],
                                                     char *const environment[],
                                                     const struct mention *mention)
{
    char *entries[ENTRIES_MAX + 1], preload[PRELOAD_BYTES];
    const char *old = environment[mention->entry];
    memcpy(entries, environment, (mention->entry_count + 1) * sizeof(*entries));
    memcpy(preload, old, mention->start);
    strcpy(preload + mention->start, old + mention->end);
    entries[mention->entry] = preload;
    return execute(program, arguments, entries);
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

static int call_execve(const char *path, char *const arguments[], char *const environment[])
{
    return CALL(execve, path, arguments, environment);
}

static int call_execvpe(const char *name, char *const arguments[], char *const environment[])
{
    return CALL(execvpe, name, arguments, environment);
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
    struct mention mention;
    tell(path);
    if (must_leave_out(environment, &mention))
        return execute_without(call_execve, path, arguments, environment, &mention);
    return call_execve(path, arguments, environment);
}

int execv(const char *path, char *const arguments[])
{
    struct mention mention;
    tell(path);
    if (must_leave_out(present_environment(), &mention))
        return execute_without(call_execve, path, arguments, present_environment(), &mention);
    return CALL(execv, path, arguments);
}

int execvp(const char *name, char *const arguments[])
{
    struct mention mention;
    tell_by_name(name);
    if (must_leave_out(present_environment(), &mention))
        return execute_without(call_execvpe, name, arguments, present_environment(), &mention);
    return CALL(execvp, name, arguments);
}

int execvpe(const char *name, char *const arguments[], char *const environment[])
{
    struct mention mention;
    tell_by_name(name);
    if (must_leave_out(environment, &mention))
        return execute_without(call_execvpe, name, arguments, environment, &mention);
    return call_execvpe(name, arguments, environment);
}
