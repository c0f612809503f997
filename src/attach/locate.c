/* SPDX-License-Identifier: Apache-2.0 */
/* Find the functions to patch, and addresses that the client needs. */
#include "attach/locate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/symbols_remote.h"
#include "reader/allocator_names.h"
#include "reader/file_reader.h"
#include "util/base_name.h"
#include "util/regular_file.h"

/* Limits of bytes that are searched for instructions: per mapping, and in total. */
#define CODE_BYTES_MAX (4u << 20)
#define CODE_TOTAL_MAX (1u << 30)

static const char *const names[ATTACHED_FUNCTIONS] = {
    [ATTACHED_MALLOC] = "malloc",
    [ATTACHED_FREE] = "free",
    [ATTACHED_CALLOC] = "calloc",
    [ATTACHED_REALLOC] = "realloc",
    [ATTACHED_REALLOCARRAY] = "reallocarray",
    [ATTACHED_POSIX_MEMALIGN] = "posix_memalign",
    [ATTACHED_ALIGNED_ALLOC] = "aligned_alloc",
    [ATTACHED_MEMALIGN] = "memalign",
    [ATTACHED_VALLOC] = "valloc",
    [ATTACHED_PVALLOC] = "pvalloc",
    [ATTACHED_CFREE] = "cfree",
    [ATTACHED_FREE_SIZED] = "free_sized",
    [ATTACHED_FREE_ALIGNED_SIZED] = "free_aligned_sized",
    [ATTACHED_DLCLOSE] = "dlclose",
    /* In the order of enum cxx_function (src/client/real_allocator.h). */
    [ATTACHED_CXX] = "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

/* jemalloc's names for a release with a size or with flags. The arguments that a hook reads are the
 * same. */
static const struct {
    const char *name;
    enum attached_function function;
} jemalloc_names[] = {
    {"dallocx", ATTACHED_FREE_SIZED},
    {"sdallocx", ATTACHED_FREE_ALIGNED_SIZED},
};

static void take_function(struct located *located, enum attached_function function,
                          const char *name, uint64_t address, uint64_t size)
{
    struct located_function *to = &located->functions[function];
    to->address = address;
    to->size = size;
    snprintf(to->name, sizeof(to->name), "%s", name);
}

/* --- objects of the loader --- */

static void take_exported(struct located *located, struct remote_memory *memory,
                          const struct remote_object *object, bool with_cxx)
{
    int end = with_cxx ? ATTACHED_FUNCTIONS : ATTACHED_CXX;
    for (int i = 0; i < end; i++) {
        struct remote_symbol symbol;
        if (i != ATTACHED_DLCLOSE && remote_symbol_find(memory, object, names[i], &symbol))
            take_function(located, (enum attached_function)i, names[i], symbol.address,
                          symbol.size);
    }
    for (size_t i = 0; i < sizeof(jemalloc_names) / sizeof(jemalloc_names[0]); i++) {
        enum attached_function function = jemalloc_names[i].function;
        struct remote_symbol symbol;
        if (located->functions[function].address == 0 &&
            remote_symbol_find(memory, object, jemalloc_names[i].name, &symbol))
            take_function(located, function, jemalloc_names[i].name, symbol.address, symbol.size);
    }
}

/* Return the first object that defines the function, or NULL. */
static const struct remote_object *first_with(struct remote_memory *memory,
                                              const struct remote_object *objects, size_t count,
                                              const char *name, struct remote_symbol *symbol)
{
    for (size_t i = 0; i < count; i++) {
        if (remote_symbol_find(memory, &objects[i], name, symbol))
            return &objects[i];
    }
    return NULL;
}

static bool locate_in_objects(struct located *located, struct remote_memory *memory,
                              const struct remote_object *objects, size_t count)
{
    struct remote_symbol symbol;
    if (first_with(memory, objects, count, "_dl_find_object", &symbol) != NULL)
        located->dl_find_object = symbol.address;
    if (first_with(memory, objects, count, "dlclose", &symbol) != NULL)
        take_function(located, ATTACHED_DLCLOSE, "dlclose", symbol.address, symbol.size);
    const struct remote_object *allocator = first_with(memory, objects, count, "malloc", &symbol);
    if (allocator == NULL)
        return false;
    /* operator new of another object calls malloc, whose hook sees it. */
    bool with_cxx = first_with(memory, objects, count, "_Znwm", &symbol) == allocator;
    take_exported(located, memory, allocator, with_cxx);
    snprintf(located->allocator, sizeof(located->allocator), "%s", allocator->name);
    return true;
}

/* --- the executable's own symbols --- */

/* Symbols of the executable with an allocator's name. */
struct executable_symbols {
    dev_t device; /* of the file */
    ino_t inode;
    struct reader_function *functions;
    size_t count;
    const char **names; /* indexed by functions[].name */
    char *text;         /* of the names */
};

/* Write all names that are searched for, one after the other, and list them. Return the number of
 * bytes. */
static size_t list_names(char *text, const char **list, size_t *count)
{
    size_t used = 0;
    *count = 0;
    for (size_t i = 0; i <= ALLOCATOR_PREFIXES; i++) {
        const char *prefix = i < ALLOCATOR_PREFIXES ? allocator_prefixes[i] : "";
        int plain = i < ALLOCATOR_PREFIXES ? ATTACHED_DLCLOSE : ATTACHED_FUNCTIONS;
        int end = plain + (int)(sizeof(jemalloc_names) / sizeof(jemalloc_names[0]));
        for (int j = 0; j < end; j++) {
            const char *name = j < plain ? names[j] : jemalloc_names[j - plain].name;
            list[(*count)++] = text + used;
            used += (size_t)sprintf(text + used, "%s%s", prefix, name) + 1;
        }
    }
    list[(*count)++] = text + used;
    return used + (size_t)sprintf(text + used, "_dl_find_object") + 1;
}

#define NAMES_MAX ((ALLOCATOR_PREFIXES + 1) * (ATTACHED_FUNCTIONS + 4))
#define NAME_BYTES 64

void executable_symbols_close(struct executable_symbols *symbols)
{
    if (symbols == NULL)
        return;
    free(symbols->functions);
    free(symbols->names);
    free(symbols->text);
    free(symbols);
}

/* Let the file reader find the functions. Return false if it finds none. */
static bool read_functions(struct executable_symbols *symbols, int fd, const char *path)
{
    symbols->text = calloc(NAMES_MAX, NAME_BYTES);
    symbols->names = calloc(NAMES_MAX, sizeof(*symbols->names));
    if (symbols->text == NULL || symbols->names == NULL)
        return false;
    size_t count, bytes = list_names(symbols->text, symbols->names, &count);
    int found = file_reader_functions(fd, path, symbols->text, bytes, count, &symbols->functions);
    symbols->count = found > 0 ? (size_t)found : 0;
    return found > 0;
}

struct executable_symbols *executable_symbols_open(pid_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return NULL;
    struct executable_symbols *symbols = calloc(1, sizeof(*symbols));
    if (symbols != NULL && !read_functions(symbols, fd, path)) {
        executable_symbols_close(symbols);
        symbols = NULL;
    }
    if (symbols != NULL) {
        symbols->device = status.st_dev;
        symbols->inode = status.st_ino;
    }
    close(fd);
    return symbols;
}

/* Return whether the process still runs the same program. */
static bool runs_same_program(const struct executable_symbols *symbols, pid_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return false;
    close(fd);
    return status.st_dev == symbols->device && status.st_ino == symbols->inode;
}

/* Return the function that this name with the prefix denotes; ATTACHED_FUNCTIONS: none. */
static enum attached_function function_of(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return ATTACHED_FUNCTIONS;
    name += length;
    int end = length == 0 ? ATTACHED_FUNCTIONS : ATTACHED_DLCLOSE;
    for (int i = 0; i < end; i++) {
        if (strcmp(name, names[i]) == 0)
            return (enum attached_function)i;
    }
    for (size_t i = 0; i < sizeof(jemalloc_names) / sizeof(jemalloc_names[0]); i++) {
        if (strcmp(name, jemalloc_names[i].name) == 0)
            return jemalloc_names[i].function;
    }
    return ATTACHED_FUNCTIONS;
}

/* Locate the executable's functions with that prefix. Return false, with nothing changed, if malloc
 * and free are not among them. */
static bool take_with_prefix(struct located *located, const struct executable_symbols *symbols,
                             uint64_t base, const char *prefix)
{
    struct located found = {0};
    for (size_t i = 0; i < symbols->count; i++) {
        const struct reader_function *symbol = &symbols->functions[i];
        const char *name = symbols->names[symbol->name];
        enum attached_function function = function_of(name, prefix);
        if (function != ATTACHED_FUNCTIONS)
            take_function(&found, function, name, base + symbol->value, symbol->size);
        else if (strcmp(name, "_dl_find_object") == 0)
            found.dl_find_object = base + symbol->value;
    }
    if (found.functions[ATTACHED_MALLOC].address == 0 ||
        found.functions[ATTACHED_FREE].address == 0)
        return false;
    /* In a single executable we cannot find out whether operator new calls malloc. libstdc++'s
     * operator new, the usual one, does. */
    memset(&found.functions[ATTACHED_CXX], 0,
           (ATTACHED_FUNCTIONS - ATTACHED_CXX) * sizeof(found.functions[0]));
    if (located->functions[ATTACHED_DLCLOSE].address != 0)
        found.functions[ATTACHED_DLCLOSE] = located->functions[ATTACHED_DLCLOSE];
    if (located->dl_find_object != 0)
        found.dl_find_object = located->dl_find_object;
    *located = found;
    return true;
}

/* Add the allocator functions that the executable defines without exporting them, if it exports its
 * own malloc. */
static void add_unexported(struct located *located, const struct executable_symbols *symbols,
                           uint64_t base)
{
    struct located found = *located;
    bool is_own = false;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct reader_function *symbol = &symbols->functions[i];
        const char *name = symbols->names[symbol->name];
        enum attached_function function = function_of(name, "");
        if (function >= ATTACHED_DLCLOSE)
            continue;
        uint64_t address = base + symbol->value;
        if (function == ATTACHED_MALLOC)
            is_own = address == located->functions[ATTACHED_MALLOC].address;
        else if (found.functions[function].address == 0)
            take_function(&found, function, name, address, symbol->size);
    }
    if (is_own)
        *located = found;
}

