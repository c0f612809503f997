/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile content of /proc for all its readers: daemon, attaching, symbols, the client.
 *
 * First byte even: the input is the text of every file. Odd: files in the kernel's format, for a
 * process with names, numbers and mappings from the input. Then the readers must return what the
 * process has: no name, whatever its length or content, may produce a mapping, number or parent
 * that does not exist.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/modules/module_object.h"
#include "client/system.h"
#include "profile/symbols/live_files.h"
#include "recorder/attach/process.h"
#include "recorder/attach/seccomp_filter.h"
#include "recorder/dump/memory_maps.h"
#include "recorder/jit/code_ranges.h"
#include "recorder/jit/jit_files.h"
#include "recorder/processes/access.h"
#include "recorder/processes/other_profiler.h"
#include "recorder/processes/process_info.h"
#include "recorder/timeline/process_watch.h"
#include "util/process_files.h"

/* The client reads its own maps by direct system calls. */
static long read_own_maps(long number, void *to, size_t bytes);
#undef system_call_make
#define system_call_make(call, count, a, b, c, d, e, f)                                            \
    ((void)(a),                                                                                    \
     read_own_maps(client_calls[call].number, (void *)(uintptr_t)(b), (size_t)(uintptr_t)(c)))
#include "client/modules/module_maps.c"
#include "client/own_files.c"

#define PROCESS_FD (1 << 24) /* stands for the process's directory */
#define PID 1000000000       /* above the kernel's maximum */
#define DIRECTORY "/proc/1000000000/"
#define MAPPINGS_MAX 12u
#define NAME_BYTES_MAX 12000u
#define TEXT_BYTES_MAX (1u << 18)
#define INPUT_BYTES_MAX (1u << 12)
#define PAGE 4096u

struct text {
    const char *name;
    int fd;
    size_t count;
    char bytes[TEXT_BYTES_MAX];
};

static struct text files[] = {
    {.name = "maps"},    {.name = "smaps"}, {.name = "status"},  {.name = "stat"},
    {.name = "cmdline"}, {.name = "comm"},  {.name = "environ"}, {.name = "statm"},
    {.name = "auxv"},    {.name = "exe"},
};
enum { MAPS, SMAPS, STATUS, STAT, CMDLINE, COMM, ENVIRON, STATM, AUXV, EXE, FILES };

struct mapping {
    uint64_t start, end, offset, rss_kb, swap_kb;
    unsigned device, inode;
    char flags[5];
    char *name; /* as the kernel escapes it */
};

/* The content of the files. */
static struct {
    struct mapping mappings[MAPPINGS_MAX];
    char names[MAPPINGS_MAX][NAME_BYTES_MAX];
    size_t count;
    char comm[16];
    pid_t parent, tracer, inner_pid;
    char state;
    unsigned children_faults, uids[4], threads, seccomp, filters;
    uint64_t anonymous_kb, swap_kb;
} process;

static size_t client_at; /* position of the client in its maps */

static void fail(int line)
{
    fprintf(stderr, "check in line %d fails\n", line);
    abort();
}

#define check(good) ((good) ? (void)0 : fail(__LINE__))

/* --- replacements for the kernel --- */

FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__real_fopen64(const char *path, const char *mode);
int __wrap_open64(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
int __wrap_openat64(int directory, const char *path, int flags, ...);
int __real_openat64(int directory, const char *path, int flags, ...);
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                                const struct iovec *from, unsigned long from_count,
                                unsigned long flags);

static struct text *file_of(const char *path)
{
    size_t length = strlen(DIRECTORY);
    for (size_t i = 0; strncmp(path, DIRECTORY, length) == 0 && i < FILES; i++) {
        if (strcmp(path + length, files[i].name) == 0)
            return &files[i];
    }
    return NULL;
}

FILE *__wrap_fopen64(const char *path, const char *mode)
{
    struct text *file = file_of(path);
    if (file == NULL)
        return __real_fopen64(path, mode);
    return file->count > 0 ? fmemopen(file->bytes, file->count, "r")
                           : __real_fopen64("/dev/null", "re");
}

int __wrap_open64(const char *path, int flags, ...)
{
    struct text *file = file_of(path);
    if (file == NULL)
        return __real_open64(path, flags, 0600);
    if (file->fd <= 0)
        file->fd = memfd_create(file->name, MFD_CLOEXEC);
    if (file->fd < 0 || ftruncate(file->fd, 0) < 0 ||
        pwrite(file->fd, file->bytes, file->count, 0) != (ssize_t)file->count ||
        lseek(file->fd, 0, SEEK_SET) != 0)
        abort();
    return dup(file->fd);
}

