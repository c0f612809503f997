/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the packets of ReadBuffers' replies to a trace file as they come. A packet arrives in
 * slices, over one reply or several; it is written when it is whole. So the file ends with a whole
 * packet wherever the replies end.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_CONSUMER_PACKET_WRITER_H
#define HEAPPROFD_RECORDER_TRACING_CONSUMER_PACKET_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "trace/proto_buffer.h"
#include "util/error.h"

/* Limit of one packet. Perfetto's producers split what is larger than half a megabyte. */
#define PACKET_WRITER_BYTES_MAX ((size_t)64 << 20)

struct packet_writer {
    int fd;
    uint64_t bytes_max;         /* of all packets; more is an error */
    struct proto_buffer packet; /* its slices so far */
    struct proto_buffer out;    /* whole packets, not written yet */
    uint64_t packets, bytes;    /* written */
};

void packet_writer_init(struct packet_writer *writer, int fd, uint64_t bytes_max);
void packet_writer_clear(struct packet_writer *writer);

/* Write the packets that end in a serialized ReadBuffersResponse. Return 0, or a negative errno
 * with a message. */
int packet_writer_add(struct packet_writer *writer, const uint8_t *response, size_t length,
                      struct error *error);

#endif
