/* See reach.h. */
#include "daemon/reach.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/array.h"

#define LIBRARY_NAME "libheapprofd_preload.so"

/* A program is not asked for its memory map longer than this after it began: its loader
 * needs some milliseconds until there is an allocator to attach to. */
#define YOUNG_SCANS 20

/* A thread in the wrong place for a moment is not the end of it. */
#define ATTACH_ATTEMPTS 5
#define ATTACH_PAUSE_MS 20

/* Whether the file of /proc mentions the library; what cannot be read does not. */
static bool file_mentions_library(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    /* A name that lies across two reads is found in the second: its end is kept. */
    enum { KEPT = sizeof(LIBRARY_NAME) - 2 };
    char buffer[KEPT + 16384];
    size_t kept = 0;
    bool found = false;
    ssize_t got;
    while (!found && (got = read(fd, buffer + kept, sizeof(buffer) - kept)) > 0) {
        size_t length = kept + (size_t)got;
        found = memmem(buffer, length, LIBRARY_NAME, sizeof(LIBRARY_NAME) - 1) != NULL;
        kept = length < KEPT ? length : KEPT;
        memmove(buffer, buffer + length - kept, kept);
    }
    close(fd);
    return found;
}

/* It has the library, or will once its loader is done. */
static bool has_client(pid_t pid)
{
    return file_mentions_library(pid, "maps") || file_mentions_library(pid, "environ");
}

int reach_check(const struct process_info *info, struct error *how)
{
    if (has_client(info->pid)) {
        error_set(how, 0, "the library is preloaded: it joins at its next allocations");
        return 0;
    }
    struct attach_outcome outcome;
    int code = attach_check(info->pid, &outcome, how);
    if (code == 0)
        error_set(how, 0, "it can be attached to; its allocator is %s", outcome.allocator);
    return code;
}

static bool belongs_to_another(const struct server *server, const struct session *session,
                               pid_t pid)
{
    for (size_t i = 0; i < server->session_count; i++) {
        if (server->sessions[i] != session && session_find(server->sessions[i], pid) != NULL)
            return true;
    }
    return false;
}

static int attach_to(struct server *server, struct session *session,
                     const struct process_info *info, struct error *error)
{
    int pidfd = -1, code = -EAGAIN;
    for (int attempt = 0; code == -EAGAIN && attempt < ATTACH_ATTEMPTS; attempt++) {
        if (attempt > 0)
            nanosleep(&(struct timespec){.tv_nsec = ATTACH_PAUSE_MS * 1000000L}, NULL);
        code = session_attach(session, info->pid, &pidfd, error);
    }
    return code < 0 ? code : server_watch(server, pidfd);
}

static enum reach_state reach_process(struct server *server, struct session *session,
                                      const struct process_info *info, bool running, bool young)
{
    enum handshake_origin origin = running ? HANDSHAKE_RUNNING : HANDSHAKE_STARTUP;
    struct error error = {0};
    if (info->pid == getpid() || !session_wants(session, info, origin))
        return REACH_NOT_WANTED;
    uint32_t least_kb = session->config->min_anonymous_memory_kb;
    if (running && least_kb > 0 && process_info_anonymous_kb(info->pid) < least_kb)
        return REACH_NOT_WANTED;
    if (session_find(session, info->pid) != NULL)
        return REACH_DONE;
    if (belongs_to_another(server, session, info->pid)) {
        session_reject(session, info->pid, origin);
        return REACH_DONE;
    }
    if (session_may_profile(session, info, &error) < 0) {
        session_note_absent(session, info, error.message);
        return REACH_DONE;
    }
    if (has_client(info->pid))
        return REACH_AWAITED;
    int code = attach_to(server, session, info, &error);
    if (code == -ENOTSUP && young)
        return REACH_YOUNG;
    if (code < 0)
        session_note_absent(session, info, error.message);
    return REACH_DONE;
}

