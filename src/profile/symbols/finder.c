/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search for the file that describes a mapping. Places are tried in this order:
 *
 *   1. each given directory: the mapping's whole path, the same without "base.apk!", its last
 *      component, the same without "base.apk!", and .build-id/xx/yyyy.debug; then any file of the
 *      directories themselves with this build id; or, if directories are walked by build id, any
 *      file below them with it
 *   2. the mapping's own path
 *   3. /usr/lib/debug: .build-id/xx/yyyy.debug, and the path with ".debug" and unchanged
 *   4. $HOME/.debug, where perf keeps copies of files that it saw
 *   5. the file as a process of the profile still has it, and places 2 and 3 below the root
 * directory of such a process, if it has another one; for "[vdso]", this machine's vdso instead
 *   6. the cache of debuginfod's client, and its servers, if DEBUGINFOD_URLS names any
 *
 * In each place a zip archive (an .apk) is searched for a stored library with the right build id.
 * If a file has the right build id but no DWARF, its .gnu_debuglink is followed at once: beside the
 * file, in .debug beside it, and below /usr/lib/debug.
 */
#include "profile/symbols/finder.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "profile/symbols/debuginfod.h"
#include "profile/symbols/elf_image.h"
#include "profile/symbols/elf_source.h"
#include "profile/symbols/live_files.h"
#include "profile/symbols/mapped_guard.h"
#include "profile/symbols/process_roots.h"
#include "profile/symbols/symbol_directories.h"
#include "profile/symbols/zip_archive.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/hex.h"
#include "util/regular_file.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define APK_PREFIX "base.apk!"
/* If a profile has more processes, only the first ones are searched. */
#define PROCESSES_MAX 64u

struct indexed_file {
    char *path;
    uint8_t build_id[ELF_IMAGE_BUILD_ID_MAX];
    size_t build_id_length;
};

struct symbol_finder {
    struct symbol_directories directories;
    bool by_build_id, automatic, is_indexed;
    struct indexed_file *files;
    size_t file_count, file_capacity;
    struct debuginfod *debuginfod; /* NULL: no servers */
    pid_t processes[PROCESSES_MAX];
    size_t process_count;
    bool has_roots;   /* their root directories are open, and are closed with the finder */
    int64_t begun_ns; /* 0: unknown */
};

/* --- files by build id --- */

static int index_image(struct symbol_finder *finder, const char *path,
                       const struct elf_image *image)
{
    if (ARRAY_RESERVE(&finder->files, &finder->file_capacity, finder->file_count, 1) < 0)
        return -ENOMEM;
    struct indexed_file *file = &finder->files[finder->file_count];
    *file = (struct indexed_file){.path = strdup(path), .build_id_length = image->build_id_length};
    memcpy(file->build_id, image->build_id, image->build_id_length);
    if (file->path == NULL)
        return -ENOMEM;
    finder->file_count++;
    return 0;
}

typedef int take_member(void *context, const char *path, const struct elf_image *image);

/* Call `take` for each program and library that is stored in a zip archive, until it returns a
 * value other than 0. */
static int each_member(const char *path, take_member *take, void *context)
{
    struct zip_archive archive = {0};
    struct elf_image image;
    char name[PATH_MAX];
    struct stat status;
    int fd = regular_file_open(path, &status), result = 0;
    if (fd < 0)
        return 0;
    if (zip_archive_read(&archive, fd, NULL) == 0) {
        for (size_t i = 0; i < archive.count && result == 0; i++) {
            char mark[4];
            if (pread(fd, mark, sizeof(mark), (off_t)archive.members[i].offset) == sizeof(mark) &&
                memcmp(mark, "\177ELF", sizeof(mark)) == 0 &&
                snprintf(name, sizeof(name), "%s!%s", path, archive.members[i].name) <
                    (int)sizeof(name) &&
                elf_image_read(name, &image) == 0)
                result = take(context, name, &image);
        }
    }
    zip_archive_clear(&archive);
    close(fd);
    return result;
}

static int index_member(void *context, const char *path, const struct elf_image *image)
{
    return index_image(context, path, image);
}

struct indexing {
    struct symbol_finder *finder;
    const char *path;
};

static int index_members(void *context)
{
    struct indexing *indexing = context;
    return each_member(indexing->path, index_member, indexing->finder);
}

