/* SPDX-License-Identifier: Apache-2.0 */
/* Find the functions to patch, and addresses that the client needs. */
#include "recorder/attach/locate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/families.h"
#include "recorder/attach/function_names.h"
#include "recorder/attach/remote_objects.h"
#include "recorder/reader/allocator_names.h"
#include "recorder/reader/file_reader.h"
#include "recorder/reader/program_debug_file.h"
#include "util/base_name.h"
#include "util/process_files.h"
#include "util/process_rights.h"

/* Limits of bytes that are searched for instructions: per mapping, and in total. */
#define CODE_BYTES_MAX (4u << 20)
#define CODE_TOTAL_MAX (1u << 30)

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
    int end = with_cxx ? ATTACHED_EXTENDED : ATTACHED_CXX;
    for (int i = 0; i < end; i++) {
        struct remote_symbol symbol;
        if (!attached_is_of_libc((unsigned)i) &&
            remote_symbol_find(memory, object, function_names[i], &symbol))
            take_function(located, (enum attached_function)i, function_names[i], symbol.address,
                          symbol.size);
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

/* The extended functions of a library's allocator need not belong to the object with malloc. */
static void take_extended(struct located *located, struct remote_memory *memory,
                          const struct remote_object *objects, size_t count)
{
    for (unsigned library = 0; library < EXTENDED_LIBRARIES; library++) {
        struct remote_symbol symbol;
        const char *key = function_library_keys[library];
        const struct remote_object *object =
            key[0] != 0 ? first_with(memory, objects, count, key, &symbol) : NULL;
        for (int i = 0; object != NULL && i < EXTENDED_FUNCTIONS; i++) {
            enum attached_function function = (enum attached_function)(ATTACHED_EXTENDED + i);
            if (function_library(function) == library &&
                remote_symbol_find(memory, object, function_names[function], &symbol))
                take_function(located, function, function_names[function], symbol.address,
                              symbol.size);
        }
        if (object != NULL && library == EXTENDED_OF_MIMALLOC &&
            remote_symbol_find(memory, object, EXTENDED_HEAP_VISIT, &symbol))
            located->heap_visit = symbol.address;
    }
}

/* Take the functions by which a program restricts its system calls. A preloaded library has hooks
 * of the same names, which call these. */
static void take_restricting(struct located *located, struct remote_memory *memory,
                             const struct remote_object *libc)
{
    static const enum attached_function functions[] = {ATTACHED_PRCTL, ATTACHED_SYSCALL};
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        const char *name = function_names[functions[i]];
        struct remote_symbol symbol;
        if (remote_symbol_find(memory, libc, name, &symbol))
            take_function(located, functions[i], name, symbol.address, symbol.size);
    }
}

static bool locate_in_objects(struct located *located, struct remote_memory *memory,
                              const struct remote_object *objects, size_t count)
{
    struct remote_symbol symbol;
    if (first_with(memory, objects, count, "_dl_find_object", &symbol) != NULL)
        located->dl_find_object = symbol.address;
    const struct remote_object *libc = first_with(memory, objects, count, "exit", &symbol);
    if (libc != NULL) {
        located->exit = symbol.address;
        take_restricting(located, memory, libc);
    }
    if (first_with(memory, objects, count, "pthread_exit", &symbol) != NULL)
        located->pthread_exit = symbol.address;
    if (first_with(memory, objects, count, "dlclose", &symbol) != NULL)
        take_function(located, ATTACHED_DLCLOSE, "dlclose", symbol.address, symbol.size);
    const struct remote_object *allocator = first_with(memory, objects, count, "malloc", &symbol);
    if (allocator == NULL)
        return false;
    /* operator new of another object calls malloc, whose hook sees it. */
    bool with_cxx = first_with(memory, objects, count, "_Znwm", &symbol) == allocator;
    take_exported(located, memory, allocator, with_cxx);
    take_extended(located, memory, objects, count);
    snprintf(located->allocator, sizeof(located->allocator), "%s", allocator->name);
    located->is_shared = located->allocator[0] != 0;
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
    struct located_family families[FAMILIES_MAX];
    unsigned family_count;
};

