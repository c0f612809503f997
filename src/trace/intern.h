/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives equal contents equal ids, counted from 1. Only a 128-bit hash of the
 * contents is kept, so a table costs 24 to 48 bytes an entry whatever was interned.
 */
#ifndef HEAPPROFD_TRACE_INTERN_H
#define HEAPPROFD_TRACE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern_table {
    struct intern_entry {
        uint64_t place; /* these two: of the bytes' hash */
        uint32_t check;
        uint32_t id; /* 0: empty */
    } * entries;
    size_t size;    /* a power of two, or 0 */
    unsigned shift; /* of a hash, which leaves bits of that size */
    uint32_t count;
    uint64_t seed; /* of the hashes: no file can be made for them */
};

/* The id of these bytes; *added says that they are new. 0: no memory. */
uint64_t intern_bytes(struct intern_table *table, const void *bytes, size_t length, bool *added);
/* The id, or 0 if these bytes were never interned. */
uint64_t intern_find(const struct intern_table *table, const void *bytes, size_t length);
void intern_free(struct intern_table *table);

#endif
