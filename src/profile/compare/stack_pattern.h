/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of functions and modules, by which budgets and suppressions choose stacks: a function's
 * name, with or without its parameters and what compilers append to parts of functions, or, after
 * "module:", the base name of a file. * ? [ work as in shells. "put < parse" is a callsite, as
 * tables show it: stacks with a frame that matches the first pattern, and further out one that
 * matches the second, and so on.
 */
#ifndef HEAPPROFD_PROFILE_COMPARE_STACK_PATTERN_H
#define HEAPPROFD_PROFILE_COMPARE_STACK_PATTERN_H

#include "profile/profile.h"

#define STACK_PATTERN_LINKS_MAX 8 /* patterns in one callsite */

/* Return whether the frames of the stack match the pattern. */
bool stack_pattern_matches(const struct profile *profile, uint32_t callsite, const char *pattern);

/* Return for each callsite of the profile whether its stack matches the pattern. The caller frees
 * the array. NULL: no memory. */
bool *stack_pattern_callsites(const struct profile *profile, const char *pattern);

/* Return the length of the part of a function's name that is the pattern for it: without parameters
 * and what compilers append, unless nothing else is left. */
size_t stack_pattern_name_length(const char *name);

#endif
