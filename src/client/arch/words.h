/* SPDX-License-Identifier: Apache-2.0 */
/* Four 32-bit words at a time, as every processor of these has it. */
#ifndef HEAPPROFD_CLIENT_ARCH_WORDS_H
#define HEAPPROFD_CLIENT_ARCH_WORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t arch_words __attribute__((vector_size(16), may_alias));

/* Whether any bit of them is set, where all bits of a word are the same (a comparison's result). */
static inline bool arch_words_any(arch_words words)
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
