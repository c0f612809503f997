/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handle requests for call frame information: .eh_frame, and .debug_frame of the file itself, of
 * its .gnu_debugdata, or of its debug file. The tables are copied into an ELF image in memory, and
 * libdw reads only that image. It need not read the rest of a debug file (gigabytes).
 */
#include "recorder/reader/handlers.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <endian.h>
#include <errno.h>
#include <gelf.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/symbols/packed_section.h"
#include "recorder/reader/frame_rule.h"
#include "util/array.h"

/* The largest browsers have 15 MB of .eh_frame. */
#define TABLE_BYTES_MAX (32u << 20)
/* While libdw looks up one frame, it keeps about 350 bytes for each state that the entry remembers,
 * and an entry may be as long as the table. In a real table, one byte in fifty has the value of
 * this operation. */
#define REMEMBER_BYTES_MAX (1u << 19)
/* For all files, including what libdw keeps per entry that it reads sequentially. */
#define IMAGES_BYTES_MAX ((size_t)512 << 20)
#define ENTRY_MEMORY_BYTES 128u
#define DEBUGDATA_MEMORY_MAX (UINT64_C(128) << 20)
#define OLD_HEADER_BYTES 12u

enum table_kind { EH_FRAME_HDR, EH_FRAME, DEBUG_FRAME, TABLE_KINDS };

static const char *const table_names[TABLE_KINDS] = {".eh_frame_hdr", ".eh_frame", ".debug_frame"};

struct table {
    void *bytes; /* malloc'd; NULL: none */
    size_t size;
    size_t entries;
    uint64_t address;
};

struct unwind_file {
    struct unwind_file *next;
    uint32_t number; /* the client's number of the file */
    bool has_more;
    uint8_t *image;
    size_t charged_bytes; /* its share of IMAGES_BYTES_MAX */
    Elf *elf;
    Dwarf *dwarf;
    Dwarf_CFI *eh_frame, *debug_frame;
};

static struct unwind_file *files;
static size_t images_bytes;

/* --- tables of a file --- */

/* Return the number of entries of .eh_frame or .debug_frame, up to the first damaged one. */
static size_t count_entries(const struct table *table)
{
    const uint8_t *bytes = table->bytes;
    size_t count = 0;
    for (size_t at = 0; table->size - at >= 4; count++) {
        uint64_t length = 0;
        memcpy(&length, bytes + at, 4);
        at += 4;
        if (length == UINT32_MAX && table->size - at >= 8) {
            memcpy(&length, bytes + at, 8);
            at += 8;
        }
        if (length > table->size - at)
            break;
        at += length;
    }
    return count;
}

static bool remembers_too_much(const struct table *table)
{
    const uint8_t *bytes = table->bytes;
    size_t count = 0;
    for (size_t i = 0; i < table->size; i++)
        count += bytes[i] == DW_CFA_remember_state;
    return count > REMEMBER_BYTES_MAX;
}

/* Return whether libelf may read the file. Its number of sections must be small and in the header.
 */
static bool is_plain_elf(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_shnum > 0 && header->e_shnum < SHN_LORESERVE &&
           header->e_shentsize == sizeof(Elf64_Shdr);
}

/* Return NULL if it is not an ELF file, or an unusual one. */
static Elf *open_elf(int fd)
{
    Elf64_Ehdr header;
    if (pread(fd, &header, sizeof(header), 0) != sizeof(header) || !is_plain_elf(&header))
        return NULL;
    return elf_begin(fd, ELF_C_READ, NULL);
}

static void unpack_table(Elf *elf, Elf_Scn *section, struct table *table)
{
    struct packed_section packed;
    if (!packed_section_read(elf, section, TABLE_BYTES_MAX, &packed))
        return;
    table->bytes = malloc(packed.bytes);
    if (table->bytes == NULL || packed_section_unpack(&packed, table->bytes) < 0) {
        free(table->bytes);
        table->bytes = NULL;
        return;
    }
    table->size = packed.bytes;
}

static void copy_table(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, struct table *table)
{
    if (header->sh_size == 0 || header->sh_size > TABLE_BYTES_MAX)
        return;
    table->address = header->sh_addr;
    if (header->sh_flags & SHF_COMPRESSED) {
        unpack_table(elf, section, table);
        return;
    }
    Elf_Data *data = elf_rawdata(section, NULL);
    if (data == NULL || data->d_buf == NULL || data->d_size == 0 || data->d_size > TABLE_BYTES_MAX)
        return;
    table->bytes = malloc(data->d_size);
    if (table->bytes == NULL)
        return;
    memcpy(table->bytes, data->d_buf, data->d_size);
    table->size = data->d_size;
}

static void drop_table(struct table *table)
{
    free(table->bytes);
    *table = (struct table){0};
}