int __wrap_openat64(int directory, const char *path, int flags, ...)
{
    char whole[64];
    if (directory != PROCESS_FD)
        return __real_openat64(directory, path, flags);
    snprintf(whole, sizeof(whole), DIRECTORY "%s", path);
    if (file_of(whole) != NULL)
        return __wrap_open64(whole, flags);
    errno = ENOENT;
    return -1;
}

ssize_t __wrap_readlink(const char *path, char *to, size_t bytes)
{
    const struct text *comm = &files[COMM];
    size_t count = comm->count < bytes ? comm->count : bytes;
    (void)path;
    memcpy(to, comm->bytes, count);
    return (ssize_t)count;
}

static const struct mapping *mapping_at(uint64_t start)
{
    for (size_t i = 0; i < process.count; i++) {
        if (process.mappings[i].start == start)
            return &process.mappings[i];
    }
    return NULL;
}

/* The daemon looks for a ring at the start of a mapping with a ring's name. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                                const struct iovec *from, unsigned long from_count,
                                unsigned long flags)
{
    (void)pid, (void)to, (void)to_count, (void)from_count, (void)flags;
    if (process.count > 0) {
        const struct mapping *mapping = mapping_at((uintptr_t)from->iov_base);
        check(mapping != NULL && mapping->offset == 0 && strstr(mapping->name, "memfd:") != NULL);
    }
    errno = ESRCH;
    return -1;
}

static long read_own_maps(long number, void *to, size_t bytes)
{
    const struct text *maps = &files[MAPS];
    if (number != SYS_read)
        return 0;
    if (bytes > maps->count - client_at)
        bytes = maps->count - client_at;
    memcpy(to, maps->bytes + client_at, bytes);
    client_at += bytes;
    return (long)bytes;
}

/* --- files in the kernel's format --- */

struct input {
    const uint8_t *at, *end;
};

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && input->at < input->end; i++)
        value = value << 8 | *input->at++;
    return value;
}

__attribute__((format(printf, 2, 3))) static void say(struct text *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof(file->bytes) - file->count;
    int printed = vsnprintf(file->bytes + file->count, room, format, arguments);
    va_end(arguments);
    check(printed >= 0 && (size_t)printed < room);
    file->count += (size_t)printed;
}

static void append(char *name, const char *text)
{
    if (strlen(name) + strlen(text) < NAME_BYTES_MAX)
        strcat(name, text);
}

/* Take a path: its bytes, sometimes repeated, with line ends as the kernel escapes them. */
static void take_path(struct input *input, char *name)
{
    size_t length = take(input, 1), drawn = take(input, 1), count = 0;
    size_t times = drawn > 192 ? drawn * 2 : 1;
    size_t left = (size_t)(input->end - input->at);
    size_t used = strlen(name);
    if (length > left)
        length = left;
    for (size_t i = 0; i < times * length && count + used + 16 < NAME_BYTES_MAX; i++) {
        char byte = (char)input->at[i % length];
        if (byte == '\n')
            count += (size_t)sprintf(name + used + count, "\\012");
        else if (byte != 0)
            name[used + count++] = byte;
    }
    name[used + count] = 0;
    input->at += length;
}

static void take_name(struct input *input, char *name)
{
    static const char *const names[] = {
        "",
        "[heap]",
        "[stack]",
        "[vdso]",
        "[anon:heap profile]",
        "/memfd:heapprofd",
        "/dev/zero",
        "/tmp/jit-12.dump",
        "/memfd:heapprofd_ring",
        "/usr/lib/libheapprofd_client.so.1",
    };
    uint8_t kind = (uint8_t)take(input, 1);
    strcpy(name, names[kind % 10]);
    if (kind & 0x40 && (name[0] == 0 || name[0] == '/')) {
        append(name, "/");
        take_path(input, name);
    }
    if (kind & 0x80 && name[0] == '/')
        append(name, " (deleted)");
}

