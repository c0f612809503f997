/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile clean: lists what earlier runs left on this machine, and removes it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profile/symbolize/symbol_cache.h"
#include "tools/cli/cmd.h"
#include "tools/cli/files/held_directories.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/parse.h"
#include "tools/print/format.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: heap_profile clean [options]\n"
    "\n"
    "Lists the profiles that heap_profile wrote to TMPDIR or /tmp because no -o named a place, "
    "and\n"
    "the cache of symbols, and removes them after asking. A profile that is being recorded stays.\n"
    "\n"
    "  --older TIME   only what was last written longer ago: 12h, 7d, 4w\n"
    "  --yes          remove without asking\n"
    "\n"
    "Exit code: 0, also if there is nothing or the answer is no; 1 if something could not be\n"
    "removed, 2 for wrong usage.\n";

#define FILES_MAX 100000u /* of a directory */
#define OLDER_MS_MAX (UINT64_C(100) * 365 * 86400 * 1000)

struct request {
    uint64_t older_ms;
    bool yes;
};

static bool take_older(void *member, const char *name, const char *value)
{
    (void)name;
    return parse_time("--older", value, 1, OLDER_MS_MAX, member);
}

static const struct option_entry options[] = {
    OPTION_ENTRY_CALL("older", 0, struct request, older_ms, take_older),
    OPTION_ENTRY("yes", 0, OPTION_SET, struct request, yes),
    OPTIONS_END,
};

/* A directory of ours whose files may go. */
struct remnant {
    char *path;
    dev_t device;
    ino_t inode;
    uint64_t bytes, files;
    time_t written; /* last */
    bool has_trace;
    bool is_cache; /* the directory itself stays */
};

struct remnants {
    struct remnant *items;
    size_t count, capacity;
};

/* --- what there is --- */

typedef void visit_fn(void *context, int fd, const char *name, const struct stat *status);

/* Call `visit` for each file in a directory. Return false, perhaps after some, if there is anything
 * in it that a recording does not write; in the cache, that is no file. */
static bool visit_files(int fd, bool is_cache, visit_fn *visit, void *context)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    bool has_own_only = directory != NULL;
    if (directory == NULL && copy >= 0)
        close(copy);
    for (size_t i = 0; has_own_only && (entry = readdir(directory)) != NULL; i++) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        has_own_only = i < FILES_MAX && (is_cache || output_is_own_file(entry->d_name)) &&
                       fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(status.st_mode);
        if (has_own_only)
            visit(context, fd, entry->d_name, &status);
    }
    if (directory != NULL)
        closedir(directory);
    return has_own_only;
}

static void count_file(void *context, int fd, const char *name, const struct stat *status)
{
    (void)fd;
    struct remnant *remnant = context;
    remnant->bytes += (uint64_t)status->st_size;
    remnant->files++;
    remnant->has_trace |= strcmp(name, "raw-trace") == 0;
    if (status->st_mtime > remnant->written)
        remnant->written = status->st_mtime;
}

static void clean_add(struct remnants *remnants, const char *path, int fd, bool is_cache,
                      const struct request *request)
{
    struct remnant remnant = {.path = xstrdup(path), .is_cache = is_cache};
    struct stat status;
    bool is_ours = fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
                   visit_files(fd, is_cache, count_file, &remnant) &&
                   (is_cache ? remnant.files > 0 : remnant.has_trace);
    if (is_ours) {
        remnant.device = status.st_dev;
        remnant.inode = status.st_ino;
    }
    if (is_ours && remnant.written <= time(NULL) - (time_t)(request->older_ms / 1000))
        XARRAY_ADD(&remnants->items, &remnants->count, &remnants->capacity, remnant);
    else
        free(remnant.path);
}

static int open_directory(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void find_profiles(struct remnants *remnants, const struct request *request)
{
    const char *place = output_temporary_directory();
    DIR *directory = opendir(place);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char path[PATH_MAX];
        int fd = output_is_temporary_name(entry->d_name)
                     ? open_directory(dirfd(directory), entry->d_name)
                     : -1;
        if (fd < 0)
            continue;
        snprintf(path, sizeof(path), "%.3800s/%s", place, entry->d_name);
        clean_add(remnants, path, fd, false, request);
        close(fd);
    }
    if (directory != NULL)
        closedir(directory);
}

