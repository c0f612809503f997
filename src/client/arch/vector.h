/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of four 32-bit words. */
#ifndef HEAPPROFD_CLIENT_ARCH_VECTOR_H
#define HEAPPROFD_CLIENT_ARCH_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t vector_u32x4 __attribute__((vector_size(16), may_alias));

/* Return whether any bit is set. All bits of a word must be equal, as after a comparison. */
static inline bool vector_any(vector_u32x4 words)
{
#if defined(__x86_64__)
    typedef char bytes __attribute__((vector_size(16)));
    return __builtin_ia32_pmovmskb128((bytes)words) != 0;
#else
    typedef uint64_t halves __attribute__((vector_size(16)));
    return (((halves)words)[0] | ((halves)words)[1]) != 0;
#endif
}

/* Return a bit for each word of four vectors, from bit 0 on. All bits of a word must be equal. */
static inline uint32_t vector_bits(vector_u32x4 a, vector_u32x4 b, vector_u32x4 c, vector_u32x4 d)
{
#if defined(__x86_64__)
    typedef int words __attribute__((vector_size(16)));
    typedef short shorts __attribute__((vector_size(16)));
    typedef char bytes __attribute__((vector_size(16)));
    shorts low = (shorts)__builtin_ia32_packssdw128((words)a, (words)b);
    shorts high = (shorts)__builtin_ia32_packssdw128((words)c, (words)d);
    return (uint32_t)__builtin_ia32_pmovmskb128((bytes)__builtin_ia32_packsswb128(low, high));
#else
    const vector_u32x4 weights = {1, 2, 4, 8};
    vector_u32x4 sum =
        (a & weights) | (b & weights << 4) | (c & weights << 8) | (d & weights << 12);
    return sum[0] | sum[1] | sum[2] | sum[3];
#endif
}

#endif
