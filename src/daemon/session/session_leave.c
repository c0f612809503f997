/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a session leaves while they run: for good, or as long as another session has
 * them. */
#include <malloc.h>
#include <stdlib.h>

#include "daemon/processes/other_profiler.h"
#include "daemon/session/session_state.h"
#include "util/clock.h"

/* A lent process that no session profiles after this time is taken back, even if the borrower's end
 * was never reported. The borrower may try to attach for a minute. */
#define LENT_MS 90000u

static size_t count_left(const struct session *session)
{
    return session->left_count < SESSION_LEFT_MAX ? session->left_count : SESSION_LEFT_MAX;
}

/* End the profile of a process, and note to whom it is left. */
static bool leave(struct session *session, pid_t pid, uint64_t borrower)
{
    struct target *target = session_find(session, pid);
    struct target_end end = {.final = true, .running = true, .exit_status = -1};
    if (target == NULL)
        return false;
    if (session->left == NULL)
        session->left = calloc(SESSION_LEFT_MAX, sizeof(*session->left));
    /* A lent process that nobody remembers would be taken back at once. */
    if (session->left == NULL && borrower != 0)
        return false;
    if (session->left != NULL)
        session->left[session->left_count++ % SESSION_LEFT_MAX] = (struct left_process){
            .pid = pid,
            .start_boottime_ns = target->info.start_boottime_ns,
            .borrower = borrower,
            .since_ms = clock_read_ms(CLOCK_MONOTONIC),
        };
    session_dump_superseded(session);
    end.running = !target_is_dead(target);
    session_end_target(session, target, &end);
    return true;
}

void session_leave(struct session *session, pid_t pid)
{
    /* It is left because memory is short. */
    if (leave(session, pid, 0))
        malloc_trim(0);
}

bool session_lend(struct session *session, pid_t pid, uint64_t borrower)
{
    return leave(session, pid, borrower);
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
