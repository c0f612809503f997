/* SPDX-License-Identifier: Apache-2.0 */
#include "production/sinks/compress.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

/* Fast levels: the body was made for a machine's spare time. */
#define GZIP_LEVEL 1
#define ZSTD_LEVEL 1
#define GZIP_WINDOW_BITS (MAX_WBITS + 16)
#define GZIP_MEMORY_LEVEL 8

const char *compress_name(enum sink_compression compression)
{
    return compression == SINK_ZSTD ? "zstd" : "gzip";
}

static void *gzip_bytes(const void *bytes, size_t length, size_t *compressed_length)
{
    z_stream stream = {0};
    void *made = NULL;
    if (length > UINT32_MAX / 2 || deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS,
                                                GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t room = deflateBound(&stream, length);
    if ((made = malloc(room)) != NULL) {
        stream.next_in = (Bytef *)bytes;
        stream.avail_in = (uInt)length;
        stream.next_out = made;
        stream.avail_out = (uInt)room;
        if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
            free(made);
            made = NULL;
        }
    }
    *compressed_length = stream.total_out;
    deflateEnd(&stream);
    return made;
}

static void *zstd_bytes(const void *bytes, size_t length, size_t *compressed_length)
{
    size_t room = ZSTD_compressBound(length);
    void *made = malloc(room);
    if (made == NULL)
        return NULL;
    *compressed_length = ZSTD_compress(made, room, bytes, length, ZSTD_LEVEL);
    if (ZSTD_isError(*compressed_length)) {
        free(made);
        return NULL;
    }
    return made;
}

void *compress_bytes(enum sink_compression compression, const void *bytes, size_t length,
                     size_t *compressed_length)
{
    return compression == SINK_ZSTD ? zstd_bytes(bytes, length, compressed_length)
                                    : gzip_bytes(bytes, length, compressed_length);
}
