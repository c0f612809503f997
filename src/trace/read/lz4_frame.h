/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks LZ4 frames (https://github.com/lz4/lz4, doc/lz4_Frame_format.md), one after another, as a
 * stream. Every checksum that a frame has is verified. Frames that need a dictionary, and those of
 * the format before frames, are refused.
 */
#ifndef HEAPPROFD_TRACE_READ_LZ4_FRAME_H
#define HEAPPROFD_TRACE_READ_LZ4_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

#define LZ4_MAGIC_BYTES 4u

struct lz4_frame;

/* Return whether a frame begins so. */
bool lz4_frame_begins(const uint8_t *bytes, size_t length);

struct lz4_frame *lz4_frame_new(void);
void lz4_frame_free(struct lz4_frame *frame);
/* Return the memory that the frame's blocks need, which whoever packed them chose: at most 8 MiB
 * and a little. */
size_t lz4_frame_bytes(const struct lz4_frame *frame);

/* Reads packed bytes: like trace_source_read(). */
typedef ssize_t lz4_frame_input(void *context, void *buffer, size_t size, struct error *error);

/* Read up to `size` unpacked bytes. Return 0 at the end, or a negative errno with *error set. */
ssize_t lz4_frame_read(struct lz4_frame *frame, lz4_frame_input *input, void *context, void *buffer,
                       size_t size, struct error *error);

#endif
