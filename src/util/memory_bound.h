/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the memory that reading a file may take: 64 MiB plus 32 times the file's bytes. Of a
 * packed file the unpacked bytes count, but at most 16 times the packed ones.
 *
 * A crafted file can name millions of things in a few bytes and would exhaust the machine's memory.
 * The limit is a choice: it is at least four times the memory that each of 19 files of real
 * profiles took (docs/robustness.md).
 */
#ifndef HEAPPROFD_UTIL_MEMORY_BOUND_H
#define HEAPPROFD_UTIL_MEMORY_BOUND_H

#include <stdint.h>

#include "util/error.h"

struct memory_bound {
    uint64_t base_bytes; /* resident before reading; 0: unknown */
};

void memory_bound_begin(struct memory_bound *bound);

/* Return the bytes that count: the unpacked ones, but at most 16 times the packed ones. */
uint64_t memory_bound_counted(uint64_t read_bytes, uint64_t unpacked_bytes);

/* Return 0, or -EFBIG with *error set if the process has grown beyond the limit. `read_bytes` is
 * the part of the file read so far, `unpacked_bytes` its unpacked size (at least as large), and
 * `excluded_bytes` memory that does not count. */
int memory_bound_check(const struct memory_bound *bound, uint64_t read_bytes,
                       uint64_t unpacked_bytes, uint64_t excluded_bytes, struct error *error);

#endif
