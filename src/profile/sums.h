/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over the samples of a dump: by one dimension, within each row by another one, and over the
 * tree of callsites from the outermost frame down. Estimates add up, and so do the variances of
 * independent samples, so every sum has its own margin.
 */
#ifndef HEAPPROFD_PROFILE_SUMS_H
#define HEAPPROFD_PROFILE_SUMS_H

#include "profile/callsite_nodes.h"
#include "profile/dimension.h"
#include "profile/rollup.h"

struct sums_row {
    uint32_t callsite;           /* by callsite; else PROFILE_NONE */
    uint32_t frame;              /* by function: any frame of it; else PROFILE_NONE */
    int32_t tid;                 /* by thread; else 0 */
    const char *label;           /* by type or context, "" for none; else NULL */
    struct rollup_values values; /* by function: with all that it called; by thread: no peak */
    size_t first, count;         /* of a row in `rows`: its rows in `inner` */
};

struct sums {
    struct sums_row *rows, *inner; /* in no order */
    size_t row_count, inner_count;
};

/* Tables that the sums of one profile share, so that the cost of each depends only on the stacks
 * of its own dump. They are made when first needed; begin with zeros except `profile`. */
struct sums_tables {
    const struct profile *profile;
    struct callsite_nodes nodes;
    uint32_t *functions; /* number of each frame's function; NULL: not made yet */
    uint32_t *places;    /* by function: its index in the rows that are being made; else 0 */
    size_t function_count;
};
void sums_tables_clear(struct sums_tables *tables);

/* Return the number of the function of each frame, below *count; it lives as long as the tables.
 * NULL: no memory. */
const uint32_t *sums_functions(struct sums_tables *tables, size_t *count);

/* Sum a dump up by function. NULL: no memory. */
struct sums *sums_by_function(struct sums_tables *tables, const struct profile_dump *dump);

/* Sum a dump up by thread, type, context or callsite; with a depth of 2 also each row by another
 * one of them. alike: by callsite, the one whose row it shares; NULL: each has its own. NULL: no
 * memory. */
struct sums *sums_by_parts(const struct profile_dump *dump, const enum dimension *by, size_t depth,
                           const uint32_t *alike);
void sums_free(struct sums *sums);

/* The tree of the callsites on the dump's stacks, top down. A parent comes before its children.
 * by_function: all calls of a function from one caller are one node, which has the callsite of the
 * first. */
struct sums_tree {
    struct sums_node {
        uint32_t callsite;
        uint32_t parent, first_child, next_sibling; /* nodes; PROFILE_NONE: none */
        struct rollup_values cumulative;
    } * nodes;
    size_t count;
    uint32_t first_root;
};

struct sums_tree *sums_tree_new(struct sums_tables *tables, const struct profile_dump *dump,
                                bool by_function);
void sums_tree_free(struct sums_tree *tree);

#endif
