/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the processes that /proc shows. A process may end at any moment, and may call itself
 * whatever it likes: names are only copied. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "recorder/processes/process_info.h"
#include "tools/cli/view/machine.h"
#include "util/clock.h"
#include "util/json_writer.h"
#include "util/process_files.h"

#define PROCESSES_MAX 20000u
#define COMMAND_BYTES 240u
#define USERS_MAX 64u /* more than these are shown by their numbers */

/* Names of users, each read once: a directory service may take long. */
struct users {
    struct user {
        unsigned uid;
        char name[64];
    } known[USERS_MAX];
    size_t count;
};

static const char *name_of_user(struct users *users, unsigned uid)
{
    char buffer[4096];
    struct passwd entry, *found = NULL;
    for (size_t i = 0; i < users->count; i++)
        if (users->known[i].uid == uid)
            return users->known[i].name;
    if (users->count == USERS_MAX)
        return NULL;
    struct user *user = &users->known[users->count++];
    user->uid = uid;
    if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL)
        snprintf(user->name, sizeof(user->name), "%s", entry.pw_name);
    else
        snprintf(user->name, sizeof(user->name), "%u", uid);
    return user->name;
}

/* Join the arguments, cut to the size. */
static void join_arguments(const struct process_info *info, char command[COMMAND_BYTES])
{
    size_t at = 0;
    command[0] = '\0';
    for (size_t i = 0; i < info->argument_count && at < COMMAND_BYTES - 1; i++)
        at += (size_t)snprintf(command + at, COMMAND_BYTES - at, "%s%s", i > 0 ? " " : "",
                               info->arguments[i]);
}

/* Write memory in bytes; null: the kernel does not say. */
static void write_kb(struct json_writer *json, const char *key, uint64_t kb)
{
    if (kb == ~UINT64_C(0))
        json_null(json, key);
    else
        json_unsigned(json, key, kb * 1024);
}

static void write_memory(struct json_writer *json, const struct process_status *status)
{
    bool is_split = status->file_kb != ~UINT64_C(0);
    bool has_memory = status->rss_kb != ~UINT64_C(0);
    write_kb(json, "rss", status->rss_kb);
    write_kb(json, "anonymous", is_split ? status->anonymous_kb : ~UINT64_C(0));
    write_kb(json, "file", status->file_kb);
    write_kb(json, "shared", status->shared_kb);
    write_kb(json, "swap", has_memory ? status->swapped_kb : ~UINT64_C(0));
}

/* Return when a process started, in ms since 1970. */
static double start_ms_of(const struct process_info *info)
{
    uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
    return round((double)clock_read_ns(CLOCK_REALTIME) / 1e6 -
                 (double)(int64_t)(now_ns - info->start_boottime_ns) / 1e6);
}

static void write_process(struct json_writer *json, const struct process_info *info,
                          const struct process_stat *stat, const struct process_status *status,
                          struct users *users)
{
    char command[COMMAND_BYTES], number[16];
    const char *user = name_of_user(users, status->uid[0]);
    snprintf(number, sizeof(number), "%u", status->uid[0]);
    join_arguments(info, command);
    json_object(json, NULL);
    json_signed(json, "pid", info->pid);
    json_signed(json, "parent_pid", info->parent_pid);
    json_string(json, "name", process_info_name(info));
    json_string(json, "command", command);
    json_string(json, "user", user != NULL ? user : number);
    json_bool(json, "kernel", stat->is_kernel_thread);
    write_memory(json, status);
    json_unsigned(json, "threads", status->threads);
    json_number(json, "start_ms", start_ms_of(info));
    json_unsigned(json, "start_ticks", stat->start_ticks);
    json_number(json, "cpu_ms", 1e3 * (double)stat->cpu_ticks / (double)sysconf(_SC_CLK_TCK));
    json_end_object(json);
}

int machine_processes(void *context, const struct view_parameters *parameters, const char *body,
                      FILE *out, struct error *error)
{
    (void)context, (void)parameters, (void)body;
    DIR *directory = opendir("/proc");
    if (directory == NULL)
        return error_set(error, -errno, "cannot list /proc: %s", strerror(errno));
    struct users users = {.count = 0};
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_array(&json, "processes");
    size_t count = 0;
    pid_t pid;
    while ((pid = process_list_next(directory)) > 0 && count++ < PROCESSES_MAX) {
        struct process_info info;
        struct process_stat stat;
        struct process_status status;
        if (process_info_read(&info, pid) < 0)
            continue;
        if (process_stat_read(pid, &stat) && process_status_read(pid, &status) == 0)
            write_process(&json, &info, &stat, &status, &users);
        process_info_clear(&info);
    }
    json_end_array(&json);
    json_bool(&json, "more", count > PROCESSES_MAX);
    json_end_object(&json);
    closedir(directory);
    return 0;
}
