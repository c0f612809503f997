/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make targets of processes that say hello and of processes that the daemon attaches to. Replace a
 * target when its process begins another program by exec.
 *
 * session.c decides which processes are targets, and dumps and ends them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/processes/program.h"
#include "recorder/processes/self_read.h"
#include "recorder/session/heap_rules.h"
#include "recorder/session/session_state.h"
#include "recorder/session/target_choice.h"
#include "util/clock.h"
#include "util/kernel_calls.h"
#include "util/main_program.h"
#include "util/process_files.h"
#include "util/regular_file.h"
#include "wire/attached_params.h"
#include "wire/sampling.h"

static const char *hint_of_exec(const struct session *session, const struct process_info *info)
{
    if (session->of_command)
        return "the list of unprofiled processes gives the reason";
    if (session_wants(session, info, HANDSHAKE_STARTUP))
        return "the note on that program gives the reason";
    return "it is not one of the names after -n; name it there, too, or profile the process by its "
           "number (-p), which follows it from program to program";
}

void session_note_exec(struct target *target, const char *became, const char *hint)
{
    snprintf(target->became, sizeof(target->became), "%.63s", became);
    target->became_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    target->became_hint = hint;
    target->exec = TARGET_EXEC_AWAY;
}

/* End the profile of a program that its process has replaced by exec. `new` is the target of the
 * next program, or NULL; session.h describes which profiles are kept. */
static void replace_image(struct session *session, struct target *old,
                          const struct process_info *info, struct target *new)
{
    if (old->exec != TARGET_EXEC_AWAY) {
        target_finish(old, true);
        session_note_exec(old, process_info_name(info), hint_of_exec(session, info));
        /* Do it now: the new program's compiler may overwrite the map file (perf-PID.map) of the
         * old one. */
        target_name_code(old, false, session_drain, session);
    }
    if (new == NULL)
        return;
    session->profiled--;
    new->execs = old->execs + 1;
    new->replaced_samples = ledger_counts(old->ledger).allocs;
    bool is_kept = old->origin != HANDSHAKE_FORK || old->was_attached;
    /* Without this, programs of a command that exec at once would fill the report with empty
     * profiles. */
    bool has_figures = new->replaced_samples > 0 || (!session->of_command && old->totals.calls > 0);
    /* Without its last dump the heap would seem to have been cut off. */
    bool is_dumped = old->last_dump_ns != 0;
    if (is_kept || new->replaced_samples > 0)
        snprintf(new->replaced, sizeof(new->replaced), "%.63s", process_info_name(&old->info));
    if (!is_dumped && (!is_kept || !has_figures)) {
        session_remove_target(session, old);
        return;
    }
    /* It is dumped at the next session_poll(): the new program waits for its reply. */
    new->replaced_kept = true;
    old->exec = TARGET_EXEC_SUPERSEDED;
    close(old->pidfd);
    old->pidfd = -1;
}

/* Processes of a program that began within this time before have no answer of their client yet. */
#define YOUNG_MS 2000u

/* Return the interval that a process begins with if its session sets intervals: that of the
 * program's older processes. Young ones share what one would use. */
static uint64_t start_interval(const struct session *session, const struct target *target)
{
    uint64_t interval_bytes = session->config->start_sampling_interval_bytes, young = 1;
    const char *name = process_info_name(&target->info);
    for (size_t i = 0; i < session->target_count; i++) {
        const struct target *other = session->targets[i];
        if (other == target || other->info.uid != target->info.uid ||
            strcmp(other->rule, target->rule) != 0 ||
            strcmp(process_info_name(&other->info), name) != 0)
            continue;
        if (target->start_ms < other->start_ms + YOUNG_MS)
            young++;
        else if (other->asked_bytes > interval_bytes)
            interval_bytes = other->asked_bytes;
    }
    for (; young > 1 && interval_bytes < SAMPLING_NEVER_BYTES; young -= young / 2)
        interval_bytes *= 2;
    return interval_bytes;
}

/* Return a pidfd, or a negative errno with a message. /proc has threads under their own ids, too.
 */
