/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of what is no part of a stack: threads, types and contexts, into which samples are
 * divided, and classes of samples by size and lifetime.
 *
 * In a difference, threads, types and contexts change as in heap_profile diff. A stack may be of
 * one class before and of another after; each class then has what only= keeps of it on either side.
 */
#ifndef HEAPPROFD_VIEW_PART_TABLE_H
#define HEAPPROFD_VIEW_PART_TABLE_H

#include "tools/view/answers/table.h"

/* Make a table by VIEW_THREAD and later dimensions, as table_make(). */
int part_table_make(struct table *table, struct view_profiles *profiles,
                    const struct view_selection *selection, enum view_dimension key,
                    struct error *error);

#endif
