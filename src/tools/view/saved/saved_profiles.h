/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of a page that is a file, as one block of bytes: what the answers read of the kept
 * dumps. `heap_profile view --save` writes it; the engine in the page (tools/view/engine/) reads
 * it, and answers as the server does.
 *
 * The block begins with its version, four bytes, little-endian. The rest is arrays of structures,
 * each member as a column:
 *
 * - Whole numbers: the number of byte planes, then the planes. The first has the lowest bytes of
 *   all values, the second the bytes above them, and so on; planes that would be zeros are left
 *   out. The values are differences, each from the value before it, with the sign as lowest bit.
 * - Doubles: the same without differences.
 * - Texts: numbers in the profile's list of texts, each of which ends with a zero byte.
 *
 * Planes and differences deflate to about two thirds of what the plain values do. A page is a file
 * from anyone: the reader checks every count, number and text, and nothing else reads the block.
 */
#ifndef HEAPPROFD_VIEW_SAVED_PROFILES_H
#define HEAPPROFD_VIEW_SAVED_PROFILES_H

#include <stdio.h>

#include "tools/view/model/kept.h"

/* Write the kept dumps. Errors of the stream are left in ferror(). */
void saved_profiles_write(struct view_profiles *profiles, const struct view_kept *kept,
                          const struct view_opening *opening, FILE *out);

/* What a page has. It does not move: profiles.kept is `kept`. */
struct saved_profiles {
    struct view_profiles profiles;
    struct view_kept kept;
    struct view_opening opening;
};

/* Read a block. Return 0, or -EBADMSG with the offset and the reason. saved_profiles_free() is
 * needed in any case. */
int saved_profiles_read(struct saved_profiles *saved, const void *bytes, size_t length,
                        struct error *error);
void saved_profiles_free(struct saved_profiles *saved);

#endif
