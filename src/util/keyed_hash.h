/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of untrusted keys, for tables. Each process has a random key of its own, so that nobody
 * can choose keys that fall into one place of a table. Nothing may depend on the order of such a
 * table. */
#ifndef HEAPPROFD_UTIL_KEYED_HASH_H
#define HEAPPROFD_UTIL_KEYED_HASH_H

#include <stdint.h>

struct keyed_hash_key {
    uint64_t left, right; /* right is odd */
};

/* Set before main, and the same for all of the process's life. */
extern struct keyed_hash_key keyed_hash_key;

/* Fold the product of both keys, of 128 bits: all bits of the result are good for a table. */
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

/* The highest bits alone are good for a table, the lowest are not. */
static inline uint64_t keyed_hash_high(uint64_t value)
{
    /* Addresses differ in a few middle bits. */
    value *= UINT64_C(0x9E3779B97F4A7C15);
    value ^= value >> 32;
    return value * keyed_hash_key.right;
}

#endif
