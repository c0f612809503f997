/* SPDX-License-Identifier: Apache-2.0 */
/* Decide what to do about one process: attach to it, wait for it, or explain why neither. */
#include "recorder/server/discovery_examine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "recorder/processes/diagnosis.h"
#include "recorder/processes/other_profiler.h"
#include "recorder/reader/file_reader.h"
#include "recorder/session/heap_rules.h"
#include "recorder/session/target_choice.h"
#include "recorder/sockets/run_directory.h"
#include "util/clock.h"
#include "util/process_files.h"

#define LIBRARY_NAME "libheapprofd_preload.so"
#define CLIENT_NAME "libheapprofd_client.so"
#define NAME_BYTES_MAX 128

/* A program's loader takes from half a millisecond to tens of milliseconds until there is an
 * allocator to attach to. The process is examined after 1, 1, 2, 2, 4, 4, ... ms, and for at most
 * LOADING_PATIENCE_MS. */
#define LOADING_DELAY_MAX_MS 32
#define LOADING_PATIENCE_MS 2000
#define UNSURE_MS 50

/* Attaching fails for the moment if a thread is in the wrong place, or waits in the kernel; it is
 * tried again later. Nothing else is done during an attempt. So the first ones are short, and
 * attempts that fail take at most a fifth of the session's time. attach_budget.h limits their
 * processor time. */
#define BUSY_DELAY_MS 2
#define BUSY_DELAY_MAX_MS 5000
#define BUSY_PATIENCE_MS 60000
#define BUSY_REST 4
#define FIRST_PATIENCE_MS 25
#define LAST_PATIENCE_MS 800

/* Many processes may be examined in one turn, and one with many mappings takes a tenth of a second:
 * the rings are read between them. */
#define READ_RINGS_PERIOD_MS 20u

/* Continuous mode takes a last dump before it hands a process over. */
#define CLAIM_PATIENCE_MS 10000
/* A profiler that was killed seems to serve its ring until its last heartbeat is 2 s old, if there
 * are others whose maps this user cannot see. */
#define UNSEEN_PATIENCE_MS 3000
/* How often a background session looks whether a process is free again. */
#define HELD_PERIOD_MS 5000

/* Return whether the process has the preload library, or will when its loader is done. A static
 * program has no loader. */
static bool is_preloaded(pid_t pid)
{
    uint64_t loader;
    return process_info_file_contains(pid, "maps", LIBRARY_NAME) ||
           (process_info_file_contains(pid, "environ", LIBRARY_NAME) &&
            (process_auxiliary_read(pid, AT_BASE, &loader) < 0 || loader != 0));
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
    return printed < (int)sizeof(mapped) && process_info_file_contains(pid, "maps", mapped);
}

/* Return whether the process is linked to the client's shared library. */
static bool maps_client(pid_t pid)
{
    return process_info_file_contains(pid, "maps", CLIENT_NAME);
}

/* Return whether the process will join by itself. A program that is linked to the client brings
 * only its own heaps into a session, not malloc. It cannot join if it began before our page
 * existed; a program that begins now is about to map it. */
static bool joins_by_itself(const struct server *server, const struct discovery_entry *entry)
{
    return is_preloaded(entry->pid) ||
           (heap_rules_want_others(server->session->config) &&
            (has_control_page(server, entry->pid) || (!entry->running && maps_client(entry->pid))));
}

int discovery_check(const struct process_info *info, struct error *how)
{
    if (is_preloaded(info->pid)) {
        error_set(how, 0, "the library is preloaded: it joins at its next allocations");
        return 0;
    }
    struct attach_outcome outcome;
    const struct timespec pause = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < LOADING_PATIENCE_MS && attach_check_loaded(info->pid) == -EAGAIN; i++)
        nanosleep(&pause, NULL);
    int code = attach_check(info->pid, &outcome, how);
    if (code < 0)
        return code;
    bool sees_all = outcome.functions_refused == 0;
    bool is_python = outcome.python != ATTACH_PYTHON_ABSENT;
    bool is_counted = outcome.python == ATTACH_PYTHON_COUNTED;
    error_set(how, 0, "it can be attached to; its allocator is %s%s%s%s%s", outcome.allocator,
              !is_python   ? ""
              : is_counted ? ", and CPython's objects are counted, too (python.object)"
                           : "; CPython's objects (python.object) are not counted: ",
              is_python && !is_counted ? diagnosis_of_python(outcome.python) : "",
              sees_all ? "" : "; calls that would not be seen: ", sees_all ? "" : outcome.refused);
    return sees_all ? 0 : 1;
}

