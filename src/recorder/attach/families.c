/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search the symbols of objects for the keys of families. The process runs, and its memory may hold
 * anything: a table that does not fit its bounds is left out.
 */
#include "recorder/attach/families.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/attach/function_names.h"

#define PREFIX_BYTES 32u
#define NAME_BYTES 64u
#define SYMBOLS_MAX (1u << 20)
#define STRINGS_MAX (64u << 20)

/* Requests to the file reader. An executable may have thousands of keys without a family. */
#define READ_FAMILIES_MAX (2 * FAMILIES_MAX)

struct row {
    char name[28];
    uint16_t nothrow; /* EXTENDED_FUNCTIONS: it does not throw */
};

#define EXTENDED__ EXTENDED_FUNCTIONS
#define ROW(name, library, since, kind, block, count, bytes, nothrow) {#name, EXTENDED_##nothrow},
static const struct row jemalloc_rows[] = {ALLOCATOR_STANDARD(ROW) ALLOCATOR_JEMALLOC(ROW)};
static const struct row mimalloc_rows[] = {ALLOCATOR_MIMALLOC(ROW) ALLOCATOR_MIMALLOC_3(ROW)};
static const struct row tbb_rows[] = {ALLOCATOR_STANDARD(ROW) ALLOCATOR_TBB(ROW)};

static const char *const mappers[] = {FAMILY_MAPPERS};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct row *rows_of(enum family_kind kind, unsigned *count)
{
    switch (kind) {
    case FAMILY_MIMALLOC:
        *count = COUNT_OF(mimalloc_rows);
        return mimalloc_rows;
    case FAMILY_TBB:
        *count = COUNT_OF(tbb_rows);
        return tbb_rows;
    default:
        *count = COUNT_OF(jemalloc_rows);
        return jemalloc_rows;
    }
}

/* The symbols of an object, copied. */
struct symbols {
    Elf64_Sym *symbols;
    char *strings;
    uint32_t first, count; /* those before `first` are imported */
    size_t string_bytes;
};

static void symbols_free(struct symbols *symbols)
{
    free(symbols->symbols);
    free(symbols->strings);
}

static void *families_copy(struct remote_memory *memory, uint64_t address, size_t bytes)
{
    void *copied = malloc(bytes + 1);
    if (copied != NULL && tracee_read(memory->tracee, address, copied, bytes) < 0) {
        free(copied);
        return NULL;
    }
    return copied;
}

/* Find the number of symbols by the hash table. */
static bool count_symbols(struct remote_memory *memory, const struct remote_object *object,
                          struct symbols *symbols)
{
    uint32_t head[4]; /* buckets, first symbol, words of the filter, shift */
    if (object->gnu_hash == 0 ||
        tracee_read(memory->tracee, object->gnu_hash, head, sizeof(head)) < 0 ||
        head[0] > SYMBOLS_MAX || head[2] > SYMBOLS_MAX)
        return false;
    uint64_t at = object->gnu_hash + sizeof(head) + head[2] * UINT64_C(8);
    uint32_t *buckets = families_copy(memory, at, head[0] * sizeof(*buckets));
    uint32_t last = 0, hash = 0;
    for (uint32_t i = 0; buckets != NULL && i < head[0]; i++)
        last = buckets[i] > last ? buckets[i] : last;
    free(buckets);
    symbols->first = head[1];
    if (last < head[1] || last >= SYMBOLS_MAX)
        return false;
    at += head[0] * UINT64_C(4);
    do {
        if (last >= SYMBOLS_MAX || tracee_read(memory->tracee, at + (last - head[1]) * UINT64_C(4),
                                               &hash, sizeof(hash)) < 0)
            return false;
        last++;
    } while ((hash & 1) == 0);
    symbols->count = last;
    return true;
}

