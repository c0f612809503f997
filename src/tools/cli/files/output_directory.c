/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, names and finds the output directories of profiles, and writes their pprof files. */
#include "tools/cli/files/output_directory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/export/pprof.h"
#include "tools/print/format.h"
#include "tools/print/wait_notice.h"
#include "util/output_file.h"
#include "util/safe_directory.h"
#include "util/xmalloc.h"

#define LATEST "heap_profile-latest"
#define LINK_TRIES_MAX 100u
#define PPROF_THREADS_MAX 16
/* One file with so few callsites is packed in less than 1 ms. */
#define SMALL_CALLSITES 4096u

bool output_is_temporary_name(const char *name)
{
    size_t length = strlen(OUTPUT_TEMPORARY_PREFIX), random = strlen("XXXXXX");
    return strncmp(name, OUTPUT_TEMPORARY_PREFIX, length) == 0 && strlen(name) == length + random &&
           !islower((unsigned char)name[length + random - 1]);
}

bool output_is_own_file(const char *name)
{
    static const char *const names[] = {"raw-trace", "symbols", "deobfuscation-packets",
                                        "symbolized-trace", "memory_infra.json.gz"};
    static const char pprof[] = ".pb.gz";
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return length > strlen(pprof) && strcmp(name + length - strlen(pprof), pprof) == 0;
}

const char *output_temporary_directory(void)
{
    const char *directory = getenv("TMPDIR");
    return directory != NULL && directory[0] == '/' ? directory : "/tmp";
}

/* Print the name of the user's own symlink. /tmp has one for each user. */
static void print_latest(char name[NAME_MAX + 1])
{
    snprintf(name, NAME_MAX + 1, LATEST "-%u", (unsigned)geteuid());
}

/* Point the symlink at `target`, by rename, so that readers see the old one or the new one. */
static int replace_link(int parent, const char *latest, const char *target)
{
    int code = -EEXIST;
    for (unsigned i = 0; code == -EEXIST && i < LINK_TRIES_MAX; i++) {
        char fresh[NAME_MAX + 1];
        snprintf(fresh, sizeof(fresh), ".%.200s.", latest);
        safe_directory_put_random(fresh);
        if (symlinkat(target, parent, fresh) != 0) {
            code = -errno;
        } else if (renameat(parent, fresh, parent, latest) == 0) {
            code = 0;
        } else {
            code = -errno;
            unlinkat(parent, fresh, 0);
        }
    }
    return code;
}

/* Make the link. If that fails, verbs would show an older profile, or find none where the user
 * named no place: then warn. */
static void publish(const char *target, bool is_named)
{
    char latest[NAME_MAX + 1], place[PATH_MAX];
    struct error error;
    struct stat old;
    print_latest(latest);
    int parent = safe_directory_open(output_temporary_directory(), &error);
    int code = parent < 0 ? parent : replace_link(parent, latest, target);
    if (parent >= 0 && code < 0)
        error_set(&error, code, "%s", strerror(-code));
    if (parent >= 0)
        close(parent);
    snprintf(place, sizeof(place), "%.4000s/%.80s", output_temporary_directory(), latest);
    if (code < 0 && (!is_named || lstat(place, &old) == 0))
        format_printf(stderr,
                      "heap_profile: warning: cannot make the link %s to this profile: %s; use "
                      "heap_profile report %s\n",
                      place, error.message, target);
}

static bool is_empty(int fd)
{
    int entries = 0, copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    if (directory == NULL && copy >= 0)
        close(copy);
    while (directory != NULL && entries <= 2 && readdir(directory) != NULL)
        entries++;
    if (directory != NULL)
        closedir(directory);
    return directory != NULL && entries <= 2; /* . and .. */
}

