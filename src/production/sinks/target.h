/* SPDX-License-Identifier: Apache-2.0 */
/* The path and query of a request, written to a stream. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_TARGET_H
#define HEAPPROFD_PRODUCTION_SINKS_TARGET_H

#include <stdio.h>

/* Longer values of labels are cut, so that a target stays below what servers take. */
#define TARGET_VALUE_BYTES_MAX 256

/* Print a part of a query: what is not a letter, a digit or one of "-._~" as %XX. Bytes of
 * `replaced` (NULL: none) become underscores. */
void target_print(FILE *out, const char *text, const char *replaced);

#endif
