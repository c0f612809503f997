/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profile may cost: limits, what was said to be left out of them, and whether they hold.
 *
 * A limit on an estimate holds if the whole 95 % interval is within it, fails if the whole interval
 * is beyond it, and is undecidable else; a smaller sampling interval would tell. Exact figures
 * (at interval 1, and the totals of bytes and calls at any) have no interval. Where nothing was
 * sampled, up to 3 intervals of bytes may be all the same (profile_floor_bytes). Where samples were
 * lost, a limit cannot hold for sure. Budgets are undecidable for a process whose allocator was not
 * hooked and, in a separate result, for processes that ran and were not profiled.
 */
#ifndef HEAPPROFD_COMPARE_BUDGETS_H
#define HEAPPROFD_COMPARE_BUDGETS_H

#include "export/view.h"
#include "profile/profile.h"
#include "profile/rollup.h"
#include "util/error.h"

enum budget_kind {
    BUDGET_PEAK,        /* max-peak: bytes live when the heap was largest */
    BUDGET_LIVE,        /* max-live: bytes live at the end */
    BUDGET_ALLOCATED,   /* max-allocated: bytes ever allocated, exact */
    BUDGET_ALLOCATIONS, /* max-allocations: calls, exact */
    BUDGET_TEMPORARY,   /* max-temporary: share of allocations freed before their thread's next */
    BUDGET_LEAK,        /* max-leak PATTERN=SIZE: bytes live at the end in stacks with it */
    BUDGET_GROWTH,      /* max-growth: bytes live at the end beyond the baseline's */
    BUDGET_KINDS,
};

extern const char *const budget_names[BUDGET_KINDS]; /* "max-peak" */

struct budget {
    enum budget_kind kind;
    char *pattern; /* of a leak; else NULL */
    double limit;  /* bytes, calls, or a share of 1 */
    bool share;    /* of the baseline's, or of all allocations */
    char *text;    /* as it was written: "64k" */
    unsigned line; /* in the file; 0: an option */
};

/* Blocks live at the end whose stack has a function or module like this are left out of max-live,
 * max-leak and max-growth. */
struct budget_suppression {
    char *pattern, *reason;
    unsigned line;
    double bytes, count; /* what it left out; 0: it was of no use */
};

struct budgets {
    struct budget *items;
    size_t count, capacity;
    struct budget_suppression *suppressions;
    size_t suppression_count, suppression_capacity;
    char *baseline; /* a trace; NULL: none */
};

/* "max-live", "64k". 0 or a negative errno with a message. */
int budgets_add(struct budgets *budgets, const char *name, const char *value, unsigned line,
                struct error *error);
/* "leak:PATTERN", with its reason behind a '#'. */
int budgets_suppress(struct budgets *budgets, const char *text, unsigned line, struct error *error);
/* Reads a file of lines "name = value", "suppress: leak:PATTERN  # reason" and "# comment". */
int budgets_read(struct budgets *budgets, const char *path, struct error *error);
/* The same of such a file in memory. */
int budgets_read_text(struct budgets *budgets, const char *text, size_t length,
                      struct error *error);
void budgets_clear(struct budgets *budgets);

/* --- whether they hold --- */

enum budget_state { BUDGET_HOLDS, BUDGET_FAILS, BUDGET_UNDECIDABLE };

#define BUDGET_CULPRITS 3

struct budget_result {
    const struct budget *budget;
    const struct profile_heap *heap; /* NULL: all heaps (growth), or unprofiled processes */
    const struct profile_dump *dump;
    /* Processes that ran and were not profiled: the first entry, and the number of entries. */
    const struct profile_unprofiled *unprofiled; /* NULL: the result is about a heap */
    size_t unprofiled_count;
    enum budget_state state;
    double value, low, high; /* in units of the limit */
    double limit;            /* of a share of the baseline: in bytes */
    bool exact;
    bool unknown;                     /* undecidable: value, low and high mean nothing */
    uint64_t deciding_interval_bytes; /* undecidable: an interval that would tell; 0: none would */
    const char *reason;               /* why it cannot be told; "" */
    /* Callsites that have most of it, the heaviest first; PROFILE_NONE ends them. */
    uint32_t culprits[BUDGET_CULPRITS];
    double culprit_bytes[BUDGET_CULPRITS];
};

struct budget_report {
    struct budget_result *results;
    size_t count, capacity;
};

struct budget_subject {
    const struct profile *profile;
    const struct export_dump *dumps;
    size_t dump_count;
    bool only_profiled; /* processes that ran and were not profiled do not count */
};

/* baseline may be NULL where no budget needs it. Counts what suppressions leave out. 0 or -ENOMEM.
 */
int budgets_check(struct budgets *budgets, const struct budget_subject *subject,
                  const struct budget_subject *baseline, struct budget_report *report);
void budget_report_clear(struct budget_report *report);

/* Whether a frame of the stack is like the pattern: a function's name, whole or without its
 * parameters, or with "module:" before it the base name of a file; with * ? [ as shells have them.
 * All frames of the stack are looked at. */
bool budget_pattern_matches(const struct profile *profile, uint32_t callsite, const char *pattern);

#endif
