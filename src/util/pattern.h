/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of users, and of files that nobody has to trust: those of PCRE2, without
 * references to groups. "." matches any character, "$" only the end.
 *
 * What an expression costs is bounded: the size of its text and of what is compiled from it, the
 * memory of a match, and the steps of all matches together, in proportion to the texts. One that
 * exceeds a limit is an error.
 */
#ifndef HEAPPROFD_UTIL_PATTERN_H
#define HEAPPROFD_UTIL_PATTERN_H

#include <stdbool.h>

#include "util/error.h"

#define PATTERN_BYTES_MAX 8192u

/* The code of an error if an expression takes too many steps or too much memory. */
#define PATTERN_EXCEEDS (-EDOM)

struct pattern;

enum pattern_place { PATTERN_ANYWHERE, PATTERN_WHOLE_TEXT };

/* Compile an expression. Return 0, or -EINVAL, PATTERN_EXCEEDS or -ENOMEM with a message "character
 * N: why". */
int pattern_new(struct pattern **pattern, const char *text, enum pattern_place place,
                struct error *error);
void pattern_free(struct pattern *pattern);

/* Return 1 if the text matches, 0 if it does not, or PATTERN_EXCEEDS or -ENOMEM with a message. */
int pattern_matches(struct pattern *pattern, const char *text, struct error *error);

#endif
