/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of all loaded profiles, numbered as one list (profile/function_numbers.h), so that
 * stacks of several profiles can be compared.
 */
#ifndef HEAPPROFD_VIEW_FUNCTIONS_H
#define HEAPPROFD_VIEW_FUNCTIONS_H

#include <stdint.h>

#include "profile/filter.h"
#include "profile/function_numbers.h"
#include "profile/profile.h"
#include "profile/view.h"
#include "util/error.h"

struct function {
    const struct profile *profile; /* a profile that has it, and one of its frames there */
    uint32_t frame;
    char *short_name; /* without parameters; NULL: not made yet, or the same */
    bool is_shortened;
};

struct functions {
    struct function *items;
    size_t count, capacity;
    struct function_numbers numbers;
};

/* Number the frames of a profile's stacks: set of_frames[i] for each such frame i. Others have no
 * number, so that a page that is a file, which lacks them, has the same numbers. */
void functions_add(struct functions *functions, const struct profile *profile, uint32_t *of_frames);
void functions_free(struct functions *functions);

/* The names of a function as the page shows them. */
struct function_names {
    const char *name;      /* without parameters and template arguments */
    const char *full_name; /* with them */
    const char *module, *path, *file, *kind;
    uint32_t line;
    char label[PROFILE_LABEL_BYTES]; /* a name that was made: of a frame without one, or with the
                                        file of an interpreted function */
};
/* Fill in *names, some of which may point into *names. */
void functions_name(struct functions *functions, uint32_t function, struct function_names *names);

/* Return the path of its module; "" if unknown. */
const char *function_path(const struct function *function);

/* Find the function that a question names: by its number, which one server gives it, or by
 * NAME@MODULE, with the full name and the path or the file name of the module. Return 0, -EINVAL if
 * there are several, or -ENOENT. */
int functions_find(struct functions *functions, const char *text, uint32_t *function,
                   struct error *error);

/* Set bit `bit` of marks[i] for each function i whose name, source file or module matches. Return 0
 * or a negative errno. */
int functions_match(struct functions *functions, const struct profile_filter_pattern *pattern,
                    uint8_t bit, uint8_t *marks, struct error *error);

#endif
