/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of exporters that write one number for each stack: the views of a dump, the text of
 * a frame, and the selection of dumps.
 */
#ifndef HEAPPROFD_PROFILE_VIEW_H
#define HEAPPROFD_PROFILE_VIEW_H

#include "profile/callsite_nodes.h"
#include "util/error.h"

enum export_view {
    EXPORT_SPACE,         /* bytes live */
    EXPORT_OBJECTS,       /* allocations live */
    EXPORT_ALLOC_SPACE,   /* bytes ever allocated */
    EXPORT_ALLOC_OBJECTS, /* allocations ever made */
    EXPORT_MAX,           /* bytes live at the heap's peak */
    EXPORT_VIEWS,
};

struct export_view_info {
    const char *name;  /* as in heap_profile report --view */
    const char *title; /* "bytes live" */
    bool counts_bytes;
};
extern const struct export_view_info export_view_info[EXPORT_VIEWS];

static inline bool export_view_counts_calls(enum export_view view)
{
    return !export_view_info[view].counts_bytes;
}

/* Return whether the heap's file does not contain this view. */
bool export_view_is_unknown(const struct profile_heap *heap, enum export_view view);

/* Return a callsite's own figure, an estimate. */
double export_view_value(const struct profile_sample *sample, enum export_view view);

/* A selected dump. */
struct export_dump {
    const struct profile_heap *heap;
    const struct profile_dump *dump;
};

/* Rounds estimates: each result is the increase of the rounded running sum, so that its error is
 * less than one, and the sum of all is the sum of the estimates, rounded once. */
struct export_rounding {
    double sum;
    uint64_t written;
};
uint64_t export_round(struct export_rounding *rounding, double value);

/* Add the frames of a dump's stacks, each stack written in full, to *frames. Return 0, or -E2BIG
 * with *error set if they are too many for a file of whole stacks: a chain of n callsites gives n *
 * n / 2. */
int export_count_frames(const struct profile *profile, const struct profile_dump *dump,
                        uint64_t *frames, struct error *error);

/* Counts the callers of dumps, each once in a dump. A chain of n callsites below m heaps gives n *
 * m in a table or graph for each heap. Begin with zeros. */
struct export_callers {
    struct callsite_nodes nodes;
    uint64_t count, stacks;
};
/* Add a dump. Return 0, -ENOMEM, or -E2BIG if they are too many; with *error set. */
int export_callers_add(struct export_callers *callers, const struct profile *profile,
                       const struct profile_dump *dump, struct error *error);
void export_callers_clear(struct export_callers *callers);

/* Return the number of frames on the longest stack; at least one. */
size_t export_deepest_stack(const struct profile *profile);

/* Write the frames of a stack to `frames`, innermost first. Return their number. */
size_t export_take_stack(const struct profile *profile, uint32_t callsite, uint32_t *frames);

#endif
