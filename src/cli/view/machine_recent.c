/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the profiles that heap_profile wrote to directories of its own choice, in TMPDIR and /tmp,
 * and those that are being recorded anywhere. Others may have put anything there: only directories
 * and files of this user and of root count, links are not followed, and nothing but the names and
 * the first bytes of a trace is read.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files/output_directory.h"
#include "cli/view/machine.h"
#include "cli/view/recent_trace.h"
#include "util/array.h"
#include "util/json_writer.h"
#include "util/process_files.h"

#define SHOWN_MAX 50u
#define NAMES_MAX 100000u /* in a temporary directory */
#define FOUND_MAX 5000u   /* directories of profiles there */
#define FILES_MAX 20000u  /* in the directory of a profile */
#define DESCRIPTORS_MAX 4096u
#define PROCESSES_NAMED 6u

struct recent {
    char path[PATH_MAX];
    struct stat directory, trace;
};

struct recents {
    struct recent *items;
    size_t count, capacity;
    bool are_more; /* a limit was met */
};

/* Return whether a file is this user's or root's. */
static bool is_trusted(const struct stat *status)
{
    return status->st_uid == geteuid() || status->st_uid == 0;
}

/* Open a directory for profiles. Return -1: it is not one, or not ours. */
static int open_profile(const char *path, struct stat *status)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, status) == 0 && is_trusted(status))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Find the trace in a directory. Return its name; NULL: it has none. */
static const char *find_trace(int fd, struct stat *status)
{
    static const char *const names[] = {"symbolized-trace", "raw-trace"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fstatat(fd, names[i], status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status->st_mode) &&
            is_trusted(status))
            return names[i];
    return NULL;
}

/* Add a directory if it has a profile. */
static void add(struct recents *recents, const char *path)
{
    struct recent found;
    int fd = open_profile(path, &found.directory);
    if (fd < 0)
        return;
    snprintf(found.path, sizeof(found.path), "%s", path);
    if (find_trace(fd, &found.trace) != NULL)
        (void)ARRAY_ADD(&recents->items, &recents->count, &recents->capacity, found);
    close(fd);
}

/* Return whether this is a name that heap_profile chose: not that of the latest profile's link. */
static bool is_chosen_name(const char *name)
{
    static const char prefix[] = OUTPUT_TEMPORARY_PREFIX;
    return strncmp(name, prefix, sizeof(prefix) - 1) == 0 &&
           strlen(name) == sizeof(prefix) - 1 + sizeof("XXXXXX") - 1;
}

static void scan(struct recents *recents, const char *place)
{
    DIR *directory = opendir(place);
    const struct dirent *entry;
    if (directory == NULL)
        return;
    size_t names = 0, before = recents->count;
    while ((entry = readdir(directory)) != NULL && names < NAMES_MAX &&
           recents->count - before < FOUND_MAX) {
        char path[PATH_MAX];
        names++;
        if (is_chosen_name(entry->d_name) &&
            snprintf(path, sizeof(path), "%s/%s", place, entry->d_name) < PATH_MAX)
            add(recents, path);
    }
    recents->are_more |= entry != NULL;
    closedir(directory);
}

static int newest_first(const void *left, const void *right)
{
    const struct timespec *one = &((const struct recent *)left)->trace.st_mtim;
    const struct timespec *other = &((const struct recent *)right)->trace.st_mtim;
    if (one->tv_sec != other->tv_sec)
        return one->tv_sec > other->tv_sec ? -1 : 1;
    return (other->tv_nsec > one->tv_nsec) - (other->tv_nsec < one->tv_nsec);
}

/* --- whether a recording goes on --- */

/* The directories that running heap_profile commands hold open until they end. */
struct held {
    struct held_directory {
        dev_t device;
        ino_t inode;
        pid_t pid;
    } * items;
    size_t count, capacity;
};

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* Remember a directory that a process holds open. Add it to the recent profiles, too: the user may
 * have chosen it. */
