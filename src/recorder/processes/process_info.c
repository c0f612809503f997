/* SPDX-License-Identifier: Apache-2.0 */
/* Read and parse files of /proc/PID. */
#include "recorder/processes/process_info.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/base_name.h"
#include "util/main_program.h"
#include "util/process_files.h"

/* A longer chain of parents is a cycle: the process tree changes while we read. */
#define ANCESTORS_MAX 256
/* Names are those of files: at most 255 bytes. */
#define PATTERN_BYTES_MAX 1024
#define MENTION_BYTES_MAX 128

/* Drop the padding after a title. A process that writes a title over its arguments leaves zeros
 * after it, which look like many empty arguments, and perhaps the end of the old text. A single
 * empty argument may be intended. */
static void drop_title_padding(struct process_info *info)
{
    size_t kept = info->argument_count;
    while (kept > 1 && info->arguments[kept - 1][0] == 0)
        kept--;
    if (info->argument_count - kept > 1)
        info->argument_count = kept;
    if (info->argument_count == 0 || strchr(info->arguments[0], ' ') == NULL)
        return;
    for (size_t i = 1; i + 1 < info->argument_count; i++) {
        if (info->arguments[i][0] == 0 && info->arguments[i + 1][0] == 0)
            info->argument_count = i;
    }
}

static void cut_comm(struct process_info *info)
{
    size_t length = strcspn(info->comm, " :\n\t");
    memcpy(info->comm_word, info->comm, sizeof(info->comm_word));
    if (length > 0)
        info->comm_word[length] = 0;
}

static void split_arguments(struct process_info *info)
{
    const char *at = info->argument_bytes, *end = at + info->argument_length;
    info->argument_count = 0;
    while (at < end && info->argument_count < PROCESS_ARGUMENTS_MAX) {
        info->arguments[info->argument_count++] = at;
        at += strlen(at) + 1;
    }
    drop_title_padding(info);
    info->first_argument = main_program_is_loader(info->executable)
                               ? main_program_argument(info->arguments, info->argument_count)
                               : 0;
}

static int read_arguments(struct process_info *info)
{
    info->argument_bytes = malloc(PROCESS_ARGUMENTS_BYTES_MAX);
    info->arguments = calloc(PROCESS_ARGUMENTS_MAX, sizeof(*info->arguments));
    if (info->argument_bytes == NULL || info->arguments == NULL)
        return -ENOMEM;
    ssize_t length =
        process_file_read(info->pid, "cmdline", info->argument_bytes, PROCESS_ARGUMENTS_BYTES_MAX);
    info->argument_length = length > 0 ? (size_t)length : 0;
    split_arguments(info);
    return 0;
}

bool process_info_refresh(struct process_info *info, int image_fd)
{
    char comm[16], arguments[PROCESS_ARGUMENTS_BYTES_MAX];
    ssize_t length = process_file_read(info->pid, "cmdline", arguments, sizeof(arguments));
    /* A process that is ending has neither file. */
    if (length <= 0 || info->argument_bytes == NULL || !process_info_comm(info->pid, comm) ||
        (image_fd >= 0 && process_image_is_gone(image_fd)))
        return false;
    if ((size_t)length == info->argument_length && strcmp(comm, info->comm) == 0 &&
        memcmp(arguments, info->argument_bytes, (size_t)length) == 0)
        return false;
    memcpy(info->comm, comm, sizeof(comm));
    cut_comm(info);
    memcpy(info->argument_bytes, arguments, (size_t)length + 1);
    info->argument_length = (size_t)length;
    split_arguments(info);
    return true;
}

bool process_info_comm(pid_t pid, char comm[16])
{
    char text[64];
    if (process_file_read(pid, "comm", text, sizeof(text)) <= 0)
        return false;
    text[strcspn(text, "\n")] = 0;
    text[15] = 0;
    strcpy(comm, text);
    return true;
}

static uint64_t start_ns_of(const struct process_stat *fields)
{
    return fields->start_ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint64_t process_info_start_ns(pid_t pid)
{
    struct process_stat fields;
    return process_stat_read(pid, &fields) ? start_ns_of(&fields) : 0;
}

int process_info_read_names(struct process_info *info, pid_t pid)
{
    char path[64];
    memset(info, 0, sizeof(*info));
    info->pid = pid;
    if (!process_info_comm(pid, info->comm))
        return -ESRCH;
    cut_comm(info);
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process_living_thread(pid));
    ssize_t length = readlink(path, info->executable, sizeof(info->executable) - 1);
    info->executable[length > 0 ? length : 0] = 0;
    int code = read_arguments(info);
    if (code < 0)
        process_info_clear(info);
    return code;
}

