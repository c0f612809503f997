/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The breakdown: a path narrows all sites step by step, into a frame, a type, a thread and so on,
 * and the sites that are left can be broken down by any of these. Steps into frames follow the
 * stack; steps of other kinds filter the sites, in any order.
 *
 * Three modes follow the stacks differently:
 *   tree       from the outermost frame inwards: rows add up to their path
 *   heavy      the same from any frame: a path is any part of a stack. A stack that contains it
 *              several times counts once
 *   bottom-up  from the function that allocates outwards: the first rows are functions with their
 *              own allocations; the rows inside a path are its callers
 * In the tree and the heavy mode every stack ends with a frame <self>: its caller's own
 * allocations. In the bottom-up mode rows add up to their path, less the stacks that end there.
 *
 * A row of a module counts allocations whose innermost frame is in the module; in the heavy mode,
 * allocations with any frame in it.
 *
 * Entering a step scans the sites of the path; leaving one scans nothing.
 */
#ifndef HEAPPROFD_TOOLS_EXPLORE_BREAKDOWN_H
#define HEAPPROFD_TOOLS_EXPLORE_BREAKDOWN_H

#include "tools/explore/sites.h"

enum breakdown_mode {
    BREAKDOWN_TREE,
    BREAKDOWN_HEAVY,
    BREAKDOWN_BOTTOM_UP,
    BREAKDOWN_MODES,
};

struct breakdown_step {
    enum sites_dimension dimension;
    uint32_t key;
};

/* How the figures of several dumps become one. */
enum breakdown_aggregate {
    BREAKDOWN_DIFFERENCE, /* the last less the first */
    BREAKDOWN_MAX,
};

struct breakdown_row {
    uint32_t key;
    struct sites_value values[SITES_COLUMNS];
};

struct breakdown_rows {
    struct breakdown_row *rows;
    size_t count, capacity;
};

struct breakdown;

/* Return a new breakdown at the root. The sites must outlive it. */
struct breakdown *breakdown_new(const struct sites *sites);
void breakdown_free(struct breakdown *breakdown);

/* Set the mode. A new mode removes steps into frames and modules, which have another meaning in it.
 */
void breakdown_set_mode(struct breakdown *breakdown, enum breakdown_mode mode);
enum breakdown_mode breakdown_mode(const struct breakdown *breakdown);
void breakdown_set_figure(struct breakdown *breakdown, enum diff_figure figure);
enum diff_figure breakdown_figure(const struct breakdown *breakdown);

const struct breakdown_step *breakdown_path(const struct breakdown *breakdown, size_t *count);
/* Append a step. Return -EEXIST if the path already has a step of its dimension; only steps into
 * frames may be repeated. */
int breakdown_enter(struct breakdown *breakdown, struct breakdown_step step);
/* Remove the last step. Return false at the root. */
bool breakdown_leave(struct breakdown *breakdown);
/* Replace the path by these steps. Return 0, or -EEXIST with the path unchanged. */
int breakdown_go(struct breakdown *breakdown, const struct breakdown_step *steps, size_t count);

/* Return the totals after the first `steps` steps of the path. Shares are those of these sums. */
struct breakdown_row breakdown_total(const struct breakdown *breakdown, size_t steps);
/* Return the totals of everything, as reports show them. */
struct breakdown_row breakdown_whole(const struct breakdown *breakdown);

/* Make the rows of a dimension that are not empty, in no order. If the path has a step in that
 * dimension, its key is the only row. */
void breakdown_rows(struct breakdown *breakdown, enum sites_dimension dimension,
                    struct breakdown_rows *rows);
void breakdown_rows_free(struct breakdown_rows *rows);

struct sites_value breakdown_aggregate_of(const struct breakdown_row *row, size_t columns,
                                          enum breakdown_aggregate aggregate);

enum breakdown_sort_key { BREAKDOWN_BY_SIZE, BREAKDOWN_BY_COUNT, BREAKDOWN_BY_NAME };
#define BREAKDOWN_ALL_COLUMNS SITES_COLUMNS

struct breakdown_order {
    enum breakdown_sort_key key;
    size_t column; /* BREAKDOWN_ALL_COLUMNS: the aggregate */
    enum breakdown_aggregate aggregate;
    bool reverse; /* smallest first; names in reverse */
};
void breakdown_sort(const struct breakdown *breakdown, enum sites_dimension dimension,
                    const struct breakdown_order *order, struct breakdown_rows *rows);

/* --- what is below the path --- */

/* A found frame, and the steps that lead to it from the path. */
struct breakdown_find {
    uint32_t *frames; /* the last is the found one */
    size_t length;
    double bytes; /* in the last column */
};

struct breakdown_finds {
    struct breakdown_find *finds; /* the largest first */
    size_t count, capacity;
};

/* On each stack, find the nearest frame below the path for which wanted() returns true, unless it
 * is one of the path's own rows. */
void breakdown_search(const struct breakdown *breakdown,
                      bool (*wanted)(void *context, const struct sites_key *key), void *context,
                      struct breakdown_finds *finds);
void breakdown_finds_free(struct breakdown_finds *finds);

#endif
