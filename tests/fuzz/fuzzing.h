/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of all fuzzers: a check that ends the process, and files in memory. */
#ifndef HEAPPROFD_FUZZ_FUZZING_H
#define HEAPPROFD_FUZZ_FUZZING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_PATH_BYTES 64

static inline void check(bool good)
{
    if (!good)
        abort();
}

/* Return the descriptor of a new file with these bytes. Its path goes to `path`, unless that is
 * NULL. */
static inline int fuzz_file(char *path, const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    if (path != NULL)
        snprintf(path, FUZZ_PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
