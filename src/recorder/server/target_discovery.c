/* SPDX-License-Identifier: Apache-2.0 */
/* Find processes by scans of /proc and by exec events, and examine them when it is time. */
#include "recorder/server/target_discovery.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/processes/exec_events.h"
#include "recorder/processes/other_profiler.h"
#include "recorder/server/discovery_examine.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/process_files.h"
#include "util/sorted_search.h"

/* Periods of scans of /proc: for new processes, and, if the kernel reports those, for events that
 * were lost. */
#define SCAN_PERIOD_MS 100
#define SCAN_PERIOD_WITH_EVENTS_MS 1000
#define SCAN_BACKGROUND_FACTOR 10
#define SCAN_SLACK_MS 25
/* How often the server looks for execs that no event reported, with some slack. */
#define EXEC_CHECK_PERIOD_MS 125

/* Wait after a fork: most new processes soon begin another program. */
#define FORKED_DELAY_MS 50

/* After this time of failed attempts in one turn, the other processes wait for the next turn. */
#define SCAN_BUSY_MS 100

/* Period of reading what invites an awaited process, which may begin another program. */
#define INVITED_PERIOD_MS 1000

/* Number of times that an awaited process is searched for a dead profiler's ring. A ring counts as
 * dead after 2 s. */
#define ORPHAN_CHECKS_MAX 5

/* Further new processes between two scans are left to the next scan. */
#define ENTRIES_MAX (1u << 16)

static bool is_pending(enum discovery_state state)
{
    return state == DISCOVERY_FORKED || state == DISCOVERY_LOADING || state == DISCOVERY_BUSY ||
           state == DISCOVERY_UNSEEN || state == DISCOVERY_CLAIMED || state == DISCOVERY_HELD;
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
    pid_t pid;
    while ((pid = process_list_next(directory)) > 0) {
        bool ascends = *count == 0 || pids[*count - 1] < pid;
        if (ascends && ARRAY_RESERVE(&pids, &capacity, *count, 1) == 0)
            pids[(*count)++] = pid;
    }
    closedir(directory);
    return pids;
}

static int compare_pids(const void *left, const void *right)
{
    pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;
    return (a > b) - (a < b);
}

/* Return the pids that the session names, in ascending order. */
static pid_t *list_named(const struct heap_config *config, size_t *count)
{
    size_t unique = 0;
    pid_t *pids = calloc(config->pid_count + 1, sizeof(*pids));
    *count = 0;
    if (pids == NULL)
        return NULL;
    for (size_t i = 0; i < config->pid_count; i++)
        pids[i] = (pid_t)config->pids[i];
    qsort(pids, config->pid_count, sizeof(*pids), compare_pids);
    for (size_t i = 0; i < config->pid_count; i++) {
        if (pids[i] > 0 && (unique == 0 || pids[unique - 1] != pids[i]))
            pids[unique++] = pids[i];
    }
    *count = unique;
    return pids;
}

/* Return the pids of all processes that the session may want, in ascending order. A machine may
 * have thousands, and each costs some microseconds. */
static pid_t *list_candidates(const struct session *session, size_t *count)
{
    const struct heap_config *config = session->config;
    bool is_named =
        !config->all && config->process_cmdline == NULL && config->target_rules.count == 0;
    return is_named ? list_named(config, count) : list_processes(count);
}

/* Return the index of the pid, or the index where it would be inserted. */
static size_t target_discovery_place_of(const struct discovery_list *list, pid_t pid)
{
    return SORTED_SEARCH(list->count, i, list->entries[i].pid < pid);
}

static bool is_known_at(const struct discovery_list *list, size_t place, pid_t pid)
{
    return place < list->count && list->entries[place].pid == pid;
}

/* Return the latest time (CLOCK_MONOTONIC) at which the program cannot have run yet: the scan
 * before this one, or the start of the process if that is later. 0: unknown. */
static uint64_t began_after_us(const struct session *session, pid_t pid)
{
    uint64_t after_us = session->discovery.scan_ms * 1000, start_ns = process_info_start_ns(pid);
    if (start_ns == 0)
        return after_us;
    uint64_t age_us = clock_read_us(CLOCK_BOOTTIME) - start_ns / 1000;
    uint64_t start_us = clock_read_us(CLOCK_MONOTONIC) - age_us;
    return start_us > after_us ? start_us : after_us;
}

