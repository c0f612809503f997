/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as text and back, and a trace without compressed packets: one packet at a time, so that
 * memory is bounded by the largest one.
 *
 * Text and back is the same trace, byte for byte, as text_print.h has it; of one that is compressed
 * (gzip, zstd, compressed packets) the one that trace_text_unpack() writes.
 */
#ifndef HEAPPROFD_TRACE_TEXT_TRACE_TEXT_H
#define HEAPPROFD_TRACE_TEXT_TRACE_TEXT_H

#include <stdint.h>

#include "util/error.h"

/* Told now and then how much of the input, unpacked, was read. May be NULL. */
struct trace_text_progress {
    void (*tell)(void *context, uint64_t bytes);
    void *context;
};

/* All three read a file ("-": standard input), write to fd, and return 0 or a negative errno with
 * *error set; what came before the error is written. */

/* Protobuf's text format of all packets. */
int trace_text_print(const char *path, int fd, const struct trace_text_progress *progress,
                     struct error *error);
/* The trace that a text describes. Errors say line and column. */
int trace_text_read(const char *path, int fd, const struct trace_text_progress *progress,
                    struct error *error);
/* The trace itself, with what compressed packets hold in their place. */
int trace_text_unpack(const char *path, int fd, const struct trace_text_progress *progress,
                      struct error *error);

#endif
