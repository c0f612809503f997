/* SPDX-License-Identifier: Apache-2.0 */
/* When a recording that somebody watches takes dumps: one a second for 20 seconds, then one
 * whenever it is a twentieth older. So their number grows with the logarithm of its age: about 100
 * in the first hour, 170 in the first day. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_DUMP_SCHEDULE_H
#define HEAPPROFD_TOOLS_CLI_RECORD_DUMP_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Begin with zeros. */
struct dump_schedule {
    uint64_t first_ms, due_ms; /* due_ms 0: it has not begun */
};

/* Return whether a dump is due now. The first call begins the schedule. */
static inline bool dump_schedule_is_due(struct dump_schedule *schedule, uint64_t now_ms)
{
    static const uint64_t pause_least_ms = 1000, pauses_in_age = 20;
    if (schedule->due_ms == 0)
        *schedule = (struct dump_schedule){now_ms, now_ms + pause_least_ms};
    if (now_ms < schedule->due_ms)
        return false;
    uint64_t pause_ms = (now_ms - schedule->first_ms) / pauses_in_age;
    schedule->due_ms = now_ms + (pause_ms > pause_least_ms ? pause_ms : pause_least_ms);
    return true;
}

#endif
