/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read the symbol tables of one ELF file once, turn them into a sorted table of address ranges
 * without overlap, and answer look-ups by binary search.
 *
 * Names come from the first of these that has any:
 *   1. .symtab of the file
 *   2. .symtab of its separate debug file, /usr/lib/debug/.build-id/xx/yyy.debug, if it has the
 *      same build id
 *   3. .dynsym, together with the .symtab inside .gnu_debugdata, which omits the names of .dynsym
 *
 * An address gets a name only if a symbol covers it. Symbols without a size (hand-written assembly)
 * extend to the next symbol of their section. If several symbols start at one address, the choice
 * does not depend on their order in the file: see is_better().
 *
 * Files are untrusted: elfutils checks what it returns, everything else is checked here. Files that
 * are opened here are read, not mapped: a file that shrinks causes an error, not a signal. Passed
 * descriptors are mapped, which is faster: they are only used in the file reader, a process that
 * may die.
 *
 * Not done here: demangling, lines and inlined functions, and names for PLT stubs (no return
 * address is in one).
 */
#include "symbols/symbols.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/debugdata.h"
#include "symbols/elf_source.h"
#include "util/array.h"
#include "util/hex.h"
#include "util/sort_keys.h"
#include "util/sorted_search.h"

#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"
#define BUILD_ID_LENGTH_MAX 64
/* Bounds the comparison in a file with a million aliases of a million letters. */
#define COMPARED_LENGTH_MAX 4096

struct symbol {
    uint64_t start, end; /* end == start: the file contains no size */
    uint64_t section_end;
    const char *name;
    unsigned char type, binding;
};

/* The name from this address up to the next range's address (NULL: unknown). */
struct symbol_range {
    uint64_t address;
    const char *name;
};

struct symbol_array {
    struct symbol *items;
    size_t count, capacity;
};

#define SYMBOL_SOURCES 3 /* the file, its debug file, its .gnu_debugdata */

struct symbol_file {
    struct symbol_range *ranges;
    size_t range_count;
    struct elf_source source; /* of the file, if it was opened here */
    bool is_passed;           /* the caller passed descriptors: no other file is opened */
    int debug_fd;
    Elf *elfs[SYMBOL_SOURCES]; /* they own the names */
    void *debugdata;           /* .gnu_debugdata, unpacked */
    char **stripped_names;     /* names without their "@VERSION" */
    size_t stripped_count, stripped_capacity;
};

/* --- collecting --- */

/* Return the length of a name without its "@VERSION", at most COMPARED_LENGTH_MAX. */
static size_t name_length(const char *name)
{
    size_t length = strnlen(name, COMPARED_LENGTH_MAX);
    const char *at = memchr(name, '@', length);
    return at == NULL || at == name ? length : (size_t)(at - name);
}

/* Return whether a NOTYPE symbol marks something other than a function's start. */
static bool is_marker(const char *name)
{
    return name[0] == '$' || strncmp(name, ".L", 2) == 0;
}

/* The section of the last symbol: most symbols are in .text. */
struct code_section {
    unsigned index;
    bool holds_code;
    uint64_t start, end;
};

static bool section_holds_code(Elf *elf, unsigned index, struct code_section *section)
{
    if (section->index == index)
        return section->holds_code;
    GElf_Shdr header;
    Elf_Scn *found = elf_getscn(elf, index);
    *section = (struct code_section){.index = index};
    if (found == NULL || gelf_getshdr(found, &header) == NULL)
        return false;
    section->start = header.sh_addr;
    section->holds_code = (header.sh_flags & SHF_EXECINSTR) != 0 &&
                          !__builtin_add_overflow(header.sh_addr, header.sh_size, &section->end);
    return section->holds_code;
}

