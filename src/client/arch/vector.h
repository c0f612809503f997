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

#endif
