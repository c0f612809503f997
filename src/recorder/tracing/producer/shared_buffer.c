/* SPDX-License-Identifier: Apache-2.0 */
/* Find, complete and free chunks by atomic changes of their pages' words. */
#include "recorder/tracing/producer/shared_buffer.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_HEADER_BYTES 8u

/* A page's word: two bits for each chunk, from the lowest on, then the layout. */
#define STATE_BITS 2u
#define STATE_MASK 3u
#define ALL_STATES_MASK 0x0fffffffu
#define LAYOUT_SHIFT 28u
#define LAYOUT_MASK 7u
enum { STATE_FREE, STATE_BEING_WRITTEN, STATE_BEING_READ, STATE_COMPLETE };

/* The other side changes a page's word once for each of its chunks. More failed attempts than
 * this mean that it does so on purpose. */
#define ATTEMPTS_MAX 64

/* Each frame of the emulation has a few chunks, so this much private memory is never used up while
 * frames can be sent. */
#define PRIVATE_BYTES (1u << 20)

static const uint8_t chunk_counts[LAYOUT_MASK + 1] = {0, 1, 2, 4, 7, 14};

_Static_assert(sizeof(struct chunk_header) == 8, "the service reads this header");

/* --- words --- */

static _Atomic uint32_t *word_of(const struct shared_buffer *buffer, uint32_t page)
{
    return (_Atomic uint32_t *)(void *)(buffer->bytes + (size_t)page * buffer->page_bytes);
}

static unsigned layout_of(uint32_t word)
{
    return word >> LAYOUT_SHIFT & LAYOUT_MASK;
}

static unsigned state_of(uint32_t word, unsigned index)
{
    return word >> index * STATE_BITS & STATE_MASK;
}

static uint32_t with_state(uint32_t word, unsigned index, uint32_t state)
{
    return (word & ~(STATE_MASK << index * STATE_BITS)) | state << index * STATE_BITS;
}

/* Return the number of a free chunk, or -1. */
static int free_chunk(uint32_t word)
{
    unsigned count = chunk_counts[layout_of(word)];
    for (unsigned i = 0; i < count; i++) {
        if (state_of(word, i) == STATE_FREE)
            return (int)i;
    }
    return -1;
}

/* --- memory --- */

static int check_page_size(uint32_t page_bytes, size_t bytes, struct error *error)
{
    if (page_bytes < SHARED_BUFFER_PAGE_BYTES_MIN || page_bytes > SHARED_BUFFER_PAGE_BYTES_MAX ||
        page_bytes % SHARED_BUFFER_PAGE_BYTES_MIN != 0)
        return error_set(error, -EPROTO,
                         "the pages of the shared memory have %u bytes: 4096 to "
                         "65536 are possible, in steps of 4096",
                         page_bytes);
    if (bytes < page_bytes || bytes > SHARED_BUFFER_BYTES_MAX || bytes % page_bytes != 0)
        return error_set(error, -EPROTO,
                         "the shared memory has %zu bytes: that is no number of pages of %u bytes, "
                         "or more than %zu bytes",
                         bytes, page_bytes, SHARED_BUFFER_BYTES_MAX);
    return 0;
}

static int map(struct shared_buffer *buffer, int fd, uint32_t page_bytes, struct error *error)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot examine the shared memory: %s", strerror(errno));
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return error_set(error, -EPROTO,
                         "the shared memory may shrink while it is used: it needs "
                         "the seal F_SEAL_SHRINK");
    int code = check_page_size(page_bytes, status.st_size > 0 ? (size_t)status.st_size : 0, error);
    if (code < 0)
        return code;
    size_t bytes = (size_t)status.st_size;
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return error_set(error, -errno, "cannot map the shared memory: %s", strerror(errno));
    *buffer = (struct shared_buffer){
        .bytes = mapped, .page_bytes = page_bytes, .page_count = (uint32_t)(bytes / page_bytes)};
    return 0;
}

int shared_buffer_map(struct shared_buffer *buffer, int fd, uint32_t page_bytes,
                      struct error *error)
{
    *buffer = (struct shared_buffer){0};
    int code = map(buffer, fd, page_bytes, error);
    close(fd);
    return code;
}

