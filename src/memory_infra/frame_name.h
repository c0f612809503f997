/*
 * Names of frames as they stand in the JSON. diff_heap_profiler writes them between quotes into
 * JSON of its own and escapes nothing. So a name with a quote, a backslash or a control character
 * stands there escaped once more, and the name itself beside it as `heapprofd_name`, which readers
 * elsewhere pass over.
 */
#ifndef HEAPPROFD_MEMORY_INFRA_FRAME_NAME_H
#define HEAPPROFD_MEMORY_INFRA_FRAME_NAME_H

#include <stdbool.h>
#include <stdio.h>

#define FRAME_NAME_MEMBER "heapprofd_name"

/* Whether a name stands for itself in a script's JSON. */
bool frame_name_is_plain(const char *name);

/* Print the member `key` of a string or frame, and `heapprofd_name` where the name needs it. */
void frame_name_write(FILE *out, const char *key, const char *name);

#endif
