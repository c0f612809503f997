/* SPDX-License-Identifier: Apache-2.0 */
/* Keep the set of the command's descendants, from process events or from scans of /proc. */
#include "recorder/server/descendants.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/processes/exec_events.h"
#include "recorder/server/target_discovery.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/process_files.h"
#include "util/sorted_search.h"

#define DESCENDANTS_MAX (1u << 16)
/* If more events than this come in a turn of 0.1 s from other processes, they do not wake us any
 * more. */
#define STRANGE_EVENTS_MAX 8u
/* Number of reads of the events' descriptor at once, and at a command's end, at most. */
#define LAST_READS_MAX 64

static const char lack_of_events[] =
    "programs that ended within 0.1 s and did not load the library are not seen here: the kernel "
    "does not report new programs (heap_profile doctor explains why)";
static const char lack_of_some[] = "programs began faster than the profiler could examine them";

/* --- what wakes us --- */

/* Let all events wake us. */
static void watch_all(struct descendants *descendants)
{
    if (descendants->waker < 0)
        return;
    server_unwatch(descendants->server, descendants->waker);
    exec_events_close(descendants->waker);
    descendants->waker = -1;
    server_watch(descendants->server, descendants->events);
}

/* Let only the events of the command's processes wake us, if they are few. */
static void watch_known(struct descendants *descendants)
{
    pid_t pids[EXEC_EVENTS_PIDS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < descendants->count; i++) {
        if (descendants->known[i].ended || process_has_ended(descendants->known[i].pid))
            continue;
        if (count == EXEC_EVENTS_PIDS_MAX)
            return;
        pids[count++] = descendants->known[i].pid;
    }
    int fd = exec_events_subscribe(&(struct error){0});
    if (fd < 0)
        return;
    exec_events_set_pids(fd, pids, count);
    if (server_watch(descendants->server, fd) < 0) {
        exec_events_close(fd);
        return;
    }
    server_unwatch(descendants->server, descendants->events);
    descendants->waker = fd;
    /* What came before the filter. An event of another processor may reach the waker before the
     * socket that is read then: it is read with the next turn. */
    descendants_read(descendants);
}

/* The set of processes has changed. While it does, all events wake us: to make a filter for each
 * change would cost more. */
static void note_change(struct descendants *descendants)
{
    descendants->changed = true;
    watch_all(descendants);
}

void descendants_watch(struct descendants *descendants)
{
    if (descendants->events >= 0)
        server_watch(descendants->server, descendants->events);
}

bool descendants_watches(const struct descendants *descendants, int fd)
{
    return fd >= 0 && (fd == descendants->events || fd == descendants->waker);
}

/* --- the set of descendants --- */

/* Return the index of a pid among the known ones, or the index where it would be inserted. */
static size_t descendants_place_of(const struct descendants *descendants, pid_t pid)
{
    return SORTED_SEARCH(descendants->count, i, descendants->known[i].pid < pid);
}

static struct descendant *descendants_find(const struct descendants *descendants, pid_t pid)
{
    size_t place = descendants_place_of(descendants, pid);
    return place < descendants->count && descendants->known[place].pid == pid
               ? &descendants->known[place]
               : NULL;
}

static struct descendant *descendants_add(struct descendants *descendants, pid_t pid)
{
    struct descendant *found = descendants_find(descendants, pid);
    if (found != NULL) {
        found->ended = false;
        return found;
    }
    if (descendants->count >= DESCENDANTS_MAX ||
        ARRAY_RESERVE(&descendants->known, &descendants->capacity, descendants->count, 1) < 0) {
        descendants->lost = true;
        return NULL;
    }
    size_t place = descendants_place_of(descendants, pid);
    memmove(&descendants->known[place + 1], &descendants->known[place],
            (descendants->count - place) * sizeof(*descendants->known));
    descendants->known[place] = (struct descendant){.pid = pid};
    descendants->count++;
    descendants->any |= pid != descendants->session->command_pid;
    note_change(descendants);
    return &descendants->known[place];
}

