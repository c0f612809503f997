/* SPDX-License-Identifier: Apache-2.0 */
/* Writes packed or plain, and keeps the first error. */
#include "util/packed_file.h"

#include <errno.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "util/array.h"
#include "util/write_all.h"

/*
 * Writes one gzip stream, packed by several threads. The bytes are cut into blocks; each is packed
 * by itself, up to a byte's boundary, and they follow each other in one deflate stream.
 */

/* The fastest level: its output is a sixth larger than the default's, in a third of the time, which
 * users notice after a short run. */
#define GZIP_LEVEL 1

/* A thread is started for each block. It packs one in 2 ms, and starts in 0.05 ms. */
#define BLOCK_BYTES ((size_t)256 << 10)
#define THREADS_MAX 8u
#define BLOCKS (2 * THREADS_MAX + 2)

struct block {
    uint8_t *bytes, *packed;
    size_t length, packed_length;
    uLong crc;
    int code; /* negative errno */
    bool has_thread;
    pthread_t thread;
    _Atomic bool is_packed;
};

struct parallel_gzip {
    int fd, code;
    unsigned threads;
    struct block blocks[BLOCKS];
    /* Number of blocks that were written, and that were cut; the next one is being filled. */
    unsigned written, cut;
    uLong crc;
    uint64_t length;
};

static struct block *block_at(struct parallel_gzip *gzip, unsigned number)
{
    return &gzip->blocks[number % BLOCKS];
}

static int pack_bytes(struct block *block)
{
    z_stream stream = {.next_in = block->bytes, .avail_in = (uInt)block->length};
    if (deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t room = deflateBound(&stream, block->length) + 64; /* the end of a block */
    block->packed = malloc(room);
    stream.next_out = block->packed;
    stream.avail_out = (uInt)room;
    bool is_whole = block->packed != NULL && deflate(&stream, Z_SYNC_FLUSH) == Z_OK &&
                    stream.avail_in == 0 && stream.avail_out > 0;
    block->packed_length = room - stream.avail_out;
    deflateEnd(&stream);
    block->crc = crc32(crc32(0, NULL, 0), block->bytes, (uInt)block->length);
    return is_whole ? 0 : -ENOMEM;
}

static void *pack(void *context)
{
    struct block *block = context;
    block->code = pack_bytes(block);
    block->is_packed = true;
    return NULL;
}

static void packed_file_put(struct parallel_gzip *gzip, const void *bytes, size_t length)
{
    if (gzip->code == 0)
        gzip->code = write_all(gzip->fd, bytes, length);
}

/* Write the oldest block. */
static void write_block(struct parallel_gzip *gzip)
{
    struct block *block = block_at(gzip, gzip->written++);
    if (block->has_thread)
        pthread_join(block->thread, NULL);
    if (gzip->code == 0)
        gzip->code = block->code;
    packed_file_put(gzip, block->packed, block->packed_length);
    gzip->crc = crc32_combine(gzip->crc, block->crc, (z_off_t)block->length);
    gzip->length += block->length;
    free(block->packed);
    free(block->bytes);
    *block = (struct block){0};
}

static unsigned count_busy(struct parallel_gzip *gzip)
{
    unsigned busy = 0;
    for (unsigned i = gzip->written; i != gzip->cut; i++)
        busy += block_at(gzip, i)->has_thread && !block_at(gzip, i)->is_packed;
    return busy;
}

/* Have the block that was filled packed, by a thread if one may be started. */
static void cut_block(struct parallel_gzip *gzip)
{
    struct block *block = block_at(gzip, gzip->cut);
    block->has_thread =
        count_busy(gzip) < gzip->threads && pthread_create(&block->thread, NULL, pack, block) == 0;
    if (!block->has_thread)
        pack(block);
    gzip->cut++;
    while (gzip->written != gzip->cut &&
           (block_at(gzip, gzip->written)->is_packed || gzip->cut - gzip->written == BLOCKS - 1))
        write_block(gzip);
}

/* Pack with this number of threads beside the caller's. The descriptor stays the caller's. NULL: no
 * memory. */
static struct parallel_gzip *parallel_gzip_open(int fd, unsigned threads)
{
    /* Magic, deflate, no flags, no time, fastest, Unix. */
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3};
    struct parallel_gzip *gzip = calloc(1, sizeof(*gzip));
    if (gzip == NULL)
        return NULL;
    gzip->fd = fd;
    gzip->threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    gzip->crc = crc32(0, NULL, 0);
    packed_file_put(gzip, head, sizeof(head));
    return gzip;
}

