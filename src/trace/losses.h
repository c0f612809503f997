/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses of a heap: everything that can be missing from its profile, and why it ended early.
 *
 * One table has the names and words of all of them, and what each means for the figures. Reports,
 * JSON, pprof comments, SQL and budgets read it, so none of them can leave one out. Values stand in
 * the head of a dump (heap_dump.h). Other reasons for a partial profile come from the dump itself:
 * see profile/partial.h.
 */
#ifndef HEAPPROFD_TRACE_LOSSES_H
#define HEAPPROFD_TRACE_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places in the trace's field `lost`: numbers never change. The rest of the table follows. */
enum trace_loss_id {
    TRACE_LOST_OVERRUN = 0,        /* samples after the ring overran */
    TRACE_LOST_REENTRANT = 1,      /* ring full while the same thread was inside it */
    TRACE_LOST_NO_SCRATCH = 2,     /* stacks: all buffers in use */
    TRACE_LOST_NO_THREAD_SLOT = 3, /* calls of threads beyond the limit */
    TRACE_LOST_LIVE_SET = 4,       /* frees: the live set could not grow */
    TRACE_LOST_UNWIND = 5,         /* stacks that ended in an error; the sample is kept */
    TRACE_LOST_ABANDONED = 6,      /* records that their writer left by a jump, or that came late */
    TRACE_LOST_FREE = 7,           /* frees while the same thread was inside the full ring */
    /* Calls, and their bytes, that are in the exact totals and whose sample did not arrive, for any
     * reason. */
    TRACE_LOST_ALLOCATIONS = 8,
    TRACE_LOST_ALLOCATED_BYTES = 9,

    TRACE_LOST_RING_BYTES, /* reserved, never committed, at the process's death */
    TRACE_LOST_LAST = TRACE_LOST_RING_BYTES,
    TRACE_LOSS_BLOCKED_US, /* nothing is lost: threads waited */

    /* Flags. */
    TRACE_LOSS_BUFFER_OVERRAN,
    TRACE_LOSS_FIRST_FLAG = TRACE_LOSS_BUFFER_OVERRAN,
    TRACE_LOSS_BUFFER_CORRUPTED,
    TRACE_LOSS_DISCONNECTED, /* nothing is lost: the process ended */
    TRACE_LOSS_REJECTED_CONCURRENT,
    TRACE_LOSS_HIT_GUARDRAIL,
    /* By the code of client_error. */
    TRACE_LOSS_CLIENT_TIMED_OUT,
    TRACE_LOSS_CLIENT_STACK_BOUNDS,
    TRACE_LOSS_CLIENT_OTHER,
    TRACE_LOSS_IDS,
};

#define TRACE_LOST_PLACES 16u /* in the field `lost` */

/* Values of client_error (ProcessHeapSamples.ClientError). */
#define TRACE_CLIENT_TIMED_OUT 1u /* waited too long for room in the ring */
#define TRACE_CLIENT_STACK_BOUNDS 2u

enum trace_loss_unit {
    TRACE_LOSS_FLAG,
    TRACE_LOSS_CLIENT_ERROR, /* a flag, by its code */
    TRACE_LOSS_COUNT,
    TRACE_LOSS_BYTES,
    TRACE_LOSS_MICROSECONDS,
};

/* What a loss means for figures. */
#define TRACE_LOSES_SAMPLES 1u /* estimates leave out allocations: the profile is partial */
#define TRACE_LOSES_TOTALS 2u  /* and so do the exact totals */

struct trace_loss {
    const char *name;   /* key in JSON */
    const char *stat;   /* row of SQL's `stats`; NULL: none */
    const char *label;  /* begins its line in reports: "lost"; NULL: reports do not show it */
    const char *words;  /* follow the amount; of flags, a sentence */
    const char *remedy; /* NULL: none */
    enum trace_loss_unit unit;
    unsigned effects;
    size_t offset; /* in struct trace_heap_dump */
};

extern const struct trace_loss trace_losses[TRACE_LOSS_IDS];

struct trace_heap_dump;

/* Return the amount; 0 or 1 of a flag. */
uint64_t trace_loss_amount(const struct trace_heap_dump *status, enum trace_loss_id id);

static inline bool trace_loss_is_flag(enum trace_loss_id id)
{
    return trace_losses[id].unit == TRACE_LOSS_FLAG ||
           trace_losses[id].unit == TRACE_LOSS_CLIENT_ERROR;
}

/* Return what follows an amount of this unit: "", " bytes" or " us". */
const char *trace_loss_unit_name(enum trace_loss_unit unit);

/* Return the first loss from `first` on that has these effects and did happen; TRACE_LOSS_IDS:
 * none. */
enum trace_loss_id trace_loss_find(const struct trace_heap_dump *status, enum trace_loss_id first,
                                   unsigned effects);

#endif
