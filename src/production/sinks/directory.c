/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `type = directory`: a pprof file for each period, in one directory. Names begin with the period's
 * start in UTC, so they sort by time:
 *
 *     20261123T085500.123Z.web.4711.libc.malloc.pb.gz
 *
 * A file appears whole or not at all. When the files together exceed `size`, or are older than
 * `max_age`, the oldest are removed. Files with other names stay, and do not count.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "production/sinks/encode_each.h"
#include "production/sinks/kinds.h"
#include "production/sinks/period_pprof.h"
#include "production/sinks/private_directory.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/output_file.h"
#include "util/sorted_search.h"
#include "util/write_all.h"

#define DEFAULT_SIZE_BYTES (UINT64_C(1) << 30)
/* A file takes whole blocks. So the size also limits the number of files. */
#define BLOCK_BYTES 4096u
#define NAME_PART_BYTES 64
#define SUFFIX ".pb.gz"
#define STAMP_FORMAT                                                                               \
    "dddddddd"                                                                                     \
    "T"                                                                                            \
    "dddddd"                                                                                       \
    "."                                                                                            \
    "ddd"                                                                                          \
    "Z."
#define STAMP_BYTES (sizeof(STAMP_FORMAT) - 1)

struct kept_file {
    char *name;
    uint64_t bytes;
};

struct directory {
    char *path;
    int fd;
    uint64_t bytes_max, max_age_ms; /* max_age_ms 0: any age */
    struct kept_file *files;        /* by name */
    size_t count, capacity;
    uint64_t bytes;
};

/* --- names --- */

static bool is_ours(const char *name)
{
    size_t length = strlen(name);
    if (length < STAMP_BYTES + strlen(SUFFIX) ||
        strcmp(name + length - strlen(SUFFIX), SUFFIX) != 0)
        return false;
    for (size_t i = 0; i < STAMP_BYTES; i++) {
        bool is_digit = name[i] >= '0' && name[i] <= '9';
        if (STAMP_FORMAT[i] == 'd' ? !is_digit : name[i] != STAMP_FORMAT[i])
            return false;
    }
    return true;
}

static void put_stamp(char stamp[STAMP_BYTES + 1], int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / 1000000000);
    char text[32];
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &utc);
    snprintf(stamp, STAMP_BYTES + 1, "%.15s.%03uZ.", text,
             (unsigned)(time_ns / 1000000 % 1000) % 1000);
}

/* Write a part of a name in characters that every shell and file system keeps. */
static void directory_put_part(char part[NAME_PART_BYTES], const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    snprintf(part, NAME_PART_BYTES, "%s", text);
    for (char *at = part; *(at += strspn(at, allowed)) != '\0'; at++)
        *at = '_';
}

/* --- rotation --- */

static size_t directory_find(const struct directory *directory, const char *name)
{
    return SORTED_SEARCH(directory->count, i, strcmp(directory->files[i].name, name) < 0);
}

static void forget_oldest(struct directory *directory, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        directory->bytes -= directory->files[i].bytes;
        free(directory->files[i].name);
    }
    directory->count -= count;
    if (count == 0)
        return;
    memmove(directory->files, directory->files + count,
            directory->count * sizeof(*directory->files));
}

/* Number of files that are removed with each new one because of their age: a clock that is wrong
 * for a while does not cost all of them. */
#define AGED_MAX 4

static void rotate(struct directory *directory)
{
    char oldest[STAMP_BYTES + 1] = "";
    uint64_t bytes = directory->bytes, now_ms = clock_read_ms(CLOCK_REALTIME);
    size_t count = 0;
    if (directory->max_age_ms > 0 && now_ms > directory->max_age_ms)
        put_stamp(oldest, (int64_t)((now_ms - directory->max_age_ms) * UINT64_C(1000000)));
    while (count < directory->count &&
           (bytes > directory->bytes_max ||
            (count < AGED_MAX && strcmp(directory->files[count].name, oldest) < 0))) {
        bytes -= directory->files[count].bytes;
        unlinkat(directory->fd, directory->files[count].name, 0);
        count++;
    }
    forget_oldest(directory, count);
}