static int open_process(pid_t pid, struct error *error)
{
    struct process_status status;
    int pidfd = kernel_pidfd_open(pid, 0), code = -errno;
    if (pidfd >= 0)
        return pidfd;
    if (process_status_read(pid, &status) == 0 && status.leader != (uint64_t)pid)
        return error_set(error, -ESRCH, "%d is a thread of process %d; name that one", (int)pid,
                         (int)status.leader);
    return error_set(error, code, "cannot watch process %d: %s", (int)pid, strerror(-code));
}

static void ask_interval(const struct session *session, struct target *target)
{
    /* At 1 every allocation is wanted. */
    if (session->config->start_sampling_interval_bytes == 1)
        target_ask_interval(target, 1);
    else if (session->config->start_sampling_interval_bytes > 0)
        target_ask_interval(target, start_interval(session, target));
}

/* Add a target. Takes ownership of what `info` points to. Return NULL with a message. */
static struct target *add_target(struct session *session, struct process_info *info,
                                 const char *ring_name, int *memfd, struct error *error)
{
    int pidfd = open_process(info->pid, error);
    if (pidfd >= 0 && session->target_count >= SESSION_TARGETS_MAX) {
        error_set(error, -EMFILE, "a session profiles %d processes at once, and no more",
                  SESSION_TARGETS_MAX);
        close(pidfd);
        pidfd = -1;
    }
    if (pidfd < 0) {
        process_info_clear(info);
        return NULL;
    }
    struct target *target =
        target_open(info, pidfd, ring_name, session->ring_bytes, session->config, memfd);
    if (target == NULL) {
        error_set(error, -ENOMEM,
                  "there was no memory, or no file descriptor, for one more process");
        return NULL;
    }
    if (process_info_shares_pids(target->info.pid))
        target->reader.process = target->info.pid;
    if (session->config->stream_allocations)
        target_stream(target, session->writer);
    target->image = ++session->images;
    const struct target_rule *rule =
        target_choice_find(&session->config->target_rules, &target->info);
    snprintf(target->rule, sizeof(target->rule), "%s", rule != NULL ? rule->name : "");
    ask_interval(session, target);
    if (session->config->context_slices && target_slice(target, session->writer) < 0) {
        error_set(error, -ENOMEM, "there was no memory for one more process");
        target_close(target);
        return NULL;
    }
    session_watch_cgroup(session, target);
    /* On a busy machine a command may begin long after its session. */
    if (session->of_command && session->images == 1 && session->config->duration_ms > 0)
        session->end_ms = clock_read_ms(CLOCK_MONOTONIC) + session->config->duration_ms;
    session->targets[session->target_count++] = target;
    session->profiled++;
    return target;
}

static void fill_reply(const struct session *session, const struct target *target,
                       struct handshake_reply *reply)
{
    *reply = (struct handshake_reply){
        .magic = HANDSHAKE_MAGIC,
        .version = HANDSHAKE_VERSION,
        .verdict = target != NULL ? HANDSHAKE_ACCEPTED : HANDSHAKE_NOT_A_TARGET,
        /* Children that are not followed are at least listed. */
        .flags = HANDSHAKE_HELLO_AFTER_FORK,
    };
    if (target == NULL)
        return;
    if (session->config->block_client)
        reply->flags |= HANDSHAKE_BLOCK_CLIENT;
    if (session->config->context_slices)
        reply->flags |= HANDSHAKE_SCOPES;
    if (self_read_is_allowed(target->info.pid))
        reply->flags |= HANDSHAKE_MAY_COPY;
    reply->interval_bytes = target->interval_bytes;
    reply->block_client_timeout_us = session->config->block_client_timeout_us;
    reply->data_bytes = session->ring_bytes;
    reply->adaptive_threshold_bytes = session->config->adaptive_sampling_shmem_threshold;
    reply->adaptive_max_interval_bytes =
        session->config->adaptive_sampling_max_sampling_interval_bytes;
    reply->wide_interval_bytes = heap_config_wide_interval(session->config);
    if (reply->wide_interval_bytes != 0)
        reply->max_overhead_percent = session->config->max_overhead_percent;
    reply->start_ms = target->start_ms + (uint64_t)target->clock_ahead_ms;
}