static void take_mappings(struct input *input)
{
    uint64_t at = 0x10000;
    process.count = take(input, 1) % (MAPPINGS_MAX + 1);
    for (size_t i = 0; i < process.count; i++) {
        struct mapping *mapping = &process.mappings[i];
        uint64_t flags = take(input, 1);
        at += take(input, 2) % 256 * PAGE << (take(input, 1) % 4 * 8);
        mapping->start = at;
        at += (1 + take(input, 2)) * PAGE;
        mapping->end = at;
        mapping->offset = take(input, 2) % 4 * PAGE;
        mapping->device = flags >> 6;
        mapping->inode = (unsigned)take(input, 1) % 4 * 1000;
        mapping->rss_kb = take(input, 2);
        mapping->swap_kb = take(input, 1);
        snprintf(mapping->flags, sizeof(mapping->flags), "%c%c%c%c", flags & 1 ? 'r' : '-',
                 flags & 2 ? 'w' : '-', flags & 4 ? 'x' : '-', flags & 8 ? 's' : 'p');
        mapping->name = process.names[i];
        take_name(input, mapping->name);
    }
}

static void say_mapping(struct text *file, const struct mapping *mapping)
{
    size_t before = file->count;
    say(file, "%08llx-%08llx %s %08llx %02x:%02x %u ", (unsigned long long)mapping->start,
        (unsigned long long)mapping->end, mapping->flags, (unsigned long long)mapping->offset,
        mapping->device, 1, mapping->inode);
    if (mapping->name[0] != 0)
        say(file, "%*s%s", (int)(before + 73 - file->count), "", mapping->name);
    say(file, "\n");
}

static void say_mappings(void)
{
    for (size_t i = 0; i < process.count; i++) {
        const struct mapping *mapping = &process.mappings[i];
        say_mapping(&files[MAPS], mapping);
        say_mapping(&files[SMAPS], mapping);
        say(&files[SMAPS],
            "Size: %14llu kB\nRss: %15llu kB\nAnonymous: %9llu kB\nSwap: %14llu kB\n"
            "VmFlags: rd wr mr mw me ac sd \n",
            (unsigned long long)(mapping->end - mapping->start) / 1024,
            (unsigned long long)mapping->rss_kb, (unsigned long long)mapping->rss_kb,
            (unsigned long long)mapping->swap_kb);
    }
}

static void take_comm(struct input *input)
{
    size_t length = take(input, 1) % 16, count = 0;
    for (size_t i = 0; i < length; i++) {
        char byte = (char)take(input, 1);
        if (byte != 0)
            process.comm[count++] = byte;
    }
    process.comm[count] = 0;
    say(&files[COMM], "%s\n", process.comm);
}

static void say_stat(struct input *input)
{
    process.parent = (pid_t)take(input, 2);
    process.children_faults = (unsigned)take(input, 1);
    say(&files[STAT], "%d (%s) S %d 1 1 0 -1 4194560 5 %u 0 0 0 0 0 0 20 0 1 0 %u 100 20 1 1\n",
        PID, process.comm, process.parent, process.children_faults, 12345u);
}

static void say_status(struct input *input)
{
    struct text *file = &files[STATUS];
    say(file, "Name:\t");
    for (const char *at = process.comm; *at != 0; at++) {
        if (*at == '\n')
            say(file, "\\n");
        else if (*at == '\\')
            say(file, "\\\\");
        else
            say(file, "%c", *at);
    }
    for (int i = 0; i < 4; i++)
        process.uids[i] = (unsigned)take(input, 1);
    process.tracer = (pid_t)take(input, 1) / 128;
    process.state = take(input, 1) % 2 ? 'S' : 'Z';
    say(file, "\nUmask:\t0022\nState:\t%c (state)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\n",
        process.state, PID, PID, process.parent);
    say(file, "TracerPid:\t%d\nUid:\t%u\t%u\t%u\t%u\nGid:\t1\t1\t1\t1\nFDSize:\t64\nGroups:\t",
        process.tracer, process.uids[0], process.uids[1], process.uids[2], process.uids[3]);
    size_t groups = take(input, 1);
    for (size_t i = groups > 192 ? groups * 8 : groups % 8; i > 0; i--)
        say(file, "%zu ", 1000000 + i);
    process.inner_pid = 1 + (pid_t)take(input, 1);
    process.anonymous_kb = take(input, 3);
    process.swap_kb = take(input, 2);
    process.threads = 1 + (unsigned)take(input, 1) % 4;
    process.seccomp = (unsigned)take(input, 1) % 3;
    process.filters = (unsigned)take(input, 1);
    say(file, "\nNStgid:\t%d\t%d\nNSpid:\t%d\nKthread:\t0\nVmPeak:\t 99 kB\nVmSize:\t 99 kB\n", PID,
        process.inner_pid, PID);
    say(file,
        "VmRSS:\t 77 kB\nRssAnon:\t%8llu kB\nRssFile:\t 1 kB\nVmSwap:\t%8llu kB\nThreads:\t%u\n",
        (unsigned long long)process.anonymous_kb, (unsigned long long)process.swap_kb,
        process.threads);
    say(file, "CapPrm:\t%016x\nCapEff:\t%016x\nSeccomp:\t%u\nSeccomp_filters:\t%u\n", 0, 0,
        process.seccomp, process.filters);
}

