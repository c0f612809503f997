/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a sequence of packets into chunks of a shared buffer. A packet may span any number of
 * chunks: each has a fragment of it, preceded by the fragment's size. Whole packets are given, so
 * every size is known when it is written, and no chunk needs a patch later.
 *
 * If no chunk is free, the writer stays in the middle of the packet, and is called again with the
 * same packet later. A packet that waits for too long can be given up; the next one says so.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_CHUNK_WRITER_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_CHUNK_WRITER_H

#include "recorder/tracing/producer/shared_buffer.h"

/* Called for each chunk that is complete, with the bytes of it that are in use. */
struct chunk_writer_user {
    void (*completed)(void *context, const struct shared_chunk *chunk, uint32_t used_bytes,
                      uint32_t target_buffer);
    void *context;
};

struct chunk_writer {
    struct shared_buffer *buffer;
    const struct chunk_writer_user *user;
    uint16_t id;            /* of this writer, unique in the producer; not 0 */
    uint32_t target_buffer; /* the service's */
    uint32_t next_chunk_id;
    bool has_chunk;
    struct shared_chunk chunk;
    uint32_t used;             /* bytes of the chunk */
    unsigned fragments, flags; /* of the chunk */
    size_t done;               /* bytes of the packet that are in chunks */
    bool was_cut;              /* the packet given up last has fragments in complete chunks */
    bool has_lost;             /* packets were given up since the last one that was written */
    uint64_t lost_packets;
};

enum chunk_writer_result {
    PACKET_WRITTEN,
    PACKET_WAITS,  /* no chunk is free */
    PACKET_BROKEN, /* the service has changed the state of our chunk */
};

/* Write a packet, or the rest of it. `ahead`: bytes that are about to be written, this packet
 * included; they decide the size of the next chunk. An empty packet is written only if earlier ones
 * were lost, to say so. */
enum chunk_writer_result chunk_writer_put(struct chunk_writer *writer, const uint8_t *packet,
                                          size_t length, size_t ahead);

/* Give up the packet that waits. */
void chunk_writer_give_up(struct chunk_writer *writer);

/* Complete the chunk that is being written, if there is one. Return false if the service has
 * changed its state. */
bool chunk_writer_flush(struct chunk_writer *writer);

#endif
