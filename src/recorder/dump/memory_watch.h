/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the memory of a target's process: what is resident, what it is for, and how much of
 * it live allocations use. They are taken at each dump, and between dumps, so that there is a last
 * one of a process that ends by itself. The process is not involved, but the kernel delays its
 * changes of mappings while it lists them (about 2 ms for each 100 MB resident). Snapshots between
 * dumps take at most 0.2 % of the time, those of all processes together, and at most 2 % while a
 * process grows (10 % once it has doubled): one that lives shortly would end with much memory that
 * was never looked at.
 */
#ifndef HEAPPROFD_RECORDER_DUMP_MEMORY_WATCH_H
#define HEAPPROFD_RECORDER_DUMP_MEMORY_WATCH_H

#include "recorder/dump/memory_sites.h"
#include "recorder/dump/unexplained.h"
#include "recorder/ledger/ledger.h"
#include "trace/memory_snapshot.h"
#include "trace/write/trace_timeline.h"

/* A mapping of the profiler's own, in the process. */
struct memory_own_range {
    uint64_t start, end;
    uint64_t shared_bytes; /* as in struct memory_map */
    bool is_shmem;         /* its pages of files are of a memfd */
};
#define MEMORY_OWN_RANGES_MAX 64u

struct memory_watch {
    struct memory_own_range own[MEMORY_OWN_RANGES_MAX]; /* at the last snapshot */
    size_t own_count;
    struct unexplained unexplained;
    struct memory_snapshot last;
    struct trace_smaps_sums sums; /* of the same reading */
    bool has_last;
    struct memory_sites_found sites; /* of the last one */
    struct memory_snapshot most;     /* of all that were taken, the one with the most memory */
    bool has_most;                   /* it is not written yet */
    uint64_t most_bytes;
    uint64_t taken_us;                /* CLOCK_MONOTONIC; 0: none yet */
    uint64_t pause_us;                /* after it */
    uint64_t rss_bytes;               /* then, with the profiler's own */
    double live_bytes;                /* then, of all heaps */
    uint64_t seen_rss_bytes, seen_us; /* since when the process has had about as much as now */
    double seen_live_bytes;
};

struct memory_watch_request {
    pid_t pid;
    const char *allocator;     /* of the handshake, "" if unknown; the caller keeps it */
    bool allocator_has_others; /* blocks may be another allocator's */
    /* Add to the sums what only smaps_rollup has, for which the kernel walks the process's page
     * tables a second time. */
    bool with_rollup;
    bool has_malloc; /* malloc is profiled: else most memory is in no heap */
    struct unexplained_facts facts;
};

/* Take a snapshot now. If this fails because the process has ended or may not be read, the last
 * snapshot stays. */
void memory_watch_take_snapshot(struct memory_watch *watch,
                                const struct memory_watch_request *request);
/* Set what is live in the last snapshot to what the ledger says now, if it is of the same moment.
 */
void memory_watch_recount(struct memory_watch *watch, const struct ledger *ledger);
void memory_watch_clear(struct memory_watch *watch);

/* Read how much of the process's resident memory is the profiler's own at present, into the point.
 * It stays unknown before the first snapshot, which finds the mappings. */
void memory_watch_read_own(const struct memory_watch *watch, struct trace_memory_point *point);

/* Return whether it is time for the next snapshot. `processes` are watched in the same way. */
bool memory_watch_is_due(const struct memory_watch *watch, size_t processes);
/* Return whether it may be time for one if the process has grown, and whether it is and has. */
bool memory_watch_is_growth_due(const struct memory_watch *watch, size_t processes);
bool memory_watch_has_grown(const struct memory_watch *watch, size_t processes, uint64_t rss_bytes);

/* Return whether the process has changed since the last snapshot, and stands still: it may end so.
 */
bool memory_watch_has_settled(struct memory_watch *watch, size_t processes, uint64_t rss_bytes,
                              double live_bytes);

/* Write the last snapshot, if there is one, before it the one with the most memory, and the sums of
 * the last one's mappings if they are wanted. Return 0 or a negative errno. */
int memory_watch_write(struct memory_watch *watch, struct trace_writer *writer, bool with_sums);

#endif
