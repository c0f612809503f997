/* SPDX-License-Identifier: Apache-2.0 */
/* Read the members of a tar archive, and skip those that are not traces. */
#include "trace/read/tar_traces.h"

#include <errno.h>
#include <string.h>

#include "trace/read/lz4_frame.h"

#define SIZE_AT 124u
#define SIZE_BYTES 12u
#define CHECKSUM_AT 148u
#define CHECKSUM_BYTES 8u
#define TYPE_AT 156u
#define MAGIC_AT 257u
/* The first byte of every trace: the key of Trace.packet. */
#define TRACE_BYTE 0x0au

/* Read octal digits after spaces, up to the first other byte. */
static uint64_t read_octal(const uint8_t *digits, size_t length)
{
    uint64_t value = 0;
    size_t at = 0;
    while (at < length && digits[at] == ' ')
        at++;
    while (at < length && digits[at] >= '0' && digits[at] <= '7')
        value = value << 3 | (uint64_t)(digits[at++] - '0');
    return value;
}

/* Read a member's size: twelve bytes of octal digits or, from 8 GiB on, a binary number whose
 * highest bit is set. */
static uint64_t read_size(const uint8_t block[TAR_BLOCK_BYTES])
{
    const uint8_t *field = block + SIZE_AT;
    uint64_t value = 0;
    if ((*field & 0x80) == 0)
        return read_octal(field, SIZE_BYTES);
    for (size_t i = SIZE_BYTES - sizeof(value); i < SIZE_BYTES; i++)
        value = value << 8 | field[i];
    return value & INT64_MAX;
}

bool tar_is_header(const uint8_t block[TAR_BLOCK_BYTES])
{
    uint64_t sum = CHECKSUM_BYTES * ' ';
    if (memcmp(block + MAGIC_AT, "ustar", strlen("ustar")) != 0)
        return false;
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += i < CHECKSUM_AT || i >= CHECKSUM_AT + CHECKSUM_BYTES ? block[i] : 0;
    return sum == read_octal(block + CHECKSUM_AT, CHECKSUM_BYTES);
}

/* Read `size` bytes, or fewer at the archive's end. Return how many. */
static ssize_t read_fully(tar_read *read, void *from, uint8_t *buffer, size_t size,
                          struct error *error)
{
    size_t got = 0;
    ssize_t more = 1;
    while (got < size && (more = read(from, buffer + got, size - got, error)) > 0)
        got += (size_t)more;
    return more < 0 ? more : (ssize_t)got;
}

static int fail_short(struct error *error)
{
    return error_set(error, -EIO, "the tar archive is cut off");
}

static int tar_traces_skip(tar_read *read, void *from, uint64_t bytes, struct error *error)
{
    uint8_t passed[4096];
    while (bytes > 0) {
        ssize_t got =
            read(from, passed, bytes < sizeof(passed) ? (size_t)bytes : sizeof(passed), error);
        if (got <= 0)
            return got < 0 ? (int)got : fail_short(error);
        bytes -= (uint64_t)got;
    }
    return 0;
}

/* Check whether a member is a trace, and skip it if it is not. A compressed trace is an error:
 * skipping it would lose it silently. */
static int check_member(struct tar_traces *tar, tar_read *read, void *from, const uint8_t *block,
                        struct error *error)
{
    static const uint8_t zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    size_t wanted = tar->left < sizeof(tar->first) ? (size_t)tar->left : sizeof(tar->first);
    ssize_t got = read_fully(read, from, tar->first, wanted, error);
    if (got < 0 || (size_t)got < wanted)
        return got < 0 ? (int)got : fail_short(error);
    tar->left -= wanted;
    bool is_packed =
        wanted == sizeof(tar->first) && (memcmp(tar->first, "\x1f\x8b", 2) == 0 ||
                                         memcmp(tar->first, zstd_magic, sizeof(zstd_magic)) == 0 ||
                                         lz4_frame_begins(tar->first, wanted));
    if (is_packed)
        return error_set(
            error, -ENOTSUP,
            "%.100s in the tar archive is compressed by itself: unpack the archive and name the "
            "files in it",
            (const char *)block);
    tar->first_at = 0;
    tar->first_length = (uint32_t)wanted;
    if (tar->first[0] == TRACE_BYTE)
        return 0;
    tar->first_length = 0;
    uint64_t rest = tar->left;
    tar->left = 0;
    return tar_traces_skip(read, from, rest, error);
}

/* Go to the next member, which may have nothing to read. */
static int next_member(struct tar_traces *tar, tar_read *read, void *from, struct error *error)
{
    static const uint8_t nothing[TAR_BLOCK_BYTES];
    uint8_t block[TAR_BLOCK_BYTES];
    int result = tar_traces_skip(read, from, tar->padding, error);
    tar->padding = 0;
    if (result < 0)
        return result;
    ssize_t got = read_fully(read, from, block, sizeof(block), error);
    if (got < 0)
        return (int)got;
    tar->ended =
        got == 0 || ((size_t)got == sizeof(block) && memcmp(block, nothing, sizeof(block)) == 0);
    if (tar->ended)
        return 0;
    if ((size_t)got < sizeof(block))
        return fail_short(error);
    if (!tar_is_header(block))
        return error_set(error, -EBADMSG,
                         "the tar archive is damaged: no member begins where one should");
    uint64_t size = read_size(block);
    tar->padding = (uint32_t)(-size % TAR_BLOCK_BYTES);
    uint8_t type = block[TYPE_AT];
    if ((type != '0' && type != '\0') || size == 0)
        return tar_traces_skip(read, from, size, error);
    tar->left = size;
    return check_member(tar, read, from, block, error);
}

ssize_t tar_read_traces(struct tar_traces *tar, tar_read *read, void *from, void *buffer,
                        size_t size, struct error *error)
{
    while (tar->first_at == tar->first_length && tar->left == 0 && !tar->ended) {
        int result = next_member(tar, read, from, error);
        if (result < 0)
            return result;
    }
    if (tar->first_at < tar->first_length) {
        size_t length = tar->first_length - tar->first_at;
        length = size < length ? size : length;
        memcpy(buffer, tar->first + tar->first_at, length);
        tar->first_at += (uint32_t)length;
        return (ssize_t)length;
    }
    if (tar->ended)
        return 0;
    ssize_t got = read(from, buffer, tar->left < size ? (size_t)tar->left : size, error);
    if (got == 0)
        return fail_short(error);
    tar->left -= got > 0 ? (uint64_t)got : 0;
    return got;
}
