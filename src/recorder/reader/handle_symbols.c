/* SPDX-License-Identifier: Apache-2.0 */
/* Handle requests for symbols: names of addresses, functions by name, and segments. */
#include "recorder/reader/handlers.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/symbols.h"
#include "recorder/reader/allocator_names.h"
#include "recorder/reader/symbol_tables.h"
#include "util/array.h"

#define PAGE_BYTES UINT64_C(4096)

/* --- names --- */

/* Files that are mapped. They stay until the reader ends: later dumps ask for more
 * names. */
static struct named_file {
    uint32_t number;
    struct symbol_file *symbols;
} * named;
static size_t named_count, named_capacity;

/* Find or open a file's symbols. Return 0 or a negative errno. */
static int symbols_of(const struct reader_call *call, struct symbol_file **symbols)
{
    const struct reader_request *request = &call->request;
    struct error error = {.code = -ENOMEM};
    for (size_t i = 0; i < named_count; i++) {
        *symbols = named[i].symbols;
        if (named[i].number == request->file)
            return 0;
    }
    if (call->fd < 0)
        return -EBADF;
    if (ARRAY_RESERVE(&named, &named_capacity, named_count, 1) < 0)
        return -ENOMEM;
    *symbols = symbol_file_open_fds(call->fd, call->debug_fd, request->build_id,
                                    request->build_id_length, &error);
    if (*symbols == NULL)
        return error.code;
    named[named_count++] = (struct named_file){request->file, *symbols};
    return 0;
}

/* Append the addresses' names. Addresses of one function are adjacent and share its name. */
static int append_names(const char *const *names, size_t count, struct reader_result *result)
{
    size_t used = count * sizeof(uint32_t), capacity = 0;
    const char *last = NULL;
    uint32_t last_place = 0;
    if (array_reserve(&result->bytes, &capacity, 0, used + count * 32, 1) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *name = names[i];
        if (name != NULL && name != last) {
            size_t length = strlen(name) + 1;
            if (used + length > READER_REPLY_BYTES_MAX)
                return -E2BIG;
            if (array_reserve(&result->bytes, &capacity, used, length, 1) < 0)
                return -ENOMEM;
            last_place = (uint32_t)(used - count * sizeof(uint32_t)) + 1;
            memcpy((char *)result->bytes + used, name, length);
            used += length;
            last = name;
        }
        ((uint32_t *)result->bytes)[i] = name != NULL ? last_place : 0;
    }
    result->length = used;
    return 0;
}

int handle_names(const struct reader_call *call, struct reader_result *result)
{
    struct symbol_file *symbols;
    size_t count = call->request.bytes / sizeof(uint64_t);
    int code = symbols_of(call, &symbols);
    if (code < 0 || count == 0)
        return code;
    const char **names = calloc(count, sizeof(*names));
    code = names == NULL ? -ENOMEM : symbol_file_names(symbols, call->bytes, count, names);
    if (code == 0)
        code = append_names(names, count, result);
    free(names);
    return code;
}

/* --- functions by name --- */

struct wanted {
    const char *name;
    uint32_t index;
};

static int compare_wanted(const void *left, const void *right)
{
    return strcmp(((const struct wanted *)left)->name, ((const struct wanted *)right)->name);
}

/* Return the names of a request, sorted. Return NULL: no memory, or the request has no names. */
static struct wanted *sort_wanted(const struct reader_call *call, size_t *count)
{
    const char *names = call->bytes;
    size_t bytes = call->request.bytes;
    *count = 0;
    if (bytes == 0 || names[bytes - 1] != 0)
        return NULL;
    struct wanted *wanted = calloc(bytes, sizeof(*wanted));
    for (size_t at = 0; wanted != NULL && at < bytes; at += strlen(names + at) + 1) {
        wanted[*count] = (struct wanted){names + at, (uint32_t)*count};
        ++*count;
    }
    if (wanted != NULL)
        qsort(wanted, *count, sizeof(*wanted), compare_wanted);
    return wanted;
}

struct search {
    const struct wanted *wanted;              /* sorted */
    size_t wanted_count, ending_count, found; /* names that begin with '*' are the first ones */
    size_t found_by_ending;
    struct reader_function *functions;
};

