/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to a process with hostile memory: the loader's list, dynamic sections, symbol tables,
 * the vdso, code for system calls, entries of functions, and leftovers of a client. The input is
 * the memory, at every address (modulo its size), so that any pointer leads somewhere; addresses
 * beyond the input are not mapped. If bit 7 of the first byte is set, the input is also the file
 * reader's answer about the executable's symbols.
 *
 * Whatever the input is, the number of reads is bounded, only the patch sites that the client lists
 * are written, and results agree with the memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/attach/installed_client.h"
#include "recorder/attach/locate.h"
#include "recorder/attach/remote_objects.h"
#include "recorder/attach/trampoline.h"
#include "recorder/reader/file_reader.h"

#define HEAD_BYTES 16u
#define MEMORY_BYTES (1u << 13)
#define BASE UINT64_C(0x10000)
#define FUNCTIONS_MAX 64u

static struct {
    const uint8_t *bytes;
    size_t count;
    size_t reads;
    bool has_executable;
    bool may_write;
} memory;

static void fail(int line)
{
    fprintf(stderr, "check in line %d fails\n", line);
    abort();
}

#define check(good) ((good) ? (void)0 : fail(__LINE__))

/* --- replacements for the process --- */

size_t __wrap_tracee_read_some(const struct tracee *tracee, uint64_t address, void *to,
                               size_t bytes);
int __wrap_tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes);
int __wrap_tracee_write(const struct tracee *tracee, uint64_t address, const void *from,
                        size_t bytes);
struct user_regs_struct *__wrap_tracee_registers(struct tracee_thread *thread);
int __wrap_process_rights_open_mapped(const char *path, struct stat *status);
int __wrap_file_reader_functions(const struct reader_file *file, const char *names, size_t bytes,
                                 size_t count, struct reader_function **functions, bool *is_whole);

size_t __wrap_tracee_read_some(const struct tracee *tracee, uint64_t address, void *to,
                               size_t bytes)
{
    size_t at = address % MEMORY_BYTES;
    (void)tracee;
    memory.reads++;
    if (at >= memory.count)
        return 0;
    if (bytes > memory.count - at)
        bytes = memory.count - at;
    memcpy(to, memory.bytes + at, bytes);
    return bytes;
}

int __wrap_tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes)
{
    return __wrap_tracee_read_some(tracee, address, to, bytes) == bytes ? 0 : -14;
}

int __wrap_tracee_write(const struct tracee *tracee, uint64_t address, const void *from,
                        size_t bytes)
{
    (void)tracee, (void)address, (void)from;
    check(memory.may_write && bytes <= ATTACHED_SITE_BYTES);
    return 0;
}

struct user_regs_struct *__wrap_tracee_registers(struct tracee_thread *thread)
{
    return &thread->registers;
}

/* /dev/null is the executable: the file reader provides its content. */
int __wrap_process_rights_open_mapped(const char *path, struct stat *status)
{
    (void)path;
    memset(status, 0, sizeof(*status));
    return memory.has_executable ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -ENOENT;
}

int __wrap_file_reader_functions(const struct reader_file *file, const char *names, size_t bytes,
                                 size_t count, struct reader_function **functions, bool *is_whole)
{
    *is_whole = true;
    size_t found = memory.count / sizeof(**functions);
    if (found > FUNCTIONS_MAX)
        found = FUNCTIONS_MAX;
    check(file->fd >= 0 && file->path != NULL && bytes > 0 && names[bytes - 1] == 0);
    *functions = calloc(found + 1, sizeof(**functions));
    if (*functions == NULL)
        abort();
    memcpy(*functions, memory.bytes, found * sizeof(**functions));
    /* Within the bounds that the file reader's answers are checked for. */
    for (size_t i = 0; i < found; i++) {
        (*functions)[i].name %= (uint32_t)count;
        (*functions)[i].prefix[READER_PREFIX_BYTES - 1] = 0;
    }
    return (int)found;
}

/* --- the steps of attaching --- */

