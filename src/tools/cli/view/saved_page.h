/* SPDX-License-Identifier: Apache-2.0 */
/* The web page as a file, written from profiles that were read for something else. */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_SAVED_PAGE_H
#define HEAPPROFD_TOOLS_CLI_VIEW_SAVED_PAGE_H

#include "tools/view/saved/save.h"

/* Set the error if this build has no page. Return 0 or -ENOTSUP. */
int saved_page_check(struct error *error);

struct saved_page_profile {
    const char *path;
    struct profile *profile; /* stays the caller's */
};

/* Write a page about one or several profiles, as view_save(). */
int saved_page_write(const struct saved_page_profile *profiles, size_t count,
                     const struct view_save_options *options, FILE *out, struct error *error);

#endif
