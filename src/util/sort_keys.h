/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts many 64-bit keys, each with the index of its item. */
#ifndef HEAPPROFD_UTIL_SORT_KEYS_H
#define HEAPPROFD_UTIL_SORT_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct sort_key {
    uint64_t key;
    uint32_t index;
};

/* Sort keys[count] by key, stably. `scratch` has room for `count` keys. */
void sort_keys(struct sort_key *keys, struct sort_key *scratch, size_t count);

#endif