int process_info_complete(struct process_info *info)
{
    struct process_stat fields;
    char path[64];
    struct stat status;
    if (!process_stat_read(info->pid, &fields)) {
        process_info_clear(info);
        return -ESRCH;
    }
    info->parent_pid = fields.parent;
    info->start_boottime_ns = start_ns_of(&fields);
    snprintf(path, sizeof(path), "/proc/%d", (int)info->pid);
    if (stat(path, &status) == 0)
        info->uid = status.st_uid;
    return 0;
}

int process_info_read(struct process_info *info, pid_t pid)
{
    int code = process_info_read_names(info, pid);
    return code < 0 ? code : process_info_complete(info);
}

void process_info_clear(struct process_info *info)
{
    free(info->argument_bytes);
    free(info->arguments);
    info->argument_bytes = NULL;
    info->arguments = NULL;
    info->argument_count = 0;
}

/* Return an argument of the program; "": it has not so many. */
static const char *argument_of(const struct process_info *info, size_t index)
{
    size_t at = info->first_argument + index;
    return at < info->argument_count ? info->arguments[at] : "";
}

const char *process_info_program(const struct process_info *info)
{
    return info->first_argument > 0 ? info->arguments[info->first_argument] : info->executable;
}

/* Return the name of a process whose argument 0 is a title ("redis-server *:6379", "-bash"): the
 * name of its file, unless it was called through a link and the title begins with the link's
 * name. */
static const char *name_beside_title(const struct process_info *info)
{
    const char *executable = base_name(process_info_program(info));
    const char *title = argument_of(info, 0);
    size_t length = strlen(info->comm), path = 0;
    title += title[0] == '-';
    for (size_t i = 0; title[i] != 0 && strchr(" :\n\t", title[i]) == NULL; i++)
        path = title[i] == '/' ? i + 1 : path;
    if (length > 0 && strncmp(executable, info->comm, length) != 0 &&
        strncmp(title + path, info->comm, length) == 0)
        return info->comm_word;
    return executable;
}

/* Return whether argument 0 is more than a name: a title ("redis-server *:6379"), or all arguments
 * in one string ("/usr/lib/chromium/chromium --type=..."). A path may contain blanks, too. */
static bool has_title(const struct process_info *info)
{
    const char *argument = argument_of(info, 0);
    const char *executable = process_info_program(info);
    size_t length = strlen(executable);
    if (strpbrk(argument, " :\n\t") == NULL)
        return false;
    if (argument[0] != '/')
        return true;
    bool begins_with_path = length > 0 && strncmp(argument, executable, length) == 0;
    if (begins_with_path)
        return argument[length] != 0;
    return strstr(argument, " -") != NULL || strstr(argument, ": ") != NULL;
}

const char *process_info_name(const struct process_info *info)
{
    /* A script that was started by its path has its own name as comm. */
    if (argument_of(info, 1)[0] != 0 && info->comm[0] != 0) {
        const char *script = base_name(argument_of(info, 1));
        if (strncmp(script, info->comm, sizeof(info->comm) - 1) == 0)
            return script;
    }
    /* Use the name of the call ("sh", not "dash"), unless argument 0 is not a name (a title that
     * the process set, the dash of a login shell). */
    bool is_called = !has_title(info);
    const char *name = is_called ? base_name(argument_of(info, 0)) : "";
    if (name[0] == 0 || name[0] == '-')
        name = name_beside_title(info);
    return name[0] != 0 ? name : info->comm;
}

/* Copy the part after the last slash and before an "@", cut to the buffer's size. Return its
 * length. */
static size_t take_plain_name(char plain[PATTERN_BYTES_MAX], const char *name)
{
    name = base_name(name);
    size_t length = strcspn(name, "@");
    if (length >= PATTERN_BYTES_MAX)
        length = PATTERN_BYTES_MAX - 1;
    memcpy(plain, name, length);
    plain[length] = 0;
    return length;
}

static bool names_match(const char *have, const char *asked)
{
    char plain[PATTERN_BYTES_MAX], pattern[PATTERN_BYTES_MAX];
    if (take_plain_name(pattern, asked) == 0 || take_plain_name(plain, have) == 0)
        return false;
    return strchr(pattern, '*') != NULL ? fnmatch(pattern, plain, 0) == 0
                                        : strcmp(pattern, plain) == 0;
}

