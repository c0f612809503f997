/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory through which a producer passes packets to Perfetto's tracing service.
 *
 * The memory consists of pages. Each begins with 8 bytes: a word with the page's layout and the
 * states of its chunks, and a reserved word. The layout says into how many equal chunks the rest is
 * divided: 1, 2, 4, 7 or 14. A chunk belongs to one side at a time:
 *
 *     free ─(producer)▸ being written ─(producer)▸ complete ─(service)▸ being read ─(service)▸ free
 *
 * A page whose chunks are all free has no layout. If the service shares no memory (emulation), the
 * memory is private, complete chunks are sent as bytes, and the producer frees them.
 *
 * The service is another process and may write anything anywhere in the memory at any time. So a
 * page's word chooses among chunks, and cannot lead outside the page; every loop has a bound; and
 * the memory must be sealed against shrinking, or else we could be killed in the middle of a write.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_SHARED_BUFFER_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_SHARED_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

#define SHARED_BUFFER_PAGE_BYTES_MIN 4096u
#define SHARED_BUFFER_PAGE_BYTES_MAX 65536u
#define SHARED_BUFFER_BYTES_MAX ((size_t)256 << 20)

/* Layouts, by their numbers in a page's word. */
enum {
    CHUNK_LAYOUT_NONE,
    CHUNK_LAYOUT_1,
    CHUNK_LAYOUT_2,
    CHUNK_LAYOUT_4,
    CHUNK_LAYOUT_7,
    CHUNK_LAYOUT_14,
    CHUNK_LAYOUTS
};

/* A chunk begins with this header. The producer writes it before the chunk is complete. */
struct chunk_header {
    uint32_t chunk_id;
    uint16_t writer_id;
    uint16_t packets; /* number of fragments, and CHUNK_* flags */
};

#define CHUNK_FRAGMENTS_MAX 1023u
#define CHUNK_FLAGS_SHIFT 10
enum {
    CHUNK_FIRST_CONTINUES = 1, /* its first fragment continues the last one of the previous chunk */
    CHUNK_LAST_CONTINUES = 2,  /* its last fragment continues in the next chunk */
};

struct shared_buffer {
    uint8_t *bytes; /* NULL: none */
    uint32_t page_bytes, page_count;
    bool is_private;
    bool is_paused;     /* no chunk is given out */
    uint32_t next_page; /* where the next search begins */
};

/* A chunk that the producer writes, or has written. */
struct shared_chunk {
    uint8_t *bytes; /* the header first */
    uint32_t size;
    uint32_t page;
    uint8_t index, layout;
};

/* Map the service's memory. Takes ownership of fd. Return 0 or a negative errno with a message. */
int shared_buffer_map(struct shared_buffer *buffer, int fd, uint32_t page_bytes,
                      struct error *error);
/* Allocate private memory. Returns as above. */
int shared_buffer_allocate(struct shared_buffer *buffer, uint32_t page_bytes, struct error *error);
void shared_buffer_close(struct shared_buffer *buffer);

/* Return the size of a chunk, header included. */
uint32_t shared_buffer_chunk_bytes(uint32_t page_bytes, unsigned layout);

/* Find a free chunk for `wanted` bytes after its header, or a page's only chunk if they need more
 * than one. It is being written from now on. Return false if none is free. */
bool shared_buffer_acquire(struct shared_buffer *buffer, size_t wanted, struct shared_chunk *chunk);

/* Give a written chunk to the service. Return false if somebody else has changed its state. */
bool shared_buffer_complete(struct shared_buffer *buffer, const struct shared_chunk *chunk);

/* Free a complete chunk of private memory: its bytes were sent. */
void shared_buffer_free(struct shared_buffer *buffer, const struct shared_chunk *chunk);

#endif