/* Return whether the symbol names code. If so, fill *symbol except its name. */
static bool symbol_describes_code(Elf *elf, const GElf_Sym *entry, struct code_section *section,
                                  struct symbol *symbol)
{
    unsigned char type = GELF_ST_TYPE(entry->st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return false;
    if (entry->st_shndx == SHN_UNDEF || entry->st_shndx >= SHN_LORESERVE ||
        !section_holds_code(elf, entry->st_shndx, section) || entry->st_value < section->start ||
        entry->st_value >= section->end)
        return false;

    uint64_t room = section->end - entry->st_value;
    symbol->start = entry->st_value;
    symbol->end = entry->st_value + (entry->st_size < room ? entry->st_size : room);
    symbol->section_end = section->end;
    symbol->type = type;
    symbol->binding = GELF_ST_BIND(entry->st_info);
    return true;
}

/* Return the string table up to its last terminated string, or NULL. */
static const char *string_table(Elf *elf, size_t section_index, size_t *size)
{
    Elf_Scn *section = elf_getscn(elf, section_index);
    GElf_Shdr header;
    if (section == NULL || gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_STRTAB)
        return NULL;
    Elf_Data *data = elf_getdata(section, NULL);
    if (data == NULL || data->d_buf == NULL || data->d_size == 0)
        return NULL;
    const char *strings = data->d_buf;
    *size = data->d_size;
    while (*size > 0 && strings[*size - 1] != '\0')
        (*size)--;
    return strings;
}

/* Append the code symbols of the file's only table of this type. Return 0 also if it has none. */
static int collect_table(Elf *elf, GElf_Word table_type, struct symbol_array *array)
{
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != table_type)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        size_t entry_size = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT), strings_size = 0;
        const char *strings = string_table(elf, header.sh_link, &strings_size);
        if (data == NULL || entry_size == 0 || strings == NULL)
            continue;
        struct code_section code = {0};
        size_t count = data->d_size / entry_size;
        for (size_t i = 1; i < count && i <= INT32_MAX; i++) {
            GElf_Sym entry;
            struct symbol symbol = {0};
            if (gelf_getsym(data, (int)i, &entry) == NULL || entry.st_name >= strings_size ||
                !symbol_describes_code(elf, &entry, &code, &symbol))
                continue;
            symbol.name = strings + entry.st_name;
            /* The names of functions are not read yet: they are most of the file's bytes. */
            if (entry.st_name == 0 || (symbol.type == STT_NOTYPE && is_marker(symbol.name)))
                continue;
            if (ARRAY_ADD(&array->items, &array->count, &array->capacity, symbol) < 0)
                return -ENOMEM;
        }
        return 0;
    }
    return 0;
}

/* --- .gnu_debugdata --- */

static int collect_debugdata(struct symbol_file *file, Elf *elf, struct symbol_array *array)
{
    size_t size;
    file->debugdata = debugdata_unpack(elf, DEBUGDATA_BYTES_MAX, &size);
    if (file->debugdata == NULL)
        return 0;
    file->elfs[2] = elf_memory(file->debugdata, size);
    if (file->elfs[2] == NULL || elf_kind(file->elfs[2]) != ELF_K_ELF)
        return 0;
    return collect_table(file->elfs[2], SHT_SYMTAB, array);
}

/* --- the separate debug file --- */

static bool build_id_is(Elf *elf, const uint8_t *build_id, size_t length)
{
    const void *own;
    ssize_t own_length = dwelf_elf_gnu_build_id(elf, &own);
    return own_length > 0 && (size_t)own_length == length && memcmp(own, build_id, length) == 0;
}

/* Return a descriptor, or -1 if there is no such file. */
static int open_debug_file(const uint8_t *build_id, size_t length)
{
    char path[sizeof(DEBUG_DIRECTORY) + 2 * BUILD_ID_LENGTH_MAX + sizeof("//.debug")];
    char hex[2 * BUILD_ID_LENGTH_MAX + 1];
    hex_write(build_id, length, hex);
    snprintf(path, sizeof(path), DEBUG_DIRECTORY "/%.2s/%s.debug", hex, hex + 2);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static int collect_debug_file(struct symbol_file *file, struct symbol_array *array)
{
    const void *build_id;
    ssize_t length = dwelf_elf_gnu_build_id(file->elfs[0], &build_id);
    if (length < 2 || length > BUILD_ID_LENGTH_MAX)
        return 0;
    int fd = file->is_passed ? file->debug_fd : open_debug_file(build_id, (size_t)length);
    if (fd < 0)
        return 0;
    int result = 0;
    Elf *elf = elf_begin(fd, file->is_passed ? ELF_C_READ_MMAP : ELF_C_READ, NULL);
    if (elf != NULL && elf_kind(elf) == ELF_K_ELF && build_id_is(elf, build_id, (size_t)length)) {
        file->elfs[1] = elf;
        result = collect_table(elf, SHT_SYMTAB, array);
    } else {
        elf_end(elf);
    }
    if (!file->is_passed)
        close(fd);
    return result;
}

/* --- ordering --- */

static unsigned leading_underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

static int binding_rank(unsigned char binding)
{
    if (binding == STB_GLOBAL || binding == STB_GNU_UNIQUE)
        return 0;
    return binding == STB_WEAK ? 1 : 2;
}

/*
 * Compare symbols at one address: the name that people know best wins. A function precedes a label,
 * a symbol with a size one without, global precedes weak, weak precedes local, fewer leading
 * underscores precede more (malloc, not __libc_malloc), and shorter names precede longer ones. The
 * letters decide at last, so that the choice is always the same.
 */
static bool is_better(const struct symbol *a, const struct symbol *b)
{
    int difference = (a->type == STT_NOTYPE) - (b->type == STT_NOTYPE);
    if (difference == 0)
        difference = (a->end == a->start) - (b->end == b->start);
    if (difference == 0)
        difference = binding_rank(a->binding) - binding_rank(b->binding);
    if (difference == 0)
        difference = (int)leading_underscores(a->name) - (int)leading_underscores(b->name);
    if (difference != 0)
        return difference < 0;
    size_t a_length = name_length(a->name), b_length = name_length(b->name);
    if (a_length != b_length)
        return a_length < b_length;
    return memcmp(a->name, b->name, a_length) < 0;
}

/* The symbols by address, the best one of each address: indexes in an array, which is larger than
 * they are and is not moved. */
struct symbol_order {
    struct symbol *items;
    struct sort_key *keys;
    size_t count;
};

static struct symbol *symbol_at(const struct symbol_order *order, size_t place)
{
    return &order->items[order->keys[place].index];
}

/* Sort the symbols by address and keep the best one of each address. */
static int order_symbols(const struct symbol_array *array, struct symbol_order *order)
{
    size_t count = array->count, kept = 0;
    struct sort_key *keys = reallocarray(NULL, count, 2 * sizeof(*keys));
    if (count > UINT32_MAX || keys == NULL) {
        free(keys);
        return -ENOMEM;
    }
    *order = (struct symbol_order){.items = array->items, .keys = keys};
    for (size_t i = 0; i < count; i++)
        keys[i] = (struct sort_key){array->items[i].start, (uint32_t)i};
    sort_keys(keys, keys + count, count);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || keys[kept - 1].key != keys[i].key)
            keys[kept++] = keys[i];
        else if (is_better(&array->items[keys[i].index], symbol_at(order, kept - 1)))
            keys[kept - 1] = keys[i];
    }
    order->count = kept;
    return 0;
}

