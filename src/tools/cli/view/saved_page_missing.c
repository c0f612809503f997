/* SPDX-License-Identifier: Apache-2.0 */
/* The web page as a file, in a build without the page: say what is missing. */
#include <errno.h>

#include "tools/cli/view/saved_page.h"

int saved_page_check(struct error *error)
{
    return error_set(error, -ENOTSUP,
                     "this build has no page for flame graphs: it was made with -Dview=disabled. "
                     "Build with libmicrohttpd and npm, or write a file for another viewer with "
                     "traceconv speedscope");
}

int saved_page_write(const struct saved_page_profile *profiles, size_t count,
                     const struct view_save_options *options, FILE *out, struct error *error)
{
    (void)profiles;
    (void)count;
    (void)options;
    (void)out;
    return saved_page_check(error);
}
