/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the breakdown breaks down: the allocation sites of the chosen dumps, in names that the dumps
 * of several profiles share. A site is a stack, a type, a thread, a context, a heap and a process
 * with the figures of one dump; its stack is a list of functions, which are the same where
 * compare/matching.h takes their names for the same.
 *
 * Whatever is named by a number here stands in one list of keys for each dimension. Texts are the
 * profiles', which have to outlive the sites.
 */
#ifndef HEAPPROFD_EXPLORE_SITES_H
#define HEAPPROFD_EXPLORE_SITES_H

#include "compare/diff.h"

#define SITES_COLUMNS 8 /* dumps side by side */

enum sites_dimension {
    SITES_FRAME, /* a step of the stack */
    SITES_TYPE,
    SITES_THREAD,
    SITES_CONTEXT,
    SITES_MODULE, /* a file whose code is on the stack */
    SITES_HEAP,
    SITES_PROCESS,
    SITES_DIMENSIONS,
};

/* The name of the type of allocations without one. */
#define SITES_NO_TYPE "[no type]"

/* The frame that every stack ends with: what a function allocated itself. */
#define SITES_SELF 0

/* Of all stacks together, 1 GiB of them: a million stacks of 256 frames. Stacks that have most of
 * their frames in common take no room in a file, but they do here. */
#define SITES_FRAMES_MAX (1u << 28)

struct sites_key {
    const char *label; /* as it stands in the profile; of a frame the function's name in full */
    const struct profile *profile; /* of a frame or module: one that has it; else NULL */
    uint32_t frame;  /* of a frame or module: one of that profile; else PROFILE_NONE */
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
    uint32_t keys[SITES_DIMENSIONS]; /* but of frame and module, which the stack has */
    /* What is live is what was allocated less what was freed: in a damaged trace, below zero. */
    struct sites_value values[DIFF_FIGURES];
};

struct sites {
    size_t column_count;
    /* By column: what a heap's file does not tell. There is 0 for want of knowledge, or a guess. */
    struct sites_unknown {
        bool bytes[DIFF_FIGURES], counts[DIFF_FIGURES];
    } unknown[SITES_COLUMNS];
    struct sites_entry *entries;
    size_t entry_count, entry_capacity;
    struct sites_stack *stacks;
    size_t stack_count, stack_capacity;
    uint32_t *frames; /* keys, outermost first, of one stack after the other */
    size_t frame_count, frame_capacity;
    struct sites_keys keys[SITES_DIMENSIONS];
    char **texts; /* labels that were put together here */
    size_t text_count, text_capacity;
};

/* One column for each side: at most SITES_COLUMNS. NULL: no memory, or more than
 * SITES_FRAMES_MAX. */
struct sites *sites_new(const struct diff_side *columns, size_t column_count);
void sites_free(struct sites *sites);

/* Whether there is anything to tell apart by it. */
bool sites_has_dimension(const struct sites *sites, enum sites_dimension dimension);

#endif
