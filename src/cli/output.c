/* See output.h. */
#include "cli/output.h"

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

#include "cli/report.h"
#include "export/pprof.h"

#define LATEST "heap_profile-latest"
#define PPROF_THREADS_MAX 16

static const char *temporary_directory(void)
{
    const char *directory = getenv("TMPDIR");
    return directory != NULL && directory[0] == '/' ? directory : "/tmp";
}

/* Print the path of the user's own symlink. /tmp has one for each user. */
static bool print_latest(char path[PATH_MAX])
{
    int printed =
        snprintf(path, PATH_MAX, "%s/" LATEST "-%u", temporary_directory(), (unsigned)geteuid());
    return printed > 0 && printed < PATH_MAX;
}

/* Point the symlink at the new directory, by rename, so that readers see the old one or the new
 * one. Create it in the new directory, where no other user can have created a file of that name. */
static void link_latest(const char *directory)
{
    char latest[PATH_MAX], fresh[PATH_MAX];
    int printed = snprintf(fresh, sizeof(fresh), "%s/.latest", directory);
    if (printed < 0 || printed >= (int)sizeof(fresh) || !print_latest(latest))
        return;
    if (symlink(directory, fresh) != 0 || rename(fresh, latest) != 0) {
        fprintf(stderr,
                "heap_profile: warning: cannot make the link %s to this profile: %s; use "
                "heap_profile report %s\n",
                latest, strerror(errno), directory);
        unlink(fresh);
    }
}

static int take_directory(const char *wanted, struct error *error)
{
    if (mkdir(wanted, 0777) == 0)
        return 0;
    if (errno != EEXIST)
        return error_set(error, -errno, "cannot create the output directory %s: %s", wanted,
                         strerror(errno));
    DIR *directory = opendir(wanted);
    if (directory == NULL)
        return error_set(error, -errno, "%s is there and is no directory that can be read: %s",
                         wanted, strerror(errno));
    int entries = 0;
    while (entries <= 2 && readdir(directory) != NULL)
        entries++;
    closedir(directory);
    if (entries > 2) /* . and .. */
        return error_set(error, -ENOTEMPTY,
                         "the output directory %s is not empty: name a new one, or empty it",
                         wanted);
    return 0;
}

int output_create(struct output *output, const char *wanted, struct error *error)
{
    if (wanted != NULL) {
        int result = take_directory(wanted, error);
        if (result != 0)
            return result;
        if (realpath(wanted, output->directory) == NULL)
            return error_set(error, -errno, "cannot resolve %s: %s", wanted, strerror(errno));
    } else {
        int result = output_make_temporary(output->directory, error);
        if (result != 0)
            return result;
        output->is_own = true;
    }
    int printed = snprintf(output->trace, sizeof(output->trace), "%s/raw-trace", output->directory);
    if (printed < 0 || (size_t)printed >= sizeof(output->trace))
        return error_set(error, -ENAMETOOLONG, "the path %s is too long", output->directory);
    return 0;
}

void output_publish(const struct output *output)
{
    if (output->is_own)
        link_latest(output->directory);
}

void output_discard(const struct output *output)
{
    unlink(output->trace);
    if (output->is_own)
        rmdir(output->directory);
}

int output_make_temporary(char path[PATH_MAX], struct error *error)
{
    int printed = snprintf(path, PATH_MAX, "%s/heap_profile-XXXXXX", temporary_directory());
    if (printed < 0 || printed >= PATH_MAX)
        return error_set(error, -ENAMETOOLONG, "the path in TMPDIR is too long");
    if (mkdtemp(path) == NULL)
        return error_set(error, -errno, "cannot create %s: %s; set TMPDIR or use -o", path,
                         strerror(errno));
    return 0;
}

