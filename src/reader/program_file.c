/* SPDX-License-Identifier: Apache-2.0 */
/* Parse a program's ELF file. This runs in the file reader: files are untrusted. */
#include "reader/program_file.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader/allocator_names.h"
#include "util/hex.h"

#define SEGMENTS_MAX 1024
#define SYMBOLS_MAX (1u << 20)

static bool is_our_machine(const GElf_Ehdr *header)
{
#if defined(__x86_64__)
    return header->e_machine == EM_X86_64 && header->e_ident[EI_CLASS] == ELFCLASS64;
#elif defined(__aarch64__)
    return header->e_machine == EM_AARCH64 && header->e_ident[EI_CLASS] == ELFCLASS64;
#else
#error "which machine is this?"
#endif
}

static void read_interpreter(int fd, const GElf_Phdr *segment, struct program_file *program)
{
    char name[256];
    size_t length = segment->p_filesz < sizeof(name) ? segment->p_filesz : sizeof(name) - 1;
    ssize_t got = pread(fd, name, length, (off_t)segment->p_offset);
    name[got > 0 ? got : 0] = 0;
    program->has_interpreter = 1;
    program->is_musl = strstr(name, "ld-musl") != NULL;
}

/* A function that only returns 0 is smaller than this, the client's function larger. */
#define REAL_BYTES_MIN 32u

/* The allocator functions that the program defines, by prefix. The plain names come last. */
struct own_functions {
    bool malloc[ALLOCATOR_PREFIXES + 1], free[ALLOCATOR_PREFIXES + 1];
};

static void note_own_function(struct own_functions *own, const char *name)
{
    for (size_t i = 0; i <= ALLOCATOR_PREFIXES; i++) {
        const char *prefix = i < ALLOCATOR_PREFIXES ? allocator_prefixes[i] : "";
        size_t length = strlen(prefix);
        if (strncmp(name, prefix, length) != 0)
            continue;
        own->malloc[i] |= strcmp(name + length, "malloc") == 0;
        own->free[i] |= strcmp(name + length, "free") == 0;
    }
}

static void name_allocator(const struct own_functions *own, struct program_file *program)
{
    for (size_t i = 0; i <= ALLOCATOR_PREFIXES && program->allocator[0] == 0; i++) {
        if (own->malloc[i] && own->free[i])
            snprintf(program->allocator, sizeof(program->allocator), "%smalloc",
                     i < ALLOCATOR_PREFIXES ? allocator_prefixes[i] : "");
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

/* Find out which allocator the program has, and whether it can describe heaps (it uses or contains
 * the client). */
static void read_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
                         struct own_functions *own, struct program_file *program)
{
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = header->sh_entsize > 0 ? header->sh_size / header->sh_entsize : 0;
    for (size_t i = 0; data != NULL && i < count && i < SYMBOLS_MAX; i++) {
        GElf_Sym symbol;
        if (gelf_getsym(data, (int)i, &symbol) == NULL)
            continue;
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (name == NULL)
            continue;
        bool is_defined = symbol.st_shndx != SHN_UNDEF;
        if (strcmp(name, "AHeapProfile_registerHeap") == 0) {
            bool does_nothing = is_defined && symbol.st_size < REAL_BYTES_MIN;
            program->has_noop |= does_nothing;
            program->has_client |= !does_nothing;
        }
        if (!is_defined || GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
            continue;
        note_own_function(own, name);
        program->allocator_is_exported |=
            header->sh_type == SHT_DYNSYM && strcmp(name, "malloc") == 0;
        note_sanitizer(program, name);
    }
}

static void read_build_id(Elf_Scn *section, struct program_file *program)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Nhdr note;
    size_t name_at, id_at;
    for (size_t at = 0, next; data != NULL && program->build_id[0] == 0 &&
                              (next = gelf_getnote(data, at, &note, &name_at, &id_at)) > 0;
         at = next) {
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            note.n_descsz > PROGRAM_BUILD_ID_MAX ||
            memcmp((const char *)data->d_buf + name_at, "GNU", 4) != 0)
            continue;
        hex_write((const uint8_t *)data->d_buf + id_at, note.n_descsz, program->build_id);
    }
}

static void read_sections(Elf *elf, struct program_file *program)
{
    size_t names;
    GElf_Shdr header;
    struct own_functions own = {0};
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        if (gelf_getshdr(section, &header) == NULL)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name == NULL)
            continue;
        if (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB)
            read_symbols(elf, section, &header, &own, program);
        program->has_symbols |= header.sh_type == SHT_SYMTAB;
        program->has_debug_info |= strcmp(name, ".debug_info") == 0;
        program->has_debug_link |= strcmp(name, ".gnu_debuglink") == 0;
        if (header.sh_type == SHT_NOTE)
            read_build_id(section, program);
        program->is_go |= strcmp(name, ".go.buildinfo") == 0;
    }
    name_allocator(&own, program);
}

int program_file_parse(int fd, struct program_file *program)
{
    GElf_Ehdr header;
    size_t segments = 0;
    *program = (struct program_file){0};
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf == NULL || gelf_getehdr(elf, &header) == NULL) {
        elf_end(elf);
        return -ENOEXEC;
    }
    program->other_machine = !is_our_machine(&header);
    if (elf_getphdrnum(elf, &segments) != 0)
        segments = 0;
    for (size_t i = 0; i < segments && i < SEGMENTS_MAX; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) == NULL)
            continue;
        if (segment.p_type == PT_INTERP)
            read_interpreter(fd, &segment, program);
        program->has_unwind_tables |= segment.p_type == PT_GNU_EH_FRAME;
    }
    read_sections(elf, program);
    elf_end(elf);
    return 0;
}