/* The processes' numbers in ascending order, which is how /proc lists them. */
static pid_t *list_processes(size_t *count)
{
    pid_t *pids = NULL;
    size_t capacity = 0;
    *count = 0;
    DIR *directory = opendir("/proc");
    if (directory == NULL)
        return NULL;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        bool ascends = *count == 0 || pids[*count - 1] < pid;
        if (ascends && array_reserve(&pids, &capacity, *count, 1, sizeof(*pids)) == 0)
            pids[(*count)++] = pid;
    }
    closedir(directory);
    return pids;
}

/* What was known of a process, if it is still the program that it was. */
static const struct reach_entry *find_known(const struct reach_list *list, size_t *at, pid_t pid,
                                            const char *comm)
{
    while (*at < list->count && list->entries[*at].pid < pid)
        (*at)++;
    if (*at < list->count && list->entries[*at].pid == pid &&
        strcmp(list->entries[*at].comm, comm) == 0)
        return &list->entries[*at];
    return NULL;
}

/* One look through /proc. Whoever was there at the last look as the same program keeps his
 * state and costs one small read. */
static void scan(struct server *server, struct session *session, bool running)
{
    struct reach_list fresh = {0};
    size_t count, at = 0;
    pid_t *pids = list_processes(&count);
    for (size_t i = 0; i < count; i++) {
        struct reach_entry entry = {.pid = pids[i]};
        struct process_info info;
        if (!process_info_comm(pids[i], entry.comm))
            continue;
        const struct reach_entry *known = find_known(&session->reach, &at, pids[i], entry.comm);
        if (known != NULL)
            entry = *known;
        bool young = entry.scans < YOUNG_SCANS;
        if ((known == NULL || known->state == REACH_YOUNG) &&
            process_info_read(&info, pids[i]) == 0) {
            entry.state = reach_process(server, session, &info, running, young && !running);
            entry.scans++;
            process_info_clear(&info);
        }
        if (array_reserve(&fresh.entries, &fresh.capacity, fresh.count, 1, sizeof(entry)) == 0)
            fresh.entries[fresh.count++] = entry;
    }
    free(pids);
    free(session->reach.entries);
    session->reach = fresh;
}

static void explain_missing_pids(struct session *session)
{
    const struct heap_config *config = session->config;
    for (size_t i = 0; i < config->pid_count; i++) {
        struct process_info info;
        pid_t pid = (pid_t)config->pids[i];
        if (process_info_read(&info, pid) == 0) {
            process_info_clear(&info);
            continue;
        }
        memset(&info, 0, sizeof(info));
        info.pid = pid;
        session_note_absent(session, &info, "There was no process of this number.");
    }
}

void reach_running(struct server *server, struct session *session)
{
    explain_missing_pids(session);
    /* Also where running ones are not wanted: what runs now has not just started. */
    scan(server, session, true);
}

bool reach_wants_new(const struct session *session)
{
    const struct heap_config *config = session->config;
    return !session->of_command && !config->no_startup &&
           (config->all || config->process_cmdline != NULL);
}

void reach_new(struct server *server, struct session *session)
{
    if (reach_wants_new(session))
        scan(server, session, false);
}

void reach_explain(struct session *session)
{
    for (size_t i = 0; i < session->reach.count; i++) {
        const struct reach_entry *entry = &session->reach.entries[i];
        struct process_info info;
        if (entry->state != REACH_AWAITED || session_had(session, entry->pid) ||
            process_info_read(&info, entry->pid) < 0)
            continue;
        session_note_absent(
            session, &info,
            "The profiling library is preloaded in this process, but it has not "
            "joined: it allocated nothing since, or it looks for the daemon in "
            "another run directory (HEAPPROFD_RUN_DIR), or was in another session.");
        process_info_clear(&info);
    }
    free(session->reach.entries);
    session->reach = (struct reach_list){0};
}
