/* SPDX-License-Identifier: Apache-2.0 */
/* Examine processes one by one, from scans of /proc and from exec events. */
#include "daemon/server/target_discovery.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/processes/diagnosis.h"
#include "daemon/processes/exec_events.h"
#include "daemon/processes/other_profiler.h"
#include "daemon/session/heap_rules.h"
#include "daemon/sockets/run_directory.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/process_stat.h"
#include "wire/control_page.h"

#define LIBRARY_NAME "libheapprofd_preload.so"
#define CLIENT_NAME "libheapprofd_client.so"
#define NAME_BYTES_MAX 128

/* Periods of scans of /proc: for new processes, and, if the kernel reports those, for events that
 * were lost. */
#define SCAN_PERIOD_MS 100
#define SCAN_PERIOD_WITH_EVENTS_MS 1000
#define SCAN_SLACK_MS 25
/* How often the server looks for execs that no event reported, with some slack. */
#define EXEC_CHECK_PERIOD_MS 125

/* Wait after a fork: most new processes soon begin another program. */
#define FORKED_DELAY_MS 50

/* The loader needs half a millisecond to some tens of them until there is an allocator to attach
 * to. The process is examined after 1, 1, 2, 2, 4, 4, ... ms, and for at most
 * LOADING_PATIENCE_MS. */
#define LOADING_DELAY_MAX_MS 32
#define LOADING_PATIENCE_MS 2000
#define UNSURE_MS 50

/* Attaching fails for the moment if a thread is in the wrong place, or waits in the kernel; it is
 * tried again later. Nothing else is done during an attempt. So the first ones are short, and
 * attempts that fail take at most a fifth of the session's time. */
#define BUSY_DELAY_MS 2
#define BUSY_DELAY_MAX_MS 5000
#define BUSY_PATIENCE_MS 60000
#define BUSY_REST 4
#define FIRST_PATIENCE_MS 25
#define LAST_PATIENCE_MS 800
/* Time of failed attempts in one scan of /proc; other processes then wait for the next turn. */
#define SCAN_BUSY_MS 100

/* Period of reading what invites a process. */
#define INVITED_PERIOD_MS 1000

/* Further new processes between two scans are left to the next scan. */
#define ENTRIES_MAX (1u << 16)

/* Return whether the process has the preload library, or will when its loader is done. */
static bool is_preloaded(pid_t pid)
{
    return process_info_mentions(pid, "maps", LIBRARY_NAME) ||
           process_info_mentions(pid, "environ", LIBRARY_NAME);
}

/* Return whether the process has mapped the page with our invitations. Nothing else of a client
 * that is linked into a program can be seen from outside. */
static bool has_control_page(const struct server *server, pid_t pid)
{
    char directory[RUN_DIRECTORY_PATH_MAX], mapped[NAME_BYTES_MAX];
    const char *socket_path = server->socket_path;
    size_t length = strlen(socket_path);
    if (length > sizeof(RUN_DIRECTORY_SOCKET)) {
        snprintf(directory, sizeof(directory), "%.*s", (int)(length - sizeof(RUN_DIRECTORY_SOCKET)),
                 socket_path);
    } else {
        struct error error = {0};
        if (run_directory_choose(directory, &error) < 0)
            return false;
    }
    /* The kernel reports the real path, without symbolic links. */
    char *real = realpath(directory, NULL);
    if (real == NULL)
        return false;
    int printed = snprintf(mapped, sizeof(mapped), "%s/" RUN_DIRECTORY_CONTROL "\n", real);
    free(real);
    return printed < (int)sizeof(mapped) && process_info_mentions(pid, "maps", mapped);
}

/* Return whether the process will join by itself. A program that is linked to the client brings
 * only its own heaps into a session, not malloc. It cannot join if it began before our page
 * existed; a program that begins now is about to map it. */
static bool joins_by_itself(const struct server *server, const struct session *session,
                            const struct discovery_entry *entry)
{
    return is_preloaded(entry->pid) ||
           (heap_rules_want_others(session->config) &&
            (has_control_page(server, entry->pid) ||
             (!entry->running && process_info_mentions(entry->pid, "maps", CLIENT_NAME))));
}

int discovery_check(const struct process_info *info, struct error *how)
{
    if (is_preloaded(info->pid)) {
        error_set(how, 0, "the library is preloaded: it joins at its next allocations");
        return 0;
    }
    struct attach_outcome outcome;
    int code = attach_check(info->pid, &outcome, how);
    if (code == 0)
        error_set(how, 0, "it can be attached to; its allocator is %s", outcome.allocator);
    return code;
}

