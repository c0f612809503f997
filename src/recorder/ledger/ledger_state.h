/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a ledger, which its parts share. ledger.c takes in events, ledger_ranges.c ranges,
 * and ledger_records.c other records. ledger_read.c returns the results.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_LEDGER_STATE_H
#define HEAPPROFD_RECORDER_LEDGER_LEDGER_STATE_H

#include "recorder/ledger/ledger.h"
#include "recorder/ledger/live_table.h"

#include <stdbool.h>

#include "recorder/ledger/ranges.h"
#include "wire/barrier.h"

/* Both caches are direct-mapped: one load saves an exp (20 to 40 ns) or two look-ups. Programs
 * allocate few distinct sizes, and from few stacks at a time. With many stacks the second cache
 * grows to twice the number of figures, within these bounds. */
#define WEIGHTS_CACHED 1024u
#define FIGURES_CACHED_MIN 1024u
#define FIGURES_CACHED_MAX (128u << 10)

struct cached_figures {
    uint64_t stack; /* its hash */
    uint32_t tag, figures;
    uint16_t thread, interval;
    uint8_t heap, known;
};

/* The thread that has a slot now, and its last free, so that an UNFREE can undo it. */
struct ledger_slot {
    uint32_t thread;
    uint64_t freed_time_ms;
    struct live_sample freed; /* its size is unpacked below */
    uint64_t freed_address, freed_size;
    uint8_t freed_heap;
    bool has_freed, freed_temporary;
};

struct ledger {
    struct live_table live;                          /* malloc's */
    struct live_table *other_live[LEDGER_HEAPS_MAX]; /* of other heaps; NULL: no sample yet */
    struct ranges *ranges[LEDGER_HEAPS_MAX];         /* of heaps of ranges; NULL: none yet */
    struct callsite_tree callsites;
    struct tags tags;

    struct figures_table figures;

    struct ledger_heap heaps[LEDGER_HEAPS_MAX];
    size_t heap_count;
    uint64_t intervals[LEDGER_INTERVALS_MAX + 1]; /* 0: not announced; the last: of _NONE */
    uint32_t interval_now;

    struct ledger_slot *slots;
    size_t slot_count, slot_capacity;
    struct ledger_thread *threads;
    size_t thread_count, thread_capacity;

    struct walk_finisher *finisher; /* NULL: none */
    struct ledger_walks *walks;     /* NULL before the first walk */

    ledger_observer *observer; /* NULL: none */
    void *observer_context;
    uint64_t sequence;                     /* of the last change that it received */
    ledger_scope_observer *scope_observer; /* NULL: none */
    void *scope_context;

    struct ledger_counts counts;
    uint64_t batch_epoch; /* of malloc's heap before the last batch */
    struct weight weights[WEIGHTS_CACHED];
    struct cached_figures *figures_cache;
    size_t figures_cached; /* its number of places, a power of two */
};

/* The slow path of the next function. */
void ledger_close_figures(struct ledger_figures *figures, const struct ledger_heap *heap);

/* Apply the ratios of the period of the figures' last change, if it is over. */
static inline void ledger_settle_figures(struct ledger_figures *figures,
                                         const struct ledger_heap *heap)
{
    if (unlikely(figures->period != heap->calibration.closed))
        ledger_close_figures(figures, heap);
}

static inline void ledger_note_peak(struct ledger_figures *figures, uint64_t epoch)
{
    const struct trace_figures *sums = &figures->sums;
    figures->missed_peak_bytes = figures->missed_live_bytes;
    figures->open_peak.bytes = figures->open.allocated.bytes - figures->open.freed.bytes;
    figures->open_peak.count = figures->open.allocated.count - figures->open.freed.count;
    figures->epoch = epoch;
    figures->peak.bytes = sums->allocated_bytes - sums->freed_bytes;
    figures->peak.count = sums->allocated_count - sums->freed_count;
    figures->peak.bytes_variance = sums->allocated_bytes_variance - sums->freed_bytes_variance;
    figures->peak.count_variance = sums->allocated_count_variance - sums->freed_count_variance;
    figures->peak.samples = (double)(sums->samples - sums->freed_samples);
}

/* Store the figures' values at the last peak, if the heap has left it. Call this before a change by
 * which the heap's live bytes grow by so many, or shrink (less than 0). While each change makes a
 * new peak, as in a program that starts, nothing has to be stored. */
static inline void ledger_keep_peak(struct ledger_figures *figures, struct ledger_heap *heap,
                                    double grown_bytes)
{
    if (heap->at_peak) {
        if (heap->live_bytes + grown_bytes > heap->peak_bytes)
            return;
        heap->at_peak = false;
        heap->epoch++;
    }
    if (figures->epoch != heap->epoch)
        ledger_note_peak(figures, heap->epoch);
}

static inline void ledger_notify(struct ledger *ledger, enum ledger_change_kind kind, uint8_t heap,
                                 uint64_t address, uint64_t size, double count, uint64_t time_ms)
{
    if (likely(ledger->observer == NULL))
        return;
    struct ledger_change change = {.kind = kind,
                                   .heap = heap,
                                   .sequence = ++ledger->sequence,
                                   .address = address,
                                   .size = size,
                                   .count = count,
                                   .time_ms = time_ms};
    ledger->observer(ledger->observer_context, &change);
}

/* The slow paths of the next two functions. */
const struct weight *ledger_weigh(struct ledger *ledger, uint64_t size, uint16_t interval);
struct ledger_slot *ledger_add_slot(struct ledger *ledger, uint16_t slot);

/* Return what a sample of this size stands for at the interval with this index; valid until the
 * next call. */
static inline const struct weight *ledger_weight(struct ledger *ledger, uint64_t size,
                                                 uint16_t interval)
{
    static const struct weight itself = {.count = 1, .half_count = 1};
    return ledger->intervals[interval] <= 1 ? &itself : ledger_weigh(ledger, size, interval);
}

/* Return a slot, and make all slots up to it. NULL: no memory. */
static inline struct ledger_slot *ledger_slot_at(struct ledger *ledger, uint16_t slot)
{
    return likely(slot < ledger->slot_count) ? &ledger->slots[slot] : ledger_add_slot(ledger, slot);
}

/* Functions of ledger_visitor. */
int ledger_take_events(void *ledger, const struct heap_event *events, size_t count);
int ledger_take_unmap(void *ledger, uint8_t heap, uint16_t slot, const struct record_unmap *unmap,
                      uint64_t time_ms);
int ledger_take_walk(void *ledger, uint16_t slot, const struct record_walk *walk,
                     enum ring_unwinding *answer);
uint64_t ledger_walked(void *ledger, uint16_t slot, uint64_t token);

/* Free the state of ledger_walks.c. */
void ledger_walks_close(struct ledger *ledger);

/* Add a range's ALLOC to the live ranges, and free what it replaces. Return 0, -ENOMEM or
 * -EBADMSG. */
int ledger_range_add(struct ledger *ledger, const struct heap_event *event, uint32_t figures);

#endif
