/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of the breakdown: the allocation sites of the chosen dumps. A site is a stack, type,
 * thread, context, heap and process, with the figures of one dump. Dumps of several profiles share
 * the names of these: two functions are the same if profile/compare/matching.h matches their names.
 *
 * Each dimension has a list of keys; all numbers are indexes into these lists. The texts belong to
 * the profiles, which must outlive the sites.
 */
#ifndef HEAPPROFD_TOOLS_EXPLORE_SITES_H
#define HEAPPROFD_TOOLS_EXPLORE_SITES_H

#include "profile/compare/diff.h"

#define SITES_COLUMNS 8 /* dumps side by side */

enum sites_dimension {
    SITES_FRAME, /* a function on the stack */
    SITES_TYPE,
    SITES_THREAD,
    SITES_CONTEXT,
    SITES_MODULE, /* a file whose code is on the stack */
    SITES_HEAP,
    SITES_PROCESS,
    SITES_DIMENSIONS,
};

/* The frame that ends every stack: a function's own allocations. */
#define SITES_SELF 0

/* Limit of the frames of all stacks: 1 GiB, a million stacks of 256 frames. Stacks that share most
 * of their frames are small in a file but not here. */
#define SITES_FRAMES_MAX (1u << 28)

struct sites_key {
    const char *label;             /* as in the profile; of a frame, the function's full name */
    const struct profile *profile; /* of a frame or module: a profile that has it; else NULL */
    uint32_t frame;  /* of a frame or module: a frame of that profile; else PROFILE_NONE */
    uint32_t module; /* of a frame: key of its module */
};

struct sites_keys {
    struct sites_key *keys;
    size_t count, capacity;
};

struct sites_value {
    double bytes, count;
};

struct sites_stack {
    uint32_t first, length; /* in `frames`, with SITES_SELF at the end */
    uint32_t module;        /* of the innermost function */
};

struct sites_entry {
    uint32_t column, stack;
    uint32_t keys[SITES_DIMENSIONS]; /* those of frame and module are unused: the stack has them */
    /* Live is allocated less freed: negative in a damaged trace. */
    struct sites_value values[DIFF_FIGURES];
};

struct sites {
    size_t column_count;
    /* By column: figures that a heap's file does not contain. Their values are 0 or a guess. */
    struct sites_unknown {
        bool bytes[DIFF_FIGURES], counts[DIFF_FIGURES];
    } unknown[SITES_COLUMNS];
    /* By column: the sums over whole heaps as reports show them (profile/compare/estimates.h); not
     * there if a filter leaves out a part. */
    bool has_whole[SITES_COLUMNS];
    struct sites_value whole[DIFF_FIGURES][SITES_COLUMNS];
    struct sites_entry *entries;
    size_t entry_count, entry_capacity;
    struct sites_stack *stacks;
    size_t stack_count, stack_capacity;
    uint32_t *frames; /* keys of all stacks, outermost first */
    size_t frame_count, frame_capacity;
    struct sites_keys keys[SITES_DIMENSIONS];
    char **texts; /* labels made here */
    size_t text_count, text_capacity;
};

/* Make the sites of at most SITES_COLUMNS columns. NULL: more than SITES_FRAMES_MAX frames. */
struct sites *sites_new(const struct diff_side *columns, size_t column_count);
void sites_free(struct sites *sites);

/* Return whether the sites differ in the dimension. */
bool sites_has_dimension(const struct sites *sites, enum sites_dimension dimension);

#endif
