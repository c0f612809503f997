/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with the page as a file, which opens on the selection that the page shows. */
#include <errno.h>

#include "tools/view/answers/answers.h"
#include "tools/view/saved/save.h"

int answer_save(struct view_profiles *profiles, const struct view_parameters *parameters, FILE *out,
                struct error *error)
{
    const struct view_save_options options = {
        .choice = {.with_earlier = true},
        .title = view_parameter(parameters, "title"),
        .fragment = view_parameter(parameters, "fragment"),
    };
    if (profiles->count == 0)
        return error_set(error, -EINVAL, "no profile is open, so there is no page to save");
    return view_save(profiles, &options, out, error);
}
