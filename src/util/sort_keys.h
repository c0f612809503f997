/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts many 64-bit keys, with the index of what each stands for. */
#ifndef HEAPPROFD_UTIL_SORT_KEYS_H
#define HEAPPROFD_UTIL_SORT_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct sort_key {
    uint64_t key;
    uint32_t index;
};

/* Sorts keys[count] by key; equal ones keep their order. scratch has room for count. */
void sort_keys(struct sort_key *keys, struct sort_key *scratch, size_t count);

#endif