bool process_info_matches(const struct process_info *info, const char *name)
{
    return names_match(info->executable, name) || names_match(process_info_program(info), name) ||
           names_match(info->comm, name) || names_match(process_info_name(info), name) ||
           (!(has_title(info) && strchr(argument_of(info, 0), '/') != NULL) &&
            names_match(argument_of(info, 0), name));
}

bool process_info_shares_pids(pid_t pid)
{
    return process_shares(pid, "ns/pid");
}

/* Return the offset of a process's CLOCK_MONOTONIC from that of the machine; 0: unknown. */
static int64_t clock_offset_ms(pid_t pid)
{
    char text[256];
    long long seconds, nanoseconds;
    if (process_file_read(pid, "timens_offsets", text, sizeof(text)) < 0 ||
        sscanf(text, "monotonic %lld %lld", &seconds, &nanoseconds) != 2)
        return 0;
    return (int64_t)seconds * 1000 + (int64_t)nanoseconds / 1000000;
}

int64_t process_info_clock_ahead_ms(pid_t pid)
{
    if (process_shares(pid, "ns/time"))
        return 0;
    return clock_offset_ms(pid) - clock_offset_ms(getpid());
}

bool process_info_file_contains(pid_t pid, const char *file, const char *text)
{
    size_t kept = 0, length = strlen(text);
    int fd = length > 0 && length < MENTION_BYTES_MAX ? process_file_open(pid, file) : -1;
    if (fd < 0)
        return false;
    /* Keep the end of each read, to find a text across two reads. */
    char buffer[MENTION_BYTES_MAX + 16384];
    bool found = false;
    ssize_t got;
    while (!found && (got = read(fd, buffer + kept, sizeof(buffer) - kept)) > 0) {
        size_t filled = kept + (size_t)got;
        found = memmem(buffer, filled, text, length) != NULL;
        kept = filled < length - 1 ? filled : length - 1;
        memmove(buffer, buffer + filled - kept, kept);
    }
    close(fd);
    return found;
}

uint64_t process_info_anonymous_kb(pid_t pid)
{
    struct process_status status;
    return process_status_read(pid, &status) < 0 ? 0 : status.anonymous_kb + status.swapped_kb;
}

uint32_t process_info_restrictions(pid_t pid)
{
    struct process_status status;
    if (process_status_read(pid, &status) < 0)
        return 0;
    return (uint32_t)status.seccomp_mode << 16 | (status.seccomp_filters & 0xffff);
}

pid_t process_info_parent(pid_t pid)
{
    struct process_stat fields;
    return process_stat_read(pid, &fields) ? fields.parent : 0;
}

/* A child that ran a program had page faults. */
bool process_info_had_children(pid_t pid)
{
    struct process_stat fields;
    return process_stat_read(pid, &fields) && fields.children_faults > 0;
}

bool process_info_descends(pid_t pid, pid_t ancestor)
{
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        if (pid == ancestor)
            return true;
        pid = process_info_parent(pid);
    }
    return false;
}

/* Open the memory of the program that runs now. The descriptor does not follow the process to its
 * next program. Opening mem needs the right to attach, and maps the right to read. */
int process_image_open(pid_t pid)
{
    int fd = process_file_open(pid, "mem");
    return fd < 0 ? process_file_open(pid, "maps") : fd;
}

/* Read at address 0, where nothing is mapped. That is an error while the memory exists, and an end
 * of file once it is gone. */
bool process_image_is_gone(int fd)
{
    char byte;
    return pread(fd, &byte, 1, 0) == 0;
}

bool process_has_image(pid_t pid)
{
    char path[64], link[8];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process_living_thread(pid));
    return readlink(path, link, sizeof(link)) > 0;
}

bool process_memory_read(int fd, struct process_memory *memory)
{
    char text[128];
    ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
    if (length <= 0)
        return false;
    text[length] = 0;
    unsigned long long pages, resident, shared;
    if (sscanf(text, "%llu %llu %llu", &pages, &resident, &shared) != 3 || pages == 0)
        return false;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    memory->rss_bytes = resident * page_bytes;
    memory->rss_anon_bytes = (resident > shared ? resident - shared : 0) * page_bytes;
    return true;
}

bool process_memory_of(pid_t pid, struct process_memory *memory)
{
    int fd = process_file_open(pid, "statm");
    bool known = fd >= 0 && process_memory_read(fd, memory);
    if (fd >= 0)
        close(fd);
    return known;
}