static bool locate_in_executable(struct located *located, const struct process *process,
                                 struct remote_memory *memory, bool has_malloc)
{
    const struct executable_symbols *symbols = process->symbols;
    uint64_t base;
    bool found = false;
    if (symbols == NULL || !runs_same_program(symbols, process->pid) ||
        !remote_executable_base(process, memory, &base))
        return false;
    /* An allocator with a prefix is there because the program uses it: prefer it to libc's. */
    for (size_t i = 0; !found && i < ALLOCATOR_PREFIXES; i++)
        found = take_with_prefix(located, symbols, base, allocator_prefixes[i]);
    if (!found && !has_malloc)
        found = take_with_prefix(located, symbols, base, "");
    if (!found && has_malloc)
        add_unexported(located, symbols, base);
    return found;
}

/* --- the vdso, system calls, the stack --- */

static void locate_vdso(struct located *located, const struct process *process,
                        struct remote_memory *memory)
{
    struct remote_object vdso;
    struct remote_symbol symbol;
    if (process->vdso != 0 && remote_object_at(memory, process->vdso, &vdso) &&
        remote_symbol_find(memory, &vdso, "__vdso_clock_gettime", &symbol))
        located->clock_gettime = symbol.address;
}

static uint64_t find_code(const uint8_t *code, size_t bytes, uint64_t address, const void *wanted,
                          size_t wanted_bytes)
{
    const uint8_t *at = memmem(code, bytes, wanted, wanted_bytes);
    return at != NULL ? address + (uint64_t)(at - code) : 0;
}

