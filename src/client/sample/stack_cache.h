/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed-size, lossy cache of the hashes of stacks that the daemon has. A stack
 * that was evicted is sent again; the daemon recognizes it by its hash.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_STACK_CACHE_H
#define HEAPPROFD_CLIENT_SAMPLE_STACK_CACHE_H

#include <stdbool.h>
#include <stdint.h>

int stack_cache_init(void); /* 0 or -ENOMEM */

/* Empty the cache. No thread may use it. */
void stack_cache_forget(void);

bool stack_cache_holds(uint64_t hash);

/* Call it after the STACK record was committed: a thread that finds the hash reserves its ALLOC
 * after that record. */
void stack_cache_add(uint64_t hash);

#endif
