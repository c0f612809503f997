/* SPDX-License-Identifier: Apache-2.0 */
/* Writes packed or plain, and keeps the first error. */
#include "export/packed_file.h"

#include <errno.h>
#include <string.h>

#include "export/parallel_gzip.h"
#include "util/write_all.h"

bool packed_file_is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".gz") == 0;
}

void packed_file_open(struct packed_file *file, int fd, bool gzip, unsigned threads)
{
    *file = (struct packed_file){.fd = fd};
    if (gzip && (file->packed = parallel_gzip_open(fd, threads)) == NULL)
        file->code = -ENOMEM;
}

void packed_file_write(struct packed_file *file, const void *bytes, size_t length)
{
    if (file->packed != NULL)
        parallel_gzip_write(file->packed, bytes, length);
    else if (file->code == 0)
        file->code = write_all(file->fd, bytes, length);
}

int packed_file_close(struct packed_file *file)
{
    if (file->packed != NULL)
        file->code = parallel_gzip_close(file->packed);
    file->packed = NULL;
    return file->code;
}
