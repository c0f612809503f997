/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's live ranges: memory that a program maps itself, and unmaps in any pieces. A piece
 * that is cut out of an allocation subtracts its bytes from that allocation's figures. The last
 * piece subtracts the count, and ends the lifetime.
 */
#include "recorder/ledger/ledger_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* The thread that unmaps, and the time. */
struct unmapping {
    struct ledger *ledger;
    uint32_t thread, ordinal;
    uint64_t time_ms;
};

static void take_piece(void *context, const struct range_allocation *allocation, uint64_t bytes)
{
    const struct unmapping *by = context;
    struct ledger *ledger = by->ledger;
    struct ledger_figures *figures = figures_table_change(&ledger->figures, allocation->figures);
    struct ledger_heap *heap = &ledger->heaps[figures->heap];
    struct trace_figures *sums = &figures->sums;
    ledger_keep_peak(figures, heap, -(double)bytes);
    sums->freed_bytes += (double)bytes;
    heap->live_bytes -= (double)bytes;
    if (allocation->pieces > 0)
        return;
    sums->freed_count++;
    sums->freed_samples++;
    heap->live_count--;
    ledger->counts.frees++;
    /* Two threads may have read their clocks in the opposite order of their records. */
    if (by->time_ms > allocation->time_ms)
        sums->lifetime_ms_sum += (double)(by->time_ms - allocation->time_ms);
    if (bytes == allocation->size && by->ordinal == allocation->ordinal &&
        by->thread == figures->thread && by->thread != LEDGER_THREAD_OTHERS) {
        sums->temporary_bytes += (double)bytes;
        sums->temporary_count++;
    }
    ledger_notify(ledger, LEDGER_FREED, figures->heap, allocation->address, allocation->size, 1,
                  by->time_ms);
}

static uint32_t thread_of(const struct ledger *ledger, uint16_t slot)
{
    return slot < ledger->slot_count ? ledger->slots[slot].thread : LEDGER_THREAD_OTHERS;
}

/* Make the ranges of a heap. NULL: no memory. */
static struct ranges *begin_ranges(struct ledger *ledger, uint8_t heap)
{
    struct ranges *ranges = malloc(sizeof(*ranges));
    if (ranges == NULL)
        return NULL;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
        seed = (uintptr_t)ranges;
    ranges_init(ranges, seed);
    ledger->ranges[heap] = ranges;
    if (heap >= ledger->heap_count)
        ledger->heap_count = (size_t)heap + 1;
    return ranges;
}

int ledger_range_add(struct ledger *ledger, const struct heap_event *event, uint32_t figures)
{
    /* A client that reports ranges reports all of them: the interval is 1. */
    if (event->heap == 0 || event->size == 0 || event->size > UINT64_MAX - event->address ||
        ledger->intervals[ledger->figures.items[figures].interval] != 1)
        return -EBADMSG;
    struct ranges *ranges = ledger->ranges[event->heap];
    if (ranges == NULL && (ranges = begin_ranges(ledger, event->heap)) == NULL)
        return -ENOMEM;
    const struct range_allocation allocation = {.address = event->address,
                                                .size = event->size,
                                                .position = event->position,
                                                .figures = figures,
                                                .time_ms = event->time_ms,
                                                .ordinal = event->ordinal};
    /* A range that another one replaces does not count as temporary. */
    struct unmapping by = {
        .ledger = ledger, .thread = LEDGER_THREAD_OTHERS, .time_ms = event->time_ms};
    return ranges_add(ranges, &allocation, take_piece, &by);
}

int ledger_take_unmap(void *context, uint8_t heap, uint16_t slot, const struct record_unmap *unmap,
                      uint64_t time_ms)
{
    struct ledger *ledger = context;
    struct ranges *ranges = ledger->ranges[heap];
    if (ranges == NULL)
        return 0;
    if (unmap->length > UINT64_MAX - unmap->address)
        return -EBADMSG;
    struct unmapping by = {.ledger = ledger,
                           .thread = thread_of(ledger, slot),
                           .time_ms = time_ms,
                           .ordinal = unmap->ordinal};
    return ranges_cut(ranges, unmap->address, unmap->address + unmap->length, unmap->before,
                      take_piece, &by);
}
