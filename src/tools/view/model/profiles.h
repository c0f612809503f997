/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles that the page shows, with what all of its questions share: their functions, the tree
 * of their stacks, and the tree that the filters of the last question leave. */
#ifndef HEAPPROFD_VIEW_PROFILES_H
#define HEAPPROFD_VIEW_PROFILES_H

#include "profile/filter.h"
#include "profile/folding.h"
#include "tools/view/model/stack_tree.h"

#define VIEW_PROFILES_MAX 16u
#define VIEW_BUDGETS_BYTES_MAX 8192u /* the page has them in its address, too */

struct view_profile {
    char *path;
    struct profile *profile;
    uint32_t *of_frames;    /* by frame: its function */
    uint32_t *of_callsites; /* by callsite: its node in the tree */
    struct folding folding; /* which of its frames are not the program's own */
};

/* What filters leave of the stacks. */
struct view_filtered {
    char *key;         /* the filters as text; NULL: nothing is kept yet */
    uint8_t *on_stack; /* by node of the whole tree: bits of the patterns that match on its stack */
    bool hides;        /* frames are removed: the two below are set */
    struct stack_tree tree;
    uint32_t *of_nodes; /* by node of the whole tree: its node, or STACK_NONE */
};

struct view_profiles {
    struct view_profile items[VIEW_PROFILES_MAX];
    size_t count;
    bool interprets; /* --native shows more frames: those of interpreters */
    bool native;     /* the interpreters' own frames are shown beside them */
    struct functions functions;
    struct stack_tree tree;
    struct stack_index index; /* while profiles are added */
    struct view_filtered filtered;
    char *budgets; /* the text of a file of budgets; NULL: none was given */
    /* Of a page that is a file: what it has, and what it opens on. NULL: everything is here. */
    const struct view_kept *kept;
    const struct view_opening *opening;
};

/* Add a profile, which is taken over in any case. Return 0 or a negative errno. */
int view_profiles_add(struct view_profiles *profiles, const char *path, struct profile *profile,
                      struct error *error);
/* The same with its folding, which is taken over, too. There must be room for it. */
void view_profiles_take(struct view_profiles *profiles, const char *path, struct profile *profile,
                        const struct folding *folding);
/* Finish the tree, after the last profile. */
void view_profiles_link(struct view_profiles *profiles);
void view_profiles_free(struct view_profiles *profiles);

/* Return the entry of a profile. */
struct view_profile *view_profiles_of(struct view_profiles *profiles,
                                      const struct profile *profile);

/* Limit of patterns: each has a bit of a byte. */
#define VIEW_PATTERNS_MAX 8u

/* Make profiles->filtered for these patterns; a pattern sees what those before it have left. Return
 * 0 or a negative errno. */
int view_profiles_filter(struct view_profiles *profiles, const struct profile_filter *filter,
                         struct error *error);

/* Return the tree that is left. */
static inline const struct stack_tree *view_profiles_tree(const struct view_profiles *profiles)
{
    return profiles->filtered.hides ? &profiles->filtered.tree : &profiles->tree;
}

/* Return the node of a callsite in that tree; STACK_NONE: its stack is left out. */
uint32_t view_profiles_node(const struct view_profiles *profiles,
                            const struct profile_filter *filter, const struct view_profile *of,
                            uint32_t callsite);

/* Return the function that holds the memory of a stack of this tree, as folding_charge() does: what
 * remains of a stack behind a filter is no callsite. */
uint32_t view_profiles_holder(struct view_profiles *profiles, const struct stack_tree *tree,
                              uint32_t node);

#endif