/* Return whether a known process still runs the program of the last scan. `comm` is its comm now. A
 * wanted process may have ended, and another one of the same program may have its pid. */
static bool is_unchanged(const struct discovery_entry *known, const char comm[16])
{
    if (known->state == DISCOVERY_FORKED)
        return true;
    return strcmp(known->comm, comm) == 0 &&
           (known->state == DISCOVERY_NOT_WANTED ||
            process_info_start_ns(known->pid) == known->start_boottime_ns);
}

/* Examine all candidates once. A process that still runs the program of the last scan keeps its
 * state, and costs one or two small reads. */
static void scan(struct server *server, bool running)
{
    struct session *session = server->session;
    struct discovery_list fresh = {.scan_ms = clock_read_ms(CLOCK_MONOTONIC)};
    const struct discovery_list *old = &session->discovery;
    size_t count;
    pid_t *pids = list_candidates(session, &count);
    session->discovery.busy_ms = 0;
    for (size_t i = 0; i < count; i++) {
        struct discovery_entry entry = {
            .pid = pids[i], .running = running, .seen_ms = fresh.scan_ms};
        heartbeat_send();
        discovery_read_rings(session, clock_read_ms(CLOCK_MONOTONIC));
        if (!process_info_comm(pids[i], entry.comm))
            continue;
        size_t place = target_discovery_place_of(old, pids[i]);
        bool was_there = is_known_at(old, place, pids[i]);
        const struct discovery_entry *known = was_there ? &old->entries[place] : NULL;
        if (known != NULL && is_unchanged(known, entry.comm)) {
            entry = *known;
        } else {
            entry.began_us = running || was_there ? 0 : began_after_us(session, entry.pid);
            if (session->discovery.busy_ms < SCAN_BUSY_MS)
                discovery_examine(server, &entry);
            else
                entry.state = DISCOVERY_FORKED;
        }
        if (ARRAY_RESERVE(&fresh.entries, &fresh.capacity, fresh.count, 1) == 0)
            fresh.entries[fresh.count++] = entry;
        fresh.pending += is_pending(entry.state);
    }
    free(pids);
    fresh.retry_ms = session->discovery.retry_ms;
    fresh.read_rings_ms = session->discovery.read_rings_ms;
    free(session->discovery.entries);
    session->discovery = fresh;
}

/* --- events of the kernel --- */

/* Return a new entry for a process, at its place in the list. NULL: there is no room. */
static struct discovery_entry *renew_entry(struct discovery_list *list, size_t place, pid_t pid)
{
    if (!is_known_at(list, place, pid)) {
        if (list->count >= ENTRIES_MAX ||
            ARRAY_RESERVE(&list->entries, &list->capacity, list->count, 1) < 0)
            return NULL;
        memmove(&list->entries[place + 1], &list->entries[place],
                (list->count - place) * sizeof(*list->entries));
        list->count++;
    }
    list->entries[place] =
        (struct discovery_entry){.pid = pid, .seen_ms = clock_read_ms(CLOCK_MONOTONIC)};
    return &list->entries[place];
}

static void note_pending(struct discovery_list *list, const struct discovery_entry *entry)
{
    if (!is_pending(entry->state))
        return;
    list->pending++;
    list->due_ms = clock_earlier(list->due_ms, entry->due_ms);
}

static void take_event(struct server *server, const struct exec_event *event)
{
    struct discovery_list *list = &server->session->discovery;
    size_t place = target_discovery_place_of(list, event->pid);
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
        entry->was_reported = event->kind == EXEC_EVENT_BEGAN;
        entry->began_us = entry->was_reported ? event->time_us : 0;
        discovery_examine(server, entry);
    }
    note_pending(list, entry);
}

/* Return whether the event concerns the session. A process that it profiles by its pid stays in it
 * when it begins another program. */
static bool is_event_of(const struct session *session, const struct exec_event *event)
{
    return discovery_wants_new(session) ||
           (!session->of_command && event->kind == EXEC_EVENT_BEGAN &&
            session_find(session, event->pid) != NULL);
}

static void handle_event(void *context, const struct exec_event *event)
{
    struct server *server = context;
    if (server->session != NULL && event->kind == EXEC_EVENT_ENDED)
        session_note_exit(server->session, event);
    else if (server->session != NULL && is_event_of(server->session, event))
        take_event(server, event);
}