/* Return whether another session, ours or another profiler's, has the process. `whose` is its
 * name. */
static bool belongs_to_another(const struct server *server, const struct session *session,
                               pid_t pid, char whose[SESSION_NAME_BYTES])
{
    for (size_t i = 0; i < server->session_count; i++) {
        if (server->sessions[i] == session || session_find(server->sessions[i], pid) == NULL)
            continue;
        session_print_name(server->sessions[i], whose);
        return true;
    }
    char comm[16] = "";
    pid_t profiler = other_profiler_of(pid);
    if (profiler > 0 && process_info_comm(profiler, comm))
        snprintf(whose, SESSION_NAME_BYTES, "of process %d (%s)", (int)profiler, comm);
    else if (profiler != 0)
        snprintf(whose, SESSION_NAME_BYTES, "of a profiler that this user cannot see");
    return profiler != 0 && profiler != getpid();
}

static bool is_pending(enum discovery_state state)
{
    return state == DISCOVERY_FORKED || state == DISCOVERY_LOADING || state == DISCOVERY_BUSY;
}

/* --- one process --- */

static int attach_to(struct server *server, struct session *session,
                     const struct discovery_entry *entry, struct error *error)
{
    int pidfd;
    unsigned patience_ms = FIRST_PATIENCE_MS;
    unsigned failed = entry->state == DISCOVERY_BUSY ? entry->attempts : 0;
    for (unsigned i = 0; i < failed && patience_ms < LAST_PATIENCE_MS; i++)
        patience_ms *= 2;
    int code = session_attach(session, entry->pid, patience_ms, &pidfd, error);
    if (code < 0)
        return code;
    struct target *target = session_find(session, entry->pid);
    target->began_us = entry->began_us;
    target->told_of_start = entry->told;
    target->attached_us = clock_read_ns(CLOCK_MONOTONIC) / 1000;
    server_look_soon(server);
    return server_watch(server, pidfd);
}

/* Compare paths from /proc. The path of a file that was replaced on disk ends in " (deleted)". */
static bool is_same_executable(const char *now, const char *then)
{
    size_t length = strlen(then);
    return strncmp(now, then, length) == 0 &&
           (now[length] == 0 || strcmp(now + length, " (deleted)") == 0);
}

/* Return whether the program that we attached to is gone, because its process began another one. */
static bool has_been_replaced(const struct target *target, const struct process_info *info,
                              const struct discovery_entry *entry)
{
    return target_is_attached(target) && !target->image_gone &&
           ((entry->told && entry->began_us > target->attached_us) ||
            !is_same_executable(info->executable, target->info.executable));
}

static void explain_failure(struct session *session, const struct process_info *info,
                            const struct discovery_entry *entry, uint64_t age_ms,
                            const struct error *error)
{
    char remark[sizeof(error->message) + 64];
    snprintf(remark, sizeof(remark), "%s", error->message);
    if (error->code == -EAGAIN)
        snprintf(remark, sizeof(remark), "%s (it was tried %u times in %llu s)", error->message,
                 entry->attempts + 1, (unsigned long long)age_ms / 1000);
    session_note_absent(session, info, remark);
}

/* Explain a wanted process that ended before it could be attached to. */
static void explain_ended(struct session *session, const struct discovery_entry *entry,
                          uint64_t now_ms)
{
    char remark[256];
    struct process_info info = {.pid = entry->pid};
    memcpy(info.comm, entry->comm, sizeof(info.comm));
    snprintf(remark, sizeof(remark),
             "It ended within %llu ms, before the profiler could attach to it. With the library "
             "preloaded (heap_profile host or shell) even such a short run is profiled completely.",
             (unsigned long long)(now_ms - entry->seen_ms) + 1);
    session_note_absent(session, &info, remark);
}

/* Return whether the process may be so young that its loader has not mapped the allocator yet. A
 * process that ran before the session may be, too: a shell starts a program and gives its pid to
 * -p. */
static bool may_be_loading(const struct process_info *info, const struct discovery_entry *entry,
                           uint64_t age_ms)
{
    uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
    bool is_young = info->start_boottime_ns + LOADING_PATIENCE_MS * UINT64_C(1000000) > now_ns;
    return (!entry->running || is_young) && age_ms < LOADING_PATIENCE_MS;
}