void executable_symbols_close(struct executable_symbols *symbols)
{
    if (symbols == NULL)
        return;
    free(symbols->functions);
    free(symbols->names);
    free(symbols->text);
    free(symbols);
}

/* Let the file reader find the functions, in the debug file if the program is stripped. Return
 * false if it finds none. */
static bool read_functions(struct executable_symbols *symbols, struct reader_file *file)
{
    symbols->text = calloc(FUNCTION_NAMES_MAX, FUNCTION_NAME_BYTES);
    symbols->names = calloc(FUNCTION_NAMES_MAX, sizeof(*symbols->names));
    if (symbols->text == NULL || symbols->names == NULL)
        return false;
    size_t count, bytes = function_names_list(symbols->text, symbols->names, &count);
    bool is_whole;
    int found =
        file_reader_functions(file, symbols->text, bytes, count, &symbols->functions, &is_whole);
    struct program_file program;
    struct program_debug_file debug = {.fd = -1};
    if (found >= 0 && !is_whole &&
        program_debug_file_read(file, FILE_READER_DEADLINE_MS, &program, &debug) == 0 &&
        debug.fd >= 0) {
        free(symbols->functions);
        file->debug_fd = debug.fd;
        found = file_reader_functions(file, symbols->text, bytes, count, &symbols->functions,
                                      &is_whole);
    }
    symbols->count = found > 0 ? (size_t)found : 0;
    symbols->family_count =
        families_read(symbols->families, file, symbols->functions, symbols->count, symbols->names);
    if (debug.fd >= 0)
        close(debug.fd);
    return found > 0;
}