/* Copy [from, to) of the symbols, and the strings that they have. */
static bool read_symbols(struct remote_memory *memory, const struct remote_object *object,
                         struct symbols *symbols, uint32_t count)
{
    size_t last = 0;
    symbols_free(symbols);
    symbols->strings = NULL;
    symbols->symbols = families_copy(memory, object->symbols, count * sizeof(Elf64_Sym));
    if (symbols->symbols == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        last = symbols->symbols[i].st_name > last ? symbols->symbols[i].st_name : last;
    if (last > STRINGS_MAX)
        return false;
    /* The last string may end at the end of the mapping. */
    symbols->strings = malloc(last + NAME_BYTES + 1);
    if (symbols->strings == NULL)
        return false;
    symbols->string_bytes =
        tracee_read_some(memory->tracee, object->strings, symbols->strings, last + NAME_BYTES);
    symbols->strings[symbols->string_bytes] = 0;
    return symbols->string_bytes > last;
}

static const char *families_name_of(const struct symbols *symbols, uint32_t index)
{
    return symbols->strings + symbols->symbols[index].st_name;
}

static bool maps_memory(const struct symbols *symbols)
{
    for (uint32_t i = 1; i < symbols->first; i++) {
        for (size_t j = 0; j < COUNT_OF(mappers); j++) {
            if (strcmp(families_name_of(symbols, i), mappers[j]) == 0)
                return true;
        }
    }
    return false;
}

static enum family_kind kind_of_key(const char *name, size_t *prefix_length)
{
    size_t length = strnlen(name, NAME_BYTES);
    for (int kind = 0; length < NAME_BYTES && kind < FAMILY_KINDS; kind++) {
        size_t key_length = strlen(family_keys[kind]);
        if (length > key_length && length - key_length < PREFIX_BYTES &&
            memcmp(name + length - key_length, family_keys[kind], key_length) == 0) {
            *prefix_length = length - key_length;
            return (enum family_kind)kind;
        }
    }
    return FAMILY_KINDS;
}

static bool is_located(const struct located *located, uint64_t address)
{
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        if (located->functions[i].address == address)
            return true;
    }
    return false;
}

const char *families_function_name(const struct located_family *family, unsigned row)
{
    unsigned count;
    const struct row *rows = rows_of(family->kind, &count);
    size_t skipped = family->kind == FAMILY_MIMALLOC ? strlen(FAMILY_MIMALLOC_PREFIX) : 0;
    return row < count ? rows[row].name + skipped : "";
}

/* Name the heap after the prefix. */
static void name_heap(struct located_family *family, const char *prefix)
{
    size_t length = strlen(prefix);
    while (length > 1 && prefix[length - 1] == '_')
        length--;
    snprintf(family->name, sizeof(family->name), "%.*s.malloc", (int)length, prefix);
}

static void take_family(struct located *located, struct remote_memory *memory,
                        const struct remote_object *object, enum family_kind kind,
                        const char *prefix)
{
    struct remote_symbol found;
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "%smalloc", prefix);
    if (!remote_symbol_find(memory, object, name, &found) || is_located(located, found.address))
        return;
    snprintf(name, sizeof(name), "%sfree", prefix);
    if (!remote_symbol_find(memory, object, name, &found))
        return;
    unsigned count, number = located->family_count++;
    if (number >= FAMILIES_MAX)
        return;
    rows_of(kind, &count);
    struct located_family *family = &located->families[number];
    *family = (struct located_family){.kind = kind, .object = object->dynamic};
    name_heap(family, prefix);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s%s", prefix, families_function_name(family, i));
        if (!remote_symbol_find(memory, object, name, &found))
            continue;
        family->functions[i].address = found.address;
        family->functions[i].size = found.size;
    }
}

/* Return whether the object imports a function that maps memory. */
static bool imports_mapper(struct remote_memory *memory, const struct remote_object *object,
                           struct symbols *symbols)
{
    return count_symbols(memory, object, symbols) &&
           read_symbols(memory, object, symbols, symbols->first) && maps_memory(symbols);
}

static void locate_in(struct located *located, struct remote_memory *memory,
                      const struct remote_object *object)
{
    struct symbols symbols = {0};
    size_t length;
    if (!imports_mapper(memory, object, &symbols) ||
        !read_symbols(memory, object, &symbols, symbols.count)) {
        symbols_free(&symbols);
        return;
    }
    for (uint32_t i = symbols.first; i < symbols.count; i++) {
        const char *name = families_name_of(&symbols, i);
        enum family_kind kind = kind_of_key(name, &length);
        if (kind == FAMILY_KINDS || strncmp(name, "_Z", 2) == 0 ||
            symbols.symbols[i].st_shndx == SHN_UNDEF)
            continue;
        char prefix[PREFIX_BYTES];
        snprintf(prefix, sizeof(prefix), "%.*s", (int)length, name);
        take_family(located, memory, object, kind, prefix);
    }
    symbols_free(&symbols);
}

void families_locate(struct located *located, struct remote_memory *memory,
                     const struct remote_object *objects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(objects[i].name, located->allocator) != 0)
            locate_in(located, memory, &objects[i]);
    }
}

