/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the web page as a file. */
#include "tools/cli/view/saved_page.h"

#include <stdlib.h>

#include "util/xmalloc.h"

int saved_page_check(struct error *error)
{
    (void)error;
    return 0;
}

int saved_page_write(const struct saved_page_profile *profiles, size_t count,
                     const struct view_save_options *options, FILE *out, struct error *error)
{
    struct view_profiles *shown = xcalloc(1, sizeof(*shown));
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = view_profiles_add(shown, profiles[i].path, profiles[i].profile, error);
    if (code == 0) {
        view_profiles_link(shown);
        code = view_save(shown, options, out, error);
    }
    for (size_t i = 0; i < shown->count; i++)
        shown->items[i].profile = NULL; /* it is the caller's */
    view_profiles_free(shown);
    free(shown);
    return code;
}
