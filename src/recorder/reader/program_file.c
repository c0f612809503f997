/* SPDX-License-Identifier: Apache-2.0 */
/* Parse a program's ELF file. This runs in the file reader: files are untrusted. */
#include "recorder/reader/program_file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/reader/allocator_names.h"
#include "recorder/reader/symbol_tables.h"
#include "util/hex.h"

#define SEGMENTS_MAX 1024
#define LIBRARIES_MAX 65536

/* A function that only returns 0 is smaller than this, the client's function larger. */
#define REAL_BYTES_MIN 32u

/* The allocator functions that the program defines, by prefix, and where. The plain names come
 * last. */
struct own_functions {
    enum program_symbols malloc[ALLOCATOR_PREFIXES + 1], free[ALLOCATOR_PREFIXES + 1];
    enum program_symbols rust;
    bool rust_wraps_another;
};

static void note_own_function(struct own_functions *own, const char *name,
                              enum program_symbols source)
{
    for (size_t i = 0; i <= ALLOCATOR_PREFIXES; i++) {
        const char *prefix = i < ALLOCATOR_PREFIXES ? allocator_prefixes[i] : "";
        size_t length = strlen(prefix);
        if (strncmp(name, prefix, length) != 0)
            continue;
        bool is_prefixed = length > 0; /* most names are not */
        bool allocates =
            strcmp(name + length, "malloc") == 0 || (is_prefixed && allocator_name_allocates(name));
        bool releases =
            strcmp(name + length, "free") == 0 || (is_prefixed && allocator_name_releases(name));
        if (own->malloc[i] == PROGRAM_SYMBOLS_NONE && allocates)
            own->malloc[i] = source;
        if (own->free[i] == PROGRAM_SYMBOLS_NONE && releases)
            own->free[i] = source;
    }
}

/* Note whether the program has a global allocator of Rust's that no other name shows. The default
 * one, and most that wrap it, call malloc, and posix_memalign for large alignments. */
static void note_rust(struct own_functions *own, const char *name, bool is_defined,
                      enum program_symbols source)
{
    if (is_defined) {
        if (own->rust == PROGRAM_SYMBOLS_NONE && strcmp(name, PROGRAM_RUSTS_ALLOCATOR) == 0)
            own->rust = source;
        own->rust_wraps_another |= strcmp(name, ALLOCATOR_RUSTS_DEFAULT) == 0;
        return;
    }
    char plain[48] = ""; /* names in .symtab have versions */
    size_t length = strcspn(name, "@");
    if (length < sizeof(plain))
        memcpy(plain, name, length);
    own->rust_wraps_another |= strcmp(plain, "posix_memalign") == 0 ||
                               strcmp(plain, "aligned_alloc") == 0 ||
                               allocator_name_allocates(plain);
}

static void forget_mimalloc(struct own_functions *own)
{
    for (size_t i = 0; i < ALLOCATOR_PREFIXES; i++) {
        if (strcmp(allocator_prefixes[i], "mi_") == 0)
            own->malloc[i] = own->free[i] = PROGRAM_SYMBOLS_NONE;
    }
}

static void name_allocator(const struct own_functions *own, struct program_file *program)
{
    for (size_t i = 0; i <= ALLOCATOR_PREFIXES && program->allocator[0] == 0; i++) {
        /* The linker leaves free() out of a static program that never calls it. */
        bool may_lack_free = i == ALLOCATOR_PREFIXES && !program->has_interpreter;
        if (own->malloc[i] == PROGRAM_SYMBOLS_NONE ||
            (own->free[i] == PROGRAM_SYMBOLS_NONE && !may_lack_free))
            continue;
        snprintf(program->allocator, sizeof(program->allocator), "%smalloc",
                 i < ALLOCATOR_PREFIXES ? allocator_prefixes[i] : "");
        program->allocator_source = own->malloc[i];
    }
    if (program->allocator[0] == 0 && own->rust != PROGRAM_SYMBOLS_NONE &&
        !own->rust_wraps_another) {
        snprintf(program->allocator, sizeof(program->allocator), PROGRAM_RUSTS_ALLOCATOR);
        program->allocator_source = own->rust;
    }
}