static int index_file(void *context, const FTSENT *entry)
{
    struct indexing indexing = {context, entry->fts_path};
    struct elf_image image;
    if (entry->fts_info != FTS_F)
        return 0;
    int result = elf_image_read(indexing.path, &image);
    if (result == 0)
        return index_image(indexing.finder, indexing.path, &image);
    if (result != -ENOEXEC)
        return 0;
    result = mapped_guard_run(index_members, &indexing);
    return result == -EIO ? 0 : result;
}

/* --- opening --- */

int symbol_finder_options_from_environment(struct symbol_finder_options *options,
                                           struct error *error)
{
    const char *mode = getenv("PERFETTO_SYMBOLIZER_MODE");
    options->directories = getenv("PERFETTO_BINARY_PATH");
    options->by_build_id = mode != NULL && strcmp(mode, "index") == 0;
    if (mode == NULL || *mode == '\0' || options->by_build_id || strcmp(mode, "find") == 0)
        return 0;
    return error_set(error, -EINVAL,
                     "PERFETTO_SYMBOLIZER_MODE is '%.100s'; it may be find or index", mode);
}

struct symbol_finder *symbol_finder_open(const struct symbol_finder_options *options,
                                         struct error *warning, struct error *error)
{
    struct symbol_finder *finder = calloc(1, sizeof(*finder));
    int result = finder == NULL ? -ENOMEM : 0;
    if (warning != NULL)
        *warning = (struct error){0};
    if (result == 0) {
        finder->by_build_id = options->by_build_id;
        finder->automatic = options->automatic;
        result =
            symbol_directories_add(&finder->directories, options->directories, "symbols", warning);
    }
    if (result == 0 && options->by_build_id) {
        result = symbol_directories_walk(&finder->directories, index_file, finder);
        finder->is_indexed = true;
    }
    if (result < 0) {
        error_set(error, result, "no memory to search for symbols");
        symbol_finder_close(finder);
        return NULL;
    }
    if (options->automatic && !options->offline)
        finder->debuginfod = debuginfod_open(0, warning);
    return finder;
}

void symbol_finder_set_processes(struct symbol_finder *finder, const pid_t *processes, size_t count)
{
    finder->process_count = count < PROCESSES_MAX ? count : PROCESSES_MAX;
    memcpy(finder->processes, processes, finder->process_count * sizeof(*processes));
    finder->has_roots = finder->automatic && count > 0;
    if (finder->has_roots)
        process_roots_open(finder->processes, finder->process_count);
}

void symbol_finder_set_begin(struct symbol_finder *finder, int64_t begun_ns)
{
    finder->begun_ns = begun_ns;
}

void symbol_finder_close(struct symbol_finder *finder)
{
    if (finder == NULL)
        return;
    debuginfod_close(finder->debuginfod);
    if (finder->has_roots)
        process_roots_close();
    for (size_t i = 0; i < finder->file_count; i++)
        free(finder->files[i].path);
    free(finder->files);
    symbol_directories_clear(&finder->directories);
    free(finder);
}

/* --- trying places --- */

struct search {
    const uint8_t *build_id;
    size_t build_id_length;
    const char *path;      /* of the mapping, without LIVE_FILES_DELETED */
    struct elf_image live; /* as a process has it; without a build id: none has it */
    struct symbol_found *found;
    int error; /* -ENOMEM */
};

static bool is_done(const struct search *search)
{
    return search->error < 0 || search->found->quality == SYMBOLS_DWARF;
}

static enum symbol_quality quality_of(const struct elf_image *image)
{
    if (image->has_dwarf)
        return SYMBOLS_DWARF;
    if (image->has_symtab)
        return SYMBOLS_TABLE;
    return image->has_debugdata || image->has_dynsym ? SYMBOLS_DYNAMIC : SYMBOLS_NONE;
}

static bool is_this_build(const struct search *search, const struct elf_image *image)
{
    return image->build_id_length == search->build_id_length &&
           memcmp(image->build_id, search->build_id, search->build_id_length) == 0;
}

static void take_path(struct search *search, const char *path, const struct elf_image *image)
{
    struct symbol_found *found = search->found;
    if (found->path != NULL && quality_of(image) <= found->quality)
        return;
    char *copy = strdup(path);
    if (copy == NULL) {
        search->error = -ENOMEM;
        return;
    }
    free(found->path);
    found->path = copy;
    found->quality = quality_of(image);
    found->has_build_id = image->build_id_length > 0;
}

