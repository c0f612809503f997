/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code addresses of a trace's frames, by module: what the symbolizer has to look up. Memory
 * holds the distinct addresses, and the interned strings and mappings of the trace, not its
 * packets.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLIZE_TRACE_ADDRESSES_H
#define HEAPPROFD_PROFILE_SYMBOLIZE_TRACE_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

#define TRACE_BUILD_ID_BYTES_MAX 64
#define TRACE_PROCESSES_MAX 64

struct trace_module {
    char *path; /* the path components of the mapping, joined */
    uint8_t build_id[TRACE_BUILD_ID_BYTES_MAX];
    size_t build_id_length; /* 0: unknown */
    uint64_t load_bias;     /* the one in the mapping, which is part of the addresses */
    const char *file;       /* path of the file; NULL: search for it */
    uint64_t *addresses;    /* Frame.rel_pc: sorted and distinct */
    size_t count, capacity;
    uint64_t *named; /* hashes of addresses and the names that their frames have: sorted */
    size_t named_count, named_capacity;
};

struct trace_addresses {
    struct trace_module *modules; /* in the order in which they appear */
    size_t count, capacity;
    pid_t processes[TRACE_PROCESSES_MAX]; /* that were profiled; the first ones of more */
    size_t process_count;
    /* Nanoseconds since 1970 at which the first of all profiled processes began; 0: unknown. A file
     * that has not changed since is the one that ran. */
    int64_t begun_ns;
    char warning[512]; /* why the trace was not read to its end, or "" */
};

/* Read a trace; `path` as for trace_reader_open(). Return 0, or a negative errno if nothing could
 * be read. Clear *addresses in any case. */
int trace_addresses_read(struct trace_addresses *addresses, const char *path, struct error *error);
void trace_addresses_clear(struct trace_addresses *addresses);

/* Sort addresses and drop repetitions. Call it once all are added. */
void trace_addresses_sort(struct trace_addresses *addresses);

/* Add an address. Return 0 or -ENOMEM. */
int trace_module_add_address(struct trace_module *module, uint64_t address);
/* Add a name that a frame at the address has in the trace; name_hash: its XXH3_64bits. */
int trace_module_add_name(struct trace_module *module, uint64_t address, uint64_t name_hash);
bool trace_module_has_name(const struct trace_module *module, uint64_t address, const void *name,
                           size_t length);
/* Return the index of an address, or module->count. */
size_t trace_module_find_address(const struct trace_module *module, uint64_t address);
/* Read pairs of lower-case hexadecimal digits; Breakpad appends an age in one digit. */
void trace_module_set_build_id(struct trace_module *module, const char *hex);

#endif
