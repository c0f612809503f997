/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports Chrome's MemoryInfra heap dumps, and our own (docs/formats.md): every process, heap and
 * dump of the file.
 *
 * Of a file that is cut off or malformed, the events before that are kept, and profile.warning says
 * what is wrong and where. An event that makes no sense is left out with a warning.
 */
#ifndef HEAPPROFD_IMPORT_MEMORY_INFRA_MEMORY_INFRA_H
#define HEAPPROFD_IMPORT_MEMORY_INFRA_MEMORY_INFRA_H

#include "profile/profile.h"

struct trace_source;

/* The source stays the caller's. NULL with *error set. */
struct profile *import_memory_infra(struct trace_source *source,
                                    const struct profile_read_options *options,
                                    struct error *error);

#endif
