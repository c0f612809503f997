/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of one process: what each callsite has allocated and freed, estimated from samples.
 *
 * A sample of s bytes at interval T was drawn with p = 1 - exp(-max(s, 1) / T), or p = 1
 * (wire/sampling.h). It stands for s/p bytes and 1/p allocations, and adds s^2 (1-p)/p^2 and
 * (1-p)/p^2 to their variances (Horvitz and Thompson, 1952). At T = 1 everything is exact. A free
 * subtracts what its allocation stood for. Dumps calibrate these weights by the exact totals
 * (calibration.h), and correct the peak (split_peak.h).
 *
 * Samples that the program drew itself stand for their own size and for one allocation.
 *
 * Ranges of memory (libc.mmap) are exact: their bytes are freed as they are unmapped, and the
 * allocation with its last piece.
 *
 * Figures are kept by callsite, thread, heap, interval, type and context; readers add them up.
 * Keeping the values at a heap's peak costs O(1) an event: leaving a peak begins a new epoch, and
 * figures first store their values at the last peak before they change.
 *
 * The visitor's functions return 0, -ENOMEM, or -EBADMSG for data that no real client sends.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_LEDGER_H
#define HEAPPROFD_RECORDER_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/ledger/callsite_tree.h"
#include "recorder/ledger/figures_table.h"
#include "recorder/ledger/split_peak.h"
#include "recorder/ledger/tags.h"
#include "recorder/ring/event.h"
#include "recorder/ring/ring_reader.h"

#define LEDGER_HEAPS_MAX RING_HEAPS_MAX

/* The first indexes are malloc's intervals, beginning with the session's first; those of other
 * heaps follow. */
#define LEDGER_INTERVALS_OF_MALLOC 64
#define LEDGER_INTERVALS_MAX 512
/* In place of an interval, for samples that the program drew itself. */
#define LEDGER_INTERVAL_NONE LEDGER_INTERVALS_MAX

/* Threads beyond this many in a process's life share one identity. A server that starts a thread
 * for each request must not grow the ledger forever. */
#define LEDGER_THREADS_MAX 8192

/* That shared identity. */
#define LEDGER_THREAD_OTHERS 0u

struct ledger_heap {
    char name[64];                   /* "" while unknown */
    uint64_t interval_bytes;         /* the first */
    uint64_t longest_interval_bytes; /* announced, or that drew a sample; 0: no interval yet */
    double live_bytes, live_count;
    double peak_bytes, peak_count; /* at the highest estimate */
    uint64_t peak_time_ms;         /* since the session's start, like all times here */
    uint64_t epoch;                /* incremented when the heap leaves a peak */
    bool at_peak;                  /* what is live now is the peak */
    uint64_t samples;
    double seen_bytes; /* of all samples, themselves */
    /* The part of live and of peak that is missed ones, and of this the open period's part. */
    struct ledger_amount live_missed, live_open, peak_missed, peak_open;
    struct calibration calibration;
    struct split_peak split;
    uint64_t weighed_samples; /* those of `samples` that the program drew itself */
    bool known;               /* announced, or has samples */
};

/* A heap's peak, corrected for the bias of the highest estimate. */
struct ledger_peak {
    double bytes, count;
    struct ledger_amount factor;  /* of the missed part of the peak of figures that have changed */
    struct ledger_amount highest; /* the estimate without the correction */
};

struct ledger_thread {
    uint32_t tid;
    char name[16];
};

struct ledger;

/* Make a ledger. interval_bytes is the session's first interval, or 0 if malloc is not profiled.
 * NULL: no memory. */
struct ledger *ledger_open(uint64_t interval_bytes);
void ledger_close(struct ledger *ledger);

/* Takes in records: the visitor for ring_reader_drain(). Its context is the ledger. */
extern const struct ring_visitor ledger_visitor;

/* Set who finishes walks of the process (recorder/walk/finish_walk.h). The caller keeps it. Without
 * a finisher the stacks of unfinished walks are unknown. */
struct walk_finisher;
void ledger_finish_walks(struct ledger *ledger, struct walk_finisher *finisher);

/* The effect of an event: a sample becomes live, stops being live, or becomes live again. A range
 * is freed with its last piece. */
struct ledger_change {
    enum ledger_change_kind { LEDGER_ALLOCATED, LEDGER_FREED, LEDGER_UNFREED } kind;
    uint8_t heap;
    uint64_t time_ms;
    uint64_t sequence; /* from 1 */
    uint64_t address, size;
    double count; /* number of allocations that it stands for */
};

/* A thread's scope begins or ends. */
struct ledger_scope {
    const struct record_scope *record;
    uint16_t slot;
    const struct ledger_thread *thread;
    const char *name; /* of a scope that begins */
};

typedef void ledger_scope_observer(void *context, const struct ledger_scope *scope);

/* Call the observer for each record of a scope. Set it before the first record. */
void ledger_observe_scopes(struct ledger *ledger, ledger_scope_observer *observer, void *context);

typedef void ledger_observer(void *context, const struct ledger_change *change);

/* Call the observer for each change. Set it before the first event. The figures are the sums of the
 * changes that it receives. */
void ledger_observe(struct ledger *ledger, ledger_observer *observer, void *context);

