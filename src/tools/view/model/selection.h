/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question of the page is about: a heap, one of its dumps or the difference of two, a view,
 * filters, and the part to be shown alone. The parameters come from a URL and are untrusted.
 */
#ifndef HEAPPROFD_VIEW_SELECTION_H
#define HEAPPROFD_VIEW_SELECTION_H

#include "profile/view.h"
#include "tools/view/model/part.h"
#include "tools/view/model/retained.h"

#define VIEW_PARAMETERS_MAX 64u

/* The parameters of a question, decoded. */
struct view_parameters {
    struct view_parameter {
        const char *name, *value;
    } items[VIEW_PARAMETERS_MAX];
    size_t count;
    bool are_too_many; /* some are missing here */
};

/* Return the value of the first parameter of this name; NULL: the question does not have it. */
const char *view_parameter(const struct view_parameters *parameters, const char *name);
/* Parse a number within a range; take `otherwise` without such a parameter. Return 0 or -EINVAL. */
struct view_range {
    uint64_t least, most, otherwise;
};
int view_parameter_number(const struct view_parameters *parameters, const char *name,
                          struct view_range range, uint64_t *number, struct error *error);

struct view_dump {
    struct view_profile *of;
    struct export_dump dump; /* heap and dump; no dump: the heap has none */
    struct view_part part;   /* of selection.only; used only with some */
};

/* What makes a box of a difference wide: how much its stacks have changed, up or down alike, the
 * larger side of each stack, or the later side. */
enum view_width { VIEW_CHANGE, VIEW_LARGER, VIEW_AFTER, VIEW_WIDTHS };

struct view_selection {
    struct view_dump at, base; /* base.dump.dump NULL: no difference */
    enum export_view view;
    enum view_width width; /* of a graph of a difference */
    struct profile_filter filter;
    struct view_only only;
    /* Of what was retained: `at` has its upper bound, `least` the lower one, and both point into
     * `retained`. It is no difference. */
    struct view_dump least;
    struct view_retained retained;
};

/* Parse a question's selection. The parameters must outlive it. Return 0, -EINVAL or
 * -ENOENT. view_selection_clear() is needed in any case. */
int view_selection_parse(struct view_selection *selection, struct view_profiles *profiles,
                         const struct view_parameters *parameters, struct error *error);
void view_selection_clear(struct view_selection *selection);

/* Select what was retained between the two dumps of a selection, if the question has `retained`.
 * Return 0, or -EINVAL if they are not of one heap, or cannot tell it. */
int view_selection_retain(struct view_selection *selection, struct view_profiles *profiles,
                          const struct view_parameters *parameters, struct error *error);

static inline bool view_selection_is_retained(const struct view_selection *selection)
{
    return selection->least.dump.dump != NULL;
}

/* Find another dump for a selection: "DUMP" of its heap, or "PROFILE.HEAP.DUMP". Return 0, -EINVAL
 * or -ENOENT. view_part_free() of its part is needed in any case. */
int view_selection_find_dump(const struct view_selection *selection, struct view_profiles *profiles,
                             const char *text, struct view_dump *found, struct error *error);

static inline bool view_selection_is_difference(const struct view_selection *selection)
{
    return selection->base.dump.dump != NULL;
}

/* Make a selection of what the filters leave of another one's parts, and of this item, which may be
 * NULL. It shares the filters of the other one. Return as view_part_make() does.
 * view_selection_unrestrict() is needed in any case. */
int view_selection_restrict(struct view_selection *some, struct view_profiles *profiles,
                            const struct view_selection *selection,
                            const struct view_only_item *item, struct error *error);
void view_selection_unrestrict(struct view_selection *some);
/* Make the parts anew, for a selection with other dumps than that from which it was copied. */
int view_selection_remake(struct view_selection *some, struct view_profiles *profiles,
                          struct error *error);

/* Return the dump, or the selected part of it. */
static inline const struct profile_dump *view_shown(const struct view_selection *selection,
                                                    const struct view_dump *dump)
{
    return selection->only.count > 0 ? &dump->part.dump : dump->dump.dump;
}

#endif