static void note_sanitizer(struct program_file *program, const char *name)
{
    static const char *const symbols[PROGRAM_SANITIZERS] = {
        [PROGRAM_SANITIZER_ADDRESS] = "__asan_init",
        [PROGRAM_SANITIZER_THREAD] = "__tsan_init",
        [PROGRAM_SANITIZER_MEMORY] = "__msan_init",
        [PROGRAM_SANITIZER_HWADDRESS] = "__hwasan_init",
        [PROGRAM_SANITIZER_LEAK] = "__lsan_init",
    };
    for (uint8_t i = 1; i < PROGRAM_SANITIZERS; i++) {
        if (program->sanitizer == PROGRAM_SANITIZER_NONE && strcmp(name, symbols[i]) == 0)
            program->sanitizer = i;
    }
}

/* Note what a symbol shows of CPython. Its functions get into stacks only if it exports its
 * symbols. Two functions are what versions without Py_Version added. */
static void note_python(struct program_file *program, const char *name, unsigned type)
{
    program->is_python |= type == SHT_DYNSYM && strcmp(name, "_PyEval_EvalFrameDefault") == 0;
    if (strcmp(name, "PyIter_Send") == 0 && program->python_minor < 10)
        program->python_minor = 10;
    else if (strcmp(name, "PyThreadState_GetFrame") == 0 && program->python_minor < 9)
        program->python_minor = 9;
}

/* A program's file and what its symbols show. */
struct parsing {
    struct program_file *program;
    struct own_functions own;
    bool has_python;
    uint64_t python_version; /* address of Py_Version; 0: not there */
};

/* Note which allocator the program has, and whether it can describe heaps (it uses or contains the
 * client). */
static void take_symbol(void *context, const char *name, const GElf_Sym *symbol, unsigned type,
                        enum program_symbols source)
{
    struct parsing *parsing = context;
    struct program_file *program = parsing->program;
    /* Mangled by C++ or, formerly, Rust: most symbols of large programs, and none that we want. */
    if (name[0] == '_' && name[1] == 'Z')
        return;
    bool is_defined = symbol->st_shndx != SHN_UNDEF;
    if (strcmp(name, "AHeapProfile_registerHeap") == 0) {
        bool does_nothing = is_defined && symbol->st_size < REAL_BYTES_MIN;
        program->has_noop |= does_nothing;
        program->has_client |= !does_nothing;
    }
    if (is_defined && strcmp(name, "Py_Version") == 0)
        parsing->python_version = symbol->st_value;
    parsing->has_python |= is_defined && strcmp(name, "_PyRuntime") == 0;
    if (GELF_ST_TYPE(symbol->st_info) != STT_FUNC)
        return;
    name = allocator_name_demangle(name);
    note_rust(&parsing->own, name, is_defined, source);
    if (!is_defined)
        return;
    note_python(program, name, type);
    program->is_php |= strcmp(name, "execute_ex") == 0;
    note_own_function(&parsing->own, name, source);
    program->allocator_is_exported |= type == SHT_DYNSYM && strcmp(name, "malloc") == 0;
    note_sanitizer(program, name);
}

/* --- CPython --- */

/* Read the version of an interpreter inside the program: 0x030b02f0 is 3.11.2. */
static void read_python_version(int fd, Elf *elf, uint64_t address, struct program_file *program)
{
    size_t segments = 0;
    GElf_Phdr segment;
    uint32_t version = 0;
    if (elf_getphdrnum(elf, &segments) != 0)
        segments = 0;
    for (size_t i = 0; i < segments && i < SEGMENTS_MAX; i++) {
        if (gelf_getphdr(elf, (int)i, &segment) != NULL && segment.p_type == PT_LOAD &&
            address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz &&
            pread(fd, &version, sizeof(version),
                  (off_t)(segment.p_offset + (address - segment.p_vaddr))) == sizeof(version) &&
            version >> 24 == 3)
            program->python_minor = version >> 16 & 0xff;
    }
}

/* Note CPython's library, such as libpython3.11.so.1.0, among those that the program needs. */
static void note_python_library(struct program_file *program, const char *name)
{
    static const char library[] = "libpython3.";
    if (strncmp(name, library, sizeof(library) - 1) != 0)
        return;
    program->is_python = 1;
    program->python_minor = (uint8_t)strtoul(name + sizeof(library) - 1, NULL, 10);
}

