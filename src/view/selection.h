/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question of the page is about: a heap, one of its dumps or the difference of two, a view,
 * and filters. The parameters come from a URL and are untrusted.
 */
#ifndef HEAPPROFD_VIEW_SELECTION_H
#define HEAPPROFD_VIEW_SELECTION_H

#include "export/view.h"
#include "view/profiles.h"

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
};

struct view_selection {
    struct view_dump at, base; /* base.dump.dump NULL: no difference */
    enum export_view view;
    struct profile_filter filter;
};

/* Parse a question's selection. Return 0, -EINVAL, -ENOENT or -ENOMEM.
 * view_selection_clear() is needed in any case. */
int view_selection_parse(struct view_selection *selection, struct view_profiles *profiles,
                         const struct view_parameters *parameters, struct error *error);
void view_selection_clear(struct view_selection *selection);

static inline bool view_selection_is_difference(const struct view_selection *selection)
{
    return selection->base.dump.dump != NULL;
}

#endif
