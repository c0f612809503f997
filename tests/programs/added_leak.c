/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordinary mix of allocations, and with an argument a leak among them.
 *
 *   added_leak [LEAKED-BLOCKS]
 *
 * Twelve callsites allocate blocks of 16 bytes to 64 KiB by a fixed generator, keep some of them
 * and free the others: every run does the same. The leak has 200 bytes a block, spread over the
 * run.
 */
#include <stdint.h>

#include "truth.h"

enum { ROUNDS = 12000, SITES = 12, KEPT = 64 };

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#define DEFINE_SITE(number)                                                                        \
    static CALLSITE void *site_##number(size_t size)                                               \
    {                                                                                              \
        return kept(malloc(size));                                                                 \
    }
DEFINE_SITE(0)
DEFINE_SITE(1)
DEFINE_SITE(2)
DEFINE_SITE(3)
DEFINE_SITE(4)
DEFINE_SITE(5)
DEFINE_SITE(6)
DEFINE_SITE(7)
DEFINE_SITE(8)
DEFINE_SITE(9)
DEFINE_SITE(10)
DEFINE_SITE(11)

static void *(*const sites[SITES])(size_t) = {site_0, site_1, site_2, site_3, site_4,  site_5,
                                              site_6, site_7, site_8, site_9, site_10, site_11};

static CALLSITE void *the_leak(size_t size)
{
    return kept(malloc(size));
}

static void *blocks[SITES][KEPT];

int main(int argc, char **argv)
{
    uint64_t leaks = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t random = draw();
        size_t site = round % SITES, place = random % KEPT;
        /* Each callsite has its own range of sizes, over a factor of 16. */
        size_t size = ((size_t)16 << (site / 2)) * (1 + (random >> 32) % 16);
        free(blocks[site][place]);
        blocks[site][place] = sites[site](size);
        for (uint64_t i = leaks * round / ROUNDS; i < leaks * (round + 1) / ROUNDS; i++)
            the_leak(200);
    }
    return 0;
}
