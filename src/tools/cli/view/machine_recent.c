/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the profiles that heap_profile wrote to directories of its own choice, in TMPDIR and /tmp,
 * and those that are being recorded anywhere. Others may have put anything there: only directories
 * and files of this user and of root count, links are not followed, and nothing but the names and
 * the first bytes of a trace is read.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <pb_field_numbers.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/files/held_directories.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/view/machine.h"
#include "tools/cli/view/profile_directory.h"
#include "trace/proto_cursor.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

/* What the beginning of a trace says. Whatever its packets contain, each is parsed once, within the
 * bytes that were read. */

#define RECENT_COMMAND_BYTES 240u

#define HEAD_BYTES 16384u
#define TRACE_PACKET 1u

static void machine_recent_append(char command[RECENT_COMMAND_BYTES], size_t *at,
                                  struct proto_span argument)
{
    if (*at >= RECENT_COMMAND_BYTES - 1)
        return;
    *at += (size_t)snprintf(command + *at, RECENT_COMMAND_BYTES - *at, "%s%.*s", *at > 0 ? " " : "",
                            (int)proto_length(argument), (const char *)argument.at);
}

static void take_tree(struct proto_span tree, char command[RECENT_COMMAND_BYTES])
{
    struct proto_field field, inner;
    size_t at = 0;
    while (at == 0 && proto_next(&tree, &field) > 0) {
        if (field.number != PB_PROCESS_TREE_PROCESSES || field.type != PROTO_BYTES)
            continue;
        while (proto_next(&field.span, &inner) > 0)
            if (inner.number == PB_PROCESS_TREE_PROCESS_CMDLINE && inner.type == PROTO_BYTES)
                machine_recent_append(command, &at, inner.span);
    }
}

/* Write the command of the first process that the trace names; "": it is not at the beginning. */
static void recent_trace_command(int directory, const char *name,
                                 char command[RECENT_COMMAND_BYTES])
{
    uint8_t head[HEAD_BYTES];
    struct stat status;
    struct proto_field packet, field;
    command[0] = '\0';
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t length = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
                         ? pread(fd, head, sizeof(head), 0)
                         : 0;
    if (fd >= 0)
        close(fd);
    struct proto_span trace = {head, head + (length > 0 ? length : 0)};
    while (command[0] == '\0' && proto_next(&trace, &packet) > 0) {
        while (packet.number == TRACE_PACKET && proto_next(&packet.span, &field) > 0)
            if (field.number == PB_TRACE_PACKET_PROCESS_TREE && field.type == PROTO_BYTES)
                take_tree(field.span, command);
    }
}

#define SHOWN_MAX 50u
#define NAMES_MAX 100000u /* in a temporary directory */
#define FOUND_MAX 5000u   /* directories of profiles there */
#define FILES_MAX 20000u  /* in the directory of a profile */
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

/* Add a directory if it has a profile. */
static void machine_recent_add(struct recents *recents, const char *path)
{
    struct recent found;
    int fd = profile_directory_open(path, &found.directory);
    if (fd < 0)
        return;
    snprintf(found.path, sizeof(found.path), "%s", path);
    if (profile_directory_trace(fd, &found.trace) != NULL)
        XARRAY_ADD(&recents->items, &recents->count, &recents->capacity, found);
    close(fd);
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
        if (output_is_temporary_name(entry->d_name) &&
            snprintf(path, sizeof(path), "%s/%s", place, entry->d_name) < PATH_MAX)
            machine_recent_add(recents, path);
    }
    recents->are_more |= entry != NULL;
    closedir(directory);
}

/* Add what is being recorded elsewhere: the user has chosen the directory. */
static void add_held(struct recents *recents, const struct held_directories *held)
{
    size_t found = recents->count;
    for (size_t i = 0; i < held->count; i++) {
        bool is_known = false;
        for (size_t j = 0; j < found && !is_known; j++)
            is_known = held->items[i].device == recents->items[j].directory.st_dev &&
                       held->items[i].inode == recents->items[j].directory.st_ino;
        if (!is_known)
            machine_recent_add(recents, held->items[i].path);
    }
}

static int newest_first(const void *left, const void *right)
{
    const struct timespec *one = &((const struct recent *)left)->trace.st_mtim;
    const struct timespec *other = &((const struct recent *)right)->trace.st_mtim;
    if (one->tv_sec != other->tv_sec)
        return one->tv_sec > other->tv_sec ? -1 : 1;
    return (other->tv_nsec > one->tv_nsec) - (other->tv_nsec < one->tv_nsec);
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
    const char *trace = profile_directory_trace(fd, &status);
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
                         const struct held_directories *held)
{
    struct stat now;
    int fd = profile_directory_open(recent->path, &now);
    if (fd < 0)
        return;
    json_object(json, NULL);
    json_string(json, "path", recent->path);
    json_number(json, "time_ms",
                (double)recent->trace.st_mtim.tv_sec * 1e3 +
                    (double)(recent->trace.st_mtim.tv_nsec / 1000000));
    json_unsigned(json, "bytes", (uint64_t)recent->trace.st_size);
    pid_t recorder = held_directories_holder(held, &now);
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
    struct held_directories held;
    (void)context, (void)parameters, (void)body, (void)error;
    scan(&recents, output_temporary_directory());
    if (strcmp(output_temporary_directory(), "/tmp") != 0)
        scan(&recents, "/tmp");
    held_directories_find(&held);
    add_held(&recents, &held);
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
    held_directories_clear(&held);
    return 0;
}
