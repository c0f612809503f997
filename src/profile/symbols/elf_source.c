/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open ELF files. A path may contain any characters, so it is tried as a file first. Only if there
 * is none is the part before a "!" tried as an archive.
 */
#include "profile/symbols/elf_source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/symbols/process_roots.h"
#include "profile/symbols/zip_archive.h"
#include "util/regular_file.h"

/* Open a file below a process's root without following links out of it: the process may have made
 * any link there. */
static int open_as_process(const char *path, int pid, int root_length, struct stat *status)
{
    char directory[64];
    int known = process_roots_descriptor(pid);
    snprintf(directory, sizeof(directory), "%.*s", root_length, path);
    int root = known >= 0 ? known : open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    int fd = regular_file_open_below(root, path + root_length, 0, status);
    if (root != known)
        close(root);
    return fd;
}

static int open_regular(const char *path)
{
    struct stat status;
    int pid, length = 0;
    bool is_of_process =
        sscanf(path, "/proc/%9d/root%n", &pid, &length) == 1 && length > 0 && path[length] == '/';
    int fd = is_of_process ? open_as_process(path, pid, length, &status)
                           : regular_file_open(path, &status);
    if (fd == -EINVAL)
        return -ENOEXEC;
    return fd == -ENOTDIR || fd == -ENAMETOOLONG ? -ENOENT : fd;
}

static int map_member(struct elf_source *source, const struct zip_member *member)
{
    uint64_t before = member->offset % (uint64_t)sysconf(_SC_PAGESIZE);
    if (member->size > SIZE_MAX - before)
        return -EFBIG;
    /* libelf changes headers in place. */
    void *map = mmap(NULL, member->size + before, PROT_READ | PROT_WRITE, MAP_PRIVATE, source->fd,
                     (off_t)(member->offset - before));
    if (map == MAP_FAILED)
        return -errno;
    source->map = map;
    source->map_bytes = member->size + before;
    source->elf = elf_memory((char *)map + before, member->size);
    return 0;
}

/* Open a member of an archive. "/lib/a.so" and "lib/a.so" mean the same: Android's linker writes
 * the first. */
static int open_member(struct elf_source *source, const char *name)
{
    struct zip_archive archive;
    int result = zip_archive_read(&archive, source->fd, NULL);
    name += *name == '/';
    if (result == 0) {
        result = -ENOENT;
        for (size_t i = 0; i < archive.count && result == -ENOENT; i++) {
            if (strcmp(archive.members[i].name, name) == 0)
                result = map_member(source, &archive.members[i]);
        }
    }
    zip_archive_clear(&archive);
    return result == -EBADMSG ? -ENOENT : result;
}

static int open_in_archive(struct elf_source *source, const char *path)
{
    char archive[PATH_MAX];
    for (const char *mark = strchr(path, '!'); mark != NULL; mark = strchr(mark + 1, '!')) {
        size_t length = (size_t)(mark - path);
        if (length >= sizeof(archive))
            return -ENOENT;
        memcpy(archive, path, length);
        archive[length] = '\0';
        source->fd = open_regular(archive);
        int result = source->fd < 0 ? -ENOENT : open_member(source, mark + 1);
        if (result == 0)
            return 0;
        if (source->fd >= 0)
            close(source->fd);
        source->fd = -1;
        if (result != -ENOENT && result != -ENOEXEC)
            return result;
    }
    return -ENOENT;
}

/* Open this process's vdso. The kernel maps whole pages; the file ends where its headers say. */
static int open_vdso(struct elf_source *source)
{
    char *at = (char *)getauxval(AT_SYSINFO_EHDR); // NOLINT(performance-no-int-to-ptr)
    const Elf64_Ehdr *header = (const void *)at;
    source->fd = -1;
    if (at == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return -ENOENT;
    source->elf = elf_memory(at, header->e_shoff + (size_t)header->e_shnum * header->e_shentsize);
    return 0;
}

int elf_source_open(struct elf_source *source, const char *path, bool mapped)
{
    *source = (struct elf_source){.fd = open_regular(path)};
    elf_version(EV_CURRENT);
    if (source->fd < 0 && strcmp(path, ELF_SOURCE_VDSO) == 0)
        return open_vdso(source);
    if (source->fd < 0) {
        int result = source->fd;
        source->fd = -1;
        return result == -ENOENT ? open_in_archive(source, path) : result;
    }
    source->elf = elf_begin(source->fd, mapped ? ELF_C_READ_MMAP : ELF_C_READ, NULL);
    return 0;
}

int elf_source_unpack(struct elf_source *source)
{
    return source->elf == NULL ? 0 : unpacked_sections_make(&source->unpacked, source->elf);
}

void elf_source_close(struct elf_source *source)
{
    elf_end(source->elf);
    unpacked_sections_free(&source->unpacked);
    if (source->map != NULL)
        munmap(source->map, source->map_bytes);
    if (source->fd >= 0)
        close(source->fd);
    *source = (struct elf_source){.fd = -1};
}