/* Attach to, await or explain a process that the session wants and may profile. */
static enum discovery_state attach_or_wait(struct server *server, struct session *session,
                                           const struct process_info *info,
                                           const struct discovery_entry *entry, uint64_t now_ms)
{
    struct error error = {0};
    uint64_t age_ms = now_ms - entry->seen_ms;
    bool may_load = may_be_loading(info, entry, age_ms);
    if (joins_by_itself(server, session, entry)) {
        /* The preloaded client has hooks that report restrictions. A linked one would find out only
         * by making a forbidden call. */
        if (process_info_restrictions(info->pid) == 0 || is_preloaded(info->pid))
            return DISCOVERY_AWAITED;
        session_note_absent(session, info,
                            "It is linked to the client library and has restricted its own system "
                            "calls (seccomp): one of the client's calls would kill it. With the "
                            "library preloaded (heap_profile host or shell) it can be profiled.");
        return DISCOVERY_DONE;
    }
    if (may_load && attach_check_loaded(info->pid) == -EAGAIN)
        return DISCOVERY_LOADING;
    if (!heap_config_wants_heap(session->config, HEAP_CONFIG_MALLOC)) {
        /* It may be linked to the client, and about to join. */
        if (may_load && age_ms < UNSURE_MS)
            return DISCOVERY_LOADING;
        session_note_absent(session, info, diagnosis_of_attached);
        return DISCOVERY_DONE;
    }
    int code = attach_to(server, session, entry, &error);
    /* It may have been examined just before its loader began. */
    if (code == -ENOTSUP && may_load && age_ms < UNSURE_MS)
        return DISCOVERY_LOADING;
    if (code == -EAGAIN && age_ms < BUSY_PATIENCE_MS)
        return DISCOVERY_BUSY;
    if (code < 0 && !entry->running && process_has_ended(info->pid))
        explain_ended(session, entry, clock_read_ms(CLOCK_MONOTONIC));
    else if (code < 0)
        explain_failure(session, info, entry, age_ms, &error);
    return DISCOVERY_DONE;
}

/* Report a process in any case if the user asked for it by its pid. */
static void explain_if_numbered(struct session *session, const struct process_info *info,
                                const char *remark)
{
    for (size_t i = 0; i < session->config->pid_count; i++) {
        if (session->config->pids[i] == (uint64_t)info->pid)
            session_note_absent(session, info, remark);
    }
}

/* Report a process that may not be profiled. For another user's process write only the pid, which
 * the owner knows already. */
static void explain_forbidden(struct session *session, const struct process_info *info,
                              const char *remark)
{
    struct process_info stranger = {.pid = info->pid, .start_boottime_ns = info->start_boottime_ns};
    bool is_own = session->owner.may_all || info->uid == getuid();
    session_note_absent(session, is_own ? info : &stranger, remark);
}

/* Return whether the process is this one, or another one of the daemon's. */
static bool is_profiler(const struct server *server, const struct process_info *info)
{
    char own[sizeof(info->executable)];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[length > 0 ? length : 0] = 0;
    return info->pid == getpid() || (server->supervisor > 0 && strcmp(own, info->executable) == 0 &&
                                     process_info_descends(info->pid, server->supervisor));
}

static enum discovery_state discovery_process(struct server *server, struct session *session,
                                              const struct process_info *info,
                                              const struct discovery_entry *entry, uint64_t now_ms)
{
    enum handshake_origin origin = entry->running ? HANDSHAKE_RUNNING : HANDSHAKE_STARTUP;
    struct error error = {0};
    const struct target *target = session_find(session, info->pid);
    if (target != NULL && has_been_replaced(target, info, entry))
        session_lose_image(session, info);
    if (!session_wants(session, info, origin))
        return DISCOVERY_NOT_WANTED;
    if (is_profiler(server, info)) {
        explain_if_numbered(session, info, "The profiler does not profile itself.");
        return DISCOVERY_NOT_WANTED;
    }
    if (target != NULL && !target->image_gone)
        return DISCOVERY_DONE;
    /* Check this first: the owner must learn nothing else about other users' processes. */
    if (session_may_profile(session, info, &error) < 0) {
        explain_forbidden(session, info, error.message);
        return DISCOVERY_DONE;
    }
    uint32_t least_kb = session->config->min_anonymous_memory_kb;
    if (entry->running && least_kb > 0 && process_info_anonymous_kb(info->pid) < least_kb) {
        explain_if_numbered(session, info,
                            "It has less anonymous memory than min_anonymous_memory_kb asks for.");
        return DISCOVERY_NOT_WANTED;
    }
    char whose[SESSION_NAME_BYTES];
    if (belongs_to_another(server, session, info->pid, whose)) {
        session_reject(session, info->pid, origin, whose);
        return DISCOVERY_DONE;
    }
    return attach_or_wait(server, session, info, entry, now_ms);
}