static void find_cache(struct remnants *remnants, const struct request *request)
{
    char link[64], path[PATH_MAX];
    int fd = symbol_cache_directory();
    if (fd < 0)
        return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    clean_add(remnants, path, fd, true, request);
    close(fd);
}

/* Take out what somebody is recording to. */
static void leave_out_held(struct remnants *remnants)
{
    struct held_directories held;
    size_t kept = 0;
    held_directories_find(&held);
    for (size_t i = 0; i < remnants->count; i++) {
        const struct stat status = {.st_dev = remnants->items[i].device,
                                    .st_ino = remnants->items[i].inode};
        if (held_directories_holder(&held, &status) == 0)
            remnants->items[kept++] = remnants->items[i];
        else
            free(remnants->items[i].path);
    }
    remnants->count = kept;
    held_directories_clear(&held);
}

/* --- what happens to it --- */

static int compare_written(const void *a, const void *b)
{
    const struct remnant *left = a, *right = b;
    if (left->is_cache != right->is_cache)
        return left->is_cache ? 1 : -1;
    return left->written < right->written ? -1 : left->written > right->written;
}

static uint64_t list(const struct remnants *remnants)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < remnants->count; i++) {
        const struct remnant *remnant = &remnants->items[i];
        char date[32] = "";
        struct tm broken;
        if (localtime_r(&remnant->written, &broken) != NULL)
            strftime(date, sizeof(date), "%F %R", &broken);
        printf("%10s  %s  ", format_bytes((double)remnant->bytes).bytes, date);
        format_print(stdout, remnant->path, FORMAT_LINE_WIDTH);
        puts(remnant->is_cache ? "  (cache of symbols)" : "");
        bytes += remnant->bytes;
    }
    return bytes;
}

static bool is_confirmed(const struct request *request, uint64_t bytes)
{
    char answer[16] = "";
    if (request->yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        puts("Nothing was removed: --yes removes it.");
        return false;
    }
    printf("Remove all of it, %s? [y/N] ", format_bytes((double)bytes).bytes);
    fflush(stdout);
    return fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

static void remove_file(void *context, int fd, const char *name, const struct stat *status)
{
    (void)status;
    int *code = context;
    if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
        *code = -errno;
}

/* Remove the files, and then the directory, if it is still the one that was listed. */
static int remove_remnant(const struct remnant *remnant)
{
    int code = 0, fd = open_directory(AT_FDCWD, remnant->path);
    struct stat status;
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &status) < 0 || status.st_dev != remnant->device ||
        status.st_ino != remnant->inode)
        code = -ESTALE;
    else if (!visit_files(fd, remnant->is_cache, remove_file, &code) && code == 0)
        code = -ENOTEMPTY;
    close(fd);
    if (code == 0 && !remnant->is_cache && rmdir(remnant->path) < 0)
        code = -errno;
    return code;
}

static int remove_all(const struct remnants *remnants)
{
    int result = VERB_DONE;
    for (size_t i = 0; i < remnants->count; i++) {
        int code = remove_remnant(&remnants->items[i]);
        if (code == 0)
            continue;
        format_printf(stderr, "heap_profile: cannot remove %s: %s\n", remnants->items[i].path,
                      strerror(-code));
        result = VERB_FAILED;
    }
    return result;
}

int cmd_clean(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile clean", help, options, false};
    struct request request = {0};
    struct remnants remnants = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    if (optind < argc) {
        format_printf(stderr, "heap_profile: clean takes no '%s'; see heap_profile clean --help\n",
                      argv[optind]);
        return VERB_USAGE;
    }
    find_profiles(&remnants, &request);
    find_cache(&remnants, &request);
    leave_out_held(&remnants);
    if (remnants.count > 0)
        qsort(remnants.items, remnants.count, sizeof(*remnants.items), compare_written);
    uint64_t bytes = list(&remnants);
    code = VERB_DONE;
    if (remnants.count == 0)
        format_printf(stdout, "There is nothing to remove: no profile in %s%s, and no symbols.\n",
                      output_temporary_directory(), request.older_ms > 0 ? " is so old" : "");
    else if (is_confirmed(&request, bytes)) {
        leave_out_held(&remnants);
        code = remove_all(&remnants);
    }
    for (size_t i = 0; i < remnants.count; i++)
        free(remnants.items[i].path);
    free(remnants.items);
    return verb_end_output("list", code);
}
