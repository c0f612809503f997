/* SPDX-License-Identifier: Apache-2.0 */
/* Writes through zlib, or plain, and keeps the first error. */
#include "export/packed_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "util/write_all.h"

/* The fastest level: its output is a sixth larger than the default's, in a third of the time, which
 * users notice after a short run. */
#define GZIP_MODE "wb1"

#define WRITE_BYTES_MAX (1u << 30)

static int last_error(int otherwise)
{
    return errno == 0 ? otherwise : -errno;
}

bool packed_file_is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".gz") == 0;
}

void packed_file_open(struct packed_file *file, int fd, bool gzip)
{
    *file = (struct packed_file){.fd = fd};
    if (!gzip)
        return;
    errno = 0;
    int copy = dup(fd); /* gzclose() closes the copy */
    file->packed = copy < 0 ? NULL : gzdopen(copy, GZIP_MODE);
    if (file->packed != NULL)
        return;
    file->code = last_error(-ENOMEM);
    if (copy >= 0)
        close(copy);
}

void packed_file_write(struct packed_file *file, const void *bytes, size_t length)
{
    const char *at = bytes;
    if (file->packed == NULL && file->code == 0)
        file->code = write_all(file->fd, bytes, length);
    while (file->packed != NULL && length > 0 && file->code == 0) {
        unsigned part = length > WRITE_BYTES_MAX ? WRITE_BYTES_MAX : (unsigned)length;
        errno = 0;
        int written = gzwrite(file->packed, at, part);
        if (written <= 0) {
            file->code = last_error(-EIO);
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
