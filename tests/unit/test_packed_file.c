/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are packed at once or in blocks: one gzip stream of the same bytes, whatever the size.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "util/packed_file.h"

/* Largest size that is packed at once. */
#define KEPT_BYTES_MAX ((size_t)4 << 20)

static uint8_t *make_bytes(size_t length)
{
    uint8_t *bytes = malloc(length + 1);
    uint64_t random = 1;
    for (size_t i = 0; i < length; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        bytes[i] = i % 16 < 12 ? (uint8_t)(i >> 6) : (uint8_t)(random >> 56);
    }
    return bytes;
}

/* Write the bytes in pieces of this size. Return the file's descriptor. */
static int write_in_pieces(const uint8_t *bytes, size_t length, size_t piece, bool gzip)
{
    int fd = memfd_create("packed", MFD_CLOEXEC);
    struct packed_file file;
    packed_file_open(&file, fd, gzip, 1);
    for (size_t at = 0; at < length; at += piece)
        packed_file_write(&file, bytes + at, piece < length - at ? piece : length - at);
    assert_int_equal(packed_file_close(&file), 0);
    return fd;
}

/* Assert that the file is one gzip stream of these bytes, and nothing follows it: browsers refuse
 * what does. */
static void assert_unpacks_to(int fd, const uint8_t *bytes, size_t length)
{
    size_t packed_length = (size_t)lseek(fd, 0, SEEK_END);
    uint8_t *packed = malloc(packed_length), *unpacked = malloc(length + 1);
    assert_int_equal(pread(fd, packed, packed_length, 0), packed_length);
    z_stream stream = {.next_in = packed,
                       .avail_in = (uInt)packed_length,
                       .next_out = unpacked,
                       .avail_out = (uInt)length + 1};
    assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.avail_in, 0);
    assert_int_equal(stream.total_out, length);
    assert_memory_equal(unpacked, bytes, length);
    inflateEnd(&stream);
    free(packed);
    free(unpacked);
    close(fd);
}

static void every_size_unpacks_to_what_was_written(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, KEPT_BYTES_MAX, KEPT_BYTES_MAX + 1, 9000000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *bytes = make_bytes(sizes[i]);
        assert_unpacks_to(write_in_pieces(bytes, sizes[i], 70000, true), bytes, sizes[i]);
        assert_unpacks_to(write_in_pieces(bytes, sizes[i], SIZE_MAX, true), bytes, sizes[i]);
        free(bytes);
    }
}

static void a_plain_file_has_the_bytes(void **state)
{
    (void)state;
    uint8_t *bytes = make_bytes(100000), read[100001];
    int fd = write_in_pieces(bytes, 100000, 777, false);
    assert_int_equal(pread(fd, read, sizeof(read), 0), 100000);
    assert_memory_equal(read, bytes, 100000);
    close(fd);
    free(bytes);
}

static void a_failed_write_is_reported(void **state)
{
    (void)state;
    static const size_t sizes[] = {1000, KEPT_BYTES_MAX + 1000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *bytes = make_bytes(sizes[i]);
        struct packed_file file;
        packed_file_open(&file, -1, true, 1);
        packed_file_write(&file, bytes, sizes[i]);
        assert_int_equal(packed_file_close(&file), -EBADF);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_unpacks_to_what_was_written),
        cmocka_unit_test(a_plain_file_has_the_bytes),
        cmocka_unit_test(a_failed_write_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
