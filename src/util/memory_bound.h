/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limit of the memory that a file may cost its reader: 64 MiB, and 32 times its bytes. Of a packed
 * file the unpacked bytes count, up to 16 times those of the file.
 *
 * Made files name millions of things in few bytes, and would take all of the machine's memory. The
 * limits are a choice: at least four times what each of 19 files of real profiles took
 * (docs/robustness.md).
 */
#ifndef HEAPPROFD_UTIL_MEMORY_BOUND_H
#define HEAPPROFD_UTIL_MEMORY_BOUND_H

#include <stdint.h>

#include "util/error.h"

struct memory_bound {
    uint64_t base_bytes; /* what the process had before; 0: unknown */
};

void memory_bound_begin(struct memory_bound *bound);

/* 0, or -EFBIG where the process has grown by more. came_bytes: of the file so far, and what they
 * unpacked to, at least as many; spared_bytes: of memory that does not count. */
int memory_bound_check(const struct memory_bound *bound, uint64_t came_bytes,
                       uint64_t unpacked_bytes, uint64_t spared_bytes, struct error *error);

#endif
