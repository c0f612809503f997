/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the profile knows of a process's memory beside its heaps. Every report takes these figures
 * from here: one figure has one source.
 *
 * Resident memory is the program's own: the profiler's ring, tables and code in the process are
 * beside it. Profiles that do not tell them apart say so.
 */
#ifndef HEAPPROFD_PROFILE_PROCESS_MEMORY_H
#define HEAPPROFD_PROFILE_PROCESS_MEMORY_H

#include "profile/profile.h"

/* The largest resident memory: by the kernel's own count, or the largest that was read. Between two
 * readings it may have been larger. */
struct process_peak {
    uint64_t bytes;          /* of the program; 0: unknown */
    uint64_t profiler_bytes; /* beside it at that moment; PROFILE_UNKNOWN_BYTES: part of `bytes` */
    uint64_t first_bytes;    /* of the first reading of that kind */
    bool is_at_least;        /* it is the largest that was read */
};
struct process_peak process_memory_peak(const struct profile_process *process);

/* Return the last snapshot of the process before the dump, or NULL. */
const struct memory_snapshot *process_memory_snapshot(const struct profile *profile,
                                                      uint32_t process,
                                                      const struct profile_dump *dump);

/* Return the snapshot before the dump with the most resident memory, or NULL. */
const struct memory_snapshot *process_memory_most(const struct profile *profile, uint32_t process,
                                                  const struct profile_dump *dump);

/* Return the program's resident memory at the last reading of the timeline before the dump; 0:
 * unknown. */
uint64_t process_memory_of_timeline(const struct profile_process *process,
                                    const struct profile_dump *dump);

/* Return the program's resident memory at the dump: that of its snapshot, or else of the timeline;
 * 0: unknown. */
uint64_t process_memory_at(const struct profile *profile, uint32_t process,
                           const struct profile_dump *dump);

#endif