static void parallel_gzip_write(struct parallel_gzip *gzip, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    while (length > 0 && gzip->code == 0) {
        struct block *block = block_at(gzip, gzip->cut);
        size_t room = BLOCK_BYTES - block->length, part = length < room ? length : room;
        if (block->bytes == NULL && (block->bytes = malloc(BLOCK_BYTES)) == NULL) {
            gzip->code = -ENOMEM;
            return;
        }
        memcpy(block->bytes + block->length, at, part);
        block->length += part;
        at += part;
        length -= part;
        if (block->length == BLOCK_BYTES)
            cut_block(gzip);
    }
}

/* Return 0, or the negative errno of the first failure since the opening. */
static int parallel_gzip_close(struct parallel_gzip *gzip)
{
    /* An empty last block of fixed codes, then the checksum and the length. */
    uint8_t tail[10] = {3, 0};
    /* The caller would only wait. */
    gzip->threads = 0;
    if (block_at(gzip, gzip->cut)->length > 0)
        cut_block(gzip);
    while (gzip->written != gzip->cut)
        write_block(gzip);
    for (unsigned i = 0; i < 4; i++) {
        tail[2 + i] = (uint8_t)(gzip->crc >> 8 * i);
        tail[6 + i] = (uint8_t)(gzip->length >> 8 * i);
    }
    packed_file_put(gzip, tail, sizeof(tail));
    int code = gzip->code;
    free(block_at(gzip, gzip->cut)->bytes);
    free(gzip);
    return code;
}

/* One thread packs this in 10 ms. */
#define KEPT_BYTES_MAX ((size_t)4 << 20)

bool packed_file_is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".gz") == 0;
}

void packed_file_open(struct packed_file *file, int fd, bool gzip, unsigned threads)
{
    *file = (struct packed_file){.fd = fd, .gzip = gzip, .threads = threads};
}

static void free_kept(struct packed_file *file)
{
    free(file->kept);
    file->kept = NULL;
    file->kept_length = file->kept_capacity = 0;
}

/* The file is large: pack it in blocks from now on, with what was kept as the first ones. */
static void begin_large(struct packed_file *file)
{
    file->large = parallel_gzip_open(file->fd, file->threads);
    if (file->large != NULL)
        parallel_gzip_write(file->large, file->kept, file->kept_length);
    else
        file->code = -ENOMEM;
    free_kept(file);
}

static void write_gzip(struct packed_file *file, const void *bytes, size_t length)
{
    if (file->large == NULL && length > KEPT_BYTES_MAX - file->kept_length)
        begin_large(file);
    if (file->code != 0 || length == 0)
        return;
    if (file->large != NULL) {
        parallel_gzip_write(file->large, bytes, length);
        return;
    }
    file->code = ARRAY_RESERVE(&file->kept, &file->kept_capacity, file->kept_length, length);
    if (file->code != 0)
        return;
    memcpy(file->kept + file->kept_length, bytes, length);
    file->kept_length += length;
}

void packed_file_write(struct packed_file *file, const void *bytes, size_t length)
{
    if (file->code != 0)
        return;
    if (file->gzip)
        write_gzip(file, bytes, length);
    else
        file->code = write_all(file->fd, bytes, length);
}

/* Pack and write what was kept. Return 0 or a negative errno. */
static int write_kept(const struct packed_file *file)
{
    int code = -ENOMEM;
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(GZIP_LEVEL);
    if (compressor == NULL)
        return code;
    size_t room = libdeflate_gzip_compress_bound(compressor, file->kept_length);
    uint8_t *packed = malloc(room);
    if (packed != NULL) {
        size_t length =
            libdeflate_gzip_compress(compressor, file->kept, file->kept_length, packed, room);
        code = write_all(file->fd, packed, length);
    }
    free(packed);
    libdeflate_free_compressor(compressor);
    return code;
}

int packed_file_close(struct packed_file *file)
{
    int code = file->code;
    if (file->large != NULL)
        code = parallel_gzip_close(file->large);
    else if (file->gzip && code == 0)
        code = write_kept(file);
    file->large = NULL;
    free_kept(file);
    return code;
}
