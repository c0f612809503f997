/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find pymalloc by the interpreter's data, and change its tables.
 *
 * Debug hooks (PYTHONMALLOC=debug) keep a copy of each domain's table behind one letter for the
 * domain: raw, mem, object. From 3.6 on these three follow each other in the data of every build,
 * in use or not. That is what is searched for. The hooks wrap pymalloc if the domains mem and
 * object have equal functions there, and the raw one has others. Builds without a GIL have other
 * functions in each domain.
 */
#include "recorder/attach/python_heap.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/function_names.h"
#include "recorder/attach/inject.h"
#include "recorder/attach/remote_objects.h"
#include "util/process_files.h"
#include "wire/call_page.h"

#define ENVIRONMENT_BYTES_MAX (1u << 20)

/* A debug hooks' table: the domain's letter, then struct PyMemAllocatorEx, which is a context and
 * the functions. */
#define CONTEXT_WORD 1
#define FUNCTIONS_WORD 2
#define DOMAIN_WORDS (FUNCTIONS_WORD + PYMALLOC_WORDS)
#define DEBUG_WORDS (3 * DOMAIN_WORDS)

/* --- finding --- */

/* The interpreter's executable or library. */
struct module {
    uint64_t base;
    Elf64_Phdr headers[PYMALLOC_PROGRAM_HEADERS_MAX];
    unsigned header_count;
};

static bool read_program_headers(struct module *module, const struct tracee *tracee,
                                 uint64_t headers, uint64_t count)
{
    module->header_count = (unsigned)count;
    return count > 0 && count <= PYMALLOC_PROGRAM_HEADERS_MAX &&
           tracee_read(tracee, headers, module->headers, count * sizeof(module->headers[0])) == 0;
}

static bool read_library(struct module *module, const struct tracee *tracee, uint64_t base)
{
    Elf64_Ehdr header;
    module->base = base;
    return tracee_read(tracee, base, &header, sizeof(header)) == 0 &&
           memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           header.e_phentsize == sizeof(module->headers[0]) &&
           read_program_headers(module, tracee, base + header.e_phoff, header.e_phnum);
}

/* Find the module of the interpreter. A static program may have it, too, and only its data show
 * that. */
static bool find_module(struct module *module, const struct process *process,
                        const struct tracee *tracee)
{
    struct remote_memory memory = {tracee, REMOTE_READS_MAX};
    struct remote_object *objects = NULL;
    struct remote_symbol symbol;
    size_t count = 0, i = 0;
    if (remote_objects(process, &memory, &objects, &count) < 0)
        count = 0;
    while (i < count && !remote_symbol_find(&memory, &objects[i], FUNCTION_OF_PYTHON, &symbol))
        i++;
    bool is_executable = count == 0 || (i < count && objects[i].name[0] == 0);
    bool found = false;
    if (is_executable)
        found = remote_executable_base(process, &memory, &module->base) &&
                read_program_headers(module, tracee, process->headers, process->header_count);
    else if (i < count)
        found = read_library(module, tracee, objects[i].base);
    free(objects);
    return found;
}

static bool is_code(const struct module *module, uint64_t address)
{
    for (unsigned i = 0; i < module->header_count; i++) {
        const Elf64_Phdr *segment = &module->headers[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 &&
            address - module->base - segment->p_vaddr < segment->p_memsz)
            return true;
    }
    return false;
}

static bool is_of_domain(const uint64_t *words, char letter)
{
    return (char)(words[0] & 0xff) == letter;
}

/* Return whether the words are the debug hooks' tables, and set *functions to those of the objects'
 * domain if these are pymalloc's. */