/* Search a mapping for system call instructions. Return the number of bytes that were searched. */
static size_t find_in_region(const struct process_region *region, struct tracee *tracee)
{
    static const uint8_t call[] = {0x0f, 0x05}, call_and_return[] = {0x0f, 0x05, 0xc3};
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
    size_t bytes = region->end - region->start;
    if (bytes > CODE_BYTES_MAX)
        bytes = CODE_BYTES_MAX;
    uint8_t *code = malloc(bytes);
    if (code == NULL)
        return 0;
    bytes = tracee_read_some(tracee, region->start, code, bytes);
    uint64_t both = find_code(code, bytes, region->start, call_and_return, sizeof(call_and_return));
    uint64_t back = find_code(code, bytes, region->start, sigreturn, sizeof(sigreturn));
    if (both != 0 && back != 0) {
        tracee->syscall_instruction = both;
        tracee->sigreturn = back;
    } else if (tracee->syscall_instruction == 0) {
        tracee->syscall_instruction = find_code(code, bytes, region->start, call, sizeof(call));
    }
    free(code);
    return bytes;
}

int locate_system_call(const struct process *process, struct tracee *tracee)
{
    size_t searched = 0;
    tracee->syscall_instruction = tracee->sigreturn = 0;
    /* Search backwards: the C library has both instructions and is mapped above the executable. */
    for (size_t i = process->region_count;
         i-- > 0 && tracee->sigreturn == 0 && searched < CODE_TOTAL_MAX;) {
        const struct process_region *region = &process->regions[i];
        if (region->executable && region->readable &&
            (region->path[0] == '/' || strcmp(region->path, "[vdso]") == 0))
            searched += find_in_region(region, tracee);
    }
    return tracee->syscall_instruction != 0 ? 0 : -ENOTSUP;
}