/* Return the first section with that name that has bytes in the file, or NULL. */
static Elf_Scn *find_section(Elf *elf, const char *wanted, GElf_Shdr *header)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        if (gelf_getshdr(section, header) == NULL || header->sh_type == SHT_NOBITS)
            continue;
        const char *name = elf_strptr(elf, names, header->sh_name);
        if (name != NULL && strcmp(name, wanted) == 0)
            return section;
    }
    return NULL;
}

/* Unpack a section of the older form, which libelf knows: its name begins with ".z", and its bytes
 * with "ZLIB" and its length, in big-endian order. */
static Elf_Scn *find_old_form(Elf *elf, GElf_Shdr *header)
{
    Elf_Scn *section = find_section(elf, ".zdebug_frame", header);
    Elf_Data *data = section != NULL ? elf_rawdata(section, NULL) : NULL;
    uint64_t bytes;
    if (data == NULL || data->d_buf == NULL || data->d_size < OLD_HEADER_BYTES)
        return NULL;
    memcpy(&bytes, (const char *)data->d_buf + 4, sizeof(bytes));
    if (be64toh(bytes) > TABLE_BYTES_MAX || elf_compress_gnu(section, 0, 0) < 0)
        return NULL;
    return gelf_getshdr(section, header) != NULL ? section : NULL;
}

static void find_table(Elf *elf, enum table_kind kind, struct table tables[TABLE_KINDS])
{
    GElf_Shdr header;
    Elf_Scn *section = find_section(elf, table_names[kind], &header);
    if (section == NULL && kind == DEBUG_FRAME)
        section = find_old_form(elf, &header);
    if (section == NULL || tables[kind].bytes != NULL)
        return;
    copy_table(elf, section, &header, &tables[kind]);
    if (tables[kind].bytes == NULL || kind == EH_FRAME_HDR)
        return;
    if (remembers_too_much(&tables[kind]))
        drop_table(&tables[kind]);
    else
        tables[kind].entries = count_entries(&tables[kind]);
}

/* Unpack xz. Return NULL: damaged, too big, or no memory. */
static void *unpack(const void *packed, size_t packed_size, size_t *size)
{
    uint64_t memory = DEBUGDATA_MEMORY_MAX;
    for (size_t capacity = 8 * packed_size; capacity <= TABLE_BYTES_MAX * 2u; capacity *= 2) {
        size_t in = 0, out = 0;
        uint8_t *bytes = malloc(capacity);
        if (bytes == NULL)
            return NULL;
        lzma_ret result = lzma_stream_buffer_decode(&memory, 0, NULL, packed, &in, packed_size,
                                                    bytes, &out, capacity);
        *size = out;
        if (result == LZMA_OK)
            return bytes;
        free(bytes);
        if (result != LZMA_BUF_ERROR)
            return NULL;
    }
    return NULL;
}

static void find_in_debugdata(Elf *elf, struct table tables[TABLE_KINDS])
{
    GElf_Shdr header;
    size_t size = 0;
    Elf_Scn *section = find_section(elf, ".gnu_debugdata", &header);
    if (section == NULL || header.sh_size > TABLE_BYTES_MAX)
        return;
    Elf_Data *data = elf_rawdata(section, NULL);
    if (data == NULL || data->d_buf == NULL || data->d_size == 0)
        return;
    void *unpacked = unpack(data->d_buf, data->d_size, &size);
    bool plain = unpacked != NULL && size >= sizeof(Elf64_Ehdr) && is_plain_elf(unpacked);
    Elf *inner = plain ? elf_memory(unpacked, size) : NULL;
    if (inner != NULL)
        find_table(inner, DEBUG_FRAME, tables);
    elf_end(inner);
    free(unpacked);
}

/* Return whether the build id is the requested one. No build id matches a request without one. */
static bool is_build(Elf *elf, const struct reader_request *request)
{
    const void *id;
    ssize_t length = dwelf_elf_gnu_build_id(elf, &id);
    if (length < 0)
        length = 0;
    return (size_t)length == request->build_id_length &&
           (length == 0 || memcmp(id, request->build_id, (size_t)length) == 0);
}

static void find_in_debug_file(const struct reader_call *call, struct table tables[TABLE_KINDS])
{
    Elf *elf = call->debug_fd >= 0 ? open_elf(call->debug_fd) : NULL;
    if (elf != NULL && is_build(elf, &call->request))
        find_table(elf, DEBUG_FRAME, tables);
    elf_end(elf);
}

