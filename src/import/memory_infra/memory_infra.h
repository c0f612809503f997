/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports Chrome's MemoryInfra heap dumps, and our own (docs/formats.md): every process, heap and
 * dump of the file.
 *
 * If the file is cut off or malformed, the events before the damage are kept, and profile.warning
 * has its position and reason. An inconsistent event is left out with a warning.
 */
#ifndef HEAPPROFD_IMPORT_MEMORY_INFRA_MEMORY_INFRA_H
#define HEAPPROFD_IMPORT_MEMORY_INFRA_MEMORY_INFRA_H

#include "profile/builder/profile_read.h"
#include "profile/profile.h"

struct trace_source;

/* The caller keeps the source. Return NULL with *error set on failure. */
struct profile *import_memory_infra(struct trace_source *source,
                                    const struct profile_read_options *options,
                                    struct error *error);

#endif
