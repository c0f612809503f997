/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exporters of one number a stack share: the views of a dump, the words for a frame, and
 * which dumps were asked for.
 */
#ifndef HEAPPROFD_EXPORT_VIEW_H
#define HEAPPROFD_EXPORT_VIEW_H

#include "profile/callsite_nodes.h"

enum export_view {
    EXPORT_SPACE,         /* bytes live */
    EXPORT_OBJECTS,       /* allocations live */
    EXPORT_ALLOC_SPACE,   /* bytes ever allocated */
    EXPORT_ALLOC_OBJECTS, /* allocations ever made */
    EXPORT_MAX,           /* bytes live when the heap was largest */
    EXPORT_VIEWS,
};

struct export_view_words {
    const char *name;  /* as heap_profile report --view has it */
    const char *title; /* "bytes live" */
    bool counts_bytes;
};
extern const struct export_view_words export_view_words[EXPORT_VIEWS];

static inline bool export_view_counts_calls(enum export_view view)
{
    return !export_view_words[view].counts_bytes;
}

/* Whether the heap's file does not tell what this view shows. */
bool export_view_is_unknown(const struct profile_heap *heap, enum export_view view);

/* A callsite's own figure, an estimate. */
double export_view_value(const struct profile_sample *sample, enum export_view view);

/* One dump that was asked for. */
struct export_dump {
    const struct profile_heap *heap;
    const struct profile_dump *dump;
};

/* Estimates become whole numbers: each is what the rounded running sum grows by, so that each is
 * off by less than one, and the sum of all is the sum of the estimates, rounded once. */
struct export_rounding {
    double sum;
    uint64_t written;
};
uint64_t export_round(struct export_rounding *rounding, double value);

#define EXPORT_LABEL_BYTES 256
/* The frame's function; of one without a name its address and module, made in `buffer`. */
const char *export_frame_label(const struct profile *profile, const struct profile_frame *frame,
                               char buffer[EXPORT_LABEL_BYTES]);

/* Count the frames of a dump's stacks, each written by itself, into *frames. 0, or -E2BIG with
 * *error set where they are more than a file of whole stacks may have: a chain of n callsites
 * gives n * n / 2. */
int export_count_frames(const struct profile *profile, const struct profile_dump *dump,
                        uint64_t *frames, struct error *error);

/* Count the callers of dumps, each once a dump. A chain of n callsites below m heaps gives n * m in
 * a table or graph for each heap. Zeros to begin with. */
struct export_callers {
    struct callsite_nodes nodes;
    uint64_t count, stacks;
};
/* Add a dump. 0, -ENOMEM, or -E2BIG where they are too many; with *error set. */
int export_callers_add(struct export_callers *callers, const struct profile *profile,
                       const struct profile_dump *dump, struct error *error);
void export_callers_clear(struct export_callers *callers);

/* Frames on the longest of all stacks; at least one. */
size_t export_deepest_stack(const struct profile *profile);

/* Writes the frames of a stack to `frames`, innermost first; how many. */
size_t export_take_stack(const struct profile *profile, uint32_t callsite, uint32_t *frames);

#endif