static bool are_debug_tables(const struct module *module, const uint64_t words[DEBUG_WORDS],
                             const uint64_t **functions)
{
    const uint64_t *raw = words, *memory = raw + DOMAIN_WORDS, *objects = memory + DOMAIN_WORDS;
    if (!is_of_domain(raw, 'r') || !is_of_domain(memory, 'm') || !is_of_domain(objects, 'o'))
        return false;
    for (unsigned i = FUNCTIONS_WORD; i < DOMAIN_WORDS; i++) {
        if (raw[i] == 0 || memory[i] == 0 || objects[i] == 0)
            return false;
    }
    *functions = objects + FUNCTIONS_WORD;
    bool are_pymallocs = memory[CONTEXT_WORD] == 0 && objects[CONTEXT_WORD] == 0;
    for (unsigned i = FUNCTIONS_WORD; i < DOMAIN_WORDS; i++)
        are_pymallocs &=
            objects[i] == memory[i] && objects[i] != raw[i] && is_code(module, objects[i]);
    if (!are_pymallocs)
        *functions = NULL;
    return true;
}

/* Copy the interpreter's data. Return the number of words, and the copy, which the caller frees. */
static size_t read_data(const struct pymalloc_data *data, const struct tracee *tracee,
                        uint64_t **words)
{
    size_t bytes = data->end - data->start;
    *words = malloc(bytes);
    if (*words == NULL)
        return 0;
    return tracee_read_some(tracee, data->start, *words, bytes) / sizeof(**words);
}

static void find_functions(struct python_heap *heap, const struct module *module,
                           const struct tracee *tracee)
{
    uint64_t *words;
    size_t count = read_data(&heap->data, tracee, &words);
    for (size_t i = 0; i + DEBUG_WORDS <= count; i++) {
        const uint64_t *functions;
        if (!is_of_domain(words + i, 'r') || !are_debug_tables(module, words + i, &functions))
            continue;
        heap->state = functions != NULL ? ATTACH_PYTHON_COUNTED : ATTACH_PYTHON_HAS_OTHER;
        if (functions != NULL)
            memcpy(heap->functions, functions, sizeof(heap->functions));
        break;
    }
    free(words);
}

/* The interpreter prints its statistics of pymalloc only if its tables have pymalloc's functions.
 * Return whether the environment asks for them. */
static bool wants_statistics(pid_t pid)
{
    static const char name[] = "PYTHONMALLOCSTATS=";
    char *environment = malloc(ENVIRONMENT_BYTES_MAX);
    ssize_t length = -ENOMEM;
    bool wanted = false;
    if (environment != NULL)
        length = process_file_read(pid, "environ", environment, ENVIRONMENT_BYTES_MAX);
    for (ssize_t at = 0; at < length && !wanted; at += (ssize_t)strlen(environment + at) + 1)
        wanted = strncmp(environment + at, name, sizeof(name) - 1) == 0 &&
                 environment[at + (ssize_t)sizeof(name) - 1] != 0;
    free(environment);
    return wanted;
}

/* Find the call page that an earlier session has left for these functions. */
static uint64_t find_call_page(const struct process *process, const struct tracee *tracee,
                               const uint64_t functions[PYMALLOC_WORDS])
{
    struct call_page page;
    for (size_t i = 0; i < process->region_count; i++) {
        const struct process_region *region = &process->regions[i];
        if (region->executable && !region->writable &&
            strstr(region->path, "/memfd:" CALL_PAGE_MEMFD_NAME) != NULL &&
            tracee_read(tracee, region->start, &page, sizeof(page)) == 0 &&
            page.magic == CALL_PAGE_MAGIC &&
            memcmp(page.functions, functions, sizeof(page.functions)) == 0)
            return region->start;
    }
    return 0;
}

void python_heap_locate(struct python_heap *heap, const struct process *process,
                        const struct tracee *tracee)
{
    struct module module;
    *heap = (struct python_heap){.state = ATTACH_PYTHON_ABSENT};
    if (!find_module(&module, process, tracee) ||
        !pymalloc_data_find(&heap->data, module.base, module.headers, module.header_count,
                            (uint64_t)sysconf(_SC_PAGESIZE)))
        return;
    find_functions(heap, &module, tracee);
    if (heap->state != ATTACH_PYTHON_COUNTED)
        return;
    if (wants_statistics(process->pid))
        heap->state = ATTACH_PYTHON_PRINTS;
    heap->call_page = find_call_page(process, tracee, heap->functions);
}