static void add_held(struct held *held, struct recents *recents, pid_t pid, int descriptors,
                     const char *name)
{
    struct stat status;
    char path[PATH_MAX];
    /* This follows the link to the open file itself, and opens nothing. */
    if (fstatat(descriptors, name, &status, 0) < 0 || !S_ISDIR(status.st_mode))
        return;
    const struct held_directory item = {status.st_dev, status.st_ino, pid};
    (void)ARRAY_ADD(&held->items, &held->count, &held->capacity, item);
    for (size_t i = 0; i < recents->count; i++)
        if (is_same(&recents->items[i].directory, &status))
            return;
    ssize_t length = readlinkat(descriptors, name, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    if (*path == '/')
        add(recents, path);
}

static void add_held_of(struct held *held, struct recents *recents, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    for (size_t i = 0;
         directory != NULL && i < DESCRIPTORS_MAX && (entry = readdir(directory)) != NULL; i++)
        if (isdigit((unsigned char)entry->d_name[0]))
            add_held(held, recents, pid, dirfd(directory), entry->d_name);
    if (directory != NULL)
        closedir(directory);
}

static void find_held(struct held *held, struct recents *recents)
{
    DIR *directory = opendir("/proc");
    pid_t pid;
    while (directory != NULL && (pid = process_list_next(directory)) > 0) {
        char comm[32];
        if (pid != getpid() && process_file_read(pid, "comm", comm, sizeof(comm)) > 0 &&
            strncmp(comm, "heap_profile", strlen("heap_profile")) == 0)
            add_held_of(held, recents, pid);
    }
    if (directory != NULL)
        closedir(directory);
}

/* Return the process that writes to a directory; 0: none. */
static pid_t holder_of(const struct held *held, const struct stat *directory)
{
    for (size_t i = 0; i < held->count; i++)
        if (held->items[i].device == directory->st_dev && held->items[i].inode == directory->st_ino)
            return held->items[i].pid;
    return 0;
}

/* --- processes, by the names of pprof files --- */

/* Parse "NAME.PID.HEAP.DUMP.pb.gz", in which the name may have dots, too. Return the pid and the
 * name's length; 0: it is another file. */
static long parse_pprof_name(const char *name, size_t *length)
{
    size_t all = strlen(name);
    if (all < 6 || strstr(name, ".pb") == NULL)
        return 0;
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        char *end;
        long pid = isdigit((unsigned char)dot[1]) ? strtol(dot + 1, &end, 10) : 0;
        if (pid > 0 && *end == '.') {
            *length = (size_t)(dot - name);
            return pid;
        }
    }
    return 0;
}

struct named {
    long pids[PROCESSES_NAMED];
    char names[PROCESSES_NAMED][64];
    size_t count, files;
};

static void add_named(struct named *named, const char *file)
{
    size_t length = 0;
    long pid = parse_pprof_name(file, &length);
    if (pid == 0)
        return;
    named->files++;
    for (size_t i = 0; i < named->count; i++)
        if (named->pids[i] == pid)
            return;
    if (named->count == PROCESSES_NAMED)
        return;
    named->pids[named->count] = pid;
    snprintf(named->names[named->count++], sizeof(named->names[0]), "%.*s", (int)length, file);
}

static void find_named(int fd, struct named *named)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    if (directory == NULL && copy >= 0)
        close(copy);
    for (size_t i = 0; directory != NULL && i < FILES_MAX && (entry = readdir(directory)) != NULL;
         i++)
        add_named(named, entry->d_name);
    if (directory != NULL)
        closedir(directory);
}

/* --- */

static void write_contents(struct json_writer *json, int fd)
{
    struct named named = {.count = 0};
    struct stat status;
    char command[RECENT_COMMAND_BYTES] = "";
    find_named(fd, &named);
    const char *trace = find_trace(fd, &status);
    if (trace != NULL)
        recent_trace_command(fd, trace, command);
    json_string(json, "command", *command != '\0' ? command : NULL);
    json_array(json, "processes");
    for (size_t i = 0; i < named.count; i++) {
        json_object(json, NULL);
        json_signed(json, "pid", named.pids[i]);
        json_string(json, "name", named.names[i]);
        json_end_object(json);
    }
    json_end_array(json);
    json_unsigned(json, "dump_files", named.files);
}

static void write_recent(struct json_writer *json, const struct recent *recent,
                         const struct held *held)
{
    struct stat now;
    int fd = open_profile(recent->path, &now);
    if (fd < 0)
        return;
    json_object(json, NULL);
    json_string(json, "path", recent->path);
    json_number(json, "time_ms",
                (double)recent->trace.st_mtim.tv_sec * 1e3 +
                    (double)(recent->trace.st_mtim.tv_nsec / 1000000));
    json_unsigned(json, "bytes", (uint64_t)recent->trace.st_size);
    pid_t recorder = holder_of(held, &now);
    if (recorder == 0)
        json_null(json, "recorder_pid");
    else
        json_signed(json, "recorder_pid", recorder);
    write_contents(json, fd);
    json_end_object(json);
    close(fd);
}

int machine_recent(void *context, const struct view_parameters *parameters, const char *body,
                   FILE *out, struct error *error)
{
    struct recents recents = {0};
    struct held held = {0};
    (void)context, (void)parameters, (void)body, (void)error;
    scan(&recents, output_temporary_directory());
    if (strcmp(output_temporary_directory(), "/tmp") != 0)
        scan(&recents, "/tmp");
    find_held(&held, &recents);
    if (recents.count > 0)
        qsort(recents.items, recents.count, sizeof(*recents.items), newest_first);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_array(&json, "profiles");
    for (size_t i = 0; i < recents.count && i < SHOWN_MAX; i++)
        write_recent(&json, &recents.items[i], &held);
    json_end_array(&json);
    json_bool(&json, "more", recents.are_more || recents.count > SHOWN_MAX);
    json_end_object(&json);
    free(recents.items);
    free(held.items);
    return 0;
}
