/* SPDX-License-Identifier: Apache-2.0 */
/* Collect chunks, send them, and count the acknowledgements. */
#include "recorder/tracing/producer/commit.h"

#include <stdlib.h>
#include <string.h>

/* Requests without an acknowledgement. The service handles one after the other, so few suffice to
 * keep it busy. */
#define IN_FLIGHT_MAX 16

typedef Perfetto__Protos__CommitDataRequest__ChunksToMove ChunkToMove;

void commit_open(struct commit *commit, struct tracing_connection *connection,
                 struct shared_buffer *buffer)
{
    *commit = (struct commit){.connection = connection, .buffer = buffer};
}

static void forget_chunks(struct commit *commit)
{
    for (size_t i = 0; i < commit->count; i++)
        free(commit->chunks[i].data.data);
    commit->count = commit->bytes = 0;
}

void commit_close(struct commit *commit)
{
    forget_chunks(commit);
    *commit = (struct commit){0};
}

/* Copy the chunk's bytes into the request, and free the chunk. */
static int take_bytes(struct commit *commit, ChunkToMove *entry, const struct shared_chunk *chunk,
                      uint32_t used_bytes)
{
    entry->has_data = true;
    entry->data.data = malloc(used_bytes);
    if (entry->data.data == NULL)
        return error_set(&commit->error, -ENOMEM, "no memory for a chunk");
    memcpy(entry->data.data, chunk->bytes, used_bytes);
    entry->data.len = used_bytes;
    commit->bytes += used_bytes;
    shared_buffer_free(commit->buffer, chunk);
    return 0;
}

void commit_add(struct commit *commit, const struct shared_chunk *chunk, uint32_t used_bytes,
                uint32_t target_buffer)
{
    ChunkToMove *entry = &commit->chunks[commit->count];
    perfetto__protos__commit_data_request__chunks_to_move__init(entry);
    entry->has_page = entry->has_chunk = entry->has_target_buffer = true;
    entry->page = chunk->page;
    entry->chunk = chunk->index;
    entry->target_buffer = target_buffer;
    if (commit->buffer->is_private && take_bytes(commit, entry, chunk, used_bytes) < 0)
        return;
    commit->count++;
    if (commit->count == COMMIT_CHUNKS_MAX || commit->bytes > COMMIT_BYTES_MAX)
        commit_send(commit, 0);
}

static int take_acknowledgement(void *context, struct tracing_reply *reply, struct error *error)
{
    struct commit *commit = context;
    if (!reply->success)
        return tracing_reply_refused(commit->connection, "CommitData", reply, error);
    if (!reply->has_more && commit->in_flight > 0)
        commit->in_flight--;
    commit->acknowledged++;
    commit->buffer->is_paused = false;
    return 0;
}

int commit_send(struct commit *commit, uint64_t flush_id)
{
    ChunkToMove *pointers[COMMIT_CHUNKS_MAX];
    Perfetto__Protos__CommitDataRequest request = PERFETTO__PROTOS__COMMIT_DATA_REQUEST__INIT;
    if (commit->count == 0 && flush_id == 0)
        return commit->error.code;
    for (size_t i = 0; i < commit->count; i++)
        pointers[i] = &commit->chunks[i];
    request.n_chunks_to_move = commit->count;
    request.chunks_to_move = pointers;
    request.has_flush_request_id = flush_id != 0;
    request.flush_request_id = flush_id;
    struct error error;
    int code = tracing_connection_invoke(commit->connection, "CommitData", &request.base, -1,
                                         take_acknowledgement, commit, &error);
    forget_chunks(commit);
    if (code < 0 && commit->error.code == 0)
        commit->error = error;
    if (code == 0)
        commit->in_flight++;
    commit->buffer->is_paused = commit->in_flight >= IN_FLIGHT_MAX;
    return commit->error.code;
}
