/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers functions: frames of one name in one file of code are one function, in whichever profile
 * they are. A frame without a name is identified by where its function starts, and interpreted
 * functions by their source file, too: many of one mapping have one name, as "<module>".
 */
#ifndef HEAPPROFD_PROFILE_FUNCTION_NUMBERS_H
#define HEAPPROFD_PROFILE_FUNCTION_NUMBERS_H

#include "profile/profile.h"
#include "trace/intern.h"

/* Begin with zeros. */
struct function_numbers {
    struct intern_table texts, functions;
};

/* Set of_frames[i] to the number of each frame's function, from 0: a new function has the next one.
 * Frames for which only[i] is false have none; only NULL: all have one. Return 0 or -ENOMEM. */
int function_numbers_add(struct function_numbers *numbers, const struct profile *profile,
                         const bool *only, uint32_t *of_frames);
void function_numbers_free(struct function_numbers *numbers);

#endif
