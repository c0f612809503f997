/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a heap whose interval was widened to limit the cost of the profile. */
#ifndef HEAPPROFD_TOOLS_PRINT_WIDENED_H
#define HEAPPROFD_TOOLS_PRINT_WIDENED_H

#include <stdbool.h>
#include <stdio.h>

#include "profile/profile.h"

/* A sentence without its end. */
struct widened_text {
    char text[256];
};

/* Return from what to what the interval was widened, why, what that may hide, and the option that
 * shows it; or "" if it was not widened. */
struct widened_text widened_text(const struct profile_heap *heap);

/* Print the text and a full stop on a line of its own after `label`, unless it is "". */
void widened_print(FILE *out, const char *label, const struct profile_heap *heap);

#endif
