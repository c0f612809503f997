/* SPDX-License-Identifier: Apache-2.0 */
/* Writes packed or plain, and keeps the first error. */
#include "util/packed_file.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/parallel_gzip.h"
#include "util/write_all.h"

/* The fastest level, as in parallel_gzip.c. */
#define LEVEL 1

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
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(LEVEL);
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