static void make_files(struct input *input)
{
    Elf64_auxv_t vector[2] = {{.a_type = AT_PHDR, .a_un.a_val = 0x1040}, {.a_type = AT_NULL}};
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                         .e_machine = EM_X86_64};
    for (int i = 0; i < FILES; i++)
        files[i].count = 0;
    take_mappings(input);
    say_mappings();
    take_comm(input);
    say_stat(input);
    say_status(input);
    say(&files[STATM], "%u %u 5 0 0 0 0\n", (unsigned)take(input, 2), (unsigned)take(input, 2));
    memcpy(files[AUXV].bytes, vector, files[AUXV].count = sizeof(vector));
    memcpy(files[EXE].bytes, &header, files[EXE].count = sizeof(header));
    size_t left = (size_t)(input->end - input->at);
    memcpy(files[CMDLINE].bytes, input->at, files[CMDLINE].count = left);
    memcpy(files[ENVIRON].bytes, input->at, files[ENVIRON].count = left);
}

static void make_same(const uint8_t *data, size_t size)
{
    process.count = 0;
    for (int i = 0; i < FILES; i++)
        memcpy(files[i].bytes, data, files[i].count = size);
}

/* --- the readers --- */

static void read_regions(bool exact)
{
    struct process read = {.pid = PID};
    int code = process_read_regions(&read);
    if (exact) {
        check(code == (process.count > 0 ? 0 : -ESRCH) && read.region_count == process.count);
        for (size_t i = 0; i < process.count; i++) {
            const struct process_region *region = &read.regions[i];
            const struct mapping *mapping = &process.mappings[i];
            check(region->start == mapping->start && region->end == mapping->end &&
                  region->offset == mapping->offset &&
                  region->writable == (mapping->flags[1] == 'w') &&
                  region->executable == (mapping->flags[2] == 'x') &&
                  strncmp(region->path, mapping->name, sizeof(region->path) - 1) == 0);
        }
    }
    process_clear(&read);
}

static void look_before_attaching(bool exact)
{
    struct attach_outcome outcome = {0};
    struct error error = {0};
    struct process read;
    int code = process_read(&read, PID, true, &outcome, &error);
    bool has_ended = process.state == 'Z' && process.threads <= 1;
    if (exact && (has_ended || process.tracer != 0))
        check(code == (has_ended ? -ESRCH : -EBUSY));
    else if (exact && process.count > 0)
        check(code == 0 && read.headers == 0x1040);
    process_clear(&read);
    struct client_filter_verdict verdict = {0};
    seccomp_filter_check(PID, true, CALL_ATTACHED, &verdict, &error);
}

static void read_code(bool exact)
{
    struct code_ranges ranges = {0};
    if (code_ranges_read(&ranges, PID) < 0)
        return;
    for (size_t i = 0; exact && i < ranges.count; i++) {
        const struct code_range *range = &ranges.items[i];
        const struct mapping *mapping = mapping_at(range->start);
        check(mapping != NULL && range->end > range->start);
        if (range->path != 0)
            check(strcmp(ranges.texts + range->path, mapping->name) == 0);
    }
    code_ranges_clear(&ranges);
}

static int check_live_file(void *context, const char *path)
{
    unsigned long long start, end;
    const char *asked = context;
    if (sscanf(path, DIRECTORY "map_files/%llx-%llx", &start, &end) != 2 || process.count == 0)
        return 0;
    const struct mapping *mapping = mapping_at(start);
    check(mapping != NULL && mapping->end == end &&
          strncmp(mapping->name, asked, strlen(asked)) == 0);
    return 0;
}

static void read_live_files(void)
{
    pid_t pid = PID;
    char path[NAME_BYTES_MAX] = "/dev/zero";
    for (size_t i = 0; i < process.count; i++) {
        strcpy(path, process.mappings[i].name);
        live_files_each(&pid, 1, path, check_live_file, path);
    }
    live_files_each(&pid, 1, path, check_live_file, path);
}

