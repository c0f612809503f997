/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces in a tar archive (ustar, GNU or pax), read as if they were concatenated. Perfetto's
 * bundles contain a trace, its symbols and its deobfuscation packets. Members that do not begin
 * like a trace are skipped. Reads forward only, and keeps one block in memory.
 */
#ifndef HEAPPROFD_TRACE_READ_TAR_TRACES_H
#define HEAPPROFD_TRACE_READ_TAR_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

#define TAR_BLOCK_BYTES 512u

struct tar_traces {
    uint64_t left;    /* of the member, after `first` */
    uint32_t padding; /* after the member */
    uint8_t first[4]; /* bytes of the member that were checked but not read yet */
    uint32_t first_at, first_length;
    bool ended;
};

/* Read up to `size` bytes of the archive. Return 0 at its end, or a negative errno with *error set.
 */
typedef ssize_t tar_read(void *from, void *buffer, size_t size, struct error *error);

bool tar_is_header(const uint8_t block[TAR_BLOCK_BYTES]);

/* Read bytes of the traces, with the same results as tar_read. *tar is zeroed before the first
 * call. */
ssize_t tar_read_traces(struct tar_traces *tar, tar_read *read, void *from, void *buffer,
                        size_t size, struct error *error);

#endif
