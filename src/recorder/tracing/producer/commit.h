/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the tracing service which chunks are complete (CommitData), several at once. Each request
 * is acknowledged when the service has taken the chunks and freed them. If too many are not
 * acknowledged, the buffer pauses: a service that does not keep up slows the writers down. Without
 * shared memory the chunks' bytes go with the request.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_COMMIT_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_COMMIT_H

#include <tracing_service.pb-c.h>

#include "recorder/tracing/ipc/connection.h"
#include "recorder/tracing/producer/shared_buffer.h"

/* Chunks of a request. With pages of 4 KB it is half a megabyte. */
#define COMMIT_CHUNKS_MAX 128
/* Bytes of chunks in a request, which must fit in a frame with the largest chunk. */
#define COMMIT_BYTES_MAX ((size_t)60 << 10)

struct commit {
    struct tracing_connection *connection;
    struct shared_buffer *buffer;
    Perfetto__Protos__CommitDataRequest__ChunksToMove chunks[COMMIT_CHUNKS_MAX];
    size_t count, bytes;
    unsigned in_flight;    /* requests that are not acknowledged */
    uint64_t acknowledged; /* requests */
    struct error error;    /* the first one; code 0: none */
};

void commit_open(struct commit *commit, struct tracing_connection *connection,
                 struct shared_buffer *buffer);
void commit_close(struct commit *commit);

/* Add a complete chunk, and send the request if it is full. */
void commit_add(struct commit *commit, const struct shared_chunk *chunk, uint32_t used_bytes,
                uint32_t target_buffer);

/* Send the request if it has chunks, or acknowledges a flush (id 0: none). Return 0, or a negative
 * errno: commit->error has its message. */
int commit_send(struct commit *commit, uint64_t flush_id);

#endif
