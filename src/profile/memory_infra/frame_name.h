/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of frames in the JSON. diff_heap_profiler writes them between quotes into its own JSON
 * without escaping them. So a name with a quote, a backslash or a control character is escaped
 * twice, and the member `heapprofd_name` beside it has the name itself. Other readers ignore that
 * member.
 */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_FRAME_NAME_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_FRAME_NAME_H

#include <stdbool.h>
#include <stdio.h>

#define FRAME_NAME_MEMBER "heapprofd_name"

/* Return whether a name needs no second escaping. */
bool frame_name_is_plain(const char *name);

/* Print the member `key` of a string or frame, and `heapprofd_name` if the name needs it. */
void frame_name_write(FILE *out, const char *key, const char *name);

#endif
