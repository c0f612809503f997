/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of one process: what each callsite has allocated and freed,
 * estimated from samples.
 *
 * A sample of s bytes at interval T was drawn with p = 1 - exp(-max(s, 1) / T), or
 * p = 1 (wire/sampling.h). It stands for s/p bytes and 1/p allocations, and adds
 * s^2 (1-p)/p^2 and (1-p)/p^2 to their variances (Horvitz and Thompson, 1952): at T = 1
 * everything is exact. A free takes back what its allocation stood for.
 *
 * Samples that the program drew itself stand for their size, and for one.
 *
 * Ranges of memory (libc.mmap) are exact: their bytes are freed as they are unmapped, the
 * allocation when the last of it is.
 *
 * Figures are kept by callsite, thread, heap, interval, type and context; whoever reads them adds
 * up. The value at a heap's peak is O(1) an event: a peak only begins a new
 * epoch, and figures that are about to change note first what they were at the last one.
 *
 * Functions that return int: 0, -ENOMEM, or -EBADMSG for what no client would send.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_LEDGER_H
#define HEAPPROFD_DAEMON_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/ledger/callsite_tree.h"
#include "daemon/ledger/figures_table.h"
#include "daemon/ledger/live_table.h"
#include "daemon/ledger/tags.h"
#include "daemon/ring/event.h"
#include "daemon/ring/ring_reader.h"

#define LEDGER_HEAPS_MAX RING_HEAPS_MAX

/* Indexes of malloc's intervals, from the session's first on, then those of the other heaps. */
#define LEDGER_INTERVALS_OF_MALLOC 64
#define LEDGER_INTERVALS_MAX 512
/* In place of an interval: of samples that the program drew itself. */
#define LEDGER_INTERVAL_NONE LEDGER_INTERVALS_MAX

/* Threads beyond this many in a process's life share one identity: a server that
 * starts a thread per request must not grow the ledger for ever. */
#define LEDGER_THREADS_MAX 8192

/* That shared identity. */
#define LEDGER_THREAD_OTHERS 0u

struct ledger_heap {
    char name[64]; /* "" until it is heard of */
    uint64_t interval_bytes;
    double live_bytes, live_count;
    double peak_bytes, peak_count;
    uint32_t peak_time_ms;
    uint64_t epoch; /* grows with each new peak */
    uint64_t samples;
    uint64_t weighed_samples; /* of them: drawn by the program itself */
    bool known;               /* announced, or has samples */
};

struct ledger_thread {
    uint32_t tid;
    char name[16];
};

struct ledger;

/* interval_bytes: of the session's first interval; 0: malloc is not profiled. NULL: no memory. */
struct ledger *ledger_open(uint64_t interval_bytes);
void ledger_close(struct ledger *ledger);

/* What a ring_reader drives, with the ledger as its context. */
extern const struct ring_visitor ledger_visitor;

int ledger_events(struct ledger *ledger, const struct heap_event *events, size_t count);
int ledger_unmap(struct ledger *ledger, uint8_t heap, uint16_t slot,
                 const struct record_unmap *unmap);
int ledger_thread(struct ledger *ledger, uint16_t slot, uint32_t tid, const char *name);
int ledger_heap(struct ledger *ledger, uint8_t heap, uint64_t interval_bytes, const char *name);
int ledger_name(struct ledger *ledger, const struct record_name *name);
int ledger_context(struct ledger *ledger, const struct record_context *context);
int ledger_walk(struct ledger *ledger, uint16_t slot, const struct record_walk *walk,
                enum ring_unwinding *answer);
/* The hash of the stack that the slot's walk with that token came to; 0: it is not known. */
uint64_t ledger_walked(const struct ledger *ledger, uint16_t slot, uint64_t token);
int ledger_interval(struct ledger *ledger, uint32_t index, uint64_t interval_bytes);