/* Drop labels inside functions, and give symbols without a size an end. */
static void resolve_symbols(struct symbol_order *order)
{
    size_t kept = 0;
    uint64_t covered = 0;
    for (size_t i = 0; i < order->count; i++) {
        const struct symbol *symbol = symbol_at(order, i);
        if (symbol->end == symbol->start && symbol->start < covered)
            continue;
        if (symbol->end > covered)
            covered = symbol->end;
        order->keys[kept++] = order->keys[i];
    }
    for (size_t i = 0; i < kept; i++) {
        struct symbol *symbol = symbol_at(order, i);
        if (symbol->end != symbol->start)
            continue;
        symbol->end = symbol->section_end;
        if (i + 1 < kept && order->keys[i + 1].key < symbol->end)
            symbol->end = order->keys[i + 1].key;
    }
    order->count = kept;
}

static void append_range(struct symbol_file *file, uint64_t address, const char *name)
{
    if (file->range_count > 0) {
        struct symbol_range *last = &file->ranges[file->range_count - 1];
        if (last->address == address) {
            last->name = name;
            return;
        }
    }
    file->ranges[file->range_count++] = (struct symbol_range){address, name};
}

/* Close the open symbols that end at or before `address`. An outer symbol continues where an inner
 * one ends. */
static size_t close_ranges(struct symbol_file *file, const struct symbol **open, size_t depth,
                           uint64_t address)
{
    while (depth > 0 && open[depth - 1]->end <= address) {
        uint64_t end = open[--depth]->end;
        while (depth > 0 && open[depth - 1]->end <= end)
            depth--;
        append_range(file, end, depth > 0 ? open[depth - 1]->name : NULL);
    }
    return depth;
}

/* Turn sorted symbols, which may nest, into ranges, which do not: at most one range per start and
 * one per end. */
static int build_ranges(struct symbol_file *file, const struct symbol_order *order)
{
    file->ranges = calloc(2 * order->count + 1, sizeof(*file->ranges));
    const struct symbol **open = calloc(order->count + 1, sizeof(const struct symbol *));
    if (file->ranges == NULL || open == NULL) {
        free(open);
        return -ENOMEM;
    }
    size_t depth = 0;
    for (size_t i = 0; i < order->count; i++) {
        const struct symbol *symbol = symbol_at(order, i);
        depth = close_ranges(file, open, depth, symbol->start);
        open[depth++] = symbol;
        append_range(file, symbol->start, symbol->name);
    }
    close_ranges(file, open, depth, UINT64_MAX);
    free(open);
    return 0;
}

/* --- opening --- */

static int collect_all(struct symbol_file *file, struct symbol_array *array)
{
    int result = collect_table(file->elfs[0], SHT_SYMTAB, array);
    if (result < 0 || array->count > 0)
        return result;
    result = collect_debug_file(file, array);
    if (result < 0 || array->count > 0)
        return result;
    result = collect_table(file->elfs[0], SHT_DYNSYM, array);
    if (result < 0)
        return result;
    return collect_debugdata(file, file->elfs[0], array);
}

