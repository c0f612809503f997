/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a trace to text and back, and unpacks compressed packets: one packet at a time, so that
 * the largest one bounds memory.
 *
 * A trace that we wrote is the same byte for byte after conversion to text and back; another one
 * has the same fields in canonical encoding (text_print.h). For a compressed trace (gzip, zstd,
 * compressed packets), the result is what trace_text_unpack() writes.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TRACE_TEXT_H
#define HEAPPROFD_TRACE_TEXT_TRACE_TEXT_H

#include <stdint.h>

#include "util/error.h"

/* Receives the number of unpacked input bytes that were read, from time to time. May be NULL. */
struct trace_text_progress {
    void (*tell)(void *context, uint64_t bytes);
    void *context;
};

/* All three functions read a file ("-": standard input), write to fd, and return 0 or a negative
 * errno with *error set. Output before the error is written. */

/* Write all packets in protobuf's text format. */
int trace_text_print(const char *path, int fd, const struct trace_text_progress *progress,
                     struct error *error);
/* Write the trace that a text describes. Errors contain line and column. */
int trace_text_read(const char *path, int fd, const struct trace_text_progress *progress,
                    struct error *error);
/* Write the trace with its compressed packets unpacked. */
int trace_text_unpack(const char *path, int fd, const struct trace_text_progress *progress,
                      struct error *error);

#endif