/* Who finishes walks of the process (daemon/walk/finish_walk.h), not taken over; without, their
 * stacks are unknown. */
struct walk_finisher;
void ledger_finish_walks(struct ledger *ledger, struct walk_finisher *finisher);

/* What an event came to: a sample that is live from now on, or is no more, or is again. A range is
 * freed when the last of it is unmapped. */
struct ledger_change {
    enum ledger_change_kind { LEDGER_ALLOCATED, LEDGER_FREED, LEDGER_UNFREED } kind;
    uint8_t heap;
    uint32_t time_ms;
    uint64_t sequence; /* from 1 */
    uint64_t address, size;
    double count; /* allocations that it stands for */
};

typedef void ledger_observer(void *context, const struct ledger_change *change);

/* Has the observer told of each change; to be set before the first event. The figures are the sums
 * of what it is told. */
void ledger_observe(struct ledger *ledger, ledger_observer *observer, void *context);

struct ledger_counts {
    uint64_t allocs, frees;
    uint64_t unknown_stacks; /* samples whose stack was never sent, or could not be had */
    uint64_t unknown_frees;  /* of addresses that are not live */
    uint64_t implicit_frees; /* allocated again while live */
    uint64_t lost_frees;     /* samples whose free cannot be seen: counted as freed at once */
    uint64_t live_samples;
    uint64_t walks;                       /* that the client left to us */
    uint64_t walks_failed;                /* of them: ended in an error */
    uint64_t other_types, other_contexts; /* samples of types and contexts beyond the bounds */
};
struct ledger_counts ledger_counts(const struct ledger *ledger);

/* Live bytes of all heaps, estimated. */
double ledger_live_bytes(const struct ledger *ledger);

/* A sample of malloc's that is live, and what it stands for. */
struct ledger_live_sample {
    uint64_t address, size;
    double count, count_variance;
};
typedef void ledger_live_visitor(void *context, const struct ledger_live_sample *sample);

/* Visits the live samples of malloc, or once more than `most` were a part of them that chance has
 * picked: how large a part is returned, 0 < part <= 1. */
double ledger_live_visit(struct ledger *ledger, size_t most, ledger_live_visitor *visitor,
                         void *context);

/* Heaps [0, *count). */
const struct ledger_heap *ledger_heaps(const struct ledger *ledger, size_t *count);
const struct ledger_thread *ledger_threads(const struct ledger *ledger, size_t *count);
const struct callsite_tree *ledger_callsites(const struct ledger *ledger);
const struct tags *ledger_tags(const struct ledger *ledger);

/* Malloc's interval in force now, and the first one. */
uint64_t ledger_interval_bytes(const struct ledger *ledger);
uint64_t ledger_first_interval_bytes(const struct ledger *ledger);

/* Number of figures, and figures by index as they stand: peak values brought up
 * to date, rounding errors of what is freed entirely taken out. */
size_t ledger_figures_count(const struct ledger *ledger);
struct ledger_figures ledger_figures(const struct ledger *ledger, size_t index);

/*
 * A moment of a ledger, to be read while events go on: the figures and heaps of then. Callsites,
 * modules, threads and tags are read from the ledger itself: those that figures name stay as they
 * are, and more only come behind them.
 */
struct ledger_snapshot {
    size_t figures_count, node_count, module_count, heap_count;
    uint64_t interval_bytes, first_interval_bytes;
    struct ledger_heap heaps[LEDGER_HEAPS_MAX];
};

/* One at a time. NULL: no memory. Copies next to nothing; see daemon/ledger/figures_table.h. */
struct ledger_snapshot *ledger_snapshot_take(struct ledger *ledger);
void ledger_snapshot_release(struct ledger *ledger, struct ledger_snapshot *snapshot);

/* As ledger_figures, of that moment; index < figures_count. */
struct ledger_figures ledger_snapshot_figures(const struct ledger *ledger,
                                              const struct ledger_snapshot *snapshot, size_t index);

#endif
