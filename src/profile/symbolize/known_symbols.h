/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols and deobfuscation packets that a trace already has, so that nothing is added to it
 * twice. Holds a hash of each, not the packets.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLIZE_KNOWN_SYMBOLS_H
#define HEAPPROFD_PROFILE_SYMBOLIZE_KNOWN_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/intern.h"
#include "util/error.h"

struct known_symbols {
    struct intern_table modules; /* path and build id */
    struct intern_table entries; /* AddressSymbols of a module, to the byte */
    struct intern_table lines;   /* addresses of a module with file and line */
    struct intern_table others;  /* packets with deobfuscation mappings */
    uint64_t good_bytes;         /* of the unpacked trace, up to the damage; UINT64_MAX: all */
    char warning[512];           /* why it was not read to its end, or "" */
};

/* Read a trace; `path` as for trace_reader_open(). Return 0, or a negative errno if nothing could
 * be read. Clear *known in any case. */
int known_symbols_read(struct known_symbols *known, const char *path, struct error *error);

/* Write to fd the packets that the trace lacks, and new or better answers for its addresses. (A
 * function alone is no better than a function with file and line.) Return the number of addresses
 * and other packets written, or a negative errno with *error set. */
int64_t known_symbols_write_new(struct known_symbols *known, const void *packets, size_t length,
                                int fd, struct error *error);
void known_symbols_clear(struct known_symbols *known);

#endif
