/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the packets of a trace one after the other, from a file, standard input or memory. The
 * trace may be compressed (gzip or zstd) as a whole or packet by packet. Keeps one packet (or one
 * bundle of compressed packets) in memory.
 */
#ifndef HEAPPROFD_TRACE_READ_TRACE_READER_H
#define HEAPPROFD_TRACE_READ_TRACE_READER_H

#include <stdint.h>

#include "trace/proto_cursor.h"
#include "util/error.h"

/* A larger packet, compressed or not, counts as damage. */
#define TRACE_READER_PACKET_BYTES_MAX (UINT64_C(256) << 20)

struct trace_reader;

/* Open a file; "-": standard input. Return NULL with *error set. */
struct trace_reader *trace_reader_open(const char *path, struct error *error);
/* Open a source, which is closed with the reader, or at once after an error. A NULL source returns
 * NULL. */
struct trace_source;
struct trace_reader *trace_reader_open_source(struct trace_source *source, struct error *error);
void trace_reader_close(struct trace_reader *reader);

/* From now on, read the packets of withdrawn checkpoints like others. */
void trace_reader_take_withdrawn(struct trace_reader *reader);

/* Read the next packet. Return 1: *packet is valid until the next call; 0: the end; negative errno:
 * the trace is cut off or damaged, and *error says where and how. */
int trace_reader_next(struct trace_reader *reader, struct proto_span *packet, struct error *error);

/* Read the next field of the file in the same way, packet or not, with all its bytes including key
 * and length. All fields together are the file, except that compressed packets are unpacked. */
int trace_reader_next_raw(struct trace_reader *reader, struct proto_span *raw, struct error *error);

/* Call trace_source_check() on the source. */
int trace_reader_check(const struct trace_reader *reader, struct error *error);
/* Return the offset of the last packet in the (unpacked) file. */
uint64_t trace_reader_offset(const struct trace_reader *reader);

#endif
