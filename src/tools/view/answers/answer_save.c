/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with the page as a file, which opens on the selection that the page shows. */
#include <errno.h>

#include "tools/view/answers/answers.h"
#include "tools/view/saved/save.h"

/* The selected dumps are in the page, also if it has not room for all. */
static int write_page(struct view_profiles *profiles, const struct view_parameters *parameters,
                      FILE *out, struct error *error)
{
    struct view_selection selection = {0};
    int code = 0;
    if (view_parameter(parameters, "heap") != NULL)
        code = view_selection_parse(&selection, profiles, parameters, error);
    if (code == 0) {
        const struct view_save_options options = {
            .choice = {.with_earlier = true},
            .opening = {.at = selection.at.dump,
                        .base = selection.base.dump,
                        .view = selection.view},
            .title = view_parameter(parameters, "title"),
            .fragment = view_parameter(parameters, "fragment"),
        };
        code = view_save(profiles, &options, out, error);
    }
    view_selection_clear(&selection);
    return code;
}

int answer_save(struct view_profiles *profiles, const struct view_parameters *parameters, FILE *out,
                struct error *error)
{
    if (profiles->count == 0)
        return error_set(error, -EINVAL, "no profile is open, so there is no page to save");
    return write_page(profiles, parameters, out, error);
}