static int take_directory(struct output *output, const char *wanted, struct error *error)
{
    if (*wanted == '\0')
        return error_set(error, -ENOENT, "the output directory has no name");
    output->fd = safe_directory_make(wanted, error);
    if (output->fd < 0)
        return output->fd;
    if (realpath(wanted, output->directory) == NULL)
        return error_set(error, -errno, "cannot resolve %s: %s", wanted, strerror(errno));
    if (!is_empty(output->fd))
        return error_set(error, -ENOTEMPTY,
                         "the output directory %s is not empty: name a new one, or empty it",
                         wanted);
    return 0;
}

int output_create(struct output *output, const char *wanted, struct error *error)
{
    output->is_own = wanted == NULL;
    if (wanted != NULL) {
        int result = take_directory(output, wanted, error);
        if (result != 0)
            return result;
    } else if ((output->fd = output_make_temporary(output->directory, error)) < 0) {
        return output->fd;
    }
    int printed = snprintf(output->trace, sizeof(output->trace), "%s/raw-trace", output->directory);
    if (printed < 0 || (size_t)printed >= sizeof(output->trace))
        return error_set(error, -ENAMETOOLONG, "the path %s is too long", output->directory);
    return 0;
}

void output_publish(const struct output *output)
{
    publish(output->directory, !output->is_own);
}

void output_publish_trace(const char *path)
{
    char whole[PATH_MAX];
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && realpath(path, whole) != NULL)
        publish(whole, true);
}

void output_discard(const struct output *output)
{
    unlinkat(output->fd, "raw-trace", 0);
    if (output->is_own)
        rmdir(output->directory);
}

int output_make_temporary(char path[PATH_MAX], struct error *error)
{
    char name[NAME_MAX + 1];
    const char *place = output_temporary_directory();
    struct error reason;
    int parent = safe_directory_open(place, &reason);
    if (parent < 0)
        return error_set(error, parent, "%s; set TMPDIR or use -o", reason.message);
    int fd = safe_directory_make_unique(parent, OUTPUT_TEMPORARY_PREFIX, name);
    close(parent);
    if (fd < 0)
        return error_set(error, fd, "cannot create a directory in %s: %s; set TMPDIR or use -o",
                         place, strerror(-fd));
    if (snprintf(path, PATH_MAX, "%s/%s", place, name) >= PATH_MAX) {
        close(fd);
        return error_set(error, -ENAMETOOLONG, "the path in TMPDIR is too long");
    }
    return fd;
}

int output_open_trace(const struct output *output, struct error *error)
{
    struct output_file file;
    int code = output_file_open_in(&file, output->fd, output->directory, "raw-trace",
                                   OUTPUT_FILE_NEW | OUTPUT_FILE_AT_ONCE, error);
    return code < 0 ? code : file.fd;
}

/* The files to be written. Threads take one after the other. */
struct pprof_work {
    int directory;
    const char *path;
    struct pprof_file_names names;
    const struct output_pprof *choice;
    unsigned packing_threads; /* of each file */
    pthread_t reporter;       /* the thread that reports progress */
    struct pprof_file {
        const struct profile_heap *heap;
        const struct profile_dump *dump;
    } * files;
    size_t count;
    _Atomic size_t next;
    _Atomic bool failed;
    struct error error; /* of the first file that failed */
};

static int write_one(const struct pprof_work *work, const struct pprof_file *which,
                     struct error *error)
{
    static const char gzip_suffix[] = ".gz";
    struct pprof_options options = work->choice->options;
    options.packing_threads = work->packing_threads;
    char name[NAME_MAX + 1];
    struct output_file file;
    pprof_file_name(&work->names, which->heap, which->dump, name, sizeof(name));
    if (!options.gzip)
        name[strlen(name) - strlen(gzip_suffix)] = '\0';
    int result = output_file_open_in(&file, work->directory, work->path, name, 0, error);
    if (result < 0)
        return result;
    result = pprof_write(work->names.profile, which->heap, which->dump, &options, file.fd, error);
    return output_file_close(&file, result, error);
}