static void descendants_forget(struct descendants *descendants, struct descendant *old)
{
    size_t place = (size_t)(old - descendants->known);
    descendants->count--;
    memmove(old, old + 1, (descendants->count - place) * sizeof(*old));
    note_change(descendants);
}

/* --- reasons --- */

/* Return whether the profiler attaches to a program that cannot load the library: a static one, or
 * one in another root directory. */
static bool is_attached_to(enum preload_obstacle obstacle)
{
    return obstacle == OBSTACLE_STATIC || obstacle == OBSTACLE_PLACE;
}

static enum unprofiled_reason reason_of(struct descendants *descendants,
                                        const struct process_info *info)
{
    const struct session *session = descendants->session;
    bool is_wanted = session_wants(session, info, HANDSHAKE_STARTUP);
    enum unprofiled_reason unwanted = session_unwanted_reason(session, info);
    if (!is_wanted && unwanted != UNPROFILED_CHILD)
        return unwanted;
    enum preload_obstacle obstacle =
        preload_obstacle_of_process(&descendants->files, info, descendants->library);
    if (is_attached_to(obstacle) && !is_wanted)
        return UNPROFILED_CHILD;
    if (obstacle != OBSTACLE_NONE)
        return (enum unprofiled_reason)((unsigned)UNPROFILED_SILENT + obstacle);
    return is_wanted ? UNPROFILED_QUIET : UNPROFILED_CHILD;
}

static bool is_profiled(const struct session *session, pid_t pid)
{
    const struct target *target = session_find(session, pid);
    return target != NULL && target->exec != TARGET_EXEC_AWAY && !target_has_exec(target);
}

/* Return whether the program that cannot load the library is one to attach to. The session wants
 * it: else it would have another reason. */
static bool can_be_attached_to(const struct session *session, enum unprofiled_reason reason)
{
    return reason >= UNPROFILED_SILENT && is_attached_to(reason - UNPROFILED_SILENT) &&
           heap_config_wants_heap(session->config, HEAP_CONFIG_MALLOC);
}

/* Check a process that has run its program since began_us (CLOCK_MONOTONIC; UINT64_MAX: unknown).
 * If it reported since then, it is known already. */
static void check_process(struct descendants *descendants, pid_t pid, uint64_t began_us)
{
    struct session *session = descendants->session;
    const struct unprofiled_record *record = unprofiled_find(&session->unprofiled, pid);
    struct process_info info;
    /* session_explain_command() explains why the command itself did not report. */
    if (pid == session->command_pid && !session->command_said_hello)
        return;
    if (is_profiled(session, pid) || (record != NULL && record->noted_us > began_us))
        return;
    if (process_info_read(&info, pid) < 0) {
        unprofiled_add(&session->unprofiled, pid, 0, "(unknown)", UNPROFILED_GONE);
        return;
    }
    enum unprofiled_reason reason = reason_of(descendants, &info);
    bool is_there = process_has_image(pid);
    unprofiled_add(&session->unprofiled, pid, info.parent_pid,
                   is_there ? process_info_name(&info) : info.comm,
                   is_there ? reason : UNPROFILED_GONE);
    process_info_clear(&info);
    if (is_there && can_be_attached_to(session, reason))
        discovery_begun(descendants->server, pid, began_us != UINT64_MAX ? began_us : 0);
}

/* List a forked child of a program that cannot report, for its parent's reason. The child may have
 * begun another program and reported since forked_us (CLOCK_MONOTONIC). */
static void copy_reason(struct session *session, pid_t parent, pid_t child, uint64_t forked_us)
{
    const struct unprofiled_record *of_child = unprofiled_find(&session->unprofiled, child);
    const struct unprofiled_record *of_parent = unprofiled_find(&session->unprofiled, parent);
    if (of_parent == NULL || of_parent->profiled || of_parent->reason < UNPROFILED_SILENT ||
        (of_child != NULL && of_child->noted_us > forked_us))
        return;
    unprofiled_add_copy(&session->unprofiled, child, of_parent, forked_us);
}