static void locate_stack_end(struct located *located, const struct process *process)
{
    for (size_t i = 0; i < process->region_count; i++) {
        if (strcmp(process->regions[i].path, "[stack]") == 0)
            located->stack_end = process->regions[i].end;
    }
}

/* Keep only the first of several names of one address. */
static void drop_aliases(struct located *located)
{
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        for (int j = i + 1; j < ATTACHED_FUNCTIONS; j++) {
            if (located->functions[j].address == located->functions[i].address)
                located->functions[j].address = 0;
        }
    }
}

static void name_executable(struct located *located, const struct process *process)
{
    char path[64], link[4096];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
    ssize_t length = readlink(path, link, sizeof(link) - 1);
    link[length > 0 ? length : 0] = 0;
    snprintf(located->allocator, sizeof(located->allocator), "%.63s", base_name(link));
}

static size_t leave_out_client(struct remote_object *objects, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(objects[i].name, PROCESS_CLIENT_NAME, sizeof(PROCESS_CLIENT_NAME) - 1) != 0)
            objects[kept++] = objects[i];
    }
    return kept;
}

int locate_functions(struct located *located, const struct process *process,
                     const struct tracee *tracee, struct attach_outcome *outcome,
                     struct error *error)
{
    memset(located, 0, sizeof(*located));
    struct remote_memory memory = {tracee, REMOTE_READS_MAX};
    struct remote_object *objects;
    size_t count;
    if (remote_objects(process, &memory, &objects, &count) < 0) {
        free(objects);
        return error_set(error, -ENOMEM, "out of memory");
    }
    if (process->beside_client)
        count = leave_out_client(objects, count);
    bool found = locate_in_objects(located, &memory, objects, count);
    free(objects);
    /* The allocator in a library belongs to the preloaded client. */
    if (process->beside_client && located->allocator[0] != 0)
        found = false;
    if (locate_in_executable(located, process, &memory, found))
        found = true;
    if (!found) {
        outcome->refusal = ATTACH_UNSUPPORTED;
        return error_set(error, -ENOTSUP, "no allocator was found in pid %d: %s", (int)process->pid,
                         count == 0 ? "it is linked statically and has no symbol \"malloc\"; build "
                                      "it without stripping its symbols, or link it dynamically (a "
                                      "Go program has its own profiler, runtime/pprof)"
                                    : "none of its libraries defines malloc");
    }
    if (located->allocator[0] == 0)
        name_executable(located, process);
    drop_aliases(located);
    locate_vdso(located, process, &memory);
    locate_stack_end(located, process);
    return 0;
}
