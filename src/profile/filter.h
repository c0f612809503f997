/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves stacks and frames out of a profile by patterns (util/pattern.h), as pprof does. A pattern
 * may match anywhere in the name of a frame's function (in full, or without parameters and template
 * arguments; "0x1f2e @ libx.so" if it has no name), in the path of its source file, or in the path
 * of its module.
 *
 *   focus       keeps the stacks that have a frame which matches
 *   ignore      drops the stacks that have one
 *   hide        removes the frames that match; drops a stack if all its frames match
 *   show-from   removes the callers of the outermost frame that matches; drops a stack without such
 *               a frame
 *
 * focus and ignore see whole stacks, before any frame is removed. Several patterns of one kind
 * match if one of them does. Each dump keeps the sum of what was left out, so that no total
 * changes.
 */
#ifndef HEAPPROFD_PROFILE_FILTER_H
#define HEAPPROFD_PROFILE_FILTER_H

#include "profile/profile.h"
#include "util/error.h"
#include "util/pattern.h"

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
        struct pattern *pattern;
    } * patterns;
    size_t count;
    bool native; /* keep the interpreters' own frames (profile/interpreter_frames.h) */
};

/* Add a pattern. Return 0 or a negative errno. If the pattern is wrong, the message says why and at
 * which character. */
int profile_filter_add(struct profile_filter *filter, enum profile_filter_kind kind,
                       const char *text, struct error *error);
void profile_filter_clear(struct profile_filter *filter);

/* Return 1 if a text matches, 0 if it does not, or a negative errno: as of pattern_matches(). */
int profile_filter_matches(const struct profile_filter_pattern *pattern, const char *text,
                           struct error *error);

/* Change the profile's callsites and its dumps' samples, set their left_out and profile.filter, and
 * name patterns that match no frame in profile.warning. Return 0, -ENOMEM or
 * PATTERN_EXCEEDS; after these only profile_free() may be called. */
int profile_filter_apply(const struct profile_filter *filter, struct profile *profile,
                         struct error *error);

#endif