static void __attribute__((format(printf, 4, 5)))
try_debug_link(struct search *search, const struct elf_image *binary, const char *binary_path,
               const char *format, ...)
{
    char path[PATH_MAX];
    struct elf_image image;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    if (is_done(search) || length < 0 || (size_t)length >= sizeof(path) ||
        strcmp(path, binary_path) == 0 || elf_image_read(path, &image) < 0)
        return;
    if ((search->build_id_length > 0 && is_this_build(search, &image)) ||
        (image.build_id_length == 0 && elf_image_has_checksum(path, binary->debug_link_checksum)))
        take_path(search, path, &image);
}

/* `root`: the directory in which the path is, "" for ours. */
static void follow_debug_link(struct search *search, const char *root, const char *path,
                              const struct elf_image *image)
{
    const char *slash = strrchr(path, '/'), *link = image->debug_link;
    int directory = slash == NULL ? 0 : (int)(slash - path);
    if (*link == '\0' || slash == NULL)
        return;
    try_debug_link(search, image, path, "%s%.*s/%s", root, directory, path, link);
    try_debug_link(search, image, path, "%s%.*s/.debug/%s", root, directory, path, link);
    if (*path == '/')
        try_debug_link(search, image, path, "%s" DEBUG_DIRECTORY "%.*s/%s", root, directory, path,
                       link);
}

static int take_member_of_build(void *context, const char *path, const struct elf_image *image)
{
    struct search *search = context;
    if (!is_this_build(search, image))
        return 0;
    take_path(search, path, image);
    return 1;
}

/* Try the library in an archive, whatever its name there: Android names a mapping after the archive
 * alone, or after the archive and the library. */
static void try_archive(struct search *search, const char *path)
{
    char archive[PATH_MAX];
    const char *mark = strrchr(path, '!');
    size_t length = mark == NULL ? strlen(path) : (size_t)(mark - path);
    memcpy(archive, path, length);
    archive[length] = '\0';
    each_member(archive, take_member_of_build, search);
}

static void __attribute__((format(printf, 2, 3)))
try_path(struct search *search, const char *format, ...)
{
    char path[PATH_MAX];
    struct elf_image image;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    if (is_done(search) || length < 0 || (size_t)length >= sizeof(path))
        return;
    int result = elf_image_read(path, &image);
    if (search->build_id_length > 0 &&
        (result == -ENOEXEC || (result == -ENOENT && strchr(path, '!') != NULL)))
        try_archive(search, path);
    if (result < 0)
        return;
    if (!is_this_build(search, &image)) {
        if (search->found->other_build == NULL)
            search->found->other_build = strdup(path);
        return;
    }
    take_path(search, path, &image);
    if (!image.has_dwarf)
        follow_debug_link(search, "", path, &image);
}

/* Copy `path` without "base.apk!" at the start of its last component. Return false if it has none.
 */
static bool without_apk(const char *path, char result[PATH_MAX])
{
    const char *last = base_name(path);
    if (strncmp(last, APK_PREFIX, strlen(APK_PREFIX)) != 0)
        return false;
    int length =
        snprintf(result, PATH_MAX, "%.*s%s", (int)(last - path), path, last + strlen(APK_PREFIX));
    return length < PATH_MAX;
}

static void search_directory(struct search *search, const char *directory, const char *path,
                             const char *hex)
{
    char plain[PATH_MAX];
    const char *slash = strrchr(path, '/');
    bool is_apk = without_apk(path, plain);
    try_path(search, "%s/%s", directory, path + (*path == '/'));
    if (is_apk)
        try_path(search, "%s/%s", directory, plain + (*plain == '/'));
    try_path(search, "%s/%s", directory, slash == NULL ? path : slash + 1);
    if (is_apk)
        try_path(search, "%s/%s", directory,
                 (slash == NULL ? path : slash + 1) + strlen(APK_PREFIX));
    try_path(search, "%s/.build-id/%.2s/%s.debug", directory, hex, hex + 2);
}

static void search_debug_directory(struct search *search, const char *root, const char *path,
                                   const char *hex)
{
    try_path(search, "%s" DEBUG_DIRECTORY "/.build-id/%.2s/%s.debug", root, hex, hex + 2);
    if (*path == '/') {
        try_path(search, "%s" DEBUG_DIRECTORY "%s.debug", root, path);
        try_path(search, "%s" DEBUG_DIRECTORY "%s", root, path);
    }
}

