/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps before the memory of a cgroup runs out. There is one for each time that a cgroup comes near
 * its limit, of the processes in it; and they take a small part of the time, however often that
 * happens.
 */
#include <stddef.h>

#include "recorder/session/session_state.h"
#include "util/clock.h"

/* The shortest time between two of these dumps. */
#define PAUSE_MS 10000u
/* The pause lasts at least this many times as long as the dump took. */
#define PAUSE_TIMES 50u
/* The period in which a process that moved to another cgroup is noticed. Most move when they begin:
 * it is shorter in their first seconds. */
#define MOVED_PERIOD_MS 5000u
#define YOUNG_MS 5000u

void session_watch_cgroup(struct session *session, struct target *target)
{
    target->cgroup = cgroup_watch_take(&session->cgroups, target->info.pid);
}

void session_leave_cgroup(struct session *session, struct target *target)
{
    cgroup_watch_release(&session->cgroups, target->cgroup);
    target->cgroup = NULL;
}

static void session_cgroups_follow(struct session *session, struct target *target, uint64_t now_ms)
{
    if (target->cgroup == NULL || now_ms < target->moved_due_ms ||
        target->exec == TARGET_EXEC_SUPERSEDED)
        return;
    if (clock_read_ms(CLOCK_MONOTONIC_COARSE) > target->start_ms + YOUNG_MS)
        target->moved_due_ms = now_ms + MOVED_PERIOD_MS;
    if (!cgroup_watch_has_moved(&session->cgroups, target->cgroup, target->info.pid))
        return;
    session_leave_cgroup(session, target);
    session_watch_cgroup(session, target);
}

static void dump_near(struct session *session, const struct near_cgroup *near)
{
    struct target_end end = {.running = true,
                             .exit_status = -1,
                             .cause = near->cause,
                             .cause_used_bytes = near->used_bytes,
                             .cause_limit_bytes = near->limit_bytes};
    for (size_t i = 0; i < session->target_count; i++) {
        struct target *target = session->targets[i];
        if (target->exec == TARGET_EXEC_SUPERSEDED ||
            !memory_cgroup_is_in(target->cgroup, near->cgroup))
            continue;
        target_drain(target, false);
        target_write_dump(target, session->writer, session->files, &end,
                          session->config->dump_at_max);
    }
}

void session_check_cgroups(struct session *session)
{
    struct near_cgroup near;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    for (size_t i = 0; i < session->target_count; i++)
        session_cgroups_follow(session, session->targets[i], now_ms);
    cgroup_watch_wake(&session->cgroups);
    cgroup_watch_tick(&session->cgroups, now_ms);
    while (now_ms >= session->near_due_ms &&
           cgroup_watch_take_near(&session->cgroups, now_ms, &near)) {
        dump_near(session, &near);
        uint64_t took_ms = clock_read_ms(CLOCK_MONOTONIC) - now_ms;
        uint64_t pause_ms = took_ms * PAUSE_TIMES;
        session->near_due_ms = now_ms + (pause_ms > PAUSE_MS ? pause_ms : PAUSE_MS);
    }
}
