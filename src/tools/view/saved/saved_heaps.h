/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of heaps, dumps and pairs of heaps in a page that is a file; saved_stacks.h lists
 * them. */
#ifndef HEAPPROFD_VIEW_SAVED_HEAPS_H
#define HEAPPROFD_VIEW_SAVED_HEAPS_H

#include "tools/view/model/kept.h"
#include "tools/view/saved/saved_blocks.h"

struct saved_heap {
    size_t profile, heap;
    const struct view_profile *of;
    char id[48]; /* "0.3" */
    const struct profile_sample **samples;
    size_t sample_count;
};

struct saved_heaps {
    struct saved_blocks *blocks;
    struct view_profiles *profiles;
    const struct view_kept *kept;
    struct saved_heap *items; /* those with kept dumps, by profile and heap */
    size_t count, capacity;
    uint32_t *nodes, *functions; /* by node and function: its number in the file, or STACK_NONE */
    size_t node_count;
};

/* Write a dump; `numbers`: of its samples in its heap. */
void saved_dump_write(struct saved_heaps *heaps, const struct saved_heap *heap, size_t dump,
                      const uint32_t *numbers);
void saved_heap_write(struct saved_heaps *heaps, const struct saved_heap *heap);
/* Write the rows of the differences that the page offers: of heaps of one name in two profiles, and
 * what it opens on. If both are of one process, also write which samples are of one place in it. */
void saved_pairs_write(struct saved_heaps *heaps, const struct view_opening *opening);

#endif