static void search_machine(struct search *search, const char *path, const char *hex)
{
    const char *home = getenv("HOME");
    if (*path == '/')
        try_path(search, "%s", path);
    search_debug_directory(search, "", path, hex);
    if (home == NULL || *home != '/')
        return;
    try_path(search, "%s/.debug/.build-id/%.2s/%s/debug", home, hex, hex + 2);
    try_path(search, "%s/.debug/.build-id/%.2s/%s/elf", home, hex, hex + 2);
    try_path(search, "%s/.debug/.build-id/%.2s/%s.debug", home, hex, hex + 2);
    if (*path == '/')
        try_path(search, "%s/.debug%s/%s/elf", home, path, hex);
}

static int try_live(void *context, const char *path)
{
    struct search *search = context;
    struct elf_image image;
    if (elf_image_read(path, &image) == 0 && is_this_build(search, &image)) {
        take_path(search, path, &image);
        search->live = image;
        if (!image.has_dwarf)
            follow_debug_link(search, "", search->path, &image);
    }
    return is_done(search) || search->found->path != NULL;
}

/* Search where the processes that have another root directory have their files. */
static void search_roots(struct search *search, const char *path, const char *hex)
{
    char root[32];
    pid_t process;
    for (size_t i = 0; (process = process_roots_item(i)) > 0 && !is_done(search); i++) {
        snprintf(root, sizeof(root), "/proc/%d/root", (int)process);
        search_debug_directory(search, root, path, hex);
        follow_debug_link(search, root, path, &search->live);
    }
}

/* Search the vdso: this machine's, if it has this build id, and the copies in Debian's packages. */
static void search_vdso(struct search *search)
{
    struct elf_image image;
    struct utsname kernel;
    static const char *const places[] = {
        DEBUG_DIRECTORY "/lib/modules/%s/vdso/vdso64.so",
        "/lib/modules/%s/vdso/vdso64.so",
        "/lib/modules/%s/build/arch/x86/entry/vdso/vdso64.so.dbg",
    };
    char path[PATH_MAX];
    if (uname(&kernel) != 0)
        return;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !is_done(search); i++) {
        snprintf(path, sizeof(path), places[i], kernel.release);
        if (elf_image_read(path, &image) == 0 && is_this_build(search, &image))
            take_path(search, path, &image);
    }
    if (!is_done(search) && elf_image_read(ELF_SOURCE_VDSO, &image) == 0 &&
        is_this_build(search, &image))
        take_path(search, ELF_SOURCE_VDSO, &image);
}

static void search_caches(struct search *search, const char *hex)
{
    char path[PATH_MAX];
    for (size_t i = 0; debuginfod_cache_path(i, hex, path, sizeof(path)); i++) {
        if (path[0] != '\0')
            try_path(search, "%s", path);
    }
}

static void ask_servers(struct search *search, struct debuginfod *debuginfod)
{
    if (debuginfod == NULL || is_done(search))
        return;
    char *path = debuginfod_find(debuginfod, search->build_id, search->build_id_length);
    if (path != NULL)
        try_path(search, "%s", path);
    free(path);
}

/* The kernel counts the start of a process in ticks. */
#define TICK_NS (INT64_C(1000000000) / 100)

/* Return whether the file is as it was when the first process began. Users cannot set the time of
 * the last change of its state. */
static bool is_unchanged(const struct symbol_finder *finder, const char *path)
{
    struct stat status;
    return finder->begun_ns > 0 && stat(path, &status) == 0 &&
           status.st_ctim.tv_sec * INT64_C(1000000000) + status.st_ctim.tv_nsec <=
               finder->begun_ns + TICK_NS;
}

/* Find the file of a module without a build id. */
static void find_by_path(const struct symbol_finder *finder, struct search *search)
{
    const char *path = search->path, *slash = strrchr(path, '/');
    for (size_t i = 0; i < finder->directories.count && !finder->by_build_id; i++) {
        try_path(search, "%s/%s", finder->directories.items[i], path + (*path == '/'));
        try_path(search, "%s/%s", finder->directories.items[i], slash == NULL ? path : slash + 1);
    }
    search->found->is_asked = search->found->path != NULL;
    if (finder->automatic && *path == '/' && search->found->path == NULL) {
        if (is_unchanged(finder, path))
            try_path(search, "%s", path);
        else if (access(path, F_OK) == 0 && search->found->other_build == NULL)
            search->found->other_build = strdup(path);
    }
    search->found->is_by_path = search->found->path != NULL;
}