/* Return the wanted ending that the name has after a prefix, which is copied; NULL: none. */
static const struct wanted *find_ending(const struct search *search, const char *name,
                                        char prefix[READER_PREFIX_BYTES])
{
    size_t length = strlen(name);
    for (size_t i = 0; i < search->ending_count; i++) {
        const char *ending = search->wanted[i].name + 1;
        size_t ending_length = strlen(ending);
        if (length <= ending_length || length - ending_length >= READER_PREFIX_BYTES ||
            memcmp(name + length - ending_length, ending, ending_length) != 0)
            continue;
        memcpy(prefix, name, length - ending_length);
        return &search->wanted[i];
    }
    return NULL;
}

static void take_function(void *context, const char *name, const GElf_Sym *symbol, unsigned type,
                          enum program_symbols source)
{
    struct search *search = context;
    (void)type, (void)source;
    if (search->found == READER_FUNCTIONS_MAX || symbol->st_value == 0 ||
        symbol->st_shndx == SHN_UNDEF || GELF_ST_TYPE(symbol->st_info) != STT_FUNC)
        return;
    const struct wanted key = {.name = allocator_name_demangle(name)};
    const struct wanted *hit = bsearch(&key, search->wanted, search->wanted_count,
                                       sizeof(*search->wanted), compare_wanted);
    struct reader_function function = {.value = symbol->st_value, .size = symbol->st_size};
    /* A program may have any number of names with the endings: leave room for the others. */
    if (hit == NULL && search->found_by_ending < READER_FUNCTIONS_MAX / 2 &&
        GELF_ST_BIND(symbol->st_info) != STB_LOCAL) {
        hit = find_ending(search, name, function.prefix);
        search->found_by_ending += hit != NULL;
    }
    if (hit == NULL)
        return;
    function.name = hit->index;
    search->functions[search->found++] = function;
}

int handle_functions(const struct reader_call *call, struct reader_result *result)
{
    struct search search = {.functions = calloc(READER_FUNCTIONS_MAX, sizeof(*search.functions))};
    struct wanted *wanted = sort_wanted(call, &search.wanted_count);
    struct symbol_tables tables = {0};
    Elf *elf = elf_begin(call->fd, ELF_C_READ_MMAP, NULL);
    search.wanted = wanted;
    while (search.ending_count < search.wanted_count && wanted[search.ending_count].name[0] == '*')
        search.ending_count++;
    if (wanted != NULL && elf != NULL && search.functions != NULL)
        tables = symbol_tables_read(elf, call->debug_fd, take_function, &search);
    result->bytes = search.functions;
    result->length = search.found * sizeof(*search.functions);
    elf_end(elf);
    free(wanted);
    return tables.is_whole;
}

/* --- segments --- */

/* Return p_vaddr - p_offset of the executable segment that contains this offset of the file. */
static uint64_t read_bias(Elf *elf, uint64_t offset)
{
    uint64_t bias = 0;
    size_t count = 0;
    GElf_Phdr header;
    if (elf_getphdrnum(elf, &count) != 0)
        count = 0;
    for (size_t i = 0; i < count && i < UINT16_MAX; i++) {
        if (gelf_getphdr(elf, (int)i, &header) != NULL && header.p_type == PT_LOAD &&
            (header.p_flags & PF_X) != 0 && offset >= (header.p_offset & ~(PAGE_BYTES - 1)) &&
            offset < header.p_offset + header.p_filesz)
            bias = header.p_vaddr - header.p_offset;
    }
    return bias;
}

int handle_segment(const struct reader_call *call, struct reader_result *result)
{
    GElf_Ehdr header;
    const void *build_id;
    struct reader_segment *segment = calloc(1, sizeof(*segment));
    Elf *elf = elf_begin(call->fd, ELF_C_READ, NULL);
    bool is_program = elf != NULL && elf_kind(elf) == ELF_K_ELF &&
                      gelf_getehdr(elf, &header) != NULL &&
                      (header.e_type == ET_EXEC || header.e_type == ET_DYN);
    result->bytes = segment;
    result->length = sizeof(*segment);
    if (segment != NULL && is_program) {
        segment->bias = read_bias(elf, call->request.argument);
        ssize_t length = dwelf_elf_gnu_build_id(elf, &build_id);
        if (length > 0 && length <= READER_BUILD_ID_MAX) {
            memcpy(segment->build_id, build_id, (size_t)length);
            segment->build_id_length = (uint32_t)length;
        }
    }
    elf_end(elf);
    return segment == NULL ? -ENOMEM : is_program ? 0 : -ENOEXEC;
}
