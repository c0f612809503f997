/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers of single formats. Each reads a source, whose format import.c has recognized, to its
 * end, and leaves it open. Return NULL with *error set: the position and the reason.
 */
#ifndef HEAPPROFD_PROFILE_IMPORT_READERS_H
#define HEAPPROFD_PROFILE_IMPORT_READERS_H

#include "profile/builder/profile_read.h"
#include "trace/read/trace_source.h"

struct profile *import_pprof(struct trace_source *source,
                             const struct profile_read_options *options, struct error *error);
struct profile *import_heaptrack(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error);
struct profile *import_collapsed(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error);
/* Text of gperftools, jemalloc, Go and others. */
bool text_heap_begins(const char *text, size_t length);
struct profile *import_text_heap(struct trace_source *source,
                                 const struct profile_read_options *options, struct error *error);
/* Valgrind's: what massif writes as text, and DHAT as JSON. */
bool massif_begins(const char *text, size_t length);
struct profile *import_massif(struct trace_source *source,
                              const struct profile_read_options *options, struct error *error);
bool dhat_begins(const char *text, size_t length);
struct profile *import_dhat(struct trace_source *source, const struct profile_read_options *options,
                            struct error *error);

/*
 * Chrome's MemoryInfra heap dumps, and our own: every process, heap and dump of the file. If the
 * file is cut off or malformed, the events before the damage are kept, and profile.warning has its
 * position and reason. An inconsistent event is left out with a warning.
 */
struct profile *import_memory_infra(struct trace_source *source,
                                    const struct profile_read_options *options,
                                    struct error *error);

#endif
