/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns equal ids to equal contents, counting from 1. It keeps only 96 bits of a hash of the
 * contents, so a table takes 21 to 43 bytes per entry, whatever its contents.
 */
#ifndef HEAPPROFD_TRACE_INTERN_H
#define HEAPPROFD_TRACE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern_table {
    struct intern_entry {
        uint64_t place; /* these two: the hash */
        uint32_t check;
        uint32_t id; /* 0: empty */
    } * entries;
    size_t size;    /* a power of two, or 0 */
    unsigned shift; /* shifts a hash down to an index */
    uint32_t count;
    bool *forgotten; /* by id, for ids up to forgotten_count */
    uint32_t forgotten_count;
};

/* Return the id of these bytes. *added: they are new. Return 0: no memory. */
uint64_t intern_bytes(struct intern_table *table, const void *bytes, size_t length, bool *added);
/* Return the id, or 0 if these bytes were never interned. */
uint64_t intern_find(const struct intern_table *table, const void *bytes, size_t length);
/* Make each content count as new once more when it is next interned. It keeps its id. Return 0 or
 * -ENOMEM. */
int intern_forget(struct intern_table *table);
void intern_free(struct intern_table *table);

#endif
