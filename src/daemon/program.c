/* See program.h. Files are untrusted: elfutils checks what it reads. */
#include "daemon/program.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SEGMENTS_MAX 1024
#define SYMBOLS_MAX (1u << 20)
#define INTERPRETERS_MAX 4 /* as the kernel: a script's interpreter may be a script */

/* --- finding the program --- */

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static void search_path(const char *command, char *path, size_t size)
{
    path[0] = 0;
    if (strchr(command, '/') != NULL) {
        if (is_program(command))
            snprintf(path, size, "%s", command);
        return;
    }
    const char *directories = getenv("PATH");
    if (directories == NULL)
        directories = "/bin:/usr/bin";
    for (const char *at = directories;; at++) {
        size_t length = strcspn(at, ":");
        snprintf(path, size, "%.*s%s%s", (int)length, at, length > 0 ? "/" : "./", command);
        if (is_program(path))
            return;
        at += length;
        if (*at == 0)
            break;
    }
    path[0] = 0;
}

/* If path is a script, its interpreter in place of it. */
static bool follow_script(char *path, size_t size)
{
    char line[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, line, sizeof(line) - 1);
    close(fd);
    if (length < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[length] = 0;
    line[strcspn(line, "\n")] = 0;
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    interpreter[strcspn(interpreter, " \t")] = 0;
    snprintf(path, size, "%s", interpreter);
    return true;
}

void program_find(const char *command, char *path, size_t size)
{
    search_path(command, path, size);
    for (int i = 0; i < INTERPRETERS_MAX && path[0] != 0 && follow_script(path, size); i++)
        ;
}

/* --- reading it --- */

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

static void read_interpreter(int fd, const GElf_Phdr *segment, struct program *program)
{
    char name[256];
    size_t length = segment->p_filesz < sizeof(name) ? segment->p_filesz : sizeof(name) - 1;
    ssize_t got = pread(fd, name, length, (off_t)segment->p_offset);
    name[got > 0 ? got : 0] = 0;
    program->has_interpreter = true;
    program->is_musl = strstr(name, "ld-musl") != NULL;
}

/* A function that returns 0 and does nothing is smaller than this, the client's larger. */
#define REAL_BYTES_MIN 32u

/* Whether it defines malloc, and whether it can describe heaps (by the client or from inside). */
static void read_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
                         struct program *program)
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
        if (strcmp(name, "AHeapProfile_registerHeap") == 0) {
            bool does_nothing = symbol.st_shndx != SHN_UNDEF && symbol.st_size < REAL_BYTES_MIN;
            program->has_noop |= does_nothing;
            program->has_client |= !does_nothing;
        }
        program->defines_malloc |= symbol.st_shndx != SHN_UNDEF && strcmp(name, "malloc") == 0;
    }
}

static void read_build_id(Elf_Scn *section, struct program *program)
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
        for (size_t i = 0; i < note.n_descsz; i++)
            snprintf(program->build_id + 2 * i, 3, "%02x",
                     ((const unsigned char *)data->d_buf)[id_at + i]);
    }
}

static void read_sections(Elf *elf, struct program *program)
{
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        if (gelf_getshdr(section, &header) == NULL)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name == NULL)
            continue;
        if (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB)
            read_symbols(elf, section, &header, program);
        program->has_symbols |= header.sh_type == SHT_SYMTAB;
        program->has_debug_info |= strcmp(name, ".debug_info") == 0;
        program->has_debug_link |= strcmp(name, ".gnu_debuglink") == 0;
        if (header.sh_type == SHT_NOTE)
            read_build_id(section, program);
    }
}

int program_read(struct program *program, const char *path)
{
    struct stat status;
    *program = (struct program){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int code = -ENOEXEC;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        goto out_close;
    program->gains_rights = ((status.st_mode & S_ISUID) && status.st_uid != geteuid()) ||
                            ((status.st_mode & S_ISGID) && status.st_gid != getegid()) ||
                            (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);

    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    GElf_Ehdr header;
    size_t segments = 0;
    if (elf == NULL || gelf_getehdr(elf, &header) == NULL)
        goto out_end;
    code = 0;
    program->is_elf = true;
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
out_end:
    elf_end(elf);
out_close:
    close(fd);
    return code;
}