/* Copy a file name from the client, with unprintable characters replaced. */
static void copy_allocator(char to[64], const char from[64])
{
    size_t i = 0;
    for (; i < 63 && from[i] != 0; i++)
        to[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
    to[i] = 0;
}

static int may_profile_still(const struct session *session, pid_t pid, struct error *error)
{
    struct process_info info;
    int code = process_info_read(&info, pid);
    if (code < 0)
        return error_set(error, code, "process %d has ended", (int)pid);
    code = session_may_profile(session, &info, error);
    process_info_clear(&info);
    return code;
}

/* Implement session_attach(). */
static int attach_target(struct session *session, pid_t pid, enum attach_moment moment,
                         unsigned patience_ms, int *pidfd, struct error *error)
{
    struct process_info info;
    struct handshake_reply reply;
    int ring_fd = -1;
    int code = process_info_read(&info, pid);
    if (code < 0)
        return error_set(error, code, "there is no process %d any more", (int)pid);
    struct target *old = session_find(session, pid);
    struct target *target = add_target(session, &info, ATTACHED_RING_NAME, &ring_fd, error);
    if (target == NULL)
        return error->code;
    target->origin = HANDSHAKE_RUNNING;
    fill_reply(session, target, &reply);
    code = target_attach(target, ring_fd, &reply, moment, patience_ms, error);
    close(ring_fd);
    /* Since the caller checked, the process may have begun a program that the session's owner may
     * not profile. From here on, an exec removes the client. */
    if (code == 0 && !session->of_command)
        code = may_profile_still(session, pid, error);
    if (code < 0) {
        session->profiled--;
        session_remove_target(session, target);
        return code;
    }
    *pidfd = target->pidfd;
    if (session->of_command)
        unprofiled_note_profiled(&session->unprofiled, pid);
    if (old != NULL)
        replace_image(session, old, &target->info, target);
    return 0;
}

int session_attach(struct session *session, pid_t pid, unsigned patience_ms, int *pidfd,
                   struct error *error)
{
    int code = attach_target(session, pid, ATTACH_WHILE_IT_RUNS, patience_ms, pidfd, error);
    /* Attaching takes time, and many processes may follow each other. */
    session_drain(session);
    return code;
}

/*
 * Attach to a program with an allocator of its own while it waits for the answer to its hello, so
 * that almost no call is missed. Return false if that fails, with the reason in `failure` ("" if
 * the program needs no attaching): the library then profiles the calls that reach it.
 */
static bool attach_instead(struct session *session, const struct process_info *info,
                           enum handshake_origin origin, const struct program *program,
                           struct error *failure)
{
    int pidfd;
    if (program->file.allocator[0] == 0 ||
        !heap_config_wants_heap(session->config, HEAP_CONFIG_MALLOC))
        return false;
    if (origin == HANDSHAKE_FORK)
        error_set(failure, -ENOTSUP,
                  "it is a forked child of a process that the profiler attached to (heap_profile "
                  "-n NAME or -p PID attaches to it as it runs)");
    else if (heap_rules_want_others(session->config))
        error_set(failure, -ENOTSUP,
                  "heaps other than malloc's were requested, and only programs that start with the "
                  "profiling library have them");
    else
        return attach_target(session, info->pid, ATTACH_AT_HELLO, 0, &pidfd, failure) == 0;
    return false;
}

/* Time to read a program's file while the process waits for the answer to its hello, for which the
 * daemon gives a session 0.9 s (hello_routing.c); and before the command starts, when nobody does.
 */
#define READ_PROGRAM_MS 800
#define READ_COMMAND_MS 5000

/* Read a program's file. That takes 20 ms for 100,000 symbols, and the process waits; so remember
 * the latest programs, for a build starts the same few by the thousand. Return false if the file
 * reader failed, or took too long. */
static bool read_program_at(struct session *session, struct program *program, const char *path,
                            unsigned deadline_ms)
{
    struct stat file;
    struct known_program *known = session->programs;
    *program = (struct program){0};
    if (regular_file_look(path, &file) < 0)
        return true;
    for (size_t i = 0; i < SESSION_PROGRAMS_KNOWN; i++) {
        if (known[i].inode == file.st_ino && known[i].device == file.st_dev &&
            known[i].bytes == file.st_size &&
            memcmp(&known[i].changed, &file.st_ctim, sizeof(file.st_ctim)) == 0) {
            *program = known[i].program;
            return !known[i].is_unread;
        }
    }
    /* The process may have become another program since, whose facts are not this one's. */
    int code = program_read_within(program, path, deadline_ms, &file);
    if (code < 0)
        *program = (struct program){0};
    known[session->next_program++ % SESSION_PROGRAMS_KNOWN] = (struct known_program){
        file.st_dev, file.st_ino, file.st_size, file.st_ctim, code == -EIO, *program};
    return code != -EIO;
}

static bool read_program(struct session *session, struct program *program, pid_t pid)
{
    struct main_program main;
    main_program_find(&main, pid);
    return read_program_at(session, program, main.path, READ_PROGRAM_MS);
}

void session_prepare(struct session *session, const char *program)
{
    struct program unused;
    if (program[0] != 0)
        read_program_at(session, &unused, program, READ_COMMAND_MS);
    /* The command begins in our cgroup. It stays watched until the end of the session. */
    cgroup_watch_take(&session->cgroups, getpid());
}

bool session_may_enter(const struct session *session, const struct process_info *info, uid_t uid)
{
    return session->of_command && session_may_speak(session, info, uid) &&
           session_wants(session, info, HANDSHAKE_STARTUP) &&
           heap_config_wants_heap(session->config, HEAP_CONFIG_MALLOC) &&
           program_exec_may_be_traced(info->pid);
}

int session_enter(struct session *session, pid_t pid, int *pidfd, struct error *error)
{
    struct process_info info;
    struct program program;
    uint64_t began_us = clock_read_us(CLOCK_MONOTONIC);
    int code = process_info_read(&info, pid);
    if (code < 0)
        return error_set(error, code, "it has ended");
    bool is_wanted = session_wants(session, &info, HANDSHAKE_STARTUP);
    const struct target *old = session_find(session, pid);
    if (old != NULL && target_has_exec(old))
        session_end_replaced(session, &info);
    process_info_clear(&info);
    read_program(session, &program, pid);
    /* The file that was executed may be another one than the launcher has found. Without an
     * allocator there is nothing to attach to, as program_way() explains. */
    if (!is_wanted || program.file.has_interpreter || program.file.allocator[0] == 0 ||
        !heap_config_wants_heap(session->config, HEAP_CONFIG_MALLOC))
        return -ECANCELED;
    /* A program that contains the client joins by itself, for its own heaps only. */
    if (program.file.has_client && heap_rules_want_others(session->config))
        return -ECANCELED;
    code = attach_target(session, pid, ATTACH_AT_ENTRY, 0, pidfd, error);
    if (code < 0)
        return code;
    struct target *target = session_find(session, pid);
    target->origin = HANDSHAKE_STARTUP;
    target->is_complete = true;
    target->attach_stopped_us = clock_read_us(CLOCK_MONOTONIC) - began_us;
    session->command_said_hello |= pid == session->command_pid;
    return 0;
}

static void note_heard_child(struct session *session, const struct process_info *info)
{
    struct target *parent = session_find(session, info->parent_pid);
    if (parent != NULL && parent->was_attached && parent->moment == ATTACH_AT_HELLO)
        parent->children_reported++;
}

/* Make a target of a wanted process. `old`: the target that it was before its exec, or NULL. Return
 * as session_hello(). */
static int join(struct session *session, struct process_info *info, struct target *old,
                const struct handshake_hello *hello, struct handshake_reply *reply, int *memfd)
{
    pid_t pid = info->pid;
    enum handshake_origin origin = (enum handshake_origin)hello->origin;
    struct program program;
    struct error failure = {0}, refusal;
    bool is_read = read_program(session, &program, pid);
    if (attach_instead(session, info, origin, &program, &failure)) {
        struct target *target = session_find(session, pid);
        target->origin = origin;
        target->is_complete = origin == HANDSHAKE_STARTUP && hello->is_initialized == 0;
        fill_reply(session, NULL, reply);
        return 2;
    }
    struct process_info seen = *info; /* add_target() takes ownership of what it points to */
    struct target *target = add_target(session, info, RING_MEMFD_NAME, memfd, &refusal);
    if (target == NULL) {
        *info = (struct process_info){.pid = pid};
        unprofiled_add(&session->unprofiled, pid, seen.parent_pid, seen.comm, UNPROFILED_TOO_MANY);
        fill_reply(session, NULL, reply);
        return 0;
    }
    target->origin = origin;
    copy_allocator(target->allocator, hello->allocator);
    snprintf(target->attach_failure, sizeof(target->attach_failure), "%.*s",
             (int)sizeof(target->attach_failure) - 1, failure.message);
    target_note_program(target, &program);
    if (!is_read)
        target_note_unread_program(target);
    if (session->of_command)
        unprofiled_note_profiled(&session->unprofiled, pid);
    if (old != NULL)
        replace_image(session, old, &target->info, target);
    fill_reply(session, target, reply);
    return 1;
}

/* The process has stopped waiting for our last answer, and asks again. Return as session_hello().
 */
static int answer_again(struct session *session, struct process_info *info, struct target *target,
                        const struct handshake_hello *hello, struct handshake_reply *reply,
                        int *memfd)
{
    bool is_given = target_renew_ring(target, RING_MEMFD_NAME, session->ring_bytes, memfd) == 0;
    if (is_given) {
        target->origin = (enum handshake_origin)hello->origin;
        ask_interval(session, target);
        process_info_clear(info);
    }
    fill_reply(session, is_given ? target : NULL, reply);
    return is_given;
}

int session_hello(struct session *session, struct process_info *info, uid_t uid,
                  const struct handshake_hello *hello, struct handshake_reply *reply, int *memfd)
{
    pid_t pid = info->pid;
    if (!session_may_speak(session, info, uid))
        return -EPERM;
    if (pid == session->command_pid)
        session->command_said_hello = true;

    struct target *old = session_find(session, pid);
    if (old != NULL && target_is_dead(old)) {
        /* Another process has the pid now. */
        session_process_ended(session, pid, -1);
        old = NULL;
    }
    /* We attached to this program. Its dormant client now answers the invitation, or it is linked
     * statically to one. */
    if (old != NULL && old->was_attached && old->exec != TARGET_EXEC_AWAY &&
        hello->origin != HANDSHAKE_FORK && !target_has_exec(old)) {
        fill_reply(session, NULL, reply);
        return 0;
    }
    /* Without the file of its image, its name tells whether it is the same program. */
    if (old != NULL && target_is_awaited(old) && hello->origin != HANDSHAKE_FORK &&
        !target_has_exec(old) && (old->image_fd >= 0 || strcmp(old->info.comm, info->comm) == 0))
        return answer_again(session, info, old, hello, reply, memfd);
    if (hello->origin == HANDSHAKE_FORK)
        note_heard_child(session, info);
    if (!session_wants(session, info, (enum handshake_origin)hello->origin)) {
        if (session->of_command)
            unprofiled_add(&session->unprofiled, pid, info->parent_pid, process_info_name(info),
                           session_unwanted_reason(session, info));
        if (old != NULL)
            replace_image(session, old, info, NULL);
        fill_reply(session, NULL, reply);
        return 0;
    }
    return join(session, info, old, hello, reply, memfd);
}

void session_end_replaced(struct session *session, const struct process_info *info)
{
    struct target *target = session_find(session, info->pid);
    if (target != NULL && target->exec != TARGET_EXEC_AWAY)
        replace_image(session, target, info, NULL);
}

void session_handle_execs(struct session *session, void (*found)(void *context, pid_t pid),
                          void *context)
{
    for (size_t i = 0; i < session->target_count; i++) {
        struct target *target = session->targets[i];
        struct process_info info;
        if (!target_has_exec(target) || process_info_read(&info, target->info.pid) < 0)
            continue;
        session_end_replaced(session, &info);
        process_info_clear(&info);
        if (found != NULL)
            found(context, target->info.pid);
    }
}