int shared_buffer_allocate(struct shared_buffer *buffer, uint32_t page_bytes, struct error *error)
{
    *buffer = (struct shared_buffer){0};
    int code = check_page_size(page_bytes, page_bytes, error);
    if (code < 0)
        return code;
    uint32_t page_count = PRIVATE_BYTES / page_bytes;
    void *mapped = mmap(NULL, (size_t)page_count * page_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return error_set(error, -errno, "no memory for chunks: %s", strerror(errno));
    *buffer = (struct shared_buffer){
        .bytes = mapped, .page_bytes = page_bytes, .page_count = page_count, .is_private = true};
    return 0;
}

void shared_buffer_close(struct shared_buffer *buffer)
{
    if (buffer->bytes != NULL)
        munmap(buffer->bytes, (size_t)buffer->page_bytes * buffer->page_count);
    *buffer = (struct shared_buffer){0};
}

/* --- chunks --- */

uint32_t shared_buffer_chunk_bytes(uint32_t page_bytes, unsigned layout)
{
    return (page_bytes - PAGE_HEADER_BYTES) / chunk_counts[layout] & ~3u;
}

/* Return the layout with the smallest chunks that have room for `wanted` bytes. */
static unsigned choose_layout(const struct shared_buffer *buffer, size_t wanted)
{
    unsigned layout = CHUNK_LAYOUT_14;
    while (layout > CHUNK_LAYOUT_1 && shared_buffer_chunk_bytes(buffer->page_bytes, layout) <
                                          wanted + sizeof(struct chunk_header))
        layout--;
    return layout;
}

/* Take a free chunk of a page that may have become free of chunks meanwhile, or full. */
static bool shared_buffer_take(struct shared_buffer *buffer, uint32_t page, unsigned layout,
                               struct shared_chunk *chunk)
{
    _Atomic uint32_t *word = word_of(buffer, page);
    uint32_t before = atomic_load_explicit(word, memory_order_acquire);
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        uint32_t from = before == 0 ? (uint32_t)layout << LAYOUT_SHIFT : before;
        int index = free_chunk(from);
        if (index < 0)
            return false;
        /* Acquire: the service has read what the chunk had before. */
        if (!atomic_compare_exchange_strong_explicit(
                word, &before, with_state(from, (unsigned)index, STATE_BEING_WRITTEN),
                memory_order_acq_rel, memory_order_acquire))
            continue;
        chunk->layout = (uint8_t)layout_of(from);
        chunk->index = (uint8_t)index;
        chunk->page = page;
        chunk->size = shared_buffer_chunk_bytes(buffer->page_bytes, chunk->layout);
        chunk->bytes = buffer->bytes + (size_t)page * buffer->page_bytes + PAGE_HEADER_BYTES +
                       (size_t)chunk->index * chunk->size;
        buffer->next_page = page;
        return true;
    }
    return false;
}

bool shared_buffer_acquire(struct shared_buffer *buffer, size_t wanted, struct shared_chunk *chunk)
{
    unsigned layout = choose_layout(buffer, wanted);
    uint32_t empty = UINT32_MAX, other = UINT32_MAX;
    uint32_t page_count = buffer->is_paused ? 0 : buffer->page_count;
    for (uint32_t i = 0; i < page_count; i++) {
        uint32_t page = (buffer->next_page + i) % buffer->page_count;
        uint32_t word = atomic_load_explicit(word_of(buffer, page), memory_order_relaxed);
        if (word == 0 && empty == UINT32_MAX)
            empty = page;
        else if (word != 0 && free_chunk(word) >= 0 && layout_of(word) == layout &&
                 shared_buffer_take(buffer, page, layout, chunk))
            return true;
        else if (word != 0 && free_chunk(word) >= 0 && other == UINT32_MAX)
            other = page;
        /* No page that has this layout has a free chunk. */
        if (layout == CHUNK_LAYOUT_1 && empty != UINT32_MAX)
            break;
    }
    if (empty != UINT32_MAX && shared_buffer_take(buffer, empty, layout, chunk))
        return true;
    /* A chunk of another size: the packet gets more or fewer fragments. */
    return other != UINT32_MAX && shared_buffer_take(buffer, other, layout, chunk);
}

/* Change the state of a chunk. A page without used chunks loses its layout. Return false if the
 * chunk is not in the state `from`. */
static bool change_state(struct shared_buffer *buffer, const struct shared_chunk *chunk,
                         unsigned from, unsigned to)
{
    _Atomic uint32_t *word = word_of(buffer, chunk->page);
    uint32_t before = atomic_load_explicit(word, memory_order_relaxed);
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        if (layout_of(before) != chunk->layout || state_of(before, chunk->index) != from)
            return false;
        uint32_t after = with_state(before, chunk->index, to);
        if ((after & ALL_STATES_MASK) == 0)
            after = 0;
        /* Release: the chunk's bytes are written before the service sees that it is complete. */
        if (atomic_compare_exchange_strong_explicit(word, &before, after, memory_order_acq_rel,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

bool shared_buffer_complete(struct shared_buffer *buffer, const struct shared_chunk *chunk)
{
    return change_state(buffer, chunk, STATE_BEING_WRITTEN, STATE_COMPLETE);
}

void shared_buffer_free(struct shared_buffer *buffer, const struct shared_chunk *chunk)
{
    change_state(buffer, chunk, STATE_COMPLETE, STATE_FREE);
}