/* Return whether another session has the process. `whose` is its name. *is_unseen: perhaps not, see
 * UNSEEN_PATIENCE_MS. */
static bool belongs_to_another(pid_t pid, char whose[SESSION_NAME_BYTES], bool *is_unseen)
{
    char comm[16] = "";
    pid_t profiler = other_profiler_of(pid);
    *is_unseen = profiler == OTHER_PROFILER_UNSEEN;
    if (profiler > 0 && process_info_comm(profiler, comm))
        snprintf(whose, SESSION_NAME_BYTES, "of process %d (%s)", (int)profiler, comm);
    else if (profiler != 0)
        snprintf(whose, SESSION_NAME_BYTES, "of a profiler that this user cannot see");
    return profiler != 0 && profiler != getpid();
}

static int attach_to(struct server *server, const struct discovery_entry *entry,
                     struct error *error)
{
    int pidfd;
    /* A thread that an earlier attempt told to stop has not stopped yet. */
    if (attach_check_released(entry->pid, error) < 0)
        return -EAGAIN;
    unsigned patience_ms = FIRST_PATIENCE_MS;
    unsigned failed = entry->state == DISCOVERY_BUSY ? entry->attempts : 0;
    for (unsigned i = 0; i < failed && patience_ms < LAST_PATIENCE_MS; i++)
        patience_ms *= 2;
    int code = session_attach(server->session, entry->pid, patience_ms, &pidfd, error);
    if (code < 0)
        return code;
    struct target *target = session_find(server->session, entry->pid);
    target->began_us = entry->began_us;
    target->start_was_reported = entry->was_reported;
    target->attached_us = clock_read_us(CLOCK_MONOTONIC);
    target->may_join = has_control_page(server, entry->pid);
    target->is_linked = target->may_join || maps_client(entry->pid);
    server_drain_soon(server);
    /* The caller who started a command also waits for its end. */
    return entry->pid == server->session->command_pid ? 0 : server_watch(server, pidfd);
}

/* Compare paths from /proc. The path of a file that was replaced on disk ends in " (deleted)". */
static bool is_same_executable(const char *now, const char *then)
{
    size_t length = strlen(then);
    return strncmp(now, then, length) == 0 &&
           (now[length] == 0 || strcmp(now + length, " (deleted)") == 0);
}

/* Return whether the profiled program is gone, because its process began another one. */
static bool has_been_replaced(const struct target *target, const struct process_info *info,
                              const struct discovery_entry *entry)
{
    bool was_attached_before = target->was_attached && target->exec != TARGET_EXEC_AWAY &&
                               ((entry->was_reported && entry->began_us > target->attached_us) ||
                                !is_same_executable(info->executable, target->info.executable));
    return was_attached_before || target_has_exec(target);
}

static void explain_failure(struct session *session, const struct process_info *info,
                            const struct discovery_entry *entry, uint64_t age_ms,
                            const struct error *error)
{
    char remark[sizeof(error->message) + 64];
    if (session->of_command)
        return; /* the list of unprofiled processes has it */
    snprintf(remark, sizeof(remark), "%s", error->message);
    if (error->code == -EAGAIN)
        snprintf(remark, sizeof(remark), "%s (it was tried %u times in %llu s)", error->message,
                 entry->attempts + 1, (unsigned long long)age_ms / 1000);
    session_write_empty_profile(session, info, remark);
}

