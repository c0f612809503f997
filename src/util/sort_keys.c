/* SPDX-License-Identifier: Apache-2.0 */
/* Radix sort, least significant digit first (Knuth, TAOCP 5.2.5). A digit has 11 bits, so that the
 * counters fit in the first-level cache. A digit that is the same in all keys is skipped. */
#include "util/sort_keys.h"

#include <string.h>

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

static uint32_t digit_of(uint64_t key, unsigned shift)
{
    return (uint32_t)(key >> shift) & (DIGITS - 1);
}

void sort_keys(struct sort_key *keys, struct sort_key *scratch, size_t count)
{
    struct sort_key *from = keys, *to = scratch;
    uint64_t differing = 0;
    for (size_t i = 1; i < count; i++)
        differing |= keys[i].key ^ keys[0].key;

    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (digit_of(differing, shift) == 0)
            continue;
        size_t starts[DIGITS] = {0};
        for (size_t i = 0; i < count; i++)
            starts[digit_of(from[i].key, shift)]++;
        for (size_t digit = 0, start = 0; digit < DIGITS; digit++) {
            size_t of_digit = starts[digit];
            starts[digit] = start;
            start += of_digit;
        }
        for (size_t i = 0; i < count; i++)
            to[starts[digit_of(from[i].key, shift)]++] = from[i];
        struct sort_key *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != keys)
        memcpy(keys, from, count * sizeof(*keys));
}