/* Return the time until the next attempt, in ms. */
static uint64_t delay_of(const struct discovery_entry *entry)
{
    unsigned earlier = entry->attempts < 32 ? entry->attempts - 1 : 31;
    if (entry->state != DISCOVERY_BUSY) {
        uint64_t delay = UINT64_C(1) << earlier / 2;
        return delay < LOADING_DELAY_MAX_MS ? delay : LOADING_DELAY_MAX_MS;
    }
    uint64_t delay = (uint64_t)BUSY_DELAY_MS << earlier;
    return delay < BUSY_DELAY_MAX_MS ? delay : BUSY_DELAY_MAX_MS;
}

/* Examine a process, do what can be done now, and set when to continue. */
static void examine(struct server *server, struct session *session, struct discovery_entry *entry)
{
    struct process_info info;
    enum discovery_state before = entry->state;
    uint64_t began_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (process_info_read(&info, entry->pid) < 0) {
        if (entry->attempts > 0 && (before == DISCOVERY_LOADING || before == DISCOVERY_BUSY))
            explain_ended(session, entry, began_ms);
        entry->state = DISCOVERY_DONE;
        return;
    }
    memcpy(entry->comm, info.comm, sizeof(entry->comm));
    entry->state = discovery_process(server, session, &info, entry, began_ms);
    entry->attempts = entry->state == before ? entry->attempts + 1 : 1;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    entry->due_ms = now_ms + delay_of(entry);
    if (entry->state == DISCOVERY_BUSY) {
        session->reach.busy_ms += now_ms - began_ms;
        session->reach.rest_ms = now_ms + BUSY_REST * (now_ms - began_ms);
    }
    process_info_clear(&info);
}

/* --- scans of /proc --- */

/* Return the pids of all processes, in ascending order, in which /proc lists them. */
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

