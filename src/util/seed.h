/* SPDX-License-Identifier: Apache-2.0 */
/* A random seed for hash tables of untrusted keys, different in each process, so that nobody can
 * choose keys that collide. */
#ifndef HEAPPROFD_UTIL_SEED_H
#define HEAPPROFD_UTIL_SEED_H

#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

/* Return random bits that the kernel gave this process at its start. */
static inline uint64_t seed_random(void)
{
    uint64_t seed = 0;
    const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes; the first are libc's */
    if (random != NULL)
        memcpy(&seed, (const char *)random + 8, sizeof(seed));
    return seed;
}

#endif
