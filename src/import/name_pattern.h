/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches whole names against an expression from a file that nobody has to trust. The expressions
 * are those of Go without counted repetitions, names of classes and flags: literals, `.`, `[a-z]`,
 * `\d \w \s`, groups, `|`, `* + ?`, `^` and `$`. All possible matches are followed at once, so a
 * match takes at most the product of both lengths, and a budget bounds the sum of all matches.
 */
#ifndef HEAPPROFD_IMPORT_NAME_PATTERN_H
#define HEAPPROFD_IMPORT_NAME_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

struct name_pattern;

/* Return NULL if the text is no such expression, is longer than 8 KiB, or without memory. */
struct name_pattern *name_pattern_new(const char *text);
void name_pattern_free(struct name_pattern *pattern);

/* Return whether the expression matches all of the name. Each step takes 1 from *budget; at 0
 * nothing matches. */
bool name_pattern_matches(struct name_pattern *pattern, const char *name, uint64_t *budget);

#endif