/* Return the index of the pid, or the index where it would be inserted. */
static size_t place_of(const struct discovery_list *list, pid_t pid)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->entries[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_known_at(const struct discovery_list *list, size_t place, pid_t pid)
{
    return place < list->count && list->entries[place].pid == pid;
}

/* Return the latest time (CLOCK_MONOTONIC) at which the program cannot have run yet: the scan
 * before this one, or the start of the process if that is later. 0: unknown. */
static uint64_t began_after_us(const struct session *session, pid_t pid)
{
    struct process_info info;
    uint64_t after_us = session->reach.scan_ms * 1000;
    if (process_info_read(&info, pid) < 0)
        return after_us;
    uint64_t age_us = clock_read_ns(CLOCK_BOOTTIME) / 1000 - info.start_boottime_ns / 1000;
    uint64_t start_us = clock_read_ns(CLOCK_MONOTONIC) / 1000 - age_us;
    process_info_clear(&info);
    return start_us > after_us ? start_us : after_us;
}

/* Scan /proc once. A process that still runs the program of the last scan keeps its state, and
 * costs one small read. */
static void scan(struct server *server, struct session *session, bool running)
{
    struct discovery_list fresh = {.scan_ms = clock_read_ms(CLOCK_MONOTONIC)};
    const struct discovery_list *old = &session->reach;
    size_t count;
    pid_t *pids = list_processes(&count);
    session->reach.busy_ms = 0;
    for (size_t i = 0; i < count; i++) {
        struct discovery_entry entry = {
            .pid = pids[i], .running = running, .seen_ms = fresh.scan_ms};
        if (!process_info_comm(pids[i], entry.comm))
            continue;
        size_t place = place_of(old, pids[i]);
        bool was_there = is_known_at(old, place, pids[i]);
        const struct discovery_entry *known = was_there ? &old->entries[place] : NULL;
        if (known != NULL &&
            (known->state == DISCOVERY_FORKED || strcmp(known->comm, entry.comm) == 0)) {
            entry = *known;
        } else {
            entry.began_us = running || was_there ? 0 : began_after_us(session, entry.pid);
            if (session->reach.busy_ms < SCAN_BUSY_MS)
                examine(server, session, &entry);
            else
                entry.state = DISCOVERY_FORKED;
        }
        if (array_reserve(&fresh.entries, &fresh.capacity, fresh.count, 1, sizeof(entry)) == 0)
            fresh.entries[fresh.count++] = entry;
        fresh.pending += is_pending(entry.state);
    }
    free(pids);
    fresh.rest_ms = session->reach.rest_ms;
    free(session->reach.entries);
    session->reach = fresh;
}

/* --- events of the kernel --- */

/* Return a new entry for a process, at its place in the list. NULL: there is no room. */
static struct discovery_entry *renew_entry(struct discovery_list *list, size_t place, pid_t pid)
{
    if (!is_known_at(list, place, pid)) {
        if (list->count >= ENTRIES_MAX || array_reserve(&list->entries, &list->capacity,
                                                        list->count, 1, sizeof(*list->entries)) < 0)
            return NULL;
        memmove(&list->entries[place + 1], &list->entries[place],
                (list->count - place) * sizeof(*list->entries));
        list->count++;
    }
    list->entries[place] =
        (struct discovery_entry){.pid = pid, .seen_ms = clock_read_ms(CLOCK_MONOTONIC)};
    return &list->entries[place];
}

static void take_event(struct server *server, struct session *session,
                       const struct exec_event *event)
{
    struct discovery_list *list = &session->reach;
    size_t place = place_of(list, event->pid);
    if (event->kind == EXEC_EVENT_RENAMED && is_known_at(list, place, event->pid) &&
        list->entries[place].state != DISCOVERY_NOT_WANTED)
        return;
    struct discovery_entry *entry = renew_entry(list, place, event->pid);
    if (entry == NULL)
        return;
    uint64_t now_ms = entry->seen_ms;
    if (event->kind == EXEC_EVENT_FORKED) {
        entry->state = DISCOVERY_FORKED;
        entry->due_ms = now_ms + FORKED_DELAY_MS;
    } else {
        entry->told = event->kind == EXEC_EVENT_BEGAN;
        entry->began_us = entry->told ? event->time_us : 0;
        examine(server, session, entry);
    }
    list->pending += is_pending(entry->state);
}

/* Return whether the event concerns the session. A process that it has by pid stays in it, whatever
 * it runs. */
static bool is_event_of(const struct session *session, const struct exec_event *event)
{
    return discovery_wants_new(session) ||
           (!session->of_command && event->kind == EXEC_EVENT_BEGAN &&
            session_find(session, event->pid) != NULL);
}

static void handle_event(void *context, const struct exec_event *event)
{
    struct server *server = context;
    for (size_t i = 0; i < server->session_count; i++) {
        if (is_event_of(server->sessions[i], event))
            take_event(server, server->sessions[i], event);
    }
}

struct found_execs {
    struct server *server;
    struct session *session;
};

static void take_exec(void *context, pid_t pid)
{
    struct found_execs *found = context;
    struct discovery_list *list = &found->session->reach;
    struct discovery_entry *entry = renew_entry(list, place_of(list, pid), pid);
    if (entry == NULL)
        return;
    entry->began_us = (entry->seen_ms - EXEC_CHECK_PERIOD_MS) * 1000;
    examine(found->server, found->session, entry);
    list->pending += is_pending(entry->state);
}

void discovery_follow_execs(struct server *server, struct session *session)
{
    struct found_execs found = {server, session};
    session_look_for_execs(session, take_exec, &found);
}

bool discovery_serve(struct server *server, int fd)
{
    if (fd != server->exec_events || fd < 0)
        return false;
    bool lost = exec_events_read(fd, handle_event, server) < 0;
    for (size_t i = 0; lost && i < server->session_count; i++)
        server->sessions[i]->reach.must_scan = true;
    return true;
}

void discovery_listen(struct server *server)
{
    bool is_wanted = false;
    for (size_t i = 0; i < server->session_count; i++)
        is_wanted |=
            discovery_wants_new(server->sessions[i]) || server->sessions[i]->config->pid_count > 0;
    if (is_wanted && server->exec_events < 0) {
        server->exec_events = exec_events_open(NULL);
        if (server->exec_events >= 0 && server_watch(server, server->exec_events) < 0)
            is_wanted = false;
    }
    if (!is_wanted) {
        exec_events_close(server->exec_events);
        server->exec_events = -1;
    }
}

bool discovery_is_told(const struct server *server, struct error *why_not)
{
    return server->exec_events >= 0 || exec_events_are_there(why_not);
}

/* --- interface of the server --- */

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
        session_note_absent(session, &info, "No process has this number.");
    }
}

void discovery_running(struct server *server, struct session *session)
{
    explain_missing_pids(session);
    /* Do this before the scan: processes that begin during it are then not missed. */
    discovery_listen(server);
    /* Scan even if running processes are not wanted: it shows which ones are not new. */
    scan(server, session, true);
}

