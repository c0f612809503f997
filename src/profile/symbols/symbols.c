/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choose the symbol tables of an ELF file when it is opened, and read them for each set of
 * addresses (near_symbols.h).
 *
 * Names come from the first of these that has any:
 *   1. .symtab of the file
 *   2. .symtab of its separate debug file, /usr/lib/debug/.build-id/xx/yyy.debug, if it has the
 *      same build id
 *   3. .dynsym, together with the .symtab inside .gnu_debugdata, which omits the names of .dynsym
 *
 * An address gets a name only if a symbol covers it. Symbols without a size (hand-written assembly)
 * extend to the next symbol of their section. If several symbols start at one address, the choice
 * does not depend on their order in the file: see symbol_is_better().
 *
 * Files are untrusted: elfutils checks what it returns, everything else is checked here. Files that
 * are opened here are read, not mapped: a file that shrinks causes an error, not a signal. Passed
 * descriptors are mapped, which is faster: they are only used in the file reader, a process that
 * may die.
 *
 * Not done here: demangling, lines and inlined functions, and names for PLT stubs (no return
 * address is in one).
 */
#include "profile/symbols/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/symbols/debugdata.h"
#include "profile/symbols/elf_source.h"
#include "profile/symbols/near_symbols.h"
#include "profile/symbols/symbol_ranges.h"
#include "profile/symbols/symbol_table.h"
#include "util/array.h"
#include "util/hex.h"
#include "util/regular_file.h"
#include "util/sorted_search.h"

/*
 * Where functions without symbols start: a stripped file still has an entry for each function in
 * its unwind table, .eh_frame, and a sorted index of their starts in .eh_frame_hdr (Linux Standard
 * Base Core Specification 5.0, section 10.6). libdw checks that the entry covers the address: there
 * may be code without an entry behind a function.
 */

struct function_starts {
    Dwarf_CFI *unwind_table; /* NULL: the file has no index, or a damaged one */
    const uint8_t *rows;     /* of the index: start and entry, as int32_t from `base` */
    size_t count;
    uint64_t base; /* ELF virtual address of the index */
};

/* The encodings that all linkers use: the version, those of the pointer to .eh_frame, of the number
 * of rows, and of the rows. */
static const uint8_t usual[] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
                                DW_EH_PE_datarel | DW_EH_PE_sdata4};
#define COUNT_OFFSET 8u
#define ROWS_OFFSET 12u
#define ROW_BYTES 8u

static bool find_index(Elf *elf, GElf_Phdr *index)
{
    size_t count;
    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count && gelf_getphdr(elf, (int)i, index) != NULL; i++)
        if (index->p_type == PT_GNU_EH_FRAME)
            return true;
    return false;
}

/* Read the index of a file, which stays open meanwhile. */
static void function_starts_open(struct function_starts *starts, Elf *elf)
{
    GElf_Phdr index;
    uint32_t count;
    *starts = (struct function_starts){0};
    if (!find_index(elf, &index))
        return;
    const Elf_Data *data =
        elf_getdata_rawchunk(elf, (int64_t)index.p_offset, index.p_filesz, ELF_T_BYTE);
    if (data == NULL || data->d_size < ROWS_OFFSET ||
        memcmp(data->d_buf, usual, sizeof(usual)) != 0)
        return;
    memcpy(&count, (const uint8_t *)data->d_buf + COUNT_OFFSET, sizeof(count));
    if (count > (data->d_size - ROWS_OFFSET) / ROW_BYTES)
        return;
    starts->rows = (const uint8_t *)data->d_buf + ROWS_OFFSET;
    starts->count = count;
    starts->base = index.p_vaddr;
    starts->unwind_table = dwarf_getcfi_elf(elf);
}

static void function_starts_close(struct function_starts *starts)
{
    dwarf_cfi_end(starts->unwind_table);
    *starts = (struct function_starts){0};
}

static uint64_t start_of(const struct function_starts *starts, size_t row)
{
    int32_t distance;
    memcpy(&distance, starts->rows + row * ROW_BYTES, sizeof(distance));
    return starts->base + (uint64_t)(int64_t)distance;
}

/* Find the start of the function with the ELF virtual address. Return false if the unwind table has
 * no entry for it. */
static bool function_starts_find(const struct function_starts *starts, uint64_t address,
                                 uint64_t *start)
{
    Dwarf_Frame *frame = NULL;
    if (starts->unwind_table == NULL)
        return false;
    size_t after = SORTED_SEARCH(starts->count, at, start_of(starts, at) <= address);
    if (after == 0 || dwarf_cfi_addrframe(starts->unwind_table, address, &frame) != 0)
        return false;
    free(frame);
    *start = start_of(starts, after - 1);
    return true;
}

#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"
#define BUILD_ID_LENGTH_MAX 64
#define SYMBOL_SOURCES 3 /* the file, its debug file, its .gnu_debugdata */

