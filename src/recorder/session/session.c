/* SPDX-License-Identifier: Apache-2.0 */
/* Decide which processes are targets, drain their rings, and write, checkpoint and end their
 * profiles. Errors of writing the trace stay in the writer, which fails from then on;
 * session_close() returns the first. */
#include "recorder/session/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "recorder/processes/diagnosis.h"
#include "recorder/processes/program.h"
#include "recorder/reader/file_reader.h"
#include "recorder/session/target_choice.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/clock.h"

/* Before the server sets the session's user. */
static const struct session_user no_user;

static uint64_t ring_bytes_of(const struct heap_config *config)
{
    uint64_t wanted = config->shmem_size_bytes, bytes = RING_DATA_BYTES_MIN;
    while (bytes < (uint64_t)sysconf(_SC_PAGESIZE))
        bytes *= 2;
    if (wanted == 0)
        wanted = RING_DATA_BYTES_DEFAULT;
    while (bytes < RING_DATA_BYTES_MAX && bytes * 2 <= wanted)
        bytes *= 2;
    return bytes;
}

void session_drain(void *context)
{
    struct session *session = context;
    for (size_t i = 0; i < session->target_count; i++)
        target_drain(session->targets[i], false);
    if (session->user->busy != NULL)
        session->user->busy(session->user->context);
}

void session_serve_meanwhile(void *context)
{
    struct session *session = context;
    for (size_t i = 0; i < session->target_count; i++)
        target_drain_meanwhile(session->targets[i]);
}

/* Return the CPU time of this process and of the process that reads files for it. */
static uint64_t own_cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) + file_reader_cpu_us();
}

/* Return our resident memory, and the anonymous memory of the process that reads files for us. */
static uint64_t memory_bytes(void)
{
    struct process_memory memory = {0}, of_reader = {0};
    process_memory_of(getpid(), &memory);
    if (file_reader_pid() != 0)
        process_memory_of(file_reader_pid(), &of_reader);
    return memory.rss_bytes + of_reader.rss_anon_bytes;
}

/* Write the packets that precede all others in a trace of our own. */
static void write_head(struct trace_writer *writer, const struct heap_config *config)
{
    size_t length;
    trace_writer_clock_snapshot(writer);
    trace_writer_uuid(writer);
    trace_writer_system_info(writer);
    void *bytes = heap_config_to_bytes(config, &length);
    if (bytes != NULL)
        trace_writer_config(writer, bytes, length);
    free(bytes);
}

int session_open(struct session *session, const struct heap_config *config, bool follow_children,
                 enum session_trace trace, int trace_fd)
{
    memset(session, 0, sizeof(*session));
    session->config = config;
    session->user = &no_user;
    session->of_command = true;
    session->sample_ms = session->dump_ms = session->end_ms = UINT64_MAX;
    session->cpu_us_at_start = own_cpu_us();
    session->follow_children = follow_children;
    session->ring_bytes = ring_bytes_of(config);
    session->files = dump_files_open(session_drain, session);
    session->trace = trace;
    session->writer = trace == SESSION_TRACE_FILE      ? trace_writer_open(trace_fd)
                      : trace == SESSION_TRACE_SERVICE ? trace_writer_open_for_service(trace_fd)
                                                       : trace_writer_open_for_collector(trace_fd);
    if (session->files == NULL || session->writer == NULL) {
        dump_files_close(session->files);
        if (session->writer != NULL)
            trace_writer_close(session->writer);
        return -ENOMEM;
    }
    /* Without it nobody is warned of limits; that is no reason not to profile. */
    cgroup_watch_open(&session->cgroups, config->near_limit_percent);
    dump_files_skip(session->files, config->skip_symbol_prefix);
    if (trace == SESSION_TRACE_FILE)
        write_head(session->writer, config);
    return 0;
}

struct target *session_find(const struct session *session, pid_t pid)
{
    for (size_t i = 0; i < session->target_count; i++) {
        if (session->targets[i]->info.pid == pid &&
            session->targets[i]->exec != TARGET_EXEC_SUPERSEDED)
            return session->targets[i];
    }
    return NULL;
}