static void *write_files(void *context)
{
    struct pprof_work *work = context;
    size_t at;
    while ((at = work->next++) < work->count && !work->failed) {
        struct error error;
        const struct pprof_file *file = &work->files[at];
        if (write_one(work, file, &error) == 0) {
            if (work->choice->tell != NULL && pthread_equal(pthread_self(), work->reporter))
                work->choice->tell(work->choice->tell_context, at + 1, work->count);
            continue;
        }
        if (!atomic_exchange(&work->failed, true))
            work->error = error;
    }
    return NULL;
}

/* Write the files on as many threads as there are processors. Each thread has its own tables in
 * memory. */
static void write_all(struct pprof_work *work)
{
    pthread_t threads[PPROF_THREADS_MAX];
    bool is_small = work->count == 1 && work->names.profile->callsite_count < SMALL_CALLSITES;
    long processors = is_small ? 1 : sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors < 1 ? 1 : (size_t)processors, started = 0;
    if (work->count == 1)
        work->packing_threads = (unsigned)most - 1;
    if (most > work->count)
        most = work->count;
    while (started + 1 < most && started < PPROF_THREADS_MAX &&
           pthread_create(&threads[started], NULL, write_files, work) == 0)
        started++;
    write_files(work);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

static bool is_in(uint64_t number, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

bool output_has_pprof(const struct profile *profile, const struct profile_heap *heap,
                      const struct profile_dump *dump, const struct output_pprof *choice)
{
    uint64_t pid = (uint64_t)profile->processes[heap->process].pid;
    return !heap->unseen &&
           (choice->pid_count == 0 || is_in(pid, choice->pids, choice->pid_count)) &&
           (choice->timestamp_count == 0 ||
            is_in(dump->boottime_ns, choice->timestamps, choice->timestamp_count));
}

int output_write_pprof(int directory, const char *path, const struct profile *profile,
                       const struct output_pprof *choice, struct error *error)
{
    struct pprof_work work = {
        .directory = directory, .path = path, .choice = choice, .reporter = pthread_self()};
    size_t dumps = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        dumps += profile->heaps[i].dump_count;
    work.files = xcalloc(dumps + 1, sizeof(*work.files));
    pprof_file_names_make(&work.names, profile);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++) {
            if (output_has_pprof(profile, heap, &heap->dumps[j], choice))
                work.files[work.count++] = (struct pprof_file){heap, &heap->dumps[j]};
        }
    }
    write_all(&work);
    pprof_file_names_clear(&work.names);
    free(work.files);
    if (work.failed)
        return error_set(error, work.error.code, "%s", work.error.message);
    return (int)work.count;
}

static int complain_of_latest(const char *place, const char *reason, int code, struct error *error)
{
    return error_set(error, code,
                     "there is no latest profile (%.200s: %.150s): make one by heap_profile host "
                     "-- COMMAND, or name one",
                     place, reason);
}

/* Find the trace in a directory, preferably the one with symbols. A pipe of this name, for whose
 * writer a reader would wait, is nobody's trace. */
static int find_in(const char *directory, char path[PATH_MAX], struct error *error)
{
    static const char *const names[] = {"symbolized-trace", "raw-trace"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stat info;
        int printed = snprintf(path, PATH_MAX, "%s/%s", directory, names[i]);
        if (printed < 0 || printed >= PATH_MAX)
            return error_set(error, -ENAMETOOLONG, "the path %s is too long", directory);
        if (stat(path, &info) == 0)
            return S_ISREG(info.st_mode)
                       ? 0
                       : error_set(error, -EINVAL, "%s is not a regular file", path);
    }
    return -errno;
}

static bool is_callers(int directory, const char *name)
{
    struct stat info;
    return fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0 &&
           info.st_uid == geteuid();
}

/* Open the directory of the profile that a link names: the directory itself, or that of a trace.
 * Write the trace's path, or "" for a directory, to `trace`. */
static int open_target(const char *target, char trace[PATH_MAX], struct error *error)
{
    char name[NAME_MAX + 1];
    struct stat info;
    *trace = '\0';
    if (stat(target, &info) != 0 || S_ISDIR(info.st_mode))
        return safe_directory_open(target, error);
    strcpy(trace, target);
    return safe_directory_open_parent(target, name, error);
}

