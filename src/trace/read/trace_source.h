/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a trace, from a file, standard input or memory. A file that is gzip or zstd as a
 * whole is unpacked, and the traces in a tar archive are read as if they were concatenated
 * (trace/read/tar_traces.h).
 */
#ifndef HEAPPROFD_TRACE_READ_TRACE_SOURCE_H
#define HEAPPROFD_TRACE_READ_TRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

struct trace_source;

/* Open a file; "-": standard input. Return NULL with *error set. */
struct trace_source *trace_source_open(const char *path, struct error *error);
/* The same for a regular file only. Opening or reading anything else may never end. */
struct trace_source *trace_source_open_file(const char *path, struct error *error);
/* Read on from where a descriptor is. It is closed with the source, or at once after an error. */
struct trace_source *trace_source_of_fd(int fd, struct error *error);
/* Open bytes in memory, which the caller keeps. */
struct trace_source *trace_source_of_bytes(const void *bytes, size_t length, struct error *error);
void trace_source_close(struct trace_source *source);
/* Set a function that receives the number of unpacked bytes after each read; NULL: none. */
void trace_source_tell(struct trace_source *source, void (*tell)(void *context, uint64_t bytes),
                       void *context);

/* Read up to `size` bytes. Return 0 at the end, or a negative errno with *error set. */
ssize_t trace_source_read(struct trace_source *source, void *buffer, size_t size,
                          struct error *error);

/* Check this process's memory. Return 0, or -EFBIG if it has grown by more since the source was
 * opened than a file of these bytes may cost (util/memory_bound.h). Reads check it from time to
 * time, too. */
int trace_source_check(const struct trace_source *source, struct error *error);

/* Count only what the process's memory grows by from now on: what it has is not for the file. */
void trace_source_measure_again(struct trace_source *source);

/* Return whether what was read so far may name as many frames of stacks. A few bytes can name
 * millions again and again, which takes time, if no memory. */
bool trace_source_allows_frames(const struct trace_source *source, uint64_t frames);

/* Return the first unpacked bytes, without consuming them: up to `size`, fewer at the end or before
 * a read error. NULL: no memory. Call it once, before the first read. */
const uint8_t *trace_source_peek(struct trace_source *source, size_t size, size_t *length);

enum trace_packing { TRACE_DEFLATE, TRACE_ZSTD };

/* Unpack bytes in memory into a malloc'd *unpacked. Return 0 or a negative errno; -E2BIG: more than
 * `limit` bytes. */
int trace_unpack(enum trace_packing packing, const uint8_t *bytes, size_t length, size_t limit,
                 uint8_t **unpacked, size_t *unpacked_length);

#endif
