/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written sequentially, gzipped or plain.
 *
 * A gzipped file that is not large is kept until it is closed, and packed at once by libdeflate: in
 * half the time of zlib, 6 % smaller. A larger one is packed in blocks by several threads.
 */
#ifndef HEAPPROFD_UTIL_PACKED_FILE_H
#define HEAPPROFD_UTIL_PACKED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct parallel_gzip;

struct packed_file {
    int fd;
    bool gzip;
    unsigned threads;
    uint8_t *kept; /* what is to be packed at once */
    size_t kept_length, kept_capacity;
    struct parallel_gzip *large; /* NULL: not large so far */
    int code;                    /* the first error; nothing is written after it */
};

/* Return whether a file of this name is gzipped: whether it ends in .gz. */
bool packed_file_is_name(const char *name);

/* Write to fd, which stays the caller's. A large gzipped file is packed by this number of threads
 * beside the caller's. packed_file_close() reports errors. */
void packed_file_open(struct packed_file *file, int fd, bool gzip, unsigned threads);
void packed_file_write(struct packed_file *file, const void *bytes, size_t length);
/* Return 0, or the negative errno of the first failure since the opening. */
int packed_file_close(struct packed_file *file);

#endif
