/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over a dump: by function, mapping or thread, each callsite's own figures
 * (self) and those with everything that it called (cumulative), and the tree
 * of callsites from the outermost frame down. Estimates add up, and so do the
 * variances of independent samples, so every sum has its own margin.
 */
#ifndef HEAPPROFD_PROFILE_ROLLUP_H
#define HEAPPROFD_PROFILE_ROLLUP_H

#include "profile/callsite_nodes.h"
#include "profile/confidence_interval.h"

struct rollup_values {
    struct trace_figures figures;
    struct trace_peak_figures peak;
};

/* Live bytes and count with their variances: what was allocated less what was freed. Below 0 in a
 * difference of two profiles, and where frees are known whose allocations are not; less than half a
 * byte or allocation is rounding. */
static inline double rollup_live(double allocated, double freed)
{
    double live = allocated - freed;
    return live > 0 || live <= -0.5 ? live : 0;
}

static inline double rollup_live_bytes(const struct trace_figures *figures)
{
    return rollup_live(figures->allocated_bytes, figures->freed_bytes);
}

static inline double rollup_live_count(const struct trace_figures *figures)
{
    return rollup_live(figures->allocated_count, figures->freed_count);
}

/* Return the variance of the live bytes or count. A freed sample takes the variance of its
 * allocation with it. */
double rollup_live_bytes_variance(const struct trace_figures *figures);
double rollup_live_count_variance(const struct trace_figures *figures);
/* Return all of these as one estimate. */
struct profile_estimate rollup_live_of(const struct trace_figures *figures);
static inline struct profile_estimate rollup_allocated_of(const struct trace_figures *figures)
{
    return (struct profile_estimate){
        .bytes = figures->allocated_bytes,
        .count = figures->allocated_count,
        .bytes_variance = figures->allocated_bytes_variance,
        .count_variance = figures->allocated_count_variance,
        .samples = (double)figures->samples,
    };
}

/* Return what the dump's samples were calibrated with. */
struct profile_calibration rollup_calibration_of(const struct profile_heap *heap,
                                                 const struct profile_dump *dump);

/* Return the upper limit of all figures of the dump, in bytes or calls: the heap's exact total. 0:
 * unknown. */
double rollup_most(const struct profile_heap *heap, const struct profile_dump *dump, bool counts);

/* Return whether all calls of the dump's time were counted. */
bool rollup_totals_are_exact(const struct profile_heap *heap, const struct profile_dump *dump);

static inline void rollup_values_add(struct rollup_values *sum, const struct rollup_values *more)
{
    trace_figures_add(&sum->figures, &more->figures);
    trace_peak_figures_add(&sum->peak, &more->peak);
}

static inline struct rollup_values rollup_values_of(const struct profile_sample *sample)
{
    return (struct rollup_values){sample->figures, sample->peak};
}

/* Return the sum over a dump, including what a filter left out. */
struct rollup_values rollup_total_of(const struct profile_dump *dump);

/* Set the dump's peak_bytes_bias and peak_count_bias by its samples. */
void rollup_find_peak_bias(struct profile_dump *dump);

/* Return the size of a heap: the most bytes that it is known to have held, and the total bytes
 * allocated in it. */
struct rollup_size {
    double held, allocated;
};
struct rollup_size rollup_size_of(const struct profile_dump *dump);
/* Compare for qsort, the larger one first. */
int rollup_size_compare(const struct rollup_size *left, const struct rollup_size *right);

enum rollup_key {
    ROLLUP_FUNCTION, /* same name in the same mapping path; nameless: same pc */
    ROLLUP_MAPPING,  /* same path */
    ROLLUP_THREAD,   /* self only; figures only, no peak */
};

struct rollup_row {
    uint32_t frame; /* any frame of the row; PROFILE_NONE by thread */
    int32_t tid;    /* by thread; else 0 */
    /* A recursive function counts once for each stack. */
    struct rollup_values self, cumulative;
};

struct rollup {
    struct rollup_row *rows; /* in no order */
    size_t row_count;
};

/* Tables that the rollups of one profile share, so that the cost of each depends only on the stacks
 * of its own dump. They are made when first needed; begin with zeros except `profile`. */
struct rollup_tables {
    const struct profile *profile;
    struct callsite_nodes nodes;
    struct rollup_rows {
        uint32_t *of_frames; /* row of each frame; NULL: not made yet */
        uint32_t *places;    /* by row: its index in the rollup that is being made; else 0 */
        size_t count;
    } rows[2]; /* by function, by mapping */
};
void rollup_tables_clear(struct rollup_tables *tables);

/* Return the number of the function of each frame, below *count; it lives as long as the tables.
 * NULL: no memory. */
const uint32_t *rollup_functions(struct rollup_tables *tables, size_t *count);

/* Return a rollup, or NULL without memory. By thread, `tables` may be NULL. */
struct rollup *rollup_new(struct rollup_tables *tables, const struct profile_dump *dump,
                          enum rollup_key key);
void rollup_free(struct rollup *rollup);

/* The tree of the callsites on the dump's stacks, top down. A parent comes before its children.
 * by_function: all calls of a function (as in ROLLUP_FUNCTION) from one caller are one node, which
 * has the callsite of the first. */
struct rollup_tree {
    struct rollup_node {
        uint32_t callsite;
        uint32_t parent, first_child, next_sibling; /* nodes; PROFILE_NONE: none */
        struct rollup_values cumulative;
    } * nodes;
    size_t count;
    uint32_t first_root;
};

struct rollup_tree *rollup_tree_new(struct rollup_tables *tables, const struct profile_dump *dump,
                                    bool by_function);
void rollup_tree_free(struct rollup_tree *tree);

#endif
