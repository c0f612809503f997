/* SPDX-License-Identifier: Apache-2.0 */
/* Repeats read and write until the whole length is done. A signal that interrupts them is no
 * error. */
#include "util/write_all.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

int write_all(int fd, const void *bytes, size_t length)
{
    struct iovec part = {(void *)bytes, length};
    return write_all_parts(fd, &part, length > 0);
}

int write_all_parts(int fd, struct iovec *parts, int count)
{
    while (count > 0) {
        ssize_t written = writev(fd, parts, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        size_t left = (size_t)written;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            if (written == 0)
                return -EIO;
            parts->iov_base = (uint8_t *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return 0;
}

int read_all(int fd, void *into, size_t length)
{
    uint8_t *at = into;
    while (length > 0) {
        ssize_t got = read(fd, at, length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -ENODATA;
        at += got;
        length -= (size_t)got;
    }
    return 0;
}