static void keep_threads(struct session *session, const struct target *target)
{
    size_t count;
    const struct ledger_thread *threads = ledger_threads(target->ledger, &count);
    if (!session->of_command ||
        ARRAY_RESERVE(&session->threads_of_gone, &session->threads_of_gone_capacity,
                      session->threads_of_gone_count, count) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        session->threads_of_gone[session->threads_of_gone_count++] = (pid_t)threads[i].tid;
}

void session_remove_target(struct session *session, struct target *target)
{
    for (size_t i = 0; i < session->target_count; i++) {
        if (session->targets[i] != target)
            continue;
        session->samples_of_gone += ledger_counts(target->ledger).allocs;
        session->lost_of_gone += target_lost(target);
        keep_threads(session, target);
        session_leave_cgroup(session, target);
        session->targets[i] = session->targets[--session->target_count];
        target_close(target);
        return;
    }
}

/* --- choice of targets --- */

static bool has_names(const struct session *session)
{
    return session->config->process_cmdline != NULL && session->config->process_cmdline[0] != NULL;
}

static bool is_named(const struct session *session, const struct process_info *info)
{
    for (char **name = session->config->process_cmdline; name != NULL && *name != NULL; name++) {
        if (process_info_matches(info, *name))
            return true;
    }
    return false;
}

static bool has_pid(const struct session *session, pid_t pid)
{
    for (size_t i = 0; i < session->config->pid_count; i++) {
        if (session->config->pids[i] == (uint64_t)pid)
            return true;
    }
    return false;
}

static bool is_wanted_of_machine(const struct session *session, const struct process_info *info,
                                 enum handshake_origin origin)
{
    const struct heap_config *config = session->config;
    if (session_has_left(session, info))
        return false;
    bool is_chosen =
        is_named(session, info) || target_choice_find(&config->target_rules, info) != NULL;
    if (origin == HANDSHAKE_FORK && !session->follow_children && !is_chosen)
        return false;
    if (origin == HANDSHAKE_FORK && session_find(session, info->parent_pid) != NULL)
        return true;
    if (has_pid(session, info->pid))
        return true;
    if (origin == HANDSHAKE_RUNNING ? config->no_running : config->no_startup)
        return false;
    return config->all || is_chosen;
}

static bool is_denied(const struct session *session, const struct process_info *info)
{
    return session->policy != NULL && access_policy_denies(session->policy, info);
}

bool session_wants(const struct session *session, const struct process_info *info,
                   enum handshake_origin origin)
{
    if (!session->of_command)
        return is_wanted_of_machine(session, info, origin);
    if (is_denied(session, info))
        return false;
    if (has_names(session))
        return is_named(session, info);
    return session->follow_children || info->pid == session->command_pid;
}

int session_may_profile(const struct session *session, const struct process_info *info,
                        struct error *error)
{
    int code = access_check(info, error);
    if (code == 0 && is_denied(session, info))
        code = error_set(error, -EPERM, "%s may not be profiled: never_profile in %s denies it",
                         process_info_name(info), ACCESS_POLICY_PATH);
    return code;
}

enum unprofiled_reason session_unwanted_reason(const struct session *session,
                                               const struct process_info *info)
{
    if (is_denied(session, info))
        return UNPROFILED_POLICY;
    return has_names(session) ? UNPROFILED_NAME : UNPROFILED_CHILD;
}

bool session_may_speak(const struct session *session, const struct process_info *info, uid_t uid)
{
    if (!session->of_command)
        return session_may_profile(session, info, NULL) == 0;
    return uid == geteuid() || uid == getuid() ||
           process_info_descends(info->pid, session->command_pid) ||
           /* A server that drops its rights and then daemonizes is an orphan of another user. */
           (session->user->descends != NULL &&
            session->user->descends(session->user->context, info->pid));
}

bool session_profiles(const struct session *session, pid_t pid)
{
    const struct target *target = session_find(session, pid);
    return target != NULL && target->exec != TARGET_EXEC_AWAY;
}

static void write_empty_profile(struct session *session, const struct process_info *info,
                                bool rejected, const char *remark)
{
    if (!empty_profile_note(&session->empty_profiles, info->pid, info->start_boottime_ns))
        return;
    const char *comm = info->comm;
    struct trace_process process = target_trace_process(info, &comm, ++session->images);
    empty_profile_write(session->writer, session->config, &process, rejected, -1, remark);
    if (session->user->refused != NULL)
        session->user->refused(session->user->context, session, info, remark);
}

void session_write_empty_profile(struct session *session, const struct process_info *info,
                                 const char *remark)
{
    write_empty_profile(session, info, false, remark);
}

void session_reject(struct session *session, pid_t pid, enum handshake_origin origin,
                    const char *whose)
{
    struct process_info info;
    char remark[320];
    snprintf(remark, sizeof(remark),
             "Another session, %s, profiles this process already, and a process can be in one at a "
             "time. heap_profile status shows the sessions; heap_profile stop ends one.",
             whose);
    if (process_info_read(&info, pid) < 0)
        return;
    if (session_may_speak(session, &info, (uid_t)-1) && session_wants(session, &info, origin))
        write_empty_profile(session, &info, true, remark);
    process_info_clear(&info);
}

/* --- running targets --- */

/* Detect an exec that was never reported: the process ran no exit handlers, and its comm is no
 * longer that of the profiled program. */
static void notice_silent_exec(struct target *target, const char *hint)
{
    char comm[16];
    if (target->exec == TARGET_EXEC_AWAY || target->totals.client_state != RING_CLIENT_RUNNING ||
        !process_info_comm(target->info.pid, comm) || strcmp(comm, target->info.comm) == 0)
        return;
    size_t thread_count;
    const struct ledger_thread *threads = ledger_threads(target->ledger, &thread_count);
    for (size_t i = 0; i < thread_count; i++) {
        /* A thread that renamed itself is no exec. */
        if (threads[i].tid == (uint32_t)target->info.pid && strcmp(threads[i].name, comm) == 0)
            return;
    }
    session_note_exec(target, comm, hint);
}

/* List forked children that allocated but did not say hello. Those that did are known already. */
static void list_silent_children(struct session *session, const struct target *target)
{
    const struct ring_totals *totals = &target->totals;
    char name[96];
    if (!session->of_command || totals->silent_children <= target->children_reported)
        return;
    uint32_t count = totals->silent_children - target->children_reported;
    snprintf(name, sizeof(name), count > 1 ? "%.24s (%u forked children)" : "%.24s",
             process_info_name(&target->info), count);
    unprofiled_add(&session->unprofiled, (pid_t)totals->silent_child_pid, target->info.pid, name,
                   UNPROFILED_FORKED);
}

void session_end_target(struct session *session, struct target *target,
                        const struct target_end *caller_end)
{
    struct target_end known_end = *caller_end, *end = &known_end;
    bool dead = !end->running, is_known = end->exit_status >= 0;
    if (dead && !is_known && target->exec != TARGET_EXEC_SUPERSEDED)
        end->exit_status = session_exit_status(target);
    /* The trace's readers order by time: a process must not end before its last dump. So the dump
     * has the time of the end. */
    if (dead && target->exec != TARGET_EXEC_SUPERSEDED)
        trace_writer_set_time(session->writer, clock_read_ns(CLOCK_BOOTTIME));
    target_finish(target, dead);
    if (dead && is_known && target->exec != TARGET_EXEC_SUPERSEDED)
        notice_silent_exec(target, session->of_command
                                       ? "the list of unprofiled processes gives the reason"
                                       : "it ended before the profiler could examine it");
    target_name_code(target, dead, session_drain, session);
    list_silent_children(session, target);
    /* What another program did in the process is not this one's end. */
    if (dead && target->exec == TARGET_EXEC_NONE)
        session_write_process_end(session, target, end->exit_status);
    target_write_dump(target, session->writer, session->files, end, session->config->dump_at_max);
    if (dead && !session->config->timeline.off)
        target_write_end(target, session->writer, target->exec != TARGET_EXEC_SUPERSEDED);
    trace_writer_set_time(session->writer, 0);
    session_remove_target(session, target);
}

void session_check_guardrails(struct session *session)
{
    const struct heap_config *config = session->config;
    if (config->max_heapprofd_memory_kb == 0 && config->max_heapprofd_cpu_secs == 0)
        return;
    uint64_t cpu_us = own_cpu_us() - session->cpu_us_at_start;
    if ((config->max_heapprofd_memory_kb > 0 &&
         memory_bytes() / 1024 > config->max_heapprofd_memory_kb) ||
        (config->max_heapprofd_cpu_secs > 0 &&
         cpu_us / 1000000 >= config->max_heapprofd_cpu_secs)) {
        session->over = SESSION_OVER_GUARDRAIL;
        for (size_t i = 0; i < session->target_count; i++)
            session->targets[i]->hit_guardrail = true;
    }
}

void session_dump_superseded(struct session *session)
{
    struct target_end end = {.final = true, .exit_status = -1};
    for (size_t i = 0; i < session->target_count;) {
        if (session->targets[i]->exec == TARGET_EXEC_SUPERSEDED)
            session_end_target(session, session->targets[i], &end);
        else
            i++;
    }
}

/* Have the symbols read that a command's dumps will need, while it runs. */
static void prepare_names(struct session *session, struct target *target)
{
    if (session->of_command && target->has_ring)
        dump_files_prepare(session->files, ledger_callsites(target->ledger),
                           &target->modules_prepared, target->info.pid, &target->rights);
}

uint64_t session_poll(struct session *session)
{
    uint64_t fullest = 0;
    session_dump_superseded(session);
    for (size_t i = 0; i < session->target_count; i++) {
        uint64_t bytes = target_drain(session->targets[i], false);
        if (bytes > fullest)
            fullest = bytes;
        prepare_names(session, session->targets[i]);
    }
    return fullest;
}

void session_dump(struct session *session)
{
    struct target_end end = {.running = true, .exit_status = -1};
    session_dump_superseded(session);
    for (size_t i = 0; i < session->target_count; i++) {
        target_drain(session->targets[i], false);
        target_write_dump(session->targets[i], session->writer, session->files, &end,
                          session->config->dump_at_max);
    }
    checkpoints_supersede(&session->checkpoints, session->writer, clock_read_ms(CLOCK_MONOTONIC));
}

void session_checkpoint(struct session *session)
{
    struct target_end end = {.checkpoint = true, .running = true, .exit_status = -1};
    session_dump_superseded(session);
    if (session->target_count == 0) {
        checkpoints_put_off(&session->checkpoints, clock_read_ms(CLOCK_MONOTONIC));
        return;
    }
    struct trace_writer *part = checkpoints_begin(&session->checkpoints, session->writer);
    /* Draining is no part of the cost: it would be done anyway. */
    uint64_t cost_ns = 0;
    for (size_t i = 0; i < session->target_count && part != NULL; i++) {
        target_drain(session->targets[i], false);
        uint64_t began_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        target_write_dump(session->targets[i], part, session->files, &end,
                          session->config->dump_at_max);
        cost_ns += clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns;
    }
    checkpoints_end(&session->checkpoints, session->writer, part, cost_ns / 1000000);
}

void session_restart_trace(struct session *session)
{
    trace_writer_restart(session->writer);
    for (size_t i = 0; i < session->target_count; i++)
        target_forget_announcements(session->targets[i]);
}

void session_process_ended(struct session *session, pid_t pid, int exit_status)
{
    session_dump_superseded(session);
    struct target *target = session_find(session, pid);
    struct target_end end = {.final = true, .exit_status = exit_status};
    if (target != NULL)
        session_end_target(session, target, &end);
}

void session_end_targets(struct session *session, bool interrupted)
{
    struct target_end end = {
        .final = true, .running = true, .interrupted = interrupted, .exit_status = -1};
    session_dump_superseded(session);
    /* Stop all first. Otherwise records that one process writes while another is dumped would be
     * lost. */
    for (size_t i = 0; i < session->target_count; i++) {
        target_finish(session->targets[i], false);
        session_drain(session);
    }
    while (session->target_count > 0) {
        if (session->user->ending != NULL)
            session->user->ending(session->user->context, session->target_count);
        /* The process may have died a moment ago. */
        end.running = !target_is_dead(session->targets[0]);
        session_end_target(session, session->targets[0], &end);
    }
}

/* --- end of the session --- */

static void join_names(const struct session *session, char *text, size_t size)
{
    text[0] = 0;
    for (char **name = session->config->process_cmdline; name != NULL && *name != NULL; name++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", *name);
    }
}

/* Return whether the command, which never reported, has none of the session's names. */
static bool is_left_out(const struct session *session, const char *command, const char *path)
{
    struct process_info info = {.arguments = &command, .argument_count = 1};
    snprintf(info.executable, sizeof(info.executable), "%s", path);
    return has_names(session) && !is_named(session, &info);
}

void session_explain_command(struct session *session, char *const *arguments, const char *library,
                             int exit_status, bool running)
{
    if (session->profiled > 0 && session->command_said_hello)
        return;
    char path[4096], names[256], refused[512];
    const char *command = arguments[0];
    program_find_of_command(arguments, path, sizeof(path));
    if (session->profiled > 0 && is_left_out(session, command, path)) {
        unprofiled_add(&session->unprofiled, session->command_pid, getpid(), base_name(command),
                       UNPROFILED_NAME);
        return;
    }
    struct diagnosis_facts facts = {
        .name = command,
        .executable = path,
        .library = library,
        .said_hello = session->command_said_hello,
        .interval_bytes = heap_config_first_interval(session->config),
        .totals = {.client_state = RING_CLIENT_RUNNING},
        .running = running,
    };
    char not_entered[sizeof(session->entry_failure.message) + 32];
    if (session->entry_failure.message[0] != 0) {
        snprintf(not_entered, sizeof(not_entered), "That was not possible: %s.",
                 session->entry_failure.message);
        facts.attach_remark = not_entered;
    }
    if (has_names(session) && session->command_said_hello) {
        join_names(session, names, sizeof(names));
        snprintf(refused, sizeof(refused),
                 "No process named %s was seen. Those that were seen are listed below; a static "
                 "program, or one that gains rights when it starts, is not.",
                 names);
        facts.refused = refused;
    } else if (session->command_said_hello) {
        facts.refused = "There was no memory, or no file descriptor, for one more process: see "
                        "ulimit -n, or use a smaller --shmem-size.";
    }
    char remark[DIAGNOSIS_BYTES_MAX];
    diagnosis_write(&facts, remark, sizeof(remark));
    struct trace_process process = {
        .pid = session->command_pid,
        .parent_pid = getpid(),
        .uid = (int32_t)getuid(),
        .arguments = &command,
        .argument_count = 1,
    };
    empty_profile_write(session->writer, session->config, &process, false, exit_status, remark);
}

void session_explain_absence(struct session *session)
{
    char names[256];
    if (session->trace == SESSION_TRACE_FILE || session->profiled > 0 ||
        session->empty_profiles.count > 0)
        return;
    join_names(session, names, sizeof(names));
    const struct trace_unprofiled absent = {
        .name = names[0] != 0 ? names : "heapprofd",
        .kind = "absent",
        .reason = "no process with such a name ran during the session (a name is that of the "
                  "program's file, or the name that the process gave itself)",
    };
    trace_writer_unprofiled(session->writer, &absent);
}

int session_close(struct session *session)
{
    attach_serve_meanwhile(NULL, NULL);
    while (session->target_count > 0)
        session_remove_target(session, session->targets[0]);
    unprofiled_write(&session->unprofiled, session->writer);
    checkpoints_close(&session->checkpoints, session->writer);
    unprofiled_clear(&session->unprofiled);
    empty_profiles_clear(&session->empty_profiles);
    cgroup_watch_close(&session->cgroups);
    free(session->discovery.entries);
    free(session->left);
    free(session->threads_of_gone);
    dump_files_close(session->files);
    int code = trace_writer_close(session->writer);
    session->writer = NULL;
    return code;
}

uint64_t session_samples(const struct session *session)
{
    uint64_t samples = session->samples_of_gone;
    for (size_t i = 0; i < session->target_count; i++)
        samples += ledger_counts(session->targets[i]->ledger).allocs;
    return samples;
}

uint64_t session_lost(const struct session *session)
{
    uint64_t lost = session->lost_of_gone;
    for (size_t i = 0; i < session->target_count; i++)
        lost += target_lost(session->targets[i]);
    return lost;
}

double session_live_bytes(const struct session *session)
{
    double bytes = 0;
    for (size_t i = 0; i < session->target_count; i++)
        bytes += ledger_live_bytes(session->targets[i]->ledger);
    return bytes;
}
