/* SPDX-License-Identifier: Apache-2.0 */
/* Writes through zlib, or as is, and keeps the first error. */
#include "export/packed_file.h"

#include <errno.h>
#include <unistd.h>

/* The fastest level: a sixth larger than the usual one in a third of the time, which whoever
 * waits for the profile of a short run notices. */
#define GZIP_MODE "wb1"

#define WRITE_BYTES_MAX (1u << 30)

static int last_error(int otherwise)
{
    return errno == 0 ? otherwise : -errno;
}

void packed_file_open(struct packed_file *file, int fd, bool gzip)
{
    *file = (struct packed_file){.fd = fd};
    if (!gzip)
        return;
    errno = 0;
    int copy = dup(fd); /* gzclose() closes what it has */
    file->packed = copy < 0 ? NULL : gzdopen(copy, GZIP_MODE);
    if (file->packed != NULL)
        return;
    file->code = last_error(-ENOMEM);
    if (copy >= 0)
        close(copy);
}

static int write_some(struct packed_file *file, const char *at, size_t length)
{
    unsigned part = length > WRITE_BYTES_MAX ? WRITE_BYTES_MAX : (unsigned)length;
    errno = 0;
    ssize_t written = file->packed != NULL ? gzwrite(file->packed, at, part)
                                           : TEMP_FAILURE_RETRY(write(file->fd, at, part));
    return written > 0 ? (int)written : last_error(-EIO);
}

void packed_file_write(struct packed_file *file, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0 && file->code == 0) {
        int written = write_some(file, at, length);
        if (written < 0) {
            file->code = written;
            return;
        }
        at += written;
        length -= (size_t)written;
    }
}

int packed_file_close(struct packed_file *file)
{
    errno = 0;
    if (file->packed != NULL && gzclose(file->packed) != Z_OK && file->code == 0)
        file->code = last_error(-EIO);
    file->packed = NULL;
    return file->code;
}
