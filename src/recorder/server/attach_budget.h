/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor time that repeated attempts to attach may take. A process that waits in the kernel
 * cannot be attached to, and is tried again for a minute; programs that do this on purpose must not
 * cost the machine more than a fixed part of one processor, however many sessions try them.
 *
 * That part is divided equally among the users who have sessions, and a user's part among this
 * user's sessions. Each failed attempt delays the session's next repetition until its average is
 * back at its share. First attempts are counted, too, but never delayed.
 */
#ifndef HEAPPROFD_RECORDER_SERVER_ATTACH_BUDGET_H
#define HEAPPROFD_RECORDER_SERVER_ATTACH_BUDGET_H

#include <stddef.h>
#include <stdint.h>

/* For the whole machine, in millionths of one processor. A profiler without a daemon has all. */
#define ATTACH_BUDGET_MACHINE_PPM 100000u

struct attach_budget {
    uint32_t share_ppm; /* millionths of one processor; never 0 */
    uint64_t due_us;    /* when the failed attempts so far are within the share */
};

/* Return the share of one session. `users`: number of users with sessions; `own_sessions`: number
 * of sessions of this session's user. */
uint32_t attach_budget_share_ppm(size_t users, size_t own_sessions);

/* Change the share. The delay that is left becomes longer or shorter in proportion. */
void attach_budget_set_share(struct attach_budget *budget, uint32_t share_ppm, uint64_t now_us);

/* Count a failed attempt that took this much processor time. */
void attach_budget_charge(struct attach_budget *budget, uint64_t used_us, uint64_t now_us);

/* Return the earliest time of a repeated attempt, in milliseconds of the caller's clock. */
uint64_t attach_budget_due_ms(const struct attach_budget *budget);

#endif
