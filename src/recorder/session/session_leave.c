/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a session leaves while they run: for good, as long as another session has them, or
 * because its configuration changed. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "recorder/processes/other_profiler.h"
#include "recorder/session/session_state.h"
#include "recorder/session/target_choice.h"
#include "util/clock.h"

/* A lent process that no session profiles after this time is taken back, even if the borrower's end
 * was never reported. The borrower may try to attach for a minute. */
#define LENT_MS 90000u

static size_t count_left(const struct session *session)
{
    return session->left_count < SESSION_LEFT_MAX ? session->left_count : SESSION_LEFT_MAX;
}

/* Remember not to profile a process. */
static bool note_left(struct session *session, const struct target *target, uint64_t borrower)
{
    if (session->left == NULL)
        session->left = calloc(SESSION_LEFT_MAX, sizeof(*session->left));
    if (session->left == NULL)
        return false;
    session->left[session->left_count++ % SESSION_LEFT_MAX] = (struct left_process){
        .pid = target->info.pid,
        .start_boottime_ns = target->info.start_boottime_ns,
        .borrower = borrower,
        .since_ms = clock_read_ms(CLOCK_MONOTONIC),
    };
    return true;
}

static void end_profile(struct session *session, pid_t pid)
{
    struct target_end end = {.final = true, .running = true, .exit_status = -1};
    session_dump_superseded(session);
    struct target *target = session_find(session, pid);
    if (target == NULL)
        return;
    end.running = !target_is_dead(target);
    session_end_target(session, target, &end);
}

void session_leave(struct session *session, pid_t pid)
{
    const struct target *target = session_find(session, pid);
    if (target == NULL)
        return;
    note_left(session, target, 0);
    end_profile(session, pid);
    /* It is left because memory is short. */
    malloc_trim(0);
}

bool session_lend(struct session *session, pid_t pid, uint64_t borrower)
{
    const struct target *target = session_find(session, pid);
    /* A lent process that nobody remembers would be taken back at once. */
    if (target == NULL || !note_left(session, target, borrower))
        return false;
    end_profile(session, pid);
    return true;
}

/* Note in the trace why a process is not profiled any more. */
static void explain_denial(struct session *session, pid_t pid)
{
    struct process_info info;
    struct error error;
    if (process_info_read(&info, pid) < 0)
        return;
    if (session_may_profile(session, &info, &error) < 0)
        session_write_empty_profile(session, &info, error.message);
    process_info_clear(&info);
}

void session_drop_unwanted(struct session *session)
{
    for (size_t i = 0; i < session->target_count;) {
        struct target *target = session->targets[i];
        const struct process_info *info = &target->info;
        const struct target_rule *rule = target_choice_find(&session->config->target_rules, info);
        bool is_denied = session->policy != NULL && access_policy_denies(session->policy, info);
        bool is_wanted = session_wants(session, info, (enum handshake_origin)target->origin);
        snprintf(target->rule, sizeof(target->rule), "%s", rule != NULL ? rule->name : "");
        if ((is_wanted && !is_denied) || target->exec == TARGET_EXEC_SUPERSEDED) {
            i++;
            continue;
        }
        pid_t pid = info->pid;
        end_profile(session, pid);
        if (is_denied)
            explain_denial(session, pid);
        i = 0; /* several may be gone */
    }
}

pid_t session_take_back(struct session *session, uint64_t borrower)
{
    size_t count = count_left(session);
    for (size_t i = 0; i < count; i++) {
        struct left_process *left = &session->left[i];
        pid_t pid = left->pid;
        if (pid == 0 || left->borrower != borrower)
            continue;
        left->pid = 0;
        return pid;
    }
    return 0;
}

pid_t session_take_back_unused(struct session *session)
{
    size_t count = count_left(session);
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    for (size_t i = 0; i < count; i++) {
        struct left_process *left = &session->left[i];
        pid_t pid = left->pid;
        if (pid == 0 || left->borrower == 0 || now_ms < left->since_ms + LENT_MS ||
            other_profiler_of(pid) != 0)
            continue;
        left->pid = 0;
        return pid;
    }
    return 0;
}

bool session_has_left(const struct session *session, const struct process_info *info)
{
    size_t count = count_left(session);
    for (size_t i = 0; i < count; i++) {
        if (session->left[i].pid == info->pid &&
            session->left[i].start_boottime_ns == info->start_boottime_ns)
            return true;
    }
    return false;
}
