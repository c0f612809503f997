/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks the daemon has: a fixed-size, lossy cache of their hashes. A
 * stack that was evicted is sent again; the daemon knows it by its hash.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_STACK_CACHE_H
#define HEAPPROFD_CLIENT_SAMPLE_STACK_CACHE_H

#include <stdbool.h>
#include <stdint.h>

int stack_cache_init(void); /* 0 or -ENOMEM */

/* Empties it, while nobody uses it. */
void stack_cache_forget(void);

bool stack_cache_holds(uint64_t hash);

/* After the STACK record was committed: whoever then finds the hash here puts
 * its ALLOC behind that record. */
void stack_cache_add(uint64_t hash);

#endif