/* --- events of the kernel --- */

static void handle_event(void *context, const struct exec_event *event)
{
    struct descendants *descendants = context;
    struct descendant *known = descendants_find(descendants, event->pid);
    descendants->strange += known == NULL;
    descendants->read_us = event->time_us;
    switch (event->kind) {
    case EXEC_EVENT_FORKED:
        if (descendants_find(descendants, event->parent) != NULL) {
            descendants_add(descendants, event->pid);
            copy_reason(descendants->session, event->parent, event->pid, event->time_us);
        } else if (known != NULL && event->pid != descendants->session->command_pid) {
            /* Another process has this pid now. */
            descendants_forget(descendants, known);
        }
        break;
    case EXEC_EVENT_BEGAN:
        if (known != NULL)
            check_process(descendants, event->pid, event->time_us);
        break;
    case EXEC_EVENT_ENDED:
        /* Not if other threads go on without the first one. */
        if (known != NULL && event->is_leader)
            known->ended = process_has_ended(event->pid);
        session_note_exit(descendants->session, event);
        break;
    case EXEC_EVENT_RENAMED:
        break;
    }
}

void descendants_read(struct descendants *descendants)
{
    if (descendants->waker >= 0)
        exec_events_drop(descendants->waker);
    int reads = 0;
    do
        descendants->lost |= exec_events_read(descendants->events, handle_event, descendants) < 0;
    /* If the waker is watched, nothing else says that there are more. */
    while (descendants->waker >= 0 && ++reads < LAST_READS_MAX &&
           exec_events_pending(descendants->events));
}

bool descendants_include(struct descendants *descendants, pid_t pid)
{
    if (descendants->events < 0)
        return false; /* the pid of an ended descendant may belong to another process by now */
    descendants_read(descendants);
    return descendants_find(descendants, pid) != NULL;
}

/* --- scans of /proc --- */

static int compare_pids(const void *left, const void *right)
{
    pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;
    return (a > b) - (a < b);
}

/* Return whether a process descends from the command: its parent is known, or its parent was missed
 * and it has the command's environment. */
static bool descends(const struct descendants *descendants, pid_t pid)
{
    return descendants_find(descendants, process_info_parent(pid)) != NULL ||
           process_info_file_contains(pid, "environ", descendants->socket);
}

/* Check a process of this scan, old or new. It may have begun another program since the last
 * scan. */
static void check_again(struct descendants *descendants, struct descendant *descendant)
{
    char comm[16];
    struct session *session = descendants->session;
    if (!process_info_comm(descendant->pid, comm) || strcmp(comm, descendant->comm) == 0)
        return;
    memcpy(descendant->comm, comm, sizeof(comm));
    const struct unprofiled_record *record = unprofiled_find(&session->unprofiled, descendant->pid);
    /* The process has reported since then. */
    if (record != NULL && strncmp(record->name, comm, sizeof(comm) - 1) == 0)
        return;
    check_process(descendants, descendant->pid, UINT64_MAX);
}

static void scan(struct descendants *descendants)
{
    if (descendants->events >= 0 || descendants->count == 0)
        return;
    DIR *directory = opendir("/proc");
    if (directory == NULL)
        return;
    pid_t *strangers = NULL;
    size_t count = 0, capacity = 0;
    pid_t pid;
    while ((pid = process_list_next(directory)) > 0) {
        struct descendant *known = descendants_find(descendants, pid);
        bool is_stranger = descendants->stranger_count > 0 &&
                           bsearch(&pid, descendants->strangers, descendants->stranger_count,
                                   sizeof(pid), compare_pids) != NULL;
        if (known == NULL && !is_stranger && descends(descendants, pid))
            known = descendants_add(descendants, pid);
        if (known != NULL)
            check_again(descendants, known);
        else if (ARRAY_RESERVE(&strangers, &capacity, count, 1) == 0)
            strangers[count++] = pid;
    }
    closedir(directory);
    free(descendants->strangers);
    descendants->strangers = strangers; /* /proc lists them in order */
    descendants->stranger_count = count;
}

