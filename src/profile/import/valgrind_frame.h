/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame in Valgrind's words, as massif and DHAT write it: "0x1234: f (a.c:12)", "0x1234: f (in
 * /usr/lib/libfoo.so)", or "???" for an unknown function.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_VALGRIND_FRAME_H
#define HEAPPROFD_PROFILE_IMPORT_VALGRIND_FRAME_H

#include "profile/builder/builder.h"

/* Return the frame. PROFILE_NONE after an error of the builder. */
uint32_t valgrind_frame(struct builder *builder, const char *text, size_t length);

#endif
