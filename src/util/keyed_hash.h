/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of untrusted keys, for hash tables. Each process has its own random key, so that nobody
 * can choose keys that collide. Nothing may depend on the order of such a table. */
#ifndef HEAPPROFD_UTIL_KEYED_HASH_H
#define HEAPPROFD_UTIL_KEYED_HASH_H

#include <stdint.h>

struct keyed_hash_key {
    uint64_t left, right; /* right is odd */
};

/* Set before main, constant afterwards. */
extern struct keyed_hash_key keyed_hash_key;

/* Fold the 128-bit product of both keys. All bits of the result are fit for indexing a table. */
static inline uint64_t keyed_hash_pair(uint64_t left, uint64_t right)
{
    unsigned __int128 product =
        (unsigned __int128)(left ^ keyed_hash_key.left) * (right ^ keyed_hash_key.right);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t keyed_hash(uint64_t value)
{
    return keyed_hash_pair(value, 0);
}

#endif
