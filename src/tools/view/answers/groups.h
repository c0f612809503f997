/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a selection below a row of groups: its threads, types or contexts, all heaps of the
 * process, or the heap of this name of all processes. Groups are numbered after the functions, and
 * are the outermost nodes of the tree.
 *
 * Other heaps have other dumps: each heap of the process has the one that is nearest in time, and
 * each process its last.
 */
#ifndef HEAPPROFD_VIEW_GROUPS_H
#define HEAPPROFD_VIEW_GROUPS_H

#include "tools/view/model/leaves.h"

/* Limit of groups: further ones, which hold less, are one group without stacks. */
#define VIEW_GROUPS_MAX 64u

struct view_groups {
    struct stack_tree tree;
    struct view_group {
        char *name;
        char *part; /* what only= calls it; NULL: nothing does */
        char *note; /* which dump a heap has; "" */
    } * items;
    size_t count;
    const char *by; /* NULL: no groups; else "thread", "type", "context", "heap" or "process" */
};

/* Group a selection, and make its leaves at the nodes of groups->tree. Return 0, or -EINVAL
 * with the reason. view_groups_free() and view_leaves_free() are needed in any case. */
int view_groups_make(struct view_groups *groups, struct view_leaves *leaves,
                     struct view_profiles *profiles, const struct view_selection *selection,
                     const char *by, struct error *error);
void view_groups_free(struct view_groups *groups);

#endif
