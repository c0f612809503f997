/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The breakdown: all sites, narrowed down step by step into a frame, a type, a thread and so on,
 * and at each step broken down by any of these. Of a path, steps into frames go along the stack;
 * steps of the other kinds narrow what there is, whatever their order.
 *
 * Three ways to go along stacks:
 *   tree       from the outermost frame inwards: rows add up to their path
 *   heavy      the same, from any frame: a path is any part of a stack, counted once for a stack
 *              that has it more than once
 *   bottom-up  from the function that allocates outwards: the first rows are functions with what
 *              each allocated itself; the rows inside a path are its callers
 * In the tree and the heavy mode every stack ends with a frame <self>: what its caller allocated
 * itself. In the bottom-up mode rows add up to their path, less the stacks that end there.
 *
 * A row of a module counts allocations whose innermost frame is in the module; in the heavy mode,
 * allocations with any frame in it.
 *
 * Nothing is made before it is asked for: a step in looks at the sites of its path, a step out at
 * none.
 */
#ifndef HEAPPROFD_EXPLORE_BREAKDOWN_H
#define HEAPPROFD_EXPLORE_BREAKDOWN_H

#include "explore/sites.h"

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

/* What several dumps say, as one figure. */
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

/* At the root. The sites have to outlive it. NULL: no memory. */
struct breakdown *breakdown_new(const struct sites *sites);
void breakdown_free(struct breakdown *breakdown);

/* A new mode takes steps into frames and modules back: they mean something else in it. 0 or
 * -ENOMEM, which leaves everything as it was; the same below. */
int breakdown_set_mode(struct breakdown *breakdown, enum breakdown_mode mode);
enum breakdown_mode breakdown_mode(const struct breakdown *breakdown);
void breakdown_set_figure(struct breakdown *breakdown, enum diff_figure figure);
enum diff_figure breakdown_figure(const struct breakdown *breakdown);

const struct breakdown_step *breakdown_path(const struct breakdown *breakdown, size_t *count);
/* Whether the path has a step of the dimension; only of frames it may have more than one. */
bool breakdown_is_within(const struct breakdown *breakdown, enum sites_dimension dimension);
/* -EEXIST: there is such a step already. */
int breakdown_enter(struct breakdown *breakdown, struct breakdown_step step);
/* False: it is at the root. */
bool breakdown_leave(struct breakdown *breakdown);
/* The path becomes these steps. */
int breakdown_go(struct breakdown *breakdown, const struct breakdown_step *steps, size_t count);

/* What the path has after so many steps of it. */
struct breakdown_row breakdown_total(const struct breakdown *breakdown, size_t steps);

/* The rows that there is something in, in no order. A dimension of which the path has a step has
 * the one row. 0 or -ENOMEM. */
int breakdown_rows(struct breakdown *breakdown, enum sites_dimension dimension,
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
    bool reverse; /* the least first; of names the last */
};
void breakdown_sort(const struct breakdown *breakdown, enum sites_dimension dimension,
                    const struct breakdown_order *order, struct breakdown_rows *rows);

/* --- what is below the path --- */

/* A frame that was looked for: the steps from here to before it, and the frame. */
struct breakdown_find {
    uint32_t *frames; /* the last is the one that was found */
    size_t length;
    double bytes; /* of the last column */
};

struct breakdown_finds {
    struct breakdown_find *finds; /* those with most first */
    size_t count, capacity;
};

/* The frames below the path, but for its own rows, whose label is wanted(): of each stack the
 * nearest. 0 or -ENOMEM. */
int breakdown_search(const struct breakdown *breakdown,
                     bool (*wanted)(void *context, const struct sites_key *key), void *context,
                     struct breakdown_finds *finds);
void breakdown_finds_free(struct breakdown_finds *finds);

#endif