static void take_exec(void *context, pid_t pid)
{
    struct server *server = context;
    struct discovery_list *list = &server->session->discovery;
    struct discovery_entry *entry = renew_entry(list, target_discovery_place_of(list, pid), pid);
    if (entry == NULL)
        return;
    entry->began_us = (entry->seen_ms - EXEC_CHECK_PERIOD_MS) * 1000;
    discovery_examine(server, entry);
    note_pending(list, entry);
}

/* Forget the processes that need no further attempt. */
static void forget_done(struct discovery_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (is_pending(list->entries[i].state))
            list->entries[kept++] = list->entries[i];
    }
    list->count = kept;
}

void discovery_begun(struct server *server, pid_t pid, uint64_t began_us)
{
    struct discovery_list *list = &server->session->discovery;
    forget_done(list);
    struct discovery_entry *entry = renew_entry(list, target_discovery_place_of(list, pid), pid);
    if (entry == NULL)
        return;
    entry->was_reported = began_us != 0;
    entry->began_us = began_us;
    discovery_examine(server, entry);
    note_pending(list, entry);
}

/* --- processes that sessions hand over --- */

void discovery_begin_anew(struct server *server)
{
    struct discovery_list *list = &server->session->discovery;
    list->count = list->pending = 0;
    scan(server, true);
}

void discovery_claim_answered(struct server *server, pid_t pid)
{
    struct discovery_list *list = &server->session->discovery;
    size_t place = target_discovery_place_of(list, pid);
    if (is_known_at(list, place, pid) && list->entries[place].state == DISCOVERY_CLAIMED)
        list->entries[place].due_ms = list->due_ms = 0;
}

static void look_again(struct server *server, pid_t pid)
{
    struct discovery_list *list = &server->session->discovery;
    struct discovery_entry *entry = renew_entry(list, target_discovery_place_of(list, pid), pid);
    if (entry == NULL)
        return;
    entry->running = true;
    discovery_examine(server, entry);
    note_pending(list, entry);
}

void discovery_take_back(struct server *server, uint64_t borrower)
{
    pid_t pid;
    while ((pid = session_take_back(server->session, borrower)) != 0)
        look_again(server, pid);
}

void discovery_follow_execs(struct server *server)
{
    session_handle_execs(server->session, take_exec, server);
}

bool discovery_serve(struct server *server, int fd)
{
    if (fd != server->exec_events || fd < 0)
        return false;
    if (exec_events_read(fd, handle_event, server) < 0 && server->session != NULL)
        server->session->discovery.must_scan = true;
    return true;
}

void discovery_listen(struct server *server)
{
    const struct session *session = server->session;
    bool is_wanted =
        session != NULL && (discovery_wants_new(session) || session->config->pid_count > 0);
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

bool discovery_gets_exec_events(const struct server *server, struct error *why_not)
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
        session_write_empty_profile(session, &info, "No process has this pid.");
    }
}

void discovery_running(struct server *server)
{
    explain_missing_pids(server->session);
    /* Do this before the scan: processes that begin during it are then not missed. */
    discovery_listen(server);
    /* Scan even if running processes are not wanted: it shows which ones are not new. */
    scan(server, true);
}

bool discovery_invites(struct discovery_entry *entry, uint64_t now_ms)
{
    if (entry->invited_ms == 0 || now_ms >= entry->invited_ms + INVITED_PERIOD_MS) {
        entry->invited_ms = now_ms;
        entry->is_invited = invited_read(&entry->invited, entry->pid);
        /* It may still be in the session of a profiler that has just died. */
        if (entry->is_invited && entry->invitations++ < ORPHAN_CHECKS_MAX)
            other_profiler_end_orphaned(entry->pid);
    }
    return entry->is_invited;
}

bool discovery_wants_new(const struct session *session)
{
    const struct heap_config *config = session->config;
    return !session->of_command && !config->no_startup &&
           (config->all || config->process_cmdline != NULL || config->target_rules.count > 0);
}

