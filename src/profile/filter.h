/*
 * Leaves out of a profile what a person does not want to see, as pprof does it. Patterns are POSIX
 * extended regular expressions, which are searched for in the name of a frame's function (in full,
 * and without parameters and template arguments), in the path of its source file, and in the path
 * of its module.
 *
 *   focus       keeps the stacks that have a frame which matches
 *   ignore      drops the stacks that have one
 *   hide        removes the frames that match; a stack of nothing else is dropped
 *   show-from   removes the callers of the outermost frame that matches; a stack without such a
 *               frame is dropped
 *
 * focus and ignore look at whole stacks, before any frame is removed. Several patterns of one kind
 * match what one of them matches. What a heap's dump lost that way is added up beside it, so that
 * no total changes.
 */
#ifndef HEAPPROFD_PROFILE_FILTER_H
#define HEAPPROFD_PROFILE_FILTER_H

#include <regex.h>

#include "profile/profile.h"

enum profile_filter_kind {
    PROFILE_FOCUS,
    PROFILE_IGNORE,
    PROFILE_HIDE,
    PROFILE_SHOW_FROM,
    PROFILE_FILTER_KINDS,
};

/* "focus", "ignore", "hide", "show-from". */
extern const char *const profile_filter_names[PROFILE_FILTER_KINDS];

struct profile_filter {
    struct profile_filter_pattern {
        enum profile_filter_kind kind;
        char *text;
        regex_t regex;
    } * patterns;
    size_t count;
};

/* 0 or a negative errno; where the pattern is wrong, the message says why and at which character.
 */
int profile_filter_add(struct profile_filter *filter, enum profile_filter_kind kind,
                       const char *text, struct error *error);
void profile_filter_clear(struct profile_filter *filter);

/* Changes the profile's callsites and the samples of its dumps, sets their left_out and
 * profile.filter, and adds patterns that match no frame to profile.warning. 0 or -ENOMEM, after
 * which the profile is fit for profile_free() alone. */
int profile_filter_apply(const struct profile_filter *filter, struct profile *profile);

#endif
