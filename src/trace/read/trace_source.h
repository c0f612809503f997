/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a trace, from a file, standard input or memory; a file that is
 * gzip or zstd as a whole is unpacked on the way, and of a tar archive the
 * traces in it are read one behind the other (trace/read/tar_traces.h).
 */
#ifndef HEAPPROFD_TRACE_READ_TRACE_SOURCE_H
#define HEAPPROFD_TRACE_READ_TRACE_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct trace_source;

/* "-": standard input. NULL with *error set. */
struct trace_source *trace_source_open(const char *path, struct error *error);
/* Bytes that stay the caller's. */
struct trace_source *trace_source_of_bytes(const void *bytes, size_t length, struct error *error);
void trace_source_close(struct trace_source *source);
/* From now on told after each read how many bytes, unpacked, have been read; NULL: nobody asks. */
void trace_source_tell(struct trace_source *source, void (*tell)(void *context, uint64_t bytes),
                       void *context);

/* Reads up to size bytes; 0 at the end, negative errno with *error set. */
ssize_t trace_source_read(struct trace_source *source, void *buffer, size_t size,
                          struct error *error);

/* 0, or -EFBIG where this process has grown by more since the source was opened than a file of its
 * bytes may cost (util/memory_bound.h). Reads do this now and then, too. */
int trace_source_check(const struct trace_source *source, struct error *error);

/* The first bytes, unpacked, that the next reads still give: up to `size` of them, fewer at the end
 * or where what follows cannot be read. NULL: no memory. Once, before anything is read. */
const uint8_t *trace_source_peek(struct trace_source *source, size_t size, size_t *length);

enum trace_packing { TRACE_DEFLATE, TRACE_ZSTD };

/* Unpacks bytes in memory into a malloc'd *unpacked; -E2BIG above limit. 0 or negative errno. */
int trace_unpack(enum trace_packing packing, const uint8_t *bytes, size_t length, size_t limit,
                 uint8_t **unpacked, size_t *unpacked_length);

#endif