/* Explain a wanted process that ended before it could be attached to. */
static void explain_ended(struct session *session, const struct discovery_entry *entry,
                          uint64_t now_ms)
{
    char remark[256];
    struct process_info info = {.pid = entry->pid};
    if (session->of_command)
        return; /* the list of unprofiled processes has it */
    memcpy(info.comm, entry->comm, sizeof(info.comm));
    snprintf(remark, sizeof(remark),
             "It ended within %llu ms, before the profiler could attach to it. With the library "
             "preloaded (heap_profile host or shell) even such a short run is profiled completely.",
             (unsigned long long)(now_ms - entry->seen_ms) + 1);
    session_write_empty_profile(session, &info, remark);
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
static enum discovery_state attach_or_wait(struct server *server, const struct process_info *info,
                                           const struct discovery_entry *entry, uint64_t now_ms)
{
    struct session *session = server->session;
    struct error error = {0};
    uint64_t age_ms = now_ms - entry->seen_ms;
    bool may_load = may_be_loading(info, entry, age_ms);
    if (joins_by_itself(server, entry)) {
        /* The preloaded client has hooks that report restrictions. A linked one would find out only
         * by making a forbidden call. */
        if (process_info_restrictions(info->pid) == 0 || is_preloaded(info->pid))
            return DISCOVERY_AWAITED;
        session_write_empty_profile(
            session, info,
            "It is linked to the client library and has restricted its own system "
            "calls (seccomp): one of the client's calls would kill it. With the "
            "library preloaded (heap_profile host or shell) it can be profiled.");
        return DISCOVERY_DONE;
    }
    if (may_load && attach_check_loaded(info->pid) == -EAGAIN)
        return DISCOVERY_LOADING;
    if (!heap_config_wants_heap(session->config, HEAP_CONFIG_MALLOC) &&
        !heap_config_wants_heap(session->config, HEAP_CONFIG_PYTHON)) {
        /* It may be linked to the client, and about to join. */
        if (may_load && age_ms < UNSURE_MS)
            return DISCOVERY_LOADING;
        session_write_empty_profile(session, info, diagnosis_of_attached);
        return DISCOVERY_DONE;
    }
    int code = attach_to(server, entry, &error);
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
            session_write_empty_profile(session, info, remark);
    }
}

/* Report a process that may not be profiled. For another user's process write only the pid, which
 * the owner knows already. */
