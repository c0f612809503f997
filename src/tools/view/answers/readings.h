/* SPDX-License-Identifier: Apache-2.0 */
/* The readings of the processes' memory over time, which the timeline draws. */
#ifndef HEAPPROFD_VIEW_READINGS_H
#define HEAPPROFD_VIEW_READINGS_H

#include "profile/profile.h"
#include "util/json_writer.h"

/* The snapshots of a profile by process and time: sums of their parts. */
struct view_snapshots {
    struct view_snapshot {
        uint64_t boottime_ns;
        uint64_t rss_bytes, swap_bytes; /* PROFILE_UNKNOWN_BYTES: unknown */
        uint32_t process;
    } * items;
    size_t count;
};

void view_snapshots_gather(struct view_snapshots *snapshots, const struct profile *profile);
void view_snapshots_free(struct view_snapshots *snapshots);

/* Write the readings of a process as columns: `time`, `rss`, `anonymous`, `file`, `shmem`, `swap`,
 * with null for unknown values; `all` is their number, of which about `most` are written. Resident
 * and swapped bytes are of the timeline or, if it has none, of the snapshots. */
void view_readings_write(struct json_writer *json, const struct profile *profile, size_t process,
                         const struct view_snapshots *snapshots, size_t most);

#endif