/* --- the executable's own symbols --- */

/* Return the family that has this key. `count` are known. FAMILIES_MAX: there is no room. */
static unsigned family_of_key(struct located_family families[FAMILIES_MAX], unsigned *count,
                              enum family_kind kind, const char *prefix)
{
    struct located_family family = {.kind = kind};
    unsigned at = 0;
    name_heap(&family, prefix);
    while (at < *count &&
           (families[at].kind != kind || strcmp(families[at].name, family.name) != 0))
        at++;
    if (at == *count && at < FAMILIES_MAX)
        families[(*count)++] = family;
    return at;
}

/* Find the functions of a family with this prefix. Return whether malloc and free are among them.
 */
static bool read_family(struct located_family *family, const char *prefix,
                        const struct reader_file *file)
{
    char text[FAMILY_FUNCTIONS * NAME_BYTES];
    struct reader_function *functions;
    bool is_whole, has_free = false;
    size_t used = 0;
    unsigned count;
    rows_of(family->kind, &count);
    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, NAME_BYTES, "%s%s", prefix,
                                 families_function_name(family, i)) +
                1;
    int found = file_reader_functions(file, text, used, count, &functions, &is_whole);
    for (int i = 0; i < found; i++) {
        unsigned row = functions[i].name;
        family->functions[row].address = functions[i].value;
        family->functions[row].size = functions[i].size;
        has_free |= strcmp(families_function_name(family, row), "free") == 0;
    }
    free(functions);
    return has_free && family->functions[0].address != 0;
}

unsigned families_read(struct located_family families[FAMILIES_MAX], const struct reader_file *file,
                       const struct reader_function *keys, size_t key_count,
                       const char *const *names)
{
    unsigned count = 0, tried = 0;
    for (size_t i = 0; i < key_count && tried < READ_FAMILIES_MAX; i++) {
        int kind = 0;
        while (kind < FAMILY_KINDS && (names[keys[i].name][0] != '*' ||
                                       strcmp(names[keys[i].name] + 1, family_keys[kind]) != 0))
            kind++;
        if (kind == FAMILY_KINDS || keys[i].prefix[0] == 0 || strncmp(keys[i].prefix, "_Z", 2) == 0)
            continue;
        unsigned before = count,
                 at = family_of_key(families, &count, (enum family_kind)kind, keys[i].prefix);
        bool is_new = at == before && count > before;
        tried += is_new;
        if (is_new && !read_family(&families[at], keys[i].prefix, file))
            count--;
    }
    return count;
}

void families_take(struct located *located, const struct located_family *families, unsigned count,
                   uint64_t base, struct remote_memory *memory,
                   const struct remote_object *executable, enum family_kind uncounted)
{
    struct symbols symbols = {0};
    if (count > 0 && executable != NULL && !imports_mapper(memory, executable, &symbols))
        count = 0;
    symbols_free(&symbols);
    for (unsigned i = 0; i < count; i++) {
        struct located_family family = families[i];
        bool is_known = family.kind == uncounted;
        for (unsigned row = 0; row < FAMILY_FUNCTIONS; row++)
            family.functions[row].address += family.functions[row].address != 0 ? base : 0;
        for (unsigned j = 0; j < located->family_count && j < FAMILIES_MAX; j++)
            is_known |= located->families[j].functions[0].address == family.functions[0].address;
        if (is_known)
            continue;
        unsigned number = located->family_count++;
        if (number < FAMILIES_MAX)
            located->families[number] = family;
    }
}

void families_leave_located(struct located *located)
{
    unsigned kept = 0, count = located->family_count;
    for (unsigned i = 0; i < count && i < FAMILIES_MAX; i++) {
        if (!is_located(located, located->families[i].functions[0].address))
            located->families[kept++] = located->families[i];
    }
    located->family_count = count > FAMILIES_MAX ? kept + count - FAMILIES_MAX : kept;
}

unsigned families_callable(const struct located_family *family, unsigned row)
{
    unsigned count;
    const struct row *rows = rows_of(family->kind, &count);
    if (row >= count || rows[row].nothrow == EXTENDED_FUNCTIONS)
        return row;
    unsigned nothrow = rows[row].nothrow - EXTENDED_mi_malloc;
    return family->functions[nothrow].address != 0 ? nothrow : FAMILY_FUNCTIONS;
}