static void read_memory(bool exact)
{
    struct memory_maps maps;
    struct memory_part parts[MEMORY_KINDS];
    if (memory_maps_read(&maps, DIRECTORY "smaps") < 0)
        return;
    check(!exact || maps.count == process.count);
    for (size_t i = 0; exact && i < maps.count; i++)
        check(maps.items[i].start == process.mappings[i].start &&
              maps.items[i].end == process.mappings[i].end &&
              maps.items[i].rss_bytes == process.mappings[i].rss_kb * 1024 &&
              maps.items[i].swap_bytes == process.mappings[i].swap_kb * 1024);
    memory_maps_classify(&maps, 8u << 20);
    memory_maps_sum(&maps, parts);
    memory_maps_clear(&maps);
}

static bool is_of_object(const struct mapping *mapping)
{
    return mapping->inode != 0 || mapping->flags[2] == 'x';
}

static void read_as_client(bool exact)
{
    struct module_object object;
    const struct mapping *mapping = &process.mappings[process.count / 2];
    uint64_t pc = process.count > 0 ? mapping->start + 1 : 0x1001;
    client_at = 0;
    bool found = module_maps_find(pc, &object);
    if (!exact || process.count == 0)
        return;
    check(found == is_of_object(mapping));
    check(object.start <= pc && object.end > pc);
    if (found)
        check(mapping_at(object.start) != NULL);
    /* No object reaches into a range without objects. */
    for (size_t i = 0; !found && i < process.count; i++)
        check(!is_of_object(&process.mappings[i]) || process.mappings[i].end <= object.start ||
              process.mappings[i].start >= object.end);
}

static void read_info(bool exact)
{
    struct process_info info;
    struct process_memory memory;
    if (process_info_read(&info, PID) == 0) {
        check(info.argument_count <= PROCESS_ARGUMENTS_MAX &&
              strlen(info.comm) < sizeof(info.comm));
        for (size_t i = 0; i < info.argument_count; i++)
            check(info.arguments[i] >= info.argument_bytes &&
                  info.arguments[i] <= info.argument_bytes + info.argument_length);
        check(process_info_name(&info) != NULL);
        process_info_matches(&info, "a*b?[c");
        process_info_refresh(&info, -1);
        struct error error;
        check(access_check(&info, &error) == 0); /* its maps are accessible */
    }
    process_info_clear(&info);
    int fd = process_file_open(PID, "statm");
    process_memory_read(fd, &memory);
    close(fd);
    bool mentioned = process_info_file_contains(PID, "maps", "memfd:heapprofd");
    struct text *maps = &files[MAPS];
    check(mentioned == (memmem(maps->bytes, maps->count, "memfd:heapprofd", 15) != NULL));
    uint64_t anonymous_kb = process_info_anonymous_kb(PID);
    uint32_t restrictions = process_info_restrictions(PID);
    if (!exact)
        return;
    check(process_info_parent(PID) == process.parent);
    check(process_info_had_children(PID) == (process.children_faults > 0));
    check(anonymous_kb == process.anonymous_kb + process.swap_kb);
    check(restrictions == (process.seccomp << 16 | process.filters));
}

static void read_user(bool exact)
{
    struct jit_files jit;
    jit_files_open(&jit, PID);
    if (exact)
        check(jit.inner_pid == process.inner_pid && jit.uids[0] == process.uids[0] &&
              jit.uids[3] == process.uids[3]);
    jit_files_close(&jit);
}

static void read_counters(bool exact)
{
    struct trace_writer *writer = trace_writer_open(-1);
    struct process_watch watch = {.directory = PROCESS_FD, .pid = PID};
    struct trace_memory_point point;
    bool known = process_watch_memory(&watch, &point);
    check(known == (point.vm_rss_kb != TRACE_UNKNOWN));
    if (exact)
        check(known && point.rss_anon_kb == process.anonymous_kb &&
              point.vm_swap_kb == process.swap_kb && point.vm_size_kb == 99);
    if (writer == NULL)
        return;
    process_watch_faults(&watch, writer);
    process_watch_slowly(&watch, writer, "/nowhere");
    trace_writer_close(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > INPUT_BYTES_MAX)
        return 0;
    bool exact = data[0] & 1;
    struct input input = {data + 1, data + size};
    if (exact)
        make_files(&input);
    else
        make_same(data + 1, size - 1);
    read_regions(exact);
    look_before_attaching(exact);
    read_code(exact);
    read_live_files();
    read_memory(exact);
    read_as_client(exact);
    read_info(exact);
    read_user(exact);
    read_counters(exact);
    other_profiler_of(PID);
    return 0;
}
