/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces in a tar archive (ustar, GNU's and pax'), as if they stood one behind the other:
 * Perfetto's bundles are a trace, its symbols and its deobfuscation packets. Members that begin as
 * no trace does are passed over. Reads forward only, and holds one block.
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
    uint64_t left;    /* of the member, behind `first` */
    uint32_t padding; /* behind the member */
    uint8_t first[4]; /* of the member: looked at, not yet read */
    uint32_t first_at, first_length;
    bool ended;
};

/* Gives up to size bytes of the archive; 0 at its end, negative errno with *error set. */
typedef ssize_t tar_read(void *from, void *buffer, size_t size, struct error *error);

bool tar_is_header(const uint8_t block[TAR_BLOCK_BYTES]);

/* Bytes of the traces, as tar_read gives those of the archive. *tar is zeroed at first. */
ssize_t tar_read_traces(struct tar_traces *tar, tar_read *read, void *from, void *buffer,
                        size_t size, struct error *error);

#endif