/* --- changing --- */

static void make_call_page(struct call_page *page, const uint64_t functions[PYMALLOC_WORDS])
{
    *page = (struct call_page){.magic = CALL_PAGE_MAGIC};
    for (unsigned i = 0; i < PYMALLOC_WORDS; i++) {
        size_t code = offsetof(struct call_page, code) + i * CALL_PAGE_CODE_BYTES;
        size_t target = offsetof(struct call_page, targets) + i * sizeof(page->targets[0]);
        processor_write_call(page->code[i], (uint32_t)(target - code));
        page->targets[i] = page->functions[i] = functions[i];
    }
}

void python_heap_place_calls(struct python_heap *heap, struct tracee *tracee, uint64_t scratch,
                             struct attached_python *params)
{
    struct call_page page;
    if (heap->state != ATTACH_PYTHON_COUNTED)
        return;
    make_call_page(&page, heap->functions);
    if (heap->call_page == 0 && inject_map_page(tracee, scratch, CALL_PAGE_MEMFD_NAME, &page,
                                                sizeof(page), &heap->call_page) < 0) {
        heap->state = ATTACH_PYTHON_FAILED;
        return;
    }
    memcpy(params->functions, heap->functions, sizeof(params->functions));
    params->call_page = heap->call_page;
    params->data = heap->data;
}

/* Replace functions in all tables. The data may be gone: the program may have closed the
 * interpreter's library. */
static int change_tables(const struct pymalloc_data *data, const struct tracee *tracee,
                         const uint64_t from[PYMALLOC_WORDS], const uint64_t to[PYMALLOC_WORDS])
{
    uint64_t *words;
    int code = 0;
    size_t count = read_data(data, tracee, &words);
    for (uint64_t *at = words; words != NULL && code == 0 &&
                               (at = pymalloc_words_search(at, words + count, from)) != NULL;
         at++)
        code = tracee_write(tracee, data->start + (uint64_t)(at - words) * sizeof(*words), to,
                            PYMALLOC_WORDS * sizeof(*to));
    bool has_memory = words != NULL;
    free(words);
    return has_memory ? code : -ENOMEM;
}

static int set_targets(const struct attached_python *params, const struct tracee *tracee,
                       const uint64_t targets[PYMALLOC_WORDS])
{
    return tracee_write(tracee, params->call_page + offsetof(struct call_page, targets), targets,
                        PYMALLOC_WORDS * sizeof(*targets));
}

int python_heap_enter(const struct attached_python *params, const struct tracee *tracee)
{
    uint64_t calls[PYMALLOC_WORDS];
    if (params->call_page == 0)
        return 0;
    call_page_calls(params->call_page, calls);
    int code = set_targets(params, tracee, params->hooks);
    return code < 0 ? code : change_tables(&params->data, tracee, params->functions, calls);
}

int python_heap_leave(const struct attached_python *params, const struct tracee *tracee)
{
    struct call_page page;
    uint64_t calls[PYMALLOC_WORDS];
    /* The parameters are from the process's memory. */
    if (params->call_page == 0 || params->data.start >= params->data.end ||
        params->data.end - params->data.start > PYMALLOC_DATA_BYTES_MAX ||
        tracee_read(tracee, params->call_page, &page, sizeof(page)) < 0 ||
        page.magic != CALL_PAGE_MAGIC ||
        memcmp(page.targets, page.functions, sizeof(page.targets)) == 0)
        return 0;
    call_page_calls(params->call_page, calls);
    int code = change_tables(&params->data, tracee, calls, page.functions);
    return code < 0 ? code : set_targets(params, tracee, page.functions);
}

uint64_t python_heap_call_begin(const struct attached_python *params, uint64_t pc)
{
    uint64_t offset = pc - params->call_page;
    if (params->call_page == 0 || offset >= PYMALLOC_WORDS * CALL_PAGE_CODE_BYTES)
        return 0;
    return pc - offset % CALL_PAGE_CODE_BYTES;
}