static int find_tables(const struct reader_call *call, struct table tables[TABLE_KINDS])
{
    Elf *elf = open_elf(call->fd);
    bool is_it = elf != NULL && is_build(elf, &call->request);
    if (is_it) {
        find_table(elf, EH_FRAME_HDR, tables);
        find_table(elf, EH_FRAME, tables);
        find_table(elf, DEBUG_FRAME, tables);
        if (tables[DEBUG_FRAME].bytes == NULL)
            find_in_debugdata(elf, tables);
    }
    elf_end(elf);
    if (tables[DEBUG_FRAME].bytes == NULL)
        find_in_debug_file(call, tables);
    return is_it || tables[DEBUG_FRAME].bytes != NULL ? 0 : -ESTALE;
}

/* --- the image --- */

#if defined(__x86_64__)
#define IMAGE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define IMAGE_MACHINE EM_AARCH64
#endif

static const char image_names[] = "\0.eh_frame_hdr\0.eh_frame\0.debug_frame\0.shstrtab";
#define NAME_OF_NAMES 38u
static const uint32_t image_name_of[TABLE_KINDS] = {1, 15, 25};

/* Fill the image. Its sections: the null section, the tables in order, the section names. */
static void fill_image(uint8_t *image, size_t bytes, const struct table tables[TABLE_KINDS])
{
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = IMAGE_MACHINE,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(header),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = 1,
    };
    Elf64_Shdr sections[TABLE_KINDS + 2] = {0};
    size_t at = sizeof(header);
    for (unsigned kind = 0; kind < TABLE_KINDS; kind++) {
        if (tables[kind].bytes == NULL)
            continue;
        sections[header.e_shnum++] = (Elf64_Shdr){
            .sh_name = image_name_of[kind],
            .sh_type = SHT_PROGBITS,
            .sh_flags = kind != DEBUG_FRAME ? SHF_ALLOC : 0,
            .sh_addr = tables[kind].address,
            .sh_offset = at,
            .sh_size = tables[kind].size,
            .sh_addralign = 1,
        };
        memcpy(image + at, tables[kind].bytes, tables[kind].size);
        at += (tables[kind].size + 7) & ~(size_t)7;
    }
    header.e_shstrndx = header.e_shnum;
    sections[header.e_shnum++] = (Elf64_Shdr){.sh_name = NAME_OF_NAMES,
                                              .sh_type = SHT_STRTAB,
                                              .sh_offset = at,
                                              .sh_size = sizeof(image_names),
                                              .sh_addralign = 1};
    memcpy(image + at, image_names, sizeof(image_names));
    header.e_shoff = bytes - sizeof(sections);
    memcpy(image + header.e_shoff, sections, sizeof(sections));
    memcpy(image, &header, sizeof(header));
}

/* Make the image. Return false: no table, no memory, or the limit is reached. */
static bool make_image(struct unwind_file *file, const struct table tables[TABLE_KINDS])
{
    size_t bytes = sizeof(Elf64_Ehdr) + ((sizeof(image_names) + 7) & ~(size_t)7) +
                   (TABLE_KINDS + 2) * sizeof(Elf64_Shdr);
    for (unsigned kind = 0; kind < TABLE_KINDS; kind++)
        bytes += (tables[kind].size + 7) & ~(size_t)7;
    /* With .eh_frame_hdr, libdw only reads the entry that it needs. */
    size_t entries = tables[DEBUG_FRAME].entries;
    if (tables[EH_FRAME_HDR].bytes == NULL)
        entries += tables[EH_FRAME].entries;
    size_t charged = bytes + entries * ENTRY_MEMORY_BYTES;
    if ((tables[EH_FRAME].bytes == NULL && tables[DEBUG_FRAME].bytes == NULL) ||
        charged > IMAGES_BYTES_MAX - images_bytes)
        return false;
    file->image = calloc(1, bytes);
    if (file->image == NULL)
        return false;
    file->charged_bytes = charged;
    images_bytes += charged;
    fill_image(file->image, bytes, tables);
    file->elf = elf_memory((char *)file->image, bytes);
    if (file->elf == NULL)
        return false;
    if (tables[EH_FRAME].bytes != NULL)
        file->eh_frame = dwarf_getcfi_elf(file->elf);
    if (tables[DEBUG_FRAME].bytes != NULL) {
        file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
        file->debug_frame = file->dwarf != NULL ? dwarf_getcfi(file->dwarf) : NULL;
    }
    file->has_more =
        file->debug_frame != NULL || (file->eh_frame != NULL && tables[EH_FRAME_HDR].bytes == NULL);
    return file->eh_frame != NULL || file->debug_frame != NULL;
}

/* --- files --- */

static void file_close(struct unwind_file *file)
{
    if (file->eh_frame != NULL)
        dwarf_cfi_end(file->eh_frame);
    dwarf_end(file->dwarf);
    elf_end(file->elf);
    free(file->image);
    images_bytes -= file->charged_bytes;
    free(file);
}

