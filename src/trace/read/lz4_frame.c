/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a block as a whole: after the last 64 KiB of what was unpacked before, which it may
 * repeat.
 */
#include "trace/read/lz4_frame.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC UINT32_C(0x184d2204)
#define SKIPPED_MAGIC UINT32_C(0x184d2a50) /* to ...5f: bytes of anything, to skip */
#define HISTORY_BYTES 65536u
#define BLOCK_BYTES_MAX (4u << 20)
#define IS_STORED UINT32_C(0x80000000) /* in a block's length */

#define FLAG_DICTIONARY 0x01u
#define FLAG_CHECKSUM 0x04u
#define FLAG_LENGTH 0x08u
#define FLAG_BLOCK_CHECKSUMS 0x10u
#define FLAG_INDEPENDENT 0x20u

struct lz4_frame {
    bool is_open; /* between a frame's head and its end */
    unsigned flags;
    uint32_t block_bytes_max;
    XXH32_state_t checksum;
    uint8_t *packed;
    uint8_t *unpacked; /* HISTORY_BYTES, of which the last `history` count, then the block */
    uint32_t capacity; /* of both: the largest block */
    size_t history;
    size_t at, length;    /* in the block: what was read of it, and its bytes */
    struct error failure; /* after it nothing can be read any more */
};

bool lz4_frame_begins(const uint8_t *bytes, size_t length)
{
    static const uint8_t magic[LZ4_MAGIC_BYTES] = {0x04, 0x22, 0x4d, 0x18};
    return length >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0;
}

struct lz4_frame *lz4_frame_new(void)
{
    return calloc(1, sizeof(struct lz4_frame));
}

void lz4_frame_free(struct lz4_frame *frame)
{
    if (frame == NULL)
        return;
    free(frame->packed);
    free(frame->unpacked);
    free(frame);
}

size_t lz4_frame_bytes(const struct lz4_frame *frame)
{
    return frame == NULL ? 0 : 2 * (size_t)frame->capacity + HISTORY_BYTES;
}

/* --- input --- */

struct input {
    lz4_frame_input *read;
    void *context;
    struct error *error;
};

static int damaged(const struct input *input, const char *why)
{
    return error_set(input->error, -EIO, "the LZ4 data is damaged: %s", why);
}

/* Read exactly `size` bytes. Return 1; 0: the input has ended before the first; or a negative
 * errno. */
static int lz4_frame_take(const struct input *input, void *buffer, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t more =
            input->read(input->context, (uint8_t *)buffer + got, size - got, input->error);
        if (more < 0)
            return (int)more;
        if (more == 0 && got == 0)
            return 0;
        if (more == 0)
            return error_set(input->error, -EIO, "the LZ4 data is cut off");
        got += (size_t)more;
    }
    return 1;
}

static int take_all(const struct input *input, void *buffer, size_t size)
{
    int code = lz4_frame_take(input, buffer, size);
    return code == 0 ? error_set(input->error, -EIO, "the LZ4 data is cut off") : code;
}