int output_open_trace(const struct output *output, struct error *error)
{
    int fd = open(output->trace, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set(error, -errno, "cannot write %s: %s", output->trace, strerror(errno));
    return fd;
}

static int write_one(const char *directory, const struct profile *profile,
                     const struct profile_heap *heap, const struct profile_dump *dump,
                     const struct pprof_options *options, struct error *error)
{
    static const char gzip_suffix[] = ".gz";
    char name[NAME_MAX + 1], path[PATH_MAX];
    pprof_file_name(profile, heap, dump, name, sizeof(name));
    if (!options->gzip)
        name[strlen(name) - strlen(gzip_suffix)] = '\0';
    int printed = snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (printed < 0 || (size_t)printed >= sizeof(path))
        return error_set(error, -ENAMETOOLONG, "the path %s/%s is too long", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set(error, -errno, "cannot write %s: %s", path, strerror(errno));
    int result = pprof_write(profile, heap, dump, options, fd, error);
    if (close(fd) != 0 && result == 0)
        result = error_set(error, -errno, "cannot write %s: %s", path, strerror(errno));
    return result;
}

/* The files to be written, taken by one thread after the other. */
struct pprof_work {
    const char *directory;
    const struct profile *profile;
    const struct output_pprof *choice;
    pthread_t teller; /* who tells how far it is */
    struct pprof_file {
        const struct profile_heap *heap;
        const struct profile_dump *dump;
    } * files;
    size_t count;
    _Atomic size_t next;
    _Atomic bool failed;
    struct error error; /* of the one that failed first */
};

static void *write_files(void *context)
{
    struct pprof_work *work = context;
    size_t at;
    while ((at = work->next++) < work->count && !work->failed) {
        struct error error;
        const struct pprof_file *file = &work->files[at];
        if (write_one(work->directory, work->profile, file->heap, file->dump,
                      &work->choice->options, &error) == 0) {
            if (work->choice->tell != NULL && pthread_equal(pthread_self(), work->teller))
                work->choice->tell(work->choice->tell_context, at + 1, work->count);
            continue;
        }
        if (!atomic_exchange(&work->failed, true))
            work->error = error;
    }
    return NULL;
}

/* As many at a time as there are processors; each has tables of its own in memory. */
static void write_all(struct pprof_work *work)
{
    pthread_t threads[PPROF_THREADS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors < 1 ? 1 : (size_t)processors, started = 0;
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

int output_write_pprof(const char *directory, const struct profile *profile,
                       const struct output_pprof *choice, struct error *error)
{
    struct pprof_work work = {
        .directory = directory, .profile = profile, .choice = choice, .teller = pthread_self()};
    size_t dumps = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        dumps += profile->heaps[i].dump_count;
    work.files = calloc(dumps + 1, sizeof(*work.files));
    if (work.files == NULL)
        return error_set(error, -ENOMEM, "no memory to write pprof files");
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++) {
            if (output_has_pprof(profile, heap, &heap->dumps[j], choice))
                work.files[work.count++] = (struct pprof_file){heap, &heap->dumps[j]};
        }
    }
    write_all(&work);
    free(work.files);
    if (work.failed)
        return error_set(error, work.error.code, "%s", work.error.message);
    return (int)work.count;
}

/* The best that stands in a directory: with names for its addresses if there are any. */
static int find_in(const char *directory, char path[PATH_MAX], struct error *error)
{
    static const char *const names[] = {"symbolized-trace", "raw-trace"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int printed = snprintf(path, PATH_MAX, "%s/%s", directory, names[i]);
        if (printed < 0 || printed >= PATH_MAX)
            return error_set(error, -ENAMETOOLONG, "the path %s is too long", directory);
        if (access(path, F_OK) == 0)
            return 0;
    }
    return -errno;
}

/* Find the directory that the user's symlink names. Refuse a symlink or a directory that another
 * user put there since. */
static int find_latest(char directory[PATH_MAX], struct error *error)
{
    char latest[PATH_MAX];
    struct stat info;
    if (!print_latest(latest))
        return error_set(error, -ENAMETOOLONG, "the path in TMPDIR is too long");
    ssize_t length = -1;
    bool is_there = lstat(latest, &info) == 0;
    bool is_ours = is_there && S_ISLNK(info.st_mode) && info.st_uid == geteuid();
    if (is_ours && (length = readlink(latest, directory, PATH_MAX - 1)) > 0) {
        directory[length] = 0;
        is_there = stat(directory, &info) == 0;
        is_ours = is_there && info.st_uid == geteuid();
    }
    if (is_ours && length > 0)
        return 0;
    int code = is_there ? -EPERM : -errno;
    const char *reason = is_there ? "it, or what it names, is not this user's" : strerror(-code);
    return error_set(error, code,
                     "there is no latest profile (%s: %s): make one by heap_profile host -- "
                     "COMMAND, or name one",
                     latest, reason);
}

int output_find_trace(const char *argument, char path[PATH_MAX], struct error *error)
{
    char latest[PATH_MAX];
    struct stat info;
    int code = 0;
    if (argument == NULL) {
        code = find_latest(latest, error);
        if (code == 0 && (code = find_in(latest, path, error)) < 0 && code != -ENAMETOOLONG)
            error_set(error, code,
                      "there is no latest profile (%s: %s): make one by heap_profile host -- "
                      "COMMAND, or name one",
                      path, strerror(-code));
    } else if (stat(argument, &info) == 0 && S_ISDIR(info.st_mode)) {
        code = find_in(argument, path, error);
        /* What cannot be looked at is complained of by whoever opens it. */
        if (code == -ENOENT)
            error_set(error, code,
                      "the directory %s has no raw-trace in it: name one that heap_profile wrote, "
                      "or a trace file",
                      argument);
        else if (code != -ENAMETOOLONG)
            code = 0;
    } else if (snprintf(path, PATH_MAX, "%s", argument) >= PATH_MAX) {
        code = error_set(error, -ENAMETOOLONG, "the path %s is too long", argument);
    }
    return code;
}
