/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one gzip stream, packed by several threads. The bytes are cut into blocks; each is packed
 * by itself, up to a byte's boundary, and they follow each other in one deflate stream.
 */
#ifndef HEAPPROFD_UTIL_PARALLEL_GZIP_H
#define HEAPPROFD_UTIL_PARALLEL_GZIP_H

#include <stddef.h>

struct parallel_gzip;

/* Pack with this number of threads beside the caller's. The descriptor stays the caller's. NULL: no
 * memory. */
struct parallel_gzip *parallel_gzip_open(int fd, unsigned threads);
void parallel_gzip_write(struct parallel_gzip *gzip, const void *bytes, size_t length);
/* Return 0, or the negative errno of the first failure since the opening. */
int parallel_gzip_close(struct parallel_gzip *gzip);

#endif