/* The same of Ruby's: libruby.so.3.1, in Debian libruby-3.1.so.3.1. */
static void note_ruby_library(struct program_file *program, const char *name)
{
    const char *version = strstr(name, ".so.");
    if (strncmp(name, "libruby", strlen("libruby")) != 0 || version == NULL)
        return;
    char *end;
    program->is_ruby = 1;
    program->ruby_major = (uint8_t)strtoul(version + strlen(".so."), &end, 10);
    program->ruby_minor = *end == '.' ? (uint8_t)strtoul(end + 1, NULL, 10) : 0;
}

static void note_library(struct program_file *program, const char *name)
{
    note_python_library(program, name);
    note_ruby_library(program, name);
}

static void read_libraries(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
                           struct program_file *program)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Dyn entry;
    for (int i = 0; i < LIBRARIES_MAX && gelf_getdyn(data, i, &entry) != NULL; i++) {
        const char *name =
            entry.d_tag == DT_NEEDED ? elf_strptr(elf, header->sh_link, entry.d_un.d_val) : NULL;
        if (name != NULL)
            note_library(program, name);
    }
}

/* --- the file --- */

static void read_identity(Elf *elf, struct program_file *program)
{
    const void *build_id;
    GElf_Word checksum;
    ssize_t length = dwelf_elf_gnu_build_id(elf, &build_id);
    if (length > 0 && length <= PROGRAM_BUILD_ID_MAX)
        hex_write(build_id, (size_t)length, program->build_id);
    const char *link = dwelf_elf_gnu_debuglink(elf, &checksum);
    /* It names a file in the same directory. A path could lead anywhere. */
    if (link != NULL && strlen(link) < sizeof(program->debug_link) && strchr(link, '/') == NULL)
        strcpy(program->debug_link, link);
}

static void read_sections(Elf *elf, struct program_file *program)
{
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        if (gelf_getshdr(section, &header) == NULL)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        program->has_symbols |= header.sh_type == SHT_SYMTAB;
        if (header.sh_type == SHT_DYNAMIC)
            read_libraries(elf, section, &header, program);
        if (name == NULL)
            continue;
        program->has_debug_info |=
            strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0;
        program->is_go |=
            strcmp(name, ".go.buildinfo") == 0 || strcmp(name, ".note.go.buildid") == 0;
    }
}

static void read_segments(Elf *elf, struct program_file *program)
{
    size_t segments = 0;
    if (elf_getphdrnum(elf, &segments) != 0)
        segments = 0;
    for (size_t i = 0; i < segments && i < SEGMENTS_MAX; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) == NULL)
            continue;
        program->has_interpreter |= segment.p_type == PT_INTERP;
        program->has_unwind_tables |= segment.p_type == PT_GNU_EH_FRAME;
    }
}

int program_file_parse(int fd, int debug_fd, struct program_file *program)
{
    GElf_Ehdr header;
    char head[ELF_MACHINE_HEAD_BYTES];
    *program = (struct program_file){0};
    ssize_t got = pread(fd, head, sizeof(head), 0);
    if (got < 0 || elf_machine_read(&program->machine, head, (size_t)got) < 0)
        return -ENOEXEC;
    program->other_machine = !elf_machine_is_own(&program->machine);
    if (program->other_machine)
        return 0;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf == NULL || gelf_getehdr(elf, &header) == NULL) {
        elf_end(elf);
        return -ENOEXEC;
    }
    struct parsing parsing = {.program = program};
    read_segments(elf, program);
    read_sections(elf, program);
    read_identity(elf, program);
    struct symbol_tables tables = symbol_tables_read(elf, debug_fd, take_symbol, &parsing);
    program->has_all_functions = tables.is_whole;
    program->debug_file = tables.debug_file;
    /* From 3.13 on CPython contains a mimalloc. If it uses that at all, it is for objects. */
    if (parsing.has_python)
        forget_mimalloc(&parsing.own);
    name_allocator(&parsing.own, program);
    if (parsing.python_version != 0)
        read_python_version(fd, elf, parsing.python_version, program);
    elf_end(elf);
    return 0;
}
