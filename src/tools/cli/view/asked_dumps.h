/* SPDX-License-Identifier: Apache-2.0 */
/* The dumps that arguments of `view` name (TRACE@DUMP): the page opens on the last of them,
 * compared with the first of several. */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_ASKED_DUMPS_H
#define HEAPPROFD_TOOLS_CLI_VIEW_ASKED_DUMPS_H

#include "tools/cli/compare/compare_source.h"
#include "tools/cli/view/watched.h"
#include "tools/view/model/kept.h"

struct asked_dumps {
    struct compare_source sources[VIEW_PROFILES_MAX];
    size_t count;
    struct view_opening opening;
    struct export_dump *kept; /* the last dump of each heap, and the chosen ones */
    size_t kept_count;
};

/* Add the profile of an argument, once if several name dumps of it. Return 0 or a negative errno.
 */
int asked_dumps_add(struct asked_dumps *asked, struct watched *watched, const char *argument,
                    struct error *error);
/* Find the dumps. Nothing is set if no argument names one. Return 0 or a negative errno. */
int asked_dumps_choose(struct asked_dumps *asked, const struct view_profiles *profiles,
                       struct error *error);
/* Write what the page's address ends with to open on them; "": nothing. */
void asked_dumps_write_fragment(const struct asked_dumps *asked,
                                const struct view_profiles *profiles, char *text, size_t size);
void asked_dumps_clear(struct asked_dumps *asked);

#endif
