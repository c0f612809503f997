/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the packets of a trace one after the other, from a file, standard input
 * or memory, gzip or zstd as a whole or packet by packet. Holds one packet (or
 * one bundle of compressed packets) at a time.
 */
#ifndef HEAPPROFD_TRACE_READ_TRACE_READER_H
#define HEAPPROFD_TRACE_READ_TRACE_READER_H

#include <stdint.h>

#include "trace/proto_cursor.h"
#include "util/error.h"

/* More in one packet, packed or not, is taken for damage. */
#define TRACE_READER_PACKET_BYTES_MAX (UINT64_C(256) << 20)

struct trace_reader;

/* "-": standard input. NULL with *error set. */
struct trace_reader *trace_reader_open(const char *path, struct error *error);
struct trace_reader *trace_reader_open_bytes(const void *bytes, size_t length, struct error *error);
/* Of a source (NULL passes its failure on), which is closed with the reader, or at once on failure.
 */
struct trace_source;
struct trace_reader *trace_reader_open_source(struct trace_source *source, struct error *error);
void trace_reader_close(struct trace_reader *reader);

/* 1: *packet is the next TracePacket, valid until the next call; 0: the end;
 * negative errno: cut off or damaged, *error says where and how. */
int trace_reader_next(struct trace_reader *reader, struct proto_span *packet, struct error *error);

/* The same of any field of the file, packet or not: all its bytes, key and length included.
 * Together they are the file, but that compressed packets are unpacked. */
int trace_reader_next_raw(struct trace_reader *reader, struct proto_span *raw, struct error *error);

/* See trace_source_check(). */
int trace_reader_check(const struct trace_reader *reader, struct error *error);
/* Where the last packet began in the (unpacked) file. */
uint64_t trace_reader_offset(const struct trace_reader *reader);

#endif