static int check_file(Elf *elf, const char *name, const uint8_t *build_id, size_t build_id_length,
                      struct error *error)
{
    GElf_Ehdr header;
    if (elf == NULL || elf_kind(elf) != ELF_K_ELF || gelf_getehdr(elf, &header) == NULL)
        return error_set(error, -ENOEXEC, "%s: not an ELF file", name);
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return error_set(error, -ENOEXEC, "%s: neither a program nor a shared library", name);
    if (build_id_length != 0 && !build_id_is(elf, build_id, build_id_length))
        return error_set(error, -ESTALE,
                         "%s: another build than the one that ran (the build ids differ)", name);
    return 0;
}

/* Read all tables of elfs[0]. After an error, close the file and return NULL. */
static struct symbol_file *read_tables(struct symbol_file *file, const char *name,
                                       const uint8_t *build_id, size_t build_id_length,
                                       struct error *error)
{
    struct symbol_array array = {0};
    struct symbol_order order = {0};
    int result = check_file(file->elfs[0], name, build_id, build_id_length, error);
    if (result == 0) {
        result = collect_all(file, &array);
        if (result == 0 && array.count > 0)
            result = order_symbols(&array, &order);
        if (result == 0) {
            resolve_symbols(&order);
            result = build_ranges(file, &order);
        }
        if (result < 0)
            error_set(error, result, "%s: no memory for its symbols", name);
    }
    free(order.keys);
    free(array.items);
    if (result < 0) {
        symbol_file_close(file);
        return NULL;
    }
    return file;
}

static struct symbol_file *new_file(const char *name, struct error *error)
{
    struct symbol_file *file = calloc(1, sizeof(*file));
    elf_version(EV_CURRENT);
    if (file == NULL)
        error_set(error, -ENOMEM, "%s: no memory for its symbols", name);
    else
        file->source.fd = -1;
    return file;
}

struct symbol_file *symbol_file_open_fds(int fd, int debug_fd, const uint8_t *build_id,
                                         size_t build_id_length, struct error *error)
{
    char name[32];
    struct stat status;
    snprintf(name, sizeof(name), "file descriptor %d", fd);
    struct symbol_file *file = new_file(name, error);
    if (file == NULL)
        return NULL;
    file->is_passed = true;
    file->debug_fd = debug_fd;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        error_set(error, -EINVAL, "%s: not a regular file", name);
        symbol_file_close(file);
        return NULL;
    }
    file->elfs[0] = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    return read_tables(file, name, build_id, build_id_length, error);
}

struct symbol_file *symbol_file_open(const char *path, const uint8_t *build_id,
                                     size_t build_id_length, struct error *error)
{
    struct symbol_file *file = new_file(path, error);
    if (file == NULL)
        return NULL;
    int result = elf_source_open(&file->source, path, false);
    if (result < 0) {
        error_set(error, result == -ENOEXEC ? -EINVAL : result, "%s: %s%s", path,
                  result == -ENOEXEC ? "not a regular file" : "cannot be opened: ",
                  result == -ENOEXEC ? "" : strerror(-result));
        symbol_file_close(file);
        return NULL;
    }
    file->elfs[0] = file->source.elf;
    return read_tables(file, path, build_id, build_id_length, error);
}

void symbol_file_close(struct symbol_file *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->stripped_count; i++)
        free(file->stripped_names[i]);
    free(file->stripped_names);
    for (size_t i = SYMBOL_SOURCES; i-- > 0;) {
        if (file->elfs[i] != file->source.elf)
            elf_end(file->elfs[i]);
    }
    elf_source_close(&file->source);
    free(file->debugdata);
    free(file->ranges);
    free(file);
}

/* Return `name`, or a copy without its "@VERSION", valid until the file is closed. */
static const char *name_without_version(struct symbol_file *file, const char *name)
{
    const char *at = strchr(name, '@');
    if (at == NULL || at == name)
        return name;
    char *copy = strndup(name, (size_t)(at - name));
    if (copy == NULL || ARRAY_ADD(&file->stripped_names, &file->stripped_count,
                                  &file->stripped_capacity, copy) < 0) {
        free(copy);
        return name;
    }
    return copy;
}

const char *symbol_file_lookup(struct symbol_file *file, uint64_t address)
{
    size_t after = SORTED_SEARCH(file->range_count, i, file->ranges[i].address <= address);
    struct symbol_range *range = after > 0 ? &file->ranges[after - 1] : NULL;
    if (range == NULL || range->name == NULL)
        return NULL;
    range->name = name_without_version(file, range->name);
    return range->name;
}
