/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Perfetto's IPC: a stream of messages IPCFrame, each after 4 bytes with its length
 * (little-endian). A descriptor (SCM_RIGHTS) belongs to the frame with whose bytes it came.
 *
 * The reader takes a stream that is cut anywhere. It trusts nothing in it: a frame that is too long
 * or cannot be decoded is an error, after which nothing can be read.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_IPC_FRAME_H
#define HEAPPROFD_RECORDER_TRACING_IPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tracing_service.pb-c.h>

#include "util/error.h"

#define TRACING_FRAME_HEADER_BYTES 4
/* Perfetto's limit is 128 KiB for a frame with its header. */
#define TRACING_FRAME_BYTES_MAX ((size_t)128 * 1024 - TRACING_FRAME_HEADER_BYTES)

struct tracing_frame_reader {
    uint8_t *bytes; /* NULL until the first call */
    size_t start, end;
    uint64_t taken;        /* bytes of all earlier frames, for messages */
    int descriptor;        /* -1: none waits for its frame */
    size_t descriptor_end; /* of the bytes that it came with */
};

struct tracing_frame {
    Perfetto__Protos__IPCFrame *message;
    int descriptor; /* -1: none */
};

void tracing_frame_reader_init(struct tracing_frame_reader *reader);
void tracing_frame_reader_clear(struct tracing_frame_reader *reader);

/* Receive what the socket has, without waiting, after tracing_frame_next() has returned 0. Return
 * the number of bytes, 0 at the stream's end, or a negative errno (-EAGAIN: nothing is there). Of
 * several descriptors keep the first one. */
ssize_t tracing_frame_receive(struct tracing_frame_reader *reader, int socket);

/* Take the next frame. Return 1 with *frame, 0 if no frame is complete yet, or a negative errno
 * with a message. Empty frames are skipped. */
int tracing_frame_next(struct tracing_frame_reader *reader, struct tracing_frame *frame,
                       struct error *error);

/* Free the message, and close the descriptor if nobody took it (and set it to -1). */
void tracing_frame_clear(struct tracing_frame *frame);

/* Return whether the stream ends, or has ended, inside a frame. */
static inline bool tracing_frame_is_cut(const struct tracing_frame_reader *reader)
{
    return reader->end > reader->start;
}

/* Return the bytes of a message with its header, or 0 if it is too long for a frame. */
size_t tracing_frame_bytes(const Perfetto__Protos__IPCFrame *message);

/* Write the header and the message: tracing_frame_bytes() bytes. */
void tracing_frame_write(const Perfetto__Protos__IPCFrame *message, uint8_t *into);

#endif