static void check_located(const struct located *located, const struct tracee *tracee)
{
    static uint8_t code[8192];
    unsigned found = 0;
    check(memchr(located->allocator, 0, sizeof(located->allocator)) != NULL);
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        const struct located_function *function = &located->functions[i];
        struct trampoline trampoline;
        const char *why = NULL;
        if (function->address == 0 || function->is_alias)
            continue;
        found++;
        check(function->name[0] != 0 && memchr(function->name, 0, sizeof(function->name)) != NULL);
        for (int j = 0; j < i; j++)
            check(located->functions[j].address != function->address);
        size_t wanted =
            function->size > 0 && function->size < sizeof(code) ? function->size : sizeof(code);
        size_t got = tracee_read_some(tracee, function->address, code, wanted);
        uint64_t hook = function->address + 0x1000, at = function->address + 0x2000;
        if (trampoline_make(&trampoline, function->address, code, got, hook, at, &why) < 0)
            check(why != NULL);
        else
            check(trampoline.site.length >= 5 /* jmp rel32 */ &&
                  trampoline.site.length <= ATTACHED_SITE_BYTES &&
                  trampoline.code_bytes <= TRAMPOLINE_BYTES);
    }
    check(found > 0);
}

static void look_for_client(const struct process *process, struct tracee *tracee)
{
    struct installed_client client;
    if (!installed_client_find(&client, process, tracee))
        return;
    check(client.params.site_count <= ATTACHED_SITES_MAX);
    installed_client_is_busy(&client, tracee);
    installed_client_is_unused(&client, tracee);
    memory.may_write = true;
    installed_client_restore(&client, tracee);
    memory.may_write = false;
}

static void look(const struct process *process, struct tracee *tracee)
{
    struct attach_outcome outcome = {0};
    struct error error = {0};
    struct located located;
    struct remote_memory remote = {tracee, REMOTE_READS_MAX};
    remote_is_loaded(process, &remote);
    if (locate_system_call(process, tracee) == 0)
        check(tracee->syscall_instruction >= BASE);
    if (locate_functions(&located, process, tracee, &outcome, &error) == 0)
        check_located(&located, tracee);
    look_for_client(process, tracee);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct process_region regions[3] = {
        {.start = BASE,
         .end = BASE + MEMORY_BYTES,
         .readable = true,
         .executable = true,
         .path = "/lib/libc.so.6"},
        {.start = 2 * BASE,
         .end = 2 * BASE + MEMORY_BYTES,
         .readable = true,
         .writable = true,
         .path = "/memfd:" ATTACHED_MEMFD_NAME " (deleted)"},
        {.start = 3 * BASE, .end = 4 * BASE, .readable = true, .writable = true, .path = "[stack]"},
    };
    if (size < HEAD_BYTES || size - HEAD_BYTES > MEMORY_BYTES)
        return 0;
    memory.bytes = data + HEAD_BYTES;
    memory.count = size - HEAD_BYTES;
    memory.reads = 0;
    memory.has_executable = (data[0] & 0x80) != 0;
    struct tracee_thread thread = {.stopped = true, .has_registers = true};
    struct tracee tracee = {.memory_fd = -1, .threads = &thread, .thread_count = 1};
    struct process process = {.regions = regions, .region_count = 3};
    process.moment = (data[0] & 0x40) != 0 ? ATTACH_AT_HELLO : ATTACH_WHILE_IT_RUNS;
    process.header_count = data[0] & 0x1f;
    process.headers = BASE + (data[1] | (uint64_t)data[2] << 8);
    process.vdso = BASE + (data[3] | (uint64_t)data[4] << 8);
    process.symbols = executable_symbols_open(process.pid);
    thread.registers.rip = BASE + (data[5] | (uint64_t)data[6] << 8);
    thread.registers.rsp = BASE + (data[7] | (uint64_t)data[8] << 8);
    look(&process, &tracee);
    executable_symbols_close(process.symbols);
    check(memory.reads <= 2 * (size_t)REMOTE_READS_MAX + 100000);
    return 0;
}