/* Follow the user's symlink if it and the directory that it leads to are the caller's and no
 * stranger can change where it leads. Write what it names to `target`, and the trace that it names,
 * if it names one, to `trace`. Return the directory's descriptor. */
static int open_latest(int parent, const char *link, char target[PATH_MAX], char trace[PATH_MAX],
                       struct error *error)
{
    static const char not_ours[] = "it, or its target, is not this user's alone";
    ssize_t length = readlinkat(parent, link, target, PATH_MAX - 1);
    target[length > 0 ? length : 0] = '\0';
    if (length < 0 && errno != EINVAL)
        return error_set(error, -errno, "%s", strerror(errno));
    if (!is_callers(parent, link) || *target != '/')
        return error_set(error, -EPERM, not_ours);
    int fd = open_target(target, trace, error);
    /* Any directory may hold a trace; the trace itself is checked. */
    bool is_other = fd == -EPERM || (fd >= 0 && *trace == '\0' && !is_callers(fd, ""));
    if (is_other && fd >= 0)
        close(fd);
    return is_other ? error_set(error, -EPERM, not_ours) : fd;
}

static int find_latest(char path[PATH_MAX], struct error *error)
{
    char link[NAME_MAX + 1], place[PATH_MAX], target[PATH_MAX] = "";
    struct error reason;
    print_latest(link);
    snprintf(place, sizeof(place), "%.4000s/%.80s", output_temporary_directory(), link);
    int parent = safe_directory_open(output_temporary_directory(), &reason), code = parent;
    if (code >= 0)
        code = open_latest(parent, link, target, path, &reason);
    if (parent >= 0)
        close(parent);
    if (code < 0)
        return complain_of_latest(place, reason.message, code, error);
    int fd = code;
    code = *path != '\0' ? 0 : find_in(target, path, error);
    if (code < 0 && code != -ENAMETOOLONG && code != -EINVAL)
        complain_of_latest(path, strerror(-code), code, error);
    /* Another user's file in the caller's directory is not the caller's profile. */
    if (code == 0 && !is_callers(fd, strrchr(path, '/') + 1))
        code = complain_of_latest(path, "it belongs to another user", -EPERM, error);
    close(fd);
    return code;
}

/* Refuse TRACE@DUMP, and name the option that this verb has instead. Return 0 for another argument.
 */
static int refuse_dump(const char *argument, struct error *error)
{
    const char *at = strrchr(argument, '@');
    char path[PATH_MAX];
    struct stat info;
    if (at == NULL || at - argument >= PATH_MAX || stat(argument, &info) == 0)
        return 0;
    snprintf(path, sizeof(path), "%.*s", (int)(at - argument), argument);
    if (*path != '\0' && stat(path, &info) < 0)
        return 0;
    return error_set(
        error, -ENOENT,
        "%.200s: there is no such file; only diff, leaks, explore, view and check take a "
        "dump after an @: report and the converters take %.200s%s--dump %.50s",
        argument, path, *path != '\0' ? " " : "", at + 1);
}

int output_find_trace(const char *argument, char path[PATH_MAX], struct error *error)
{
    struct stat info;
    int code = 0;
    if (argument == NULL) {
        code = find_latest(path, error);
    } else if ((code = refuse_dump(argument, error)) < 0) {
        return code;
    } else if (stat(argument, &info) == 0 && S_ISDIR(info.st_mode)) {
        code = find_in(argument, path, error);
        /* Other errors are reported by the code that opens it. */
        if (code == -ENOENT)
            error_set(error, code,
                      "the directory %s has no raw-trace in it: name one that heap_profile wrote, "
                      "or a trace file",
                      argument);
        else if (code != -ENAMETOOLONG && code != -EINVAL)
            code = 0;
    } else if (snprintf(path, PATH_MAX, "%s", argument) >= PATH_MAX) {
        code = error_set(error, -ENAMETOOLONG, "the path %s is too long", argument);
    } else {
        wait_notice_announce_input(path);
    }
    return code;
}
