/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of eight hashes, one cache line each. The hash itself chooses the victim, so that a line
 * needs no other state. */
#include "client/sample/stack_cache.h"

#include <errno.h>
#include <stddef.h>

#include "client/system.h"
#include "wire/barrier.h"

#define SETS 2048u /* 128 KiB: 16,384 stacks */
#define WAYS 8u

static uint64_t (*sets)[WAYS]; /* wiped on fork; 0: free */

int stack_cache_init(void)
{
    sets = system_map_wiped(SETS * sizeof(*sets));
    return sets != NULL ? 0 : -ENOMEM;
}

void stack_cache_forget(void)
{
    system_wipe(sets, SETS * sizeof(*sets));
}

bool stack_cache_holds(uint64_t hash)
{
    const uint64_t *set = sets[hash % SETS];
    for (unsigned i = 0; i < WAYS; i++)
        /* Acquire: pairs with stack_cache_add, so that the ALLOC is reserved after the STACK. */
        if (load_acquire(&set[i]) == hash)
            return true;
    return false;
}

void stack_cache_add(uint64_t hash)
{
    uint64_t *set = sets[hash % SETS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (load_relaxed(&set[i]) == 0) {
            store_release(&set[i], hash);
            return;
        }
    }
    store_release(&set[(hash >> 32) % WAYS], hash);
}