static void explain_forbidden(struct session *session, const struct process_info *info,
                              const char *remark)
{
    struct process_info stranger = {.pid = info->pid, .start_boottime_ns = info->start_boottime_ns};
    bool is_own = session->owner.may_all || info->uid == getuid();
    session_write_empty_profile(session, is_own ? info : &stranger, remark);
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

/* Ask continuous mode for the process. It asks nobody itself. */
static bool claim(const struct server *server, pid_t pid)
{
    const struct server_user *user = server->user;
    return !server->session->config->background && user->claim != NULL &&
           user->claim(user->context, pid);
}

/* Note when the program began. On a busy machine it was attached to at its new name, before the
 * report of its exec was read. */
static void note_beginning(struct target *target, const struct discovery_entry *entry)
{
    if (!target->was_attached || !entry->was_reported || entry->began_us < target->began_us ||
        entry->began_us > target->attached_us)
        return;
    target->began_us = entry->began_us;
    target->start_was_reported = true;
}

static enum discovery_state examine(struct server *server, const struct process_info *info,
                                    const struct discovery_entry *entry, uint64_t now_ms)
{
    struct session *session = server->session;
    enum handshake_origin origin = entry->running ? HANDSHAKE_RUNNING : HANDSHAKE_STARTUP;
    struct error error = {0};
    struct target *target = session_find(session, info->pid);
    if (target != NULL && has_been_replaced(target, info, entry))
        session_end_replaced(session, info);
    else if (target != NULL)
        note_beginning(target, entry);
    if (!session_wants(session, info, origin))
        return DISCOVERY_NOT_WANTED;
    if (is_profiler(server, info)) {
        explain_if_numbered(session, info, "The profiler does not profile itself.");
        return DISCOVERY_NOT_WANTED;
    }
    if (target != NULL && target->exec != TARGET_EXEC_AWAY)
        return target_is_awaited(target) ? DISCOVERY_AWAITED : DISCOVERY_DONE;
    /* Check this first: the owner must learn nothing else about other users' processes. */
    if (!session->of_command && session_may_profile(session, info, &error) < 0) {
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
    bool is_unseen;
    if (belongs_to_another(info->pid, whose, &is_unseen)) {
        bool is_asked = entry->state == DISCOVERY_CLAIMED || entry->state == DISCOVERY_UNSEEN;
        if (!is_asked && claim(server, info->pid))
            return DISCOVERY_CLAIMED;
        if (is_unseen && !session->config->background &&
            now_ms < entry->seen_ms + UNSEEN_PATIENCE_MS)
            return DISCOVERY_UNSEEN;
        session_reject(session, info->pid, origin, whose);
        return session->config->background ? DISCOVERY_HELD : DISCOVERY_DONE;
    }
    return attach_or_wait(server, info, entry, now_ms);
}

/* Return the time until the next attempt, in ms. */
static uint64_t delay_of(const struct discovery_entry *entry)
{
    unsigned earlier = entry->attempts < 32 ? entry->attempts - 1 : 31;
    if (entry->state == DISCOVERY_CLAIMED)
        return CLAIM_PATIENCE_MS;
    if (entry->state == DISCOVERY_HELD)
        return HELD_PERIOD_MS;
    if (entry->state != DISCOVERY_BUSY) {
        uint64_t delay = UINT64_C(1) << earlier / 2;
        return delay < LOADING_DELAY_MAX_MS ? delay : LOADING_DELAY_MAX_MS;
    }
    uint64_t delay = (uint64_t)BUSY_DELAY_MS << earlier;
    return delay < BUSY_DELAY_MAX_MS ? delay : BUSY_DELAY_MAX_MS;
}

/* Return the processor time that this process and its file reader have used. */
static uint64_t processor_time_us(void)
{
    return clock_read_us(CLOCK_PROCESS_CPUTIME_ID) + file_reader_cpu_us();
}

/* Return whether names alone tell that the session does not want a process. It looks at every
 * process that begins on the machine, for days. */
static bool is_out_of_question(const struct session *session, const struct process_info *info)
{
    return session->config->background && session->config->pid_count == 0 &&
           session->config->process_cmdline == NULL && !session->config->all &&
           session_find(session, info->pid) == NULL &&
           !target_choice_is_possible(&session->config->target_rules, info);
}

void discovery_read_rings(struct session *session, uint64_t now_ms)
{
    struct discovery_list *list = &session->discovery;
    if (now_ms < list->read_rings_ms + READ_RINGS_PERIOD_MS)
        return;
    session_serve_meanwhile(session);
    list->read_rings_ms = clock_read_ms(CLOCK_MONOTONIC);
}

void discovery_examine(struct server *server, struct discovery_entry *entry)
{
    struct session *session = server->session;
    struct process_info info;
    enum discovery_state before = entry->state;
    uint64_t began_ms = clock_read_ms(CLOCK_MONOTONIC), began_us = processor_time_us();
    discovery_read_rings(session, began_ms);
    int code = process_info_read_names(&info, entry->pid);
    if (code == 0 && is_out_of_question(session, &info)) {
        memcpy(entry->comm, info.comm, sizeof(entry->comm));
        entry->state = DISCOVERY_NOT_WANTED;
        process_info_clear(&info);
        return;
    }
    if (code < 0 || process_info_complete(&info) < 0) {
        if (entry->attempts > 0 &&
            (before == DISCOVERY_LOADING || before == DISCOVERY_BUSY || before == DISCOVERY_UNSEEN))
            explain_ended(session, entry, began_ms);
        entry->state = DISCOVERY_DONE;
        return;
    }
    memcpy(entry->comm, info.comm, sizeof(entry->comm));
    entry->start_boottime_ns = info.start_boottime_ns;
    entry->state = examine(server, &info, entry, began_ms);
    entry->attempts = entry->state == before ? entry->attempts + 1 : 1;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    entry->due_ms = now_ms + delay_of(entry);
    if (entry->state == DISCOVERY_BUSY) {
        session->discovery.busy_ms += now_ms - began_ms;
        session->discovery.retry_ms = now_ms + BUSY_REST * (now_ms - began_ms);
        attach_budget_charge(&server->attach_budget, processor_time_us() - began_us, now_ms * 1000);
    }
    process_info_clear(&info);
}