bool discovery_invites(struct discovery_entry *entry, uint64_t now_ms)
{
    if (entry->invited_ms == 0 || now_ms >= entry->invited_ms + INVITED_PERIOD_MS) {
        entry->invited_ms = now_ms;
        entry->is_invited = invited_read(&entry->invited, entry->pid);
    }
    return entry->is_invited;
}

bool discovery_wants_new(const struct session *session)
{
    const struct heap_config *config = session->config;
    return !session->of_command && !config->no_startup &&
           (config->all || config->process_cmdline != NULL);
}

void discovery_new(struct server *server, struct session *session)
{
    uint64_t period_ms = server->exec_events >= 0 ? SCAN_PERIOD_WITH_EVENTS_MS : SCAN_PERIOD_MS;
    /* The caller's clock is sometimes a little early. */
    uint64_t due_ms = session->reach.scan_ms + period_ms - SCAN_SLACK_MS;
    bool is_due = session->reach.must_scan || clock_read_ms(CLOCK_MONOTONIC) >= due_ms;
    if (is_due && discovery_wants_new(session))
        scan(server, session, false);
}

uint64_t discovery_retry(struct server *server, struct session *session, uint64_t now_ms)
{
    struct discovery_list *list = &session->reach;
    uint64_t next_ms = UINT64_MAX;
    if (list->pending == 0)
        return next_ms;
    list->pending = 0;
    list->busy_ms = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct discovery_entry *entry = &list->entries[i];
        bool rests = list->busy_ms >= SCAN_BUSY_MS ||
                     (entry->state == DISCOVERY_BUSY && list->rest_ms > now_ms);
        if (is_pending(entry->state) && entry->due_ms <= now_ms && !rests)
            examine(server, session, entry);
        if (!is_pending(entry->state))
            continue;
        uint64_t due_ms = entry->due_ms;
        if (entry->state == DISCOVERY_BUSY && due_ms < list->rest_ms)
            due_ms = list->rest_ms;
        list->pending++;
        if (due_ms < next_ms)
            next_ms = due_ms;
    }
    return next_ms;
}

bool discovery_is_spent(const struct session *session)
{
    const struct discovery_list *list = &session->reach;
    if (session->of_command || discovery_wants_new(session) || session->target_count > 0)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        const struct discovery_entry *entry = &list->entries[i];
        if (is_pending(entry->state) ||
            (entry->state == DISCOVERY_AWAITED && !process_has_ended(entry->pid)))
            return false;
    }
    return true;
}

static const char *explain_entry(const struct discovery_entry *entry)
{
    switch (entry->state) {
    case DISCOVERY_AWAITED:
        return "This process has the profiling library preloaded, or is linked to it, and did not "
               "join: it allocated nothing since, or has restricted its own system calls "
               "(seccomp), or it looks for the daemon in another run directory "
               "(HEAPPROFD_RUN_DIR), or began before there was that directory (heapprofd prepare "
               "makes it), or was in another session.";
    case DISCOVERY_LOADING:
        return "Its loader had not finished when the session ended: there was nothing yet to "
               "attach to.";
    case DISCOVERY_BUSY:
        return "The profiler tried to attach until the session ended: a thread could not be "
               "stopped, or was in code that the profiler has to change.";
    default:
        return NULL;
    }
}

/* Explain a process that was expected to join and is gone. If anything was profiled, say nothing:
 * it may have been this process. */
static void explain_gone(struct session *session, const struct discovery_entry *entry)
{
    struct process_info info = {.pid = entry->pid};
    memcpy(info.comm, entry->comm, sizeof(info.comm));
    if (entry->state == DISCOVERY_AWAITED && session->profiled == 0)
        session_note_absent(session, &info,
                            "It has the profiling library preloaded, and ended before it joined: "
                            "it allocated nothing meanwhile.");
}

void discovery_explain(struct session *session)
{
    for (size_t i = 0; i < session->reach.count; i++) {
        const struct discovery_entry *entry = &session->reach.entries[i];
        const char *remark = explain_entry(entry);
        struct process_info info;
        if (remark == NULL || session_profiles(session, entry->pid))
            continue;
        if (process_info_read(&info, entry->pid) < 0) {
            explain_gone(session, entry);
            continue;
        }
        session_note_absent(session, &info, remark);
        process_info_clear(&info);
    }
    free(session->reach.entries);
    session->reach = (struct discovery_list){0};
}