#define TABLES_MAX 2

struct symbol_file {
    struct symbol_table tables[TABLES_MAX];
    size_t table_count;
    struct elf_source source; /* of the file, if it was opened here */
    bool is_passed;           /* the caller passed descriptors: no other file is opened */
    int debug_fd;
    Elf *elfs[SYMBOL_SOURCES];
    void *debugdata; /* .gnu_debugdata, unpacked */
    struct function_starts starts;
    bool has_starts;       /* they were read */
    char **stripped_names; /* names without their "@VERSION" */
    size_t stripped_count, stripped_capacity;
};

/* --- tables --- */

/* Use the table of this type if it has symbols of code. */
static void use_table(struct symbol_file *file, Elf *elf, GElf_Word type)
{
    if (symbol_table_find(&file->tables[file->table_count], elf, type))
        file->table_count++;
}

static void use_debugdata(struct symbol_file *file, Elf *elf)
{
    size_t size;
    file->debugdata = debugdata_unpack(elf, DEBUGDATA_BYTES_MAX, &size);
    if (file->debugdata == NULL)
        return;
    file->elfs[2] = elf_memory(file->debugdata, size);
    if (file->elfs[2] != NULL && elf_kind(file->elfs[2]) == ELF_K_ELF)
        use_table(file, file->elfs[2], SHT_SYMTAB);
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
    struct stat status;
    return regular_file_open(path, &status);
}

static void use_debug_file(struct symbol_file *file)
{
    const void *build_id;
    ssize_t length = dwelf_elf_gnu_build_id(file->elfs[0], &build_id);
    if (length < 2 || length > BUILD_ID_LENGTH_MAX)
        return;
    int fd = file->is_passed ? file->debug_fd : open_debug_file(build_id, (size_t)length);
    if (fd < 0)
        return;
    Elf *elf = elf_begin(fd, file->is_passed ? ELF_C_READ_MMAP : ELF_C_READ, NULL);
    if (elf != NULL && elf_kind(elf) == ELF_K_ELF && build_id_is(elf, build_id, (size_t)length)) {
        file->elfs[1] = elf;
        use_table(file, elf, SHT_SYMTAB);
    } else {
        elf_end(elf);
    }
    if (!file->is_passed)
        close(fd);
}

static void choose_tables(struct symbol_file *file)
{
    use_table(file, file->elfs[0], SHT_SYMTAB);
    if (file->table_count == 0)
        use_debug_file(file);
    if (file->table_count > 0)
        return;
    use_table(file, file->elfs[0], SHT_DYNSYM);
    use_debugdata(file, file->elfs[0]);
}

/* --- opening --- */

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

/* Check elfs[0] and choose its tables. After an error, close the file and return NULL. */
static struct symbol_file *use_file(struct symbol_file *file, const char *name,
                                    const uint8_t *build_id, size_t build_id_length,
                                    struct error *error)
{
    if (check_file(file->elfs[0], name, build_id, build_id_length, error) < 0) {
        symbol_file_close(file);
        return NULL;
    }
    choose_tables(file);
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
    return use_file(file, name, build_id, build_id_length, error);
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
    return use_file(file, path, build_id, build_id_length, error);
}

void symbol_file_close(struct symbol_file *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->stripped_count; i++)
        free(file->stripped_names[i]);
    free(file->stripped_names);
    function_starts_close(&file->starts);
    for (size_t i = SYMBOL_SOURCES; i-- > 0;) {
        if (file->elfs[i] != file->source.elf)
            elf_end(file->elfs[i]);
    }
    elf_source_close(&file->source);
    free(file->debugdata);
    free(file);
}

/* --- names --- */

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

int symbol_file_names(struct symbol_file *file, const uint64_t *addresses, size_t count,
                      const char **names)
{
    struct near_symbols near;
    struct symbol_ranges ranges = {0};
    int result = near_symbols_collect(&near, file->tables, file->table_count, addresses, count);
    if (result == 0)
        result = symbol_ranges_make(&ranges, near.items, near.count);
    const struct symbol_range *last = NULL;
    for (size_t i = 0; result == 0 && i < count; i++) {
        const struct symbol_range *range = symbol_ranges_find(&ranges, last, addresses[i]);
        if (range == NULL || range->name == NULL)
            names[i] = NULL;
        else
            names[i] = range == last ? names[i - 1] : name_without_version(file, range->name);
        last = range;
    }
    symbol_ranges_free(&ranges);
    free(near.items);
    return result;
}

bool symbol_file_function_start(struct symbol_file *file, uint64_t address, uint64_t *start)
{
    if (!file->has_starts)
        function_starts_open(&file->starts, file->elfs[0]);
    file->has_starts = true;
    return function_starts_find(&file->starts, address, start);
}