/* Take a file of the directory into account, which may replace an older one of its name. */
static int directory_keep(struct directory *directory, const char *name, uint64_t size)
{
    size_t index = directory_find(directory, name);
    uint64_t bytes = (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    if (index < directory->count && strcmp(directory->files[index].name, name) == 0) {
        directory->bytes += bytes - directory->files[index].bytes;
        directory->files[index].bytes = bytes;
        return 0;
    }
    char *copy = strdup(name);
    if (copy == NULL ||
        ARRAY_RESERVE(&directory->files, &directory->capacity, directory->count, 1) < 0) {
        free(copy);
        return -ENOMEM;
    }
    struct kept_file *place = &directory->files[index];
    memmove(place + 1, place, (directory->count - index) * sizeof(*place));
    *place = (struct kept_file){copy, bytes};
    directory->count++;
    directory->bytes += bytes;
    return 0;
}

static int find_files(struct directory *directory)
{
    const struct dirent *file;
    struct stat status;
    int copy = openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    if (stream == NULL) {
        code = -errno;
        if (copy >= 0)
            close(copy);
        return code;
    }
    while (code == 0 && (errno = 0, file = readdir(stream)) != NULL) {
        if (is_ours(file->d_name) &&
            fstatat(directory->fd, file->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            code = directory_keep(directory, file->d_name, (uint64_t)status.st_size);
    }
    closedir(stream);
    return code;
}

/* --- the kind --- */

static void directory_close(void *state)
{
    struct directory *directory = state;
    forget_oldest(directory, directory->count);
    free(directory->files);
    if (directory->fd >= 0)
        close(directory->fd);
    free(directory->path);
    free(directory);
}

/* The files are for their owner only, but others can see their names, and so programs and times. */
static void tell_readers(const struct directory *directory, struct error *remark)
{
    struct stat status;
    if (fstat(directory->fd, &status) == 0 && (status.st_mode & 077) != 0)
        error_set(remark, -EACCES,
                  "%.300s: others can look into this directory (mode %03o); chmod go= it, unless "
                  "they may see the names of programs",
                  directory->path, (unsigned)status.st_mode & 0777);
}

static void *directory_open(struct settings_section *section, struct error *error)
{
    const char *path = setting_text(section, "path", NULL);
    struct directory *directory = calloc(1, sizeof(*directory));
    if (directory == NULL) {
        error_set(error, -ENOMEM, "out of memory");
        return NULL;
    }
    directory->fd = -1;
    directory->bytes_max = DEFAULT_SIZE_BYTES;
    if (path == NULL || *path != '/')
        setting_refuse(section, "path", error, "an absolute path of a directory is needed");
    else if (setting_bytes(section, "size", &directory->bytes_max, error) == 0 &&
             setting_duration_ms(section, "max_age", &directory->max_age_ms, error) == 0 &&
             (directory->path = strdup(path)) != NULL &&
             (directory->fd = private_directory_make(path, error)) >= 0) {
        int code = find_files(directory);
        if (code == 0) {
            tell_readers(directory, error);
            return directory;
        }
        error_set(error, code, "%.300s: cannot be read: %s", path, strerror(-code));
    }
    directory_close(directory);
    return NULL;
}

static int put_period(void *state, const struct period *period, const struct sink_output *output,
                      struct error *error)
{
    static const struct pprof_period file = {.types = PERIOD_PPROF_TYPES};
    char stamp[STAMP_BYTES + 1], service[NAME_PART_BYTES], heap[NAME_PART_BYTES];
    char name[NAME_MAX + 1];
    struct period_pprof pprof;
    const struct profile_process *process = &period->profile->processes[period->heap->process];
    (void)state;
    put_stamp(stamp, period->start_ns);
    directory_put_part(service, period_label(period, "service_name", "unknown"));
    directory_put_part(heap, period->heap->name);
    /* `heap_profile oom` finds the ends of processes by these names. */
    snprintf(name, sizeof(name), "%s%s.%d.%s%s%s", stamp, service, process->pid, heap,
             period->is_final && process->has_end ? ".end" : "", SUFFIX);
    int code = period_pprof_make(&pprof, period, file, error);
    if (code < 0)
        return code;
    const struct sink_message message = {.target = name,
                                         .content_type = "application/octet-stream",
                                         .content_encoding = "",
                                         .body = pprof.bytes,
                                         .length = pprof.length,
                                         .periods = 1};
    code = output->put(output->context, &message, error);
    period_pprof_free(&pprof);
    return code;
}

static int directory_encode(void *state, const struct period *periods, size_t count,
                            const struct sink_output *output, struct error *error)
{
    return encode_each(state, periods, count, output, error, put_period);
}

static enum sink_verdict directory_deliver(void *state, const struct sink_message *message,
                                           struct error *error)
{
    struct directory *directory = state;
    struct output_file file;
    if (!is_ours(message->target) || strchr(message->target, '/') != NULL) {
        error_set(error, -EINVAL, "not the name of a file of this directory");
        return SINK_REFUSED;
    }
    if (output_file_open_in(&file, directory->fd, directory->path, message->target, 0, error) < 0)
        return SINK_AGAIN;
    int code = write_all(file.fd, message->body, message->length);
    if (code < 0)
        error_set(error, code, "%.300s: %s", directory->path, strerror(-code));
    code = output_file_close(&file, code, error);
    if (code == 0) /* without memory the file stays uncounted until the next start */
        directory_keep(directory, message->target, message->length);
    rotate(directory);
    return code == 0 ? SINK_TAKEN : SINK_AGAIN;
}

const struct sink_kind sink_directory = {
    .name = "directory",
    .open = directory_open,
    .close = directory_close,
    .encode = directory_encode,
    .deliver = directory_deliver,
};