void descendants_tick(struct descendants *descendants)
{
    scan(descendants);
    if (descendants->events < 0)
        return;
    descendants_read(descendants);
    if (descendants->waker < 0 && descendants->strange > STRANGE_EVENTS_MAX &&
        !descendants->changed)
        watch_known(descendants);
    descendants->strange = 0;
    descendants->changed = false;
}

/* --- begin and end --- */

void descendants_open(struct descendants *descendants, struct server *server, const char *library,
                      const char *socket)
{
    *descendants = (struct descendants){
        .server = server, .session = server->session, .library = library, .socket = socket};
    descendants->waker = -1;
    descendants->events = exec_events_subscribe(&descendants->why_no_events);
}

void descendants_close(struct descendants *descendants)
{
    exec_events_close(descendants->waker);
    exec_events_close(descendants->events);
    free(descendants->known);
    free(descendants->strangers);
    *descendants = (struct descendants){.events = -1, .waker = -1};
}

void descendants_begin(struct descendants *descendants, pid_t command)
{
    descendants_add(descendants, command);
    scan(descendants);
    if (descendants->events >= 0)
        exec_events_set_filter(descendants->events);
}

/* Return whether there are events of before then that are not read yet. */
static bool is_behind(const struct descendants *descendants, uint64_t then_us)
{
    return descendants->events >= 0 && descendants->read_us < then_us &&
           exec_events_pending(descendants->events);
}

void descendants_read_rest(struct descendants *descendants)
{
    /* Other programs begin all the time. Those that begin while we read are not waited for. */
    uint64_t now_us = clock_read_us(CLOCK_MONOTONIC);
    for (int i = 0; i < LAST_READS_MAX && is_behind(descendants, now_us); i++)
        descendants_read(descendants);
    descendants->behind = is_behind(descendants, now_us);
    scan(descendants);
}

void descendants_command_ended(struct descendants *descendants)
{
    descendants_read_rest(descendants);
    /* If the command waited for a child, it started one. */
    descendants->any |= process_info_had_children(descendants->session->command_pid);
}

/* Return the last pid that the kernel gave to a process or thread of our namespace; 0: unknown. */
static pid_t last_number(void)
{
    int number = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %*s %*s %*s %d", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

/* Return whether each pid that was assigned since the command began belongs to a known process or
 * thread. In a container in which nothing else runs, this proves that no process was missed. */
static bool all_numbers_are_known(struct descendants *descendants, pid_t last)
{
    const struct session *session = descendants->session;
    for (size_t i = 0; i < session->unprofiled.count; i++)
        descendants_add(descendants, session->unprofiled.records[i].pid);
    for (size_t i = 0; i < session->threads_of_gone_count; i++) {
        if (session->threads_of_gone[i] > session->command_pid)
            descendants_add(descendants, session->threads_of_gone[i]);
    }
    size_t first = descendants_place_of(descendants, session->command_pid),
           end = descendants_place_of(descendants, last);
    end += end < descendants->count && descendants->known[end].pid == last;
    return last >= session->command_pid && end - first == (size_t)(last - session->command_pid) + 1;
}

void descendants_finish(struct descendants *descendants)
{
    struct session *session = descendants->session;
    if (descendants->events >= 0) {
        if (descendants->lost || descendants->behind)
            session->unprofiled.why_incomplete = lack_of_some;
        return;
    }
    if ((descendants->any || descendants->lost) &&
        !all_numbers_are_known(descendants, last_number()))
        session->unprofiled.why_incomplete = lack_of_events;
}
