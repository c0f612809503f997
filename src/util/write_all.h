/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes a whole length, even if the kernel transfers less at a time. */
#ifndef HEAPPROFD_UTIL_WRITE_ALL_H
#define HEAPPROFD_UTIL_WRITE_ALL_H

#include <stddef.h>
#include <sys/uio.h>

/* Write `length` bytes. Return 0 or a negative errno. */
int write_all(int fd, const void *bytes, size_t length);

/* Write several buffers. Changes `parts`. Return 0 or a negative errno. */
int write_all_parts(int fd, struct iovec *parts, int count);

/* Read `length` bytes. Return 0, -ENODATA if the file ends before, or another negative errno. */
int read_all(int fd, void *into, size_t length);

#endif