void discovery_new(struct server *server)
{
    const struct session *session = server->session;
    uint64_t period_ms = server->exec_events >= 0 ? SCAN_PERIOD_WITH_EVENTS_MS : SCAN_PERIOD_MS;
    period_ms *= session->config->background ? SCAN_BACKGROUND_FACTOR : 1;
    /* The caller's clock is sometimes a little early. */
    uint64_t due_ms = session->discovery.scan_ms + period_ms - SCAN_SLACK_MS;
    bool is_due = session->discovery.must_scan || clock_read_ms(CLOCK_MONOTONIC) >= due_ms;
    pid_t unused;
    if (!is_due || !discovery_wants_new(session))
        return;
    scan(server, false);
    while ((unused = session_take_back_unused(server->session)) != 0)
        look_again(server, unused);
}

/* Return the process whose next attempt to attach has been due for longest, or NULL. So each one
 * has its turn, however long attempts take. */
static const struct discovery_entry *next_busy(const struct discovery_list *list)
{
    const struct discovery_entry *next = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct discovery_entry *entry = &list->entries[i];
        if (entry->state == DISCOVERY_BUSY && (next == NULL || entry->due_ms < next->due_ms))
            next = entry;
    }
    return next;
}

/* Return the time before which no failed attempt to attach is repeated. */
static uint64_t retry_from_ms(const struct server *server, const struct discovery_list *list)
{
    uint64_t paid_ms = attach_budget_due_ms(&server->attach_budget);
    return paid_ms > list->retry_ms ? paid_ms : list->retry_ms;
}

uint64_t discovery_retry(struct server *server, uint64_t now_ms)
{
    struct discovery_list *list = &server->session->discovery;
    uint64_t next_ms = UINT64_MAX;
    if (list->pending == 0)
        return next_ms;
    if (now_ms < list->due_ms)
        return list->due_ms;
    list->pending = 0;
    list->busy_ms = 0;
    const struct discovery_entry *busy = next_busy(list);
    for (size_t i = 0; i < list->count; i++) {
        struct discovery_entry *entry = &list->entries[i];
        bool must_wait = list->busy_ms >= SCAN_BUSY_MS ||
                         (entry->state == DISCOVERY_BUSY &&
                          (entry != busy || retry_from_ms(server, list) > now_ms));
        if (is_pending(entry->state) && entry->due_ms <= now_ms && !must_wait)
            discovery_examine(server, entry);
        if (!is_pending(entry->state))
            continue;
        uint64_t due_ms = entry->due_ms;
        if (entry->state == DISCOVERY_BUSY && due_ms < retry_from_ms(server, list))
            due_ms = retry_from_ms(server, list);
        list->pending++;
        next_ms = clock_earlier(next_ms, due_ms);
    }
    /* The budget for failed attempts may grow before. */
    list->due_ms = busy != NULL ? 0 : next_ms;
    return next_ms;
}

bool discovery_is_done(const struct session *session)
{
    const struct discovery_list *list = &session->discovery;
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
               "(HEAPPROFD_RUN_DIR), or started before that directory existed (heapprofd prepare "
               "makes it), or was in another session.";
    case DISCOVERY_LOADING:
        return "Its loader had not finished when the session ended: there was nothing yet to "
               "attach to.";
    case DISCOVERY_BUSY:
        return "The profiler tried to attach until the session ended: a thread could not be "
               "stopped, or was in code that the profiler has to change, or another process shares "
               "its memory.";
    case DISCOVERY_UNSEEN:
        return "Another session, of a profiler that this user cannot see, had this process when "
               "the session ended, or was killed in the seconds before.";
    case DISCOVERY_CLAIMED:
        return "Continuous mode has it, and had not handed it over when the session ended.";
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
        session_write_empty_profile(
            session, &info,
            "It has the profiling library preloaded, and ended before it joined: "
            "it allocated nothing meanwhile.");
}

void discovery_explain(struct session *session)
{
    for (size_t i = 0; i < session->discovery.count; i++) {
        const struct discovery_entry *entry = &session->discovery.entries[i];
        const char *remark = explain_entry(entry);
        struct process_info info;
        if (remark == NULL || session_profiles(session, entry->pid))
            continue;
        /* A zombie has a name, too. */
        bool ended_awaited = entry->state == DISCOVERY_AWAITED && process_has_ended(entry->pid);
        if (ended_awaited || process_info_read(&info, entry->pid) < 0) {
            explain_gone(session, entry);
            continue;
        }
        session_write_empty_profile(session, &info, remark);
        process_info_clear(&info);
    }
    free(session->discovery.entries);
    session->discovery = (struct discovery_list){0};
}