struct ledger_counts {
    uint64_t allocs, frees;
    uint64_t unknown_stacks; /* samples whose stack was never sent or could not be walked */
    uint64_t unknown_frees;  /* of addresses that are not live */
    uint64_t implicit_frees; /* address allocated again while live */
    uint64_t lost_frees;     /* samples whose free cannot be seen: counted as freed at once */
    uint64_t live_samples;
    uint64_t walks;                       /* walks that the client left to us */
    uint64_t walks_failed;                /* those of `walks` that ended in an error */
    uint64_t other_types, other_contexts; /* samples whose type or context is beyond the bounds */
};
struct ledger_counts ledger_counts(const struct ledger *ledger);

/* Calibrate the samples since the last call by the exact totals of this moment: of malloc, and of
 * each other heap (RING_HEAPS_MAX). `may_wait`: not yet where there are few of them, because the
 * figures of this moment will be replaced. */
void ledger_calibrate(struct ledger *ledger, const struct ring_totals *malloc_totals,
                      const struct ring_heap_totals *totals, bool may_wait);

/* Correct a heap's peak. `held`: the sum of ledger_peak_missed() over its figures that still hold
 * what they held then. */
struct ledger_peak ledger_peak_of(const struct ledger_heap *heap, struct ledger_amount held);

/* Return the estimated live bytes of all heaps. */
double ledger_live_bytes(const struct ledger *ledger);

/* A live sample of a heap. */
struct ledger_live_sample {
    uint64_t address, size;
    uint64_t time_ms; /* when it was allocated */
    uint32_t figures; /* those that it is counted in */
};
typedef void ledger_live_visitor(void *context, const struct ledger_live_sample *sample);

/* Visit the live samples of a heap (0: malloc's). If they are more than `most`, stop after a random
 * part of them. Return the visited part, 0 < part <= 1; or 0 if they are unknown: those of ranges
 * are not in a table. */
double ledger_live_visit(const struct ledger *ledger, size_t heap, size_t most,
                         ledger_live_visitor *visitor, void *context);

/* What a live sample stands for. */
struct ledger_live_worth {
    double bytes, count, count_variance;
};

/* Return that by the calibration of `heap`, which is of now or of a snapshot. It is apart from the
 * visit because it costs more: the sample's figures are mostly in no cache. */
struct ledger_live_worth ledger_live_worth(struct ledger *ledger, const struct ledger_heap *heap,
                                           const struct ledger_live_sample *sample);

/* Visit an address of each KiB in which a heap has samples, and of some in which it had: about
 * `most` at most, a random part. The addresses are the keys of its samples, whatever they mean. */
typedef void ledger_region_visitor(void *context, uint64_t address);
void ledger_regions_visit(const struct ledger *ledger, size_t heap, size_t most,
                          ledger_region_visitor *visitor, void *context);

/* Return the number of live pieces of all heaps of ranges, and visit them by address. */
size_t ledger_pieces(const struct ledger *ledger);
typedef void ledger_piece_visitor(void *context, uint64_t start, uint64_t end);
void ledger_pieces_visit(const struct ledger *ledger, ledger_piece_visitor *visitor, void *context);

/* Heaps are numbered [0, *count). */
const struct ledger_heap *ledger_heaps(const struct ledger *ledger, size_t *count);
const struct ledger_thread *ledger_threads(const struct ledger *ledger, size_t *count);
const struct callsite_tree *ledger_callsites(const struct ledger *ledger);
const struct tags *ledger_tags(const struct ledger *ledger);

/* Malloc's current interval. */
uint64_t ledger_interval_bytes(const struct ledger *ledger);

/* The number of figures, and the figures of an index: with values at the current peak, and without
 * the rounding errors of figures whose samples are all freed. */
size_t ledger_figures_count(const struct ledger *ledger);
struct ledger_figures ledger_figures(const struct ledger *ledger, size_t index);

/* Return whether figures hold what they held at the peak, and what the samples of that moment stood
 * for beside themselves. */
bool ledger_holds_peak(const struct ledger_figures *figures);
struct ledger_amount ledger_peak_missed(const struct ledger_figures *figures);
/* Correct the peak of figures by the factor of their heap's. */
void ledger_correct_peak(struct ledger_figures *figures, struct ledger_amount factor);

/*
 * A ledger's figures and heaps at one moment, to be read while events go on. Callsites, modules,
 * threads and tags are read from the ledger itself: those that the figures refer to do not change,
 * and new ones are only appended.
 */
struct ledger_snapshot {
    size_t figures_count, node_count, module_count, heap_count;
    uint64_t interval_bytes, first_interval_bytes;
    struct ledger_heap heaps[LEDGER_HEAPS_MAX];
};

/* Take a snapshot. A ledger has at most one at a time. NULL: no memory. It copies almost nothing;
 * see recorder/ledger/figures_table.h. */
struct ledger_snapshot *ledger_snapshot_take(struct ledger *ledger);
void ledger_snapshot_release(struct ledger *ledger, struct ledger_snapshot *snapshot);

/* Return what ledger_figures() returned at that moment; index < figures_count. */
struct ledger_figures ledger_snapshot_figures(const struct ledger *ledger,
                                              const struct ledger_snapshot *snapshot, size_t index);

#endif