static uint32_t number_at(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* --- blocks --- */

/* Read the rest of a length whose four bits are all set. Return false if it is cut off. */
static bool read_length(const uint8_t **at, const uint8_t *end, size_t *length)
{
    uint8_t byte;
    if (*length < 15)
        return true;
    do {
        if (*at == end || *length > BLOCK_BYTES_MAX)
            return false;
        byte = *(*at)++;
        *length += byte;
    } while (byte == 255);
    return true;
}

/* Unpack a block to `out`, which has `room` bytes, and `history` bytes before it. Return its
 * length, or -1 if it is malformed. */
static ssize_t unpack_block(const uint8_t *at, size_t packed, uint8_t *out, size_t room,
                            size_t history)
{
    const uint8_t *end = at + packed;
    size_t made = 0;
    while (at < end) {
        unsigned token = *at++;
        size_t literals = token >> 4, match = token & 15;
        if (!read_length(&at, end, &literals) || literals > (size_t)(end - at) ||
            literals > room - made)
            return -1;
        memcpy(out + made, at, literals);
        at += literals;
        made += literals;
        if (at == end) /* the last sequence has no match */
            return (ssize_t)made;
        if (end - at < 2)
            return -1;
        size_t distance = (size_t)at[0] | (size_t)at[1] << 8;
        at += 2;
        if (!read_length(&at, end, &match))
            return -1;
        match += 4;
        if (distance == 0 || distance > made + history || match > room - made)
            return -1;
        /* The match may overlap what it makes. */
        for (size_t i = 0; i < match; i++, made++)
            out[made] = *(out + made - distance);
    }
    return -1;
}

/* Keep the end of the last block for the next one. */
static void keep_history(struct lz4_frame *frame)
{
    uint8_t *block = frame->unpacked + HISTORY_BYTES;
    size_t all = frame->history + frame->length;
    size_t kept = all < HISTORY_BYTES ? all : HISTORY_BYTES;
    memmove(block - kept, block + frame->length - kept, kept);
    frame->history = (frame->flags & FLAG_INDEPENDENT) != 0 ? 0 : kept;
    frame->at = frame->length = 0;
}

static int end_frame(struct lz4_frame *frame, const struct input *input)
{
    uint8_t checksum[4];
    frame->is_open = false;
    if ((frame->flags & FLAG_CHECKSUM) == 0)
        return 1;
    int code = take_all(input, checksum, sizeof(checksum));
    if (code > 0 && number_at(checksum) != XXH32_digest(&frame->checksum))
        return damaged(input, "its checksum is another one");
    return code;
}

/* Read the next block, or the end of the frame. Return 1 or a negative errno. */
static int read_block(struct lz4_frame *frame, const struct input *input)
{
    uint8_t number[4];
    int code = take_all(input, number, sizeof(number));
    if (code < 0)
        return code;
    uint32_t packed = number_at(number);
    bool is_stored = (packed & IS_STORED) != 0;
    keep_history(frame);
    if (packed == 0)
        return end_frame(frame, input);
    packed &= ~IS_STORED;
    if (packed > frame->block_bytes_max)
        return damaged(input, "a block is larger than the frame allows");
    uint8_t *block = frame->unpacked + HISTORY_BYTES;
    uint8_t *to = is_stored ? block : frame->packed;
    code = take_all(input, to, packed);
    if (code > 0 && (frame->flags & FLAG_BLOCK_CHECKSUMS) != 0) {
        code = take_all(input, number, sizeof(number));
        if (code > 0 && number_at(number) != XXH32(to, packed, 0))
            return damaged(input, "the checksum of a block is another one");
    }
    if (code < 0)
        return code;
    ssize_t length = is_stored ? (ssize_t)packed
                               : unpack_block(frame->packed, packed, block, frame->block_bytes_max,
                                              frame->history);
    if (length < 0)
        return damaged(input, "a block is malformed");
    frame->length = (size_t)length;
    if ((frame->flags & FLAG_CHECKSUM) != 0)
        XXH32_update(&frame->checksum, block, frame->length);
    return 1;
}

/* --- frames --- */

static int lz4_frame_reserve(struct lz4_frame *frame, const struct input *input)
{
    if (frame->block_bytes_max <= frame->capacity)
        return 1;
    free(frame->packed);
    free(frame->unpacked);
    frame->packed = malloc(frame->block_bytes_max);
    frame->unpacked = malloc(HISTORY_BYTES + (size_t)frame->block_bytes_max);
    frame->capacity = 0;
    if (frame->packed == NULL || frame->unpacked == NULL)
        return error_set(input->error, -ENOMEM, "no memory to unpack the trace");
    frame->capacity = frame->block_bytes_max;
    return 1;
}

static int lz4_frame_skip(const struct input *input)
{
    uint8_t bytes[4096];
    int code = take_all(input, bytes, 4);
    for (uint32_t left = number_at(bytes); code > 0 && left > 0;) {
        uint32_t part = left < sizeof(bytes) ? left : (uint32_t)sizeof(bytes);
        code = take_all(input, bytes, part);
        left -= part;
    }
    return code;
}

/* Read the head of a frame after its magic number. */
static int read_head(struct lz4_frame *frame, const struct input *input)
{
    uint8_t head[16];
    int code = take_all(input, head, 2);
    if (code < 0)
        return code;
    unsigned flags = head[0], size = head[1] >> 4 & 7;
    size_t length = 2 + ((flags & FLAG_LENGTH) != 0 ? 8 : 0);
    if (flags >> 6 != 1 || (flags & 2) != 0 || size < 4)
        return damaged(input, "its head is of an unknown version");
    if ((flags & FLAG_DICTIONARY) != 0)
        return damaged(input, "it needs a dictionary");
    code = take_all(input, head + 2, length - 2 + 1);
    if (code < 0)
        return code;
    if (head[length] != (XXH32(head, length, 0) >> 8 & 0xff))
        return damaged(input, "the checksum of its head is another one");
    frame->flags = flags;
    frame->block_bytes_max = UINT32_C(1) << (8 + 2 * size);
    frame->history = frame->at = frame->length = 0;
    XXH32_reset(&frame->checksum, 0);
    frame->is_open = true;
    return lz4_frame_reserve(frame, input);
}

/* Begin the next frame. Return 1, 0 at the end of the data, or a negative errno. */
static int begin_frame(struct lz4_frame *frame, const struct input *input)
{
    uint8_t magic[LZ4_MAGIC_BYTES];
    int code = lz4_frame_take(input, magic, sizeof(magic));
    if (code <= 0)
        return code;
    if (number_at(magic) == MAGIC)
        return read_head(frame, input);
    if ((number_at(magic) & ~UINT32_C(15)) == SKIPPED_MAGIC)
        return lz4_frame_skip(input);
    return damaged(input, "something else follows a frame");
}

ssize_t lz4_frame_read(struct lz4_frame *frame, lz4_frame_input *read, void *context, void *buffer,
                       size_t size, struct error *error)
{
    const struct input input = {read, context, &frame->failure};
    while (frame->failure.code == 0 && frame->at == frame->length) {
        int code = frame->is_open ? read_block(frame, &input) : begin_frame(frame, &input);
        if (code == 0)
            return 0;
    }
    if (frame->failure.code < 0)
        return error_set(error, frame->failure.code, "%s", frame->failure.message);
    size_t left = frame->length - frame->at, length = size < left ? size : left;
    memcpy(buffer, frame->unpacked + HISTORY_BYTES + frame->at, length);
    frame->at += length;
    return (ssize_t)length;
}
