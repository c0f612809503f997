/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that are live at a dump, with the times at which they were allocated. */
#ifndef HEAPPROFD_RECORDER_DUMP_DUMP_TIMES_H
#define HEAPPROFD_RECORDER_DUMP_DUMP_TIMES_H

#include "recorder/ledger/ledger.h"
#include "trace/live_times.h"

struct dump_times {
    uint64_t slice_ms;
    struct dump_time {
        uint64_t size, time_ms;
        uint32_t next; /* index + 1 of the next one of the same figures; 0: last */
    } * items;
    size_t count, capacity;
    uint32_t *first;                /* by figures: index + 1; 0: none. NULL: nothing was taken */
    double parts[LEDGER_HEAPS_MAX]; /* the part of the heap that was visited */
    bool failed;                    /* no memory */
};

/* Take the times of the live samples of all heaps, now_ms after the ledger's beginning. Of a heap
 * with very many, a random part is taken. What the samples stand for is found out later, when
 * pauses are possible. Without memory nothing is taken: a dump without ages is better than none. */
void dump_times_take(struct dump_times *times, const struct ledger *ledger, uint64_t now_ms);
void dump_times_clear(struct dump_times *times);

/* Return where the list of these figures begins; 0: nothing was taken of them. */
static inline uint32_t dump_times_first(const struct dump_times *times, uint32_t figures)
{
    return times->first != NULL ? times->first[figures] : 0;
}

/* Add some of those of these figures of the ledger's snapshot. Begin with a sum of zeros and with
 * *next = dump_times_first(), and go on until *next is 0. Return the number of those added. */
unsigned dump_times_add(const struct dump_times *times, struct ledger *ledger,
                        const struct ledger_snapshot *snapshot, uint32_t figures, uint8_t heap,
                        uint32_t *next, struct trace_live_times *sum);

#endif
