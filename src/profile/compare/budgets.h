/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets: limits on a profile's figures, suppressions that exclude callstacks from them, and the
 * verdict on each limit.
 *
 * A limit on an estimate holds if the whole 95 % interval is within it, fails if the whole interval
 * is beyond it, and is undecidable otherwise; a smaller sampling interval would decide it. Exact
 * figures (all figures at interval 1, the totals of bytes and calls at any interval) have no
 * confidence interval. If nothing was sampled, up to 3 sampling intervals of bytes may still have
 * been allocated (profile_floor_bytes). If samples were lost, a limit can fail but never certainly
 * hold. Budgets are undecidable for a process whose allocator was not hooked and, in a separate
 * result, for processes that ran and were not profiled. Growth beyond a baseline with such
 * processes is undecidable, too.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_BUDGETS_H
#define HEAPPROFD_PROFILE_COMPARE_BUDGETS_H

#include "profile/profile.h"
#include "profile/rollup.h"
#include "profile/view.h"
#include "util/error.h"

enum budget_kind {
    BUDGET_PEAK,        /* max-peak: live bytes at the heap's peak */
    BUDGET_LIVE,        /* max-live: live bytes at the end */
    BUDGET_ALLOCATED,   /* max-allocated: bytes ever allocated, exact */
    BUDGET_ALLOCATIONS, /* max-allocations: calls, exact */
    BUDGET_TEMPORARY,   /* max-temporary: share of allocations freed before their thread's next */
    BUDGET_LEAK,        /* max-leak PATTERN=SIZE: bytes live at the end in matching stacks */
    /* Beyond the baseline's, of all processes together, or with PATTERN=LIMIT of matching stacks,
     * or of heaps ("heap:"): */
    BUDGET_GROWTH,             /* max-growth: bytes live at the end */
    BUDGET_PEAK_GROWTH,        /* max-peak-growth: peaks, added up */
    BUDGET_ALLOCATED_GROWTH,   /* max-allocated-growth: bytes ever allocated, exact but of stacks */
    BUDGET_ALLOCATIONS_GROWTH, /* max-allocations-growth: calls, exact but of stacks */
    BUDGET_KINDS,
};

static inline bool budget_is_growth(enum budget_kind kind)
{
    return kind >= BUDGET_GROWTH;
}

/* Return whether the limit is in calls, not in bytes. */
static inline bool budget_counts_calls(enum budget_kind kind)
{
    return kind == BUDGET_ALLOCATIONS || kind == BUDGET_ALLOCATIONS_GROWTH;
}

extern const char *const budget_names[BUDGET_KINDS]; /* "max-peak" */

struct budget {
    enum budget_kind kind;
    char *pattern; /* of BUDGET_LEAK, or of a growth: NULL if it is of all */
    double limit;  /* bytes, calls, or a share of 1 */
    bool share;    /* the limit is a share of the baseline's bytes, or of all allocations */
    char *text;    /* as the user wrote it: "64k" */
    unsigned line; /* in the budget file; 0: from an option */
};

/* A suppression excludes blocks live at the end from max-live, max-leak and max-growth, if their
 * stack contains a function or module that matches the pattern. */
struct budget_suppression {
    char *pattern, *reason;
    unsigned line;
    double bytes, count; /* sums of the excluded blocks; 0: it matched nothing */
};

struct budgets {
    struct budget *items;
    size_t count, capacity;
    struct budget_suppression *suppressions;
    size_t suppression_count, suppression_capacity;
    char *baseline; /* a trace or a baseline file; NULL: none */
};

/* Add a budget, for example "max-live", "64k". Return 0, or a negative errno with *error set. */
int budgets_add(struct budgets *budgets, const char *name, const char *value, unsigned line,
                struct error *error);
/* Add a suppression "leak:PATTERN", with its reason after a '#'. */
int budgets_suppress(struct budgets *budgets, const char *text, unsigned line, struct error *error);
/* Read a file of lines "name = value", "suppress: leak:PATTERN # reason" and "# comment". */
int budgets_read(struct budgets *budgets, const char *path, struct error *error);
/* Read such a file as it is, with a zero byte behind it; malloc'd. */
int budgets_read_file(const char *path, char **text, size_t *length, struct error *error);
/* Like budgets_read(), from a buffer. */
int budgets_read_text(struct budgets *budgets, const char *text, size_t length,
                      struct error *error);
void budgets_clear(struct budgets *budgets);

/* --- verdicts --- */

enum budget_state { BUDGET_HOLDS, BUDGET_FAILS, BUDGET_UNDECIDABLE };

#define BUDGET_CULPRITS 3

struct budget_result {
    const struct budget *budget;
    const struct profile_heap *heap; /* NULL: all heaps (growth), or unprofiled processes */
    const struct profile_dump *dump;
    /* For processes that ran and were not profiled: the first entry, and the number of
     * processes. */
    const struct profile_unprofiled *unprofiled; /* NULL: the result is about a heap */
    size_t unprofiled_count;
    enum budget_state state;
    double value, low, high; /* in the unit of the limit */
    double limit;            /* for a share of the baseline: in bytes or calls */
    double before, after;    /* of a growth: what both runs had, unless it is unknown */
    bool exact;
    bool unknown;                     /* undecidable, because value, low and high are unknown */
    uint64_t deciding_interval_bytes; /* undecidable: a sampling interval that would decide; 0: no
                                         interval would */
    const char *reason;               /* why it is undecidable; "" */
    /* The stacks that hold most of it, one of each row, with the bytes of the row; the
     * heaviest first; PROFILE_NONE ends the list. Of a growth the rows that grew most
     * (growth_rows.h), with what they gained: bytes or calls. */
    uint32_t culprits[BUDGET_CULPRITS];
    double culprit_bytes[BUDGET_CULPRITS];
    bool culprit_at_most[BUDGET_CULPRITS]; /* the baseline file lacks the row: it may have had some
                                            */
};

struct budget_report {
    struct budget_result *results;
    size_t count, capacity;
};

struct budget_subject {
    const struct profile *profile;
    const struct folding *folding; /* NULL: culprits have their library frames */
    const struct export_dump *dumps;
    size_t dump_count;
    bool only_profiled; /* ignore processes that ran and were not profiled */
    bool is_baseline;   /* its dumps are the baseline's own: nothing has grown */
    const char *heap;   /* the name of the only heap that is judged (--heap); NULL: all are */
    /* A baseline may be a file of figures; it has no profile and no dumps then. NULL: a profile. */
    const struct baseline_file *saved;
};

/* Return whether an entry of profile.unprofiled counts: not if the user named the processes to
 * profile, nor if the program could load the library and never allocated. */
bool budget_counts_unprofiled(const struct budget_subject *subject, size_t index);

/* Judge all budgets, and add up what suppressions exclude. `baseline` NULL: growth is not judged.
 * Return 0 or -ENOMEM. */
int budgets_check(struct budgets *budgets, const struct budget_subject *subject,
                  const struct budget_subject *baseline, struct budget_report *report);
void budget_report_clear(struct budget_report *report);

#endif
