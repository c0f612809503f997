/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses of a heap: everything that can be missing from its profile, and why it ended early.
 *
 * One table has the names and texts of all losses and their effect on the figures. Reports, JSON,
 * pprof comments, SQL and budgets read it, so none of them can omit one. The amounts are in the
 * head of a dump (heap_dump.h). Other reasons for a partial profile come from the dump itself: see
 * profile/partial.h.
 */
#ifndef HEAPPROFD_TRACE_LOSSES_H
#define HEAPPROFD_TRACE_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Indexes in the trace's field `lost`: the numbers never change. The losses after
 * TRACE_LOST_MODULES have fields of their own. */
enum trace_loss_id {
    TRACE_LOST_OVERRUN = 0,        /* samples after the ring overran */
    TRACE_LOST_REENTRANT = 1,      /* ring full while the same thread was inside it */
    TRACE_LOST_NO_SCRATCH = 2,     /* stacks: all buffers in use */
    TRACE_LOST_NO_THREAD_SLOT = 3, /* calls of threads beyond the limit */
    TRACE_LOST_LIVE_SET = 4,       /* frees: the live set could not grow */
    TRACE_LOST_UNWIND = 5,         /* stacks that ended in an error; their samples are kept */
    TRACE_LOST_ABANDONED = 6, /* records that their writer left by longjmp, or that came late */
    TRACE_LOST_FREE = 7,      /* frees while the same thread was inside the full ring */
    /* Calls, and their bytes, that are in the exact totals but whose samples did not arrive, for
     * any reason. */
    TRACE_LOST_ALLOCATIONS = 8,
    TRACE_LOST_ALLOCATED_BYTES = 9,
    TRACE_LOST_SCOPES = 10, /* begins and ends of scopes, which become slices */
    /* Stacks through an interpreter without its language's frames: the thread's state was in
     * doubt, or the interpreter's version or build is unknown. */
    TRACE_LOST_INTERPRETER_STATE = 11,
    TRACE_LOST_INTERPRETER_UNKNOWN = 12,
    TRACE_LOST_MODULES = 13, /* frames of stacks, in libraries beyond the limit */

    TRACE_LOST_RING_BYTES, /* reserved in the ring but never committed when the process ended */
    TRACE_LOST_LAST = TRACE_LOST_RING_BYTES,
    /* Not losses: time that threads waited, and samples whose type, or context, is not told apart
     * from others beyond the limit. The last two are of the heap, all others of its process. */
    TRACE_LOSS_BLOCKED_US,
    TRACE_LOSS_OTHER_TYPES,
    TRACE_LOSS_OTHER_CONTEXTS,

    /* Flags. */
    TRACE_LOSS_BUFFER_OVERRAN,
    TRACE_LOSS_FIRST_FLAG = TRACE_LOSS_BUFFER_OVERRAN,
    TRACE_LOSS_BUFFER_CORRUPTED,
    TRACE_LOSS_DISCONNECTED, /* not a loss: the process ended */
    TRACE_LOSS_REJECTED_CONCURRENT,
    TRACE_LOSS_HIT_GUARDRAIL,
    /* From the value of client_error. */
    TRACE_LOSS_CLIENT_TIMED_OUT,
    TRACE_LOSS_CLIENT_STACK_BOUNDS,
    TRACE_LOSS_CLIENT_PROFILER_SILENT,
    TRACE_LOSS_CLIENT_OTHER,
    TRACE_LOSS_IDS,
};

#define TRACE_LOST_PLACES 16u /* entries of the field `lost` */

/* Values of client_error (ProcessHeapSamples.ClientError). */
#define TRACE_CLIENT_TIMED_OUT 1u /* it waited too long for room in the ring */
#define TRACE_CLIENT_STACK_BOUNDS 2u
#define TRACE_CLIENT_OTHER 3u              /* or another one */
#define TRACE_CLIENT_PROFILER_SILENT 5000u /* ours: the profiler gave no sign of life for 5 s */

enum trace_loss_unit {
    TRACE_LOSS_FLAG,
    TRACE_LOSS_CLIENT_ERROR, /* a flag, from the value of client_error */
    TRACE_LOSS_COUNT,
    TRACE_LOSS_BYTES,
    TRACE_LOSS_MICROSECONDS,
};

/* The effect of a loss on the figures. */
#define TRACE_LOSES_SAMPLES 1u /* estimates miss allocations: the profile is partial */
#define TRACE_LOSES_TOTALS 2u  /* the exact totals miss them, too */
#define TRACE_LOSES_FREES 4u   /* live memory may include what was freed */

struct trace_loss {
    const char *name;   /* key in JSON */
    const char *stat;   /* row of SQL's `stats`; NULL: none */
    const char *label;  /* starts its line in reports: "lost"; NULL: not in reports */
    const char *words;  /* text after the amount; for flags, a sentence */
    const char *remedy; /* NULL: none */
    enum trace_loss_unit unit;
    unsigned effects;
    size_t offset; /* in struct trace_heap_dump */
};

extern const struct trace_loss trace_losses[TRACE_LOSS_IDS];

struct trace_heap_dump;
struct json_writer;

/* Return the amount of a loss; for a flag, 0 or 1. */
uint64_t trace_loss_amount(const struct trace_heap_dump *status, enum trace_loss_id id);

static inline bool trace_loss_is_flag(enum trace_loss_id id)
{
    return trace_losses[id].unit == TRACE_LOSS_FLAG ||
           trace_losses[id].unit == TRACE_LOSS_CLIENT_ERROR;
}

/* Write the losses that reports name and that are not 0, as the array "losses". */
void trace_losses_write_json(const struct trace_heap_dump *status, struct json_writer *json);

/* Return the suffix of an amount of this unit: "", " bytes" or " us". */
const char *trace_loss_unit_name(enum trace_loss_unit unit);

/* Parse a line in the form of pprof_comments(), "label: [amount unit] words", and set the amount of
 * its loss. Return whether the line is one. */
bool trace_loss_take_text(struct trace_heap_dump *status, const char *text);

/* Return the loss with this name, or TRACE_LOSS_IDS. */
enum trace_loss_id trace_loss_named(const char *name);

/* Set the amount of the loss with this name. Return whether there is one. */
bool trace_loss_take_name(struct trace_heap_dump *status, const char *name, uint64_t amount);

/* Return the first loss from `first` on that has these effects and an amount above 0, or
 * TRACE_LOSS_IDS. */
enum trace_loss_id trace_loss_find(const struct trace_heap_dump *status, enum trace_loss_id first,
                                   unsigned effects);

#endif