struct executable_symbols *executable_symbols_open(pid_t pid)
{
    struct main_program program;
    struct stat status;
    main_program_find(&program, pid);
    int fd = process_rights_open_mapped(program.path, &status);
    if (fd < 0)
        return NULL;
    struct executable_symbols *symbols = calloc(1, sizeof(*symbols));
    struct reader_file file = {.path = program.path, .fd = fd, .debug_fd = -1};
    if (symbols != NULL && !read_functions(symbols, &file)) {
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
static bool runs_same_program(const struct executable_symbols *symbols,
                              const struct main_program *program)
{
    struct stat status;
    int fd = process_rights_open_mapped(program->path, &status);
    if (fd < 0)
        return false;
    close(fd);
    return status.st_dev == symbols->device && status.st_ino == symbols->inode;
}

/* Locate the executable's own malloc and what belongs to it. Return false, with nothing changed, if
 * it has none. A static program may never call free(). */
static bool take_own(struct located *located, const struct executable_symbols *symbols,
                     uint64_t base)
{
    struct located found = {0};
    for (size_t i = 0; i < symbols->count; i++) {
        const struct reader_function *symbol = &symbols->functions[i];
        const char *name = symbols->names[symbol->name];
        enum attached_function function = function_of_name(name, FUNCTION_NO_PREFIX);
        if (function != ATTACHED_FUNCTIONS)
            take_function(&found, function, name, base + symbol->value, symbol->size);
        else if (strcmp(name, "_dl_find_object") == 0)
            found.dl_find_object = base + symbol->value;
        else if (strcmp(name, "exit") == 0)
            found.exit = base + symbol->value;
        else if (strcmp(name, "pthread_exit") == 0)
            found.pthread_exit = base + symbol->value;
    }
    if (found.functions[ATTACHED_MALLOC].address == 0)
        return false;
    /* The usual operator new, libstdc++'s, calls malloc. Those of tcmalloc and mimalloc have other
     * names, too. jemalloc's are added later. */
    memset(&found.functions[ATTACHED_CXX], 0,
           (ATTACHED_EXTENDED - ATTACHED_CXX) * sizeof(found.functions[0]));
    for (unsigned i = ATTACHED_DLCLOSE; attached_is_of_libc(i); i++)
        if (located->functions[i].address != 0)
            found.functions[i] = located->functions[i];
    if (located->dl_find_object != 0)
        found.dl_find_object = located->dl_find_object;
    if (located->exit != 0)
        found.exit = located->exit;
    if (located->pthread_exit != 0)
        found.pthread_exit = located->pthread_exit;
    memcpy(found.families, located->families, sizeof(found.families));
    found.family_count = located->family_count;
    *located = found;
    return true;
}

/* Add the allocator functions that the executable defines without exporting them, if it exports its
 * own malloc. Return whether it does. */
static bool add_unexported(struct located *located, const struct executable_symbols *symbols,
                           uint64_t base)
{
    struct located found = *located;
    bool is_own = false;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct reader_function *symbol = &symbols->functions[i];
        const char *name = symbols->names[symbol->name];
        enum attached_function function = function_of_name(name, FUNCTION_NO_PREFIX);
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
    return is_own;
}

static bool has_symbol(const struct executable_symbols *symbols, const char *name)
{
    for (size_t i = 0; i < symbols->count; i++) {
        if (strcmp(symbols->names[symbols->functions[i].name], name) == 0)
            return true;
    }
    return false;
}

/* Add the executable's operator new and delete if they are jemalloc's, which do not call malloc. */
static void add_jemallocs_new(struct located *located, const struct executable_symbols *symbols,
                              uint64_t base)
{
    if (!has_symbol(symbols, FUNCTION_OF_JEMALLOCS_NEW))
        return;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct reader_function *symbol = &symbols->functions[i];
        const char *name = symbols->names[symbol->name];
        enum attached_function function = function_of_name(name, FUNCTION_NO_PREFIX);
        if (function >= ATTACHED_CXX && function < ATTACHED_EXTENDED &&
            located->functions[function].address == 0)
            take_function(located, function, name, base + symbol->value, symbol->size);
    }
}

/* What an executable's extended functions can do. */
struct extended_found {
    struct located located;
    bool can_allocate;
    bool is_only_rust; /* and none but Rust's functions can */
    bool has_tokens;
    size_t prefix; /* of its jemalloc; FUNCTION_NO_PREFIX: none was found */
};

/* `uncounted`: a library whose functions do not count. */
static void find_extended(struct extended_found *found, const struct executable_symbols *symbols,
                          uint64_t base, enum extended_library uncounted)
{
    *found = (struct extended_found){.is_only_rust = true, .prefix = FUNCTION_NO_PREFIX};
    bool is_default_rust = has_symbol(symbols, ALLOCATOR_RUSTS_DEFAULT); /* it calls malloc */
    for (size_t i = 0; i < symbols->count; i++) {
        const struct reader_function *symbol = &symbols->functions[i];
        const char *name = symbols->names[symbol->name];
        uint64_t address = base + symbol->value;
        if (strcmp(name, EXTENDED_HEAP_VISIT) == 0)
            found->located.heap_visit = address;
        for (size_t prefix = 0; prefix <= FUNCTION_NO_PREFIX; prefix++) {
            enum attached_function function = function_of_name(name, prefix);
            if (function < ATTACHED_EXTENDED || function == ATTACHED_FUNCTIONS ||
                function_library(function) == uncounted ||
                (is_default_rust && function_library(function) == EXTENDED_OF_RUST))
                continue;
            if (prefix != FUNCTION_NO_PREFIX) {
                if (found->prefix != FUNCTION_NO_PREFIX && found->prefix != prefix)
                    continue; /* of two copies of jemalloc, one */
                found->prefix = prefix;
            }
            take_function(&found->located, function, name, address, symbol->size);
            found->has_tokens |= function_library(function) == EXTENDED_OF_TOKEN ||
                                 function_library(function) == EXTENDED_OF_FAST_TOKEN;
            if (allocator_name_allocates(name)) {
                found->can_allocate = true;
                found->is_only_rust &= function_library(function) == EXTENDED_OF_RUST;
            }
        }
    }
}

/*
 * Add the executable's extended functions. They may stand beside a library's malloc: nothing shows
 * which of both the program uses, or that it uses one only, so both count. (Rust's mimalloc crate
 * calls nothing else, and what C code in the same program requests comes from the C library.) Only
 * Rust's own functions often lead to that malloc. They are not needed then, unless the preloaded
 * client waits (`at_hello`) because they lead elsewhere. Return whether the executable can
 * allocate.
 */
static bool add_extended(struct located *located, const struct extended_found *found, bool has_own,
                         bool at_hello)
{
    bool can_allocate = found->can_allocate || (found->has_tokens && has_own);
    if (!can_allocate || (found->is_only_rust && located->is_shared && !has_own && !at_hello))
        return false;
    for (int i = ATTACHED_EXTENDED; i < ATTACHED_FUNCTIONS; i++) {
        if (found->located.functions[i].address != 0)
            located->functions[i] = found->located.functions[i];
    }
    if (found->located.heap_visit != 0)
        located->heap_visit = found->located.heap_visit;
    located->has_others = found->can_allocate && located->is_shared;
    return true;
}

/* Return the library whose functions in the executable do not count. From 3.13 on CPython contains
 * mimalloc. It takes objects from that only if told so, or without a GIL, and compilers copy its
 * functions into their callers: the few calls that are left say nothing. EXTENDED_LIBRARIES: there
 * is none. */
static enum extended_library uncounted_library(const struct executable_symbols *symbols)
{
    return has_symbol(symbols, FUNCTION_OF_PYTHON) ? EXTENDED_OF_MIMALLOC : EXTENDED_LIBRARIES;
}

static bool locate_in_executable(struct located *located, const struct process *process,
                                 struct remote_memory *memory,
                                 const struct remote_object *executable, bool has_malloc)
{
    const struct executable_symbols *symbols = process->symbols;
    struct extended_found extended;
    uint64_t base;
    bool found = false, at_hello = process->moment == ATTACH_AT_HELLO;
    if (symbols == NULL || !runs_same_program(symbols, &process->program) ||
        !remote_executable_base(process, memory, &base))
        return false;
    enum extended_library uncounted = uncounted_library(symbols);
    families_take(located, symbols->families, symbols->family_count, base, memory, executable,
                  uncounted == EXTENDED_OF_MIMALLOC ? FAMILY_MIMALLOC : FAMILY_KINDS);
    /* At a hello, the program has a malloc of its own, exported or not. */
    if (!has_malloc || (at_hello && located->is_shared))
        found = take_own(located, symbols, base);
    if (!found && has_malloc)
        found = add_unexported(located, symbols, base);
    find_extended(&extended, symbols, base, uncounted);
    if (found || extended.prefix != FUNCTION_NO_PREFIX)
        add_jemallocs_new(located, symbols, base);
    return add_extended(located, &extended, found, at_hello) || found;
}

/* --- the vdso, system calls, the stack --- */

static void locate_vdso(struct located *located, const struct process *process,
                        struct remote_memory *memory)
{
    struct remote_object vdso;
    struct remote_symbol symbol;
    if (process->vdso != 0 && remote_object_at(memory, process->vdso, &vdso) &&
        remote_symbol_find(memory, &vdso, PROCESSOR_VDSO_CLOCK, &symbol))
        located->clock_gettime = symbol.address;
}

/* Return the address of the first place with this code, or 0. */
static uint64_t find_code(const uint8_t *code, size_t bytes, uint64_t address,
                          struct processor_code wanted)
{
    const uint8_t *at = memmem(code, bytes, wanted.bytes, wanted.count);
    while (at != NULL && (size_t)(at - code) % PROCESSOR_CODE_ALIGNMENT != 0) {
        size_t next = (size_t)(at - code) + 1;
        at = memmem(code + next, bytes - next, wanted.bytes, wanted.count);
    }
    return at != NULL ? address + (uint64_t)(at - code) : 0;
}

/* Addresses of code in the process; 0: not found. */
struct call_code {
    uint64_t call, call_and_return, sigreturn;
};

/* Search a mapping for system call instructions. Return the number of bytes that were searched. */
static size_t find_in_region(const struct process_region *region, const struct tracee *tracee,
                             struct call_code *found)
{
    size_t bytes = region->end - region->start;
    if (bytes > CODE_BYTES_MAX)
        bytes = CODE_BYTES_MAX;
    uint8_t *code = malloc(bytes);
    if (code == NULL)
        return 0;
    bytes = tracee_read_some(tracee, region->start, code, bytes);
    if (found->call_and_return == 0)
        found->call_and_return = find_code(code, bytes, region->start, processor_call_and_return);
    if (found->sigreturn == 0)
        found->sigreturn = find_code(code, bytes, region->start, processor_sigreturn);
    if (found->call == 0)
        found->call = find_code(code, bytes, region->start, processor_call);
    free(code);
    return bytes;
}

/* Return whether the mapping belongs to an attached client, which will be unmapped. */
static bool is_client(const struct process_region *region)
{
    return strstr(region->path, "/memfd:" ATTACHED_MEMFD_NAME) != NULL;
}

int locate_system_call(const struct process *process, struct tracee *tracee)
{
    struct call_code found = {0};
    size_t searched = 0;
    /* Search backwards: the vdso and the C library are mapped above the executable. */
    for (size_t i = process->region_count; i-- > 0 &&
                                           (found.call_and_return == 0 || found.sigreturn == 0) &&
                                           searched < CODE_TOTAL_MAX;) {
        const struct process_region *region = &process->regions[i];
        if (region->executable && region->readable &&
            ((region->path[0] == '/' && !is_client(region)) || strcmp(region->path, "[vdso]") == 0))
            searched += find_in_region(region, tracee, &found);
    }
    bool has_return = found.call_and_return != 0 && found.sigreturn != 0;
    tracee->syscall_instruction = has_return ? found.call_and_return : found.call;
    tracee->sigreturn = has_return ? found.sigreturn : 0;
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
static void mark_aliases(struct located *located)
{
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        for (int j = i + 1; j < ATTACHED_FUNCTIONS && located->functions[i].address != 0; j++) {
            if (located->functions[j].address == located->functions[i].address)
                located->functions[j].is_alias = true;
        }
    }
}

/* Mark functions that throw if the one that the client would call in their place is missing. */
static void mark_throwing(struct located *located)
{
    for (int i = ATTACHED_CXX; i < ATTACHED_FUNCTIONS; i++) {
        unsigned nothrow = function_nothrow_form(i);
        located->functions[i].only_throws =
            nothrow != 0 && located->functions[nothrow].address == 0;
    }
}

static void name_executable(struct located *located, const struct process *process)
{
    snprintf(located->allocator, sizeof(located->allocator), "%.63s",
             base_name(process->program.file));
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

/* Refuse the process: no allocator was found. `is_static`: it has no list of objects. */
static int locate_refuse(const struct process *process, bool is_static,
                         struct attach_outcome *outcome, struct error *error)
{
    struct stat status;
    struct program_file program;
    struct program_debug_file debug;
    char reason[PROGRAM_MISSING_BYTES] = "none of its libraries defines malloc";
    outcome->refusal = ATTACH_UNSUPPORTED;
    const char *path = process->program.path;
    int fd = is_static ? process_rights_open_mapped(path, &status) : -1;
    const struct reader_file file = {.path = path, .fd = fd, .debug_fd = -1};
    if (fd >= 0) {
        if (program_debug_file_read(&file, FILE_READER_DEADLINE_MS, &program, &debug) == 0)
            program_debug_file_explain(&program, debug.path, reason, sizeof(reason));
        if (debug.fd >= 0)
            close(debug.fd);
        close(fd);
    }
    return error_set(error, -ENOTSUP, "no allocator was found in pid %d%s: %s", (int)process->pid,
                     is_static ? ", which is linked statically" : "", reason);
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
    if (process->moment == ATTACH_AT_HELLO)
        count = leave_out_client(objects, count);
    bool found = locate_in_objects(located, &memory, objects, count);
    families_locate(located, &memory, objects, count);
    bool in_executable =
        locate_in_executable(located, process, &memory, count > 0 ? &objects[0] : NULL, found);
    /* A library's allocator alone is the preloaded client's. */
    bool is_clients = process->moment == ATTACH_AT_HELLO && located->is_shared;
    found = in_executable || (found && !is_clients);
    free(objects);
    if (!found && !remote_is_loaded(process, &memory)) {
        outcome->refusal = ATTACH_BUSY;
        return error_set(error, -EAGAIN,
                         "pid %d has just begun its program, and its loader has not loaded the "
                         "libraries yet, its allocator among them: try again",
                         (int)process->pid);
    }
    if (!found)
        return locate_refuse(process, count == 0, outcome, error);
    families_leave_located(located);
    if (located->allocator[0] == 0)
        name_executable(located, process);
    mark_throwing(located);
    mark_aliases(located);
    locate_vdso(located, process, &memory);
    locate_stack_end(located, process);
    return 0;
}
