/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why a heap differs from the RSS of its process. At a dump, a table leads from the
 * requested live bytes to the memory that the kernel reports. Its rows add up to the RSS exactly,
 * and each names its source. Caveats list what cannot be known from outside the process.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_RSS_H
#define HEAPPROFD_PROFILE_COMPARE_RSS_H

#include "profile/profile.h"
#include "util/json_writer.h"

/* --- the table of a memory snapshot --- */

enum rss_source {
    RSS_ESTIMATED, /* from samples */
    RSS_COUNTED,   /* every allocation was recorded */
    RSS_BY_RULE,   /* by the allocator's size classes, from samples */
    RSS_MEASURED,
    RSS_REMAINDER,
    RSS_NOT_KNOWN, /* unknown; included in the remainder */
};

struct rss_row {
    const char *name; /* for scripts */
    const char *text; /* for people */
    int64_t bytes;    /* 0 if unknown */
    double margin;    /* 95 % margin; < 0: exact */
    enum rss_source source;
    enum memory_kind kind; /* MEMORY_UNKNOWN: a part of the allocator's */
};

#define RSS_ROWS_MAX 16u

/* Rows [0, allocator_count) are the allocator's memory, the others the rest, the largest first. All
 * rows add up to rss_bytes, the program's memory. The profiler's own is beside it. */
struct rss_table {
    struct rss_row rows[RSS_ROWS_MAX];
    size_t count, allocator_count;
    uint64_t allocator_bytes, rss_bytes, swap_bytes, profiler_bytes;
};

void rss_table_fill(struct rss_table *table, const struct memory_snapshot *snapshot);

/* Return the 95 % margin of the live bytes. */
double rss_live_margin(const struct memory_snapshot *snapshot);

/* The kinds of memory in the order of the table, the allocator's first. */
struct rss_kind {
    enum memory_kind kind;
    const char *text; /* for people */
};
extern const struct rss_kind rss_kinds[MEMORY_KINDS];

/* --- the memory at a dump --- */

struct rss_moment {
    const struct profile *profile;
    const struct profile_process *process;
    const struct profile_heap *heap;
    const struct profile_dump *dump;
    const struct memory_snapshot *snapshot; /* the last before the dump; NULL: none */
    const struct memory_snapshot *most;     /* the one until the dump with the most memory */
    uint64_t timeline_bytes;                /* process_memory_of_timeline() */
    double mapped_bytes;                    /* live in libc.mmap; < 0: no such heap */
    bool mmap_wanted;                       /* the session named libc.mmap */
    bool has_python;                        /* it has the heap python.object */
};

/* Return the memory at a dump. `mapped_number`: the number of libc.mmap's dump, from 1; 0: its
 * last. */
struct rss_moment rss_moment_of(const struct profile *profile, const struct profile_heap *heap,
                                const struct profile_dump *dump, uint64_t mapped_number);

/* Why a moment may have no snapshot, in words. */
extern const char rss_why_no_snapshot[];

/* Return whether the process had notably more memory at another snapshot, which *most is then of.
 */
bool rss_most_of(struct rss_moment *most, const struct rss_moment *moment);

/* Return how long before the dump its snapshot was taken; 0: with it. */
double rss_age_seconds(const struct rss_moment *moment);

/* Return the table's row of free lists: the rest of the allocator's memory. */
const struct rss_row *rss_remainder(const struct rss_table *table);
/* Return whether most of the C library's arenas is free, and much. */
bool rss_arenas_hold_much(const struct rss_moment *moment, const struct rss_table *table);

/* Return what is live of heaps that are not malloc's in mappings of their own, and its 95 % margin.
 */
double rss_other_heaps_live(const struct memory_snapshot *snapshot, double *margin);

/* What is resident beside the live blocks of the heaps: the parts that matter, the largest first.
 * It is of the last snapshot, or that of rss_most_of(). */
struct rss_rest_part {
    const char *name; /* of the table's row */
    char words[96];
    const char *tool; /* that shows more; NULL: none */
    double bytes, margin;
};
#define RSS_REST_MAX 3u
struct rss_rest {
    struct rss_rest_part parts[RSS_REST_MAX];
    size_t count;
    double bytes;       /* of these parts together */
    uint64_t rss_bytes, boottime_ns; /* of that snapshot */
    /* Pages of live blocks of malloc's that are not resident, and the blocks; unless unknown. */
    double live_bytes, absent_bytes;
    bool has_absent;
};

/* Return whether there is a snapshot. */
bool rss_rest_of(struct rss_rest *rest, const struct rss_moment *moment);

/* Pass each caveat of the table to `take`. */
typedef void rss_caveat_fn(void *context, const char *text);
void rss_caveats(const struct rss_moment *moment, const struct rss_table *table,
                 rss_caveat_fn *take, void *context);

/* Fill the table of the moment's snapshot. If the live bytes are still those of the dump, their
 * margin is that of its reports: the larger side of the interval. */
void rss_table_of(struct rss_table *table, const struct rss_moment *moment);

/* Write the object that docs/rss.md describes. */
void rss_write_json(struct json_writer *json, const char *key, const struct rss_moment *moment);

#endif
