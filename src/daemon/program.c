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

#include "attach/allocator_names.h"

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

const char *program_why_not_found(const char *command)
{
    struct stat status;
    if (strchr(command, '/') == NULL)
        return "there is no such program in PATH";
    if (stat(command, &status) < 0)
        return errno == EACCES ? "a directory on its way may not be entered"
                               : "there is no such file";
    if (S_ISDIR(status.st_mode))
        return "it is a directory";
    if (!S_ISREG(status.st_mode))
        return "it is no file that can be run";
    if (access(command, X_OK) != 0)
        return "it may not be executed: it lacks the permission (chmod +x), or its file system is "
               "mounted noexec";
    return "it is a script whose interpreter, named in its first line, is not there";
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

/* The allocator functions that it defines under each prefix; the plain names come last. */
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

static void name_allocator(const struct own_functions *own, struct program *program)
{
    for (size_t i = 0; i <= ALLOCATOR_PREFIXES && program->allocator[0] == 0; i++) {
        if (own->malloc[i] && own->free[i])
            snprintf(program->allocator, sizeof(program->allocator), "%smalloc",
                     i < ALLOCATOR_PREFIXES ? allocator_prefixes[i] : "");
    }
}

static void note_sanitizer(struct program *program, const char *name)
{
    static const struct {
        const char *symbol, *name;
    } run_times[] = {
        {"__asan_init", "AddressSanitizer"}, {"__tsan_init", "ThreadSanitizer"},
        {"__msan_init", "MemorySanitizer"},  {"__hwasan_init", "HWAddressSanitizer"},
        {"__lsan_init", "LeakSanitizer"},
    };
    for (size_t i = 0; i < sizeof(run_times) / sizeof(run_times[0]); i++) {
        if (program->sanitizer == NULL && strcmp(name, run_times[i].symbol) == 0)
            program->sanitizer = run_times[i].name;
    }
}

/* Which allocator it has, and whether it can describe heaps (by the client or from inside). */
static void read_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
                         struct own_functions *own, struct program *program)
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

/* --- which way sees it --- */

/* Explain a program that loads the library and has an allocator of its own. */
static void explain_own_allocator(const struct program *program, const char *name, char *reason,
                                  size_t size)
{
    snprintf(reason, size,
             "%s has %s%s of its own (%s), which the preloaded library does not see: the profiler "
             "attaches to it at its start, if the kernel allows that (ptrace).",
             name, program->sanitizer != NULL ? program->sanitizer : "an allocator",
             program->sanitizer != NULL ? " and so an allocator" : "", program->allocator);
}

enum program_way program_way(const struct program *program, const char *name, char *reason,
                             size_t size)
{
    bool has_allocator = program->allocator[0] != 0;
    reason[0] = 0;
    if (program->other_machine) {
        snprintf(reason, size,
                 "%s is a program for another kind of machine (32-bit, or another processor), "
                 "into which the profiling library cannot be loaded: use a build for this machine.",
                 name);
        return PROGRAM_BY_NEITHER;
    }
    if (program->is_elf && !program->has_interpreter && program->is_go && !has_allocator) {
        snprintf(reason, size,
                 "%s is a static Go program, and Go does not allocate with malloc: use Go's own "
                 "profiler (runtime/pprof), whose files heap_profile report opens.",
                 name);
        return PROGRAM_BY_NEITHER;
    }
    if (program->is_elf && !program->has_interpreter) {
        snprintf(reason, size,
                 has_allocator
                     ? "%s is statically linked, so the profiling library cannot be loaded into "
                       "it: heap_profile -n NAME or -p PID attaches to it as it runs."
                     : "%s is statically linked and has no symbols, so the profiling library "
                       "cannot be loaded into it, and its malloc cannot be found: build it with "
                       "symbols (do not strip it), or link it dynamically.",
                 name);
        return has_allocator ? PROGRAM_BY_ATTACHING : PROGRAM_BY_NEITHER;
    }
    if (program->is_musl) {
        snprintf(reason, size,
                 "%s runs on musl, and the profiling library was built for glibc: heap_profile -n "
                 "NAME or -p PID attaches to it as it runs.",
                 name);
        return PROGRAM_BY_ATTACHING;
    }
    if (program->gains_rights) {
        snprintf(reason, size,
                 "%s gains rights when it starts (set-user-id, set-group-id or file "
                 "capabilities), so the dynamic loader ignores LD_PRELOAD: run it as the user that "
                 "it becomes, or run a copy without these rights; or attach to it as root, with "
                 "heap_profile -n NAME or -p PID.",
                 name);
        return PROGRAM_BY_ATTACHING;
    }
    if (has_allocator)
        explain_own_allocator(program, name, reason, size);
    return has_allocator ? PROGRAM_BY_BOTH : PROGRAM_BY_PRELOADING;
}