/* Take a file that has the right name. */
static void __attribute__((format(printf, 2, 3)))
try_named(struct search *search, const char *format, ...)
{
    char path[PATH_MAX];
    struct elf_image image;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    if (search->found->path == NULL && length > 0 && (size_t)length < sizeof(path) &&
        elf_image_read(path, &image) == 0)
        take_path(search, path, &image);
}

/* Try the only build of a file of this name below the directories. */
static void try_indexed_name(const struct symbol_finder *finder, struct search *search)
{
    const struct indexed_file *only = NULL;
    const char *name = base_name(search->path);
    for (size_t i = 0; i < finder->file_count; i++) {
        const struct indexed_file *file = &finder->files[i];
        if (strcmp(base_name(file->path), name) != 0)
            continue;
        if (only != NULL &&
            (file->build_id_length == 0 || file->build_id_length != only->build_id_length ||
             memcmp(file->build_id, only->build_id, only->build_id_length) != 0))
            return;
        only = only == NULL ? file : only;
    }
    if (only != NULL)
        try_named(search, "%s", only->path);
}

int symbol_finder_find_named(struct symbol_finder *finder, const char *path,
                             struct symbol_found *found)
{
    struct search search = {.path = path, .found = found};
    char plain[PATH_MAX];
    size_t length = live_files_undeleted_length(path);
    *found = (struct symbol_found){0};
    if (length == 0 || length >= PATH_MAX)
        return 0;
    memcpy(plain, path, length);
    plain[length] = '\0';
    search.path = plain;
    for (size_t i = 0; i < finder->directories.count; i++) {
        const char *directory = finder->directories.items[i];
        try_named(&search, "%s/%s", directory, plain + (*plain == '/'));
        try_named(&search, "%s/%s", directory, base_name(plain));
    }
    if (finder->by_build_id)
        try_indexed_name(finder, &search);
    found->is_asked = found->path != NULL;
    if (finder->automatic && *plain == '/' && !live_files_is_deleted(path))
        try_named(&search, "%s", plain);
    found->is_by_path = found->path != NULL;
    return search.error;
}

int symbol_finder_find(struct symbol_finder *finder, const char *path, const uint8_t *build_id,
                       size_t build_id_length, struct symbol_found *found)
{
    struct search search = {
        .build_id = build_id, .build_id_length = build_id_length, .found = found};
    char hex[2 * ELF_IMAGE_BUILD_ID_MAX + 1], plain[PATH_MAX];
    *found = (struct symbol_found){0};
    size_t length = strlen(path);
    if (build_id_length > ELF_IMAGE_BUILD_ID_MAX || length >= PATH_MAX)
        return 0;
    length = live_files_undeleted_length(path);
    memcpy(plain, path, length);
    plain[length] = '\0';
    search.path = plain;
    if (build_id_length == 0) {
        find_by_path(finder, &search);
        return search.error;
    }
    hex_write(build_id, build_id_length, hex);
    for (size_t i = 0; i < finder->directories.count && !finder->by_build_id; i++)
        search_directory(&search, finder->directories.items[i], plain, hex);
    if (!finder->is_indexed && !is_done(&search) && finder->directories.count > 0) {
        search.error = symbol_directories_list(&finder->directories, index_file, finder);
        finder->is_indexed = true;
    }
    for (size_t i = 0; i < finder->file_count; i++) {
        const struct indexed_file *file = &finder->files[i];
        if (file->build_id_length == build_id_length &&
            memcmp(file->build_id, build_id, build_id_length) == 0)
            try_path(&search, "%s", file->path);
    }
    if (finder->automatic) {
        search_machine(&search, plain, hex);
        if (strcmp(plain + (*plain == '/'), ELF_SOURCE_VDSO) == 0)
            search_vdso(&search);
        else if (search.found->path == NULL)
            live_files_each(finder->processes, finder->process_count, plain, try_live, &search);
        search_roots(&search, plain, hex);
        search_caches(&search, hex);
        ask_servers(&search, finder->debuginfod);
    }
    if (search.error < 0)
        symbol_found_clear(found);
    return search.error;
}

void symbol_found_clear(struct symbol_found *found)
{
    free(found->path);
    free(found->other_build);
    *found = (struct symbol_found){0};
}
