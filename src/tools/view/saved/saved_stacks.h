/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of the kept dumps in a page that is a file, as blocks (saved_blocks.h) from which the
 * page computes what the server would answer (src/tools/view/page/saved/data.ts):
 *
 *   functions        name, path of the module, file and so on of each function
 *   tree             the stacks of all kept dumps as one tree: parent and function of each node
 *   heap PROFILE.HEAP
 *                    the samples of its kept dumps: their node, callsite, and figures: five sums of
 *                    what was allocated, what was freed, and what was live at the peak; and their
 *                    parts by thread, type and context
 *   dump PROFILE.HEAP.DUMP
 *                    which samples the dump has, the limits of its totals, and what it says in
 * sentences pair PROFILE.HEAP PROFILE.HEAP for each sample of both heaps: the row that it belongs
 * to in a difference; of one process in two profiles also its place, by address
 */
#ifndef HEAPPROFD_VIEW_SAVED_STACKS_H
#define HEAPPROFD_VIEW_SAVED_STACKS_H

#include "tools/view/model/kept.h"
#include "tools/view/saved/saved_blocks.h"

/* `opening`: its two heaps are a pair; NULL: none. */
void saved_stacks_write(struct saved_blocks *blocks, struct view_profiles *profiles,
                        const struct view_kept *kept, const struct view_opening *opening);

#endif