int handle_unwind_open(const struct reader_call *call)
{
    struct table tables[TABLE_KINDS] = {0};
    struct unwind_file *file = calloc(1, sizeof(*file));
    if (file == NULL)
        return -ENOMEM;
    file->number = call->request.file;
    int code = find_tables(call, tables);
    if (code == 0 && !make_image(file, tables))
        code = -ENOENT;
    for (unsigned kind = 0; kind < TABLE_KINDS; kind++)
        drop_table(&tables[kind]);
    if (code < 0) {
        file_close(file);
        return code;
    }
    file->next = files;
    files = file;
    return file->has_more;
}

void handle_unwind_close(uint32_t number)
{
    for (struct unwind_file **link = &files; *link != NULL; link = &(*link)->next) {
        struct unwind_file *file = *link;
        if (file->number != number)
            continue;
        *link = file->next;
        file_close(file);
        return;
    }
}

/* --- frames --- */

static Dwarf_Frame *look_up(struct unwind_file *file, uint64_t address)
{
    Dwarf_Frame *frame = NULL;
    if (file->eh_frame != NULL && dwarf_cfi_addrframe(file->eh_frame, address, &frame) == 0)
        return frame;
    if (file->debug_frame != NULL && dwarf_cfi_addrframe(file->debug_frame, address, &frame) == 0)
        return frame;
    return NULL;
}

/* Append the operations to the rule. Return false if there are too many. */
static bool append_part(struct frame_rule *rule, size_t *used, struct frame_part *part,
                        const Dwarf_Op *operations, size_t count)
{
    if (count > FRAME_OPERATIONS_MAX - *used)
        return false;
    *part = (struct frame_part){.kind = FRAME_PART_OPERATIONS, .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++)
        rule->operations[(*used)++] = (struct frame_operation){
            operations[i].atom, operations[i].number, operations[i].number2};
    return true;
}

/* Fill the rule. Return the number of operations, or 0: the frame is invalid. */
static size_t fill_rule(struct frame_rule *rule, Dwarf_Frame *frame)
{
    Dwarf_Op *operations, room[3];
    size_t count, used = 0;
    bool is_signal = false;
    int return_register = dwarf_frame_info(frame, NULL, NULL, &is_signal);
    if (return_register < 0 || return_register >= (int)FRAME_REGISTERS ||
        dwarf_frame_cfa(frame, &operations, &count) != 0 || count == 0 ||
        !append_part(rule, &used, &rule->cfa, operations, count))
        return 0;
    rule->return_register = (uint32_t)return_register;
    rule->is_signal = is_signal;
    for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
        struct frame_part *part = &rule->registers[i];
        /* Without operations libdw leaves `operations` at `room` if the value is lost, and sets it
         * to NULL if the register keeps its value. */
        if (dwarf_frame_register(frame, (int)i, room, &operations, &count) != 0)
            part->kind = FRAME_PART_BAD;
        else if (count == 0)
            part->kind = operations == room ? FRAME_PART_LOST : FRAME_PART_SAME;
        else if (!append_part(rule, &used, part, operations, count))
            part->kind = FRAME_PART_BAD;
    }
    return used;
}

/* Append the rule for one address to the result. */
static int append_rule(struct unwind_file *file, uint64_t address, struct reader_result *result,
                       size_t *capacity)
{
    const size_t room = sizeof(uint64_t) + sizeof(struct frame_rule) +
                        FRAME_OPERATIONS_MAX * sizeof(struct frame_operation);
    if (array_reserve(&result->bytes, capacity, result->length, room, 1) < 0)
        return -ENOMEM;
    char *at = (char *)result->bytes + result->length;
    struct frame_rule *rule = (struct frame_rule *)(at + sizeof(uint64_t));
    uint64_t bytes = 0;
    Dwarf_Frame *frame = look_up(file, address);
    memset(rule, 0, sizeof(*rule));
    size_t count = frame != NULL ? fill_rule(rule, frame) : 0;
    free(frame);
    if (count > 0)
        bytes = sizeof(*rule) + count * sizeof(struct frame_operation);
    memcpy(at, &bytes, sizeof(bytes));
    result->length += sizeof(bytes) + bytes;
    return 0;
}

int handle_unwind_rules(const struct reader_call *call, struct reader_result *result)
{
    const uint64_t *addresses = call->bytes;
    size_t count = call->request.bytes / sizeof(*addresses), capacity = 0;
    struct unwind_file *file = files;
    int code = 0;
    while (file != NULL && file->number != call->request.file)
        file = file->next;
    if (file == NULL)
        return -EBADF;
    for (size_t i = 0; i < count && i < READER_RULES_MAX && code == 0; i++)
        code = append_rule(file, addresses[i], result, &capacity);
    return code;
}
