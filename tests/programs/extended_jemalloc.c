/* SPDX-License-Identifier: Apache-2.0 */
/* Call jemalloc's extended functions. */
#include <jemalloc/jemalloc.h>

#include "extended.h"

/* Hidden from the compiler, which warns of it. */
static volatile size_t huge = 1ul << 60;

/* Blocks of 100 bytes have room for 112. */
#define IN_PLACE(size, extra)                                                                      \
    ({                                                                                             \
        require(xallocx(block, size, extra, 0) == 112);                                            \
        block;                                                                                     \
    })

/* clang-format off */
#define ALLOCATIONS(F)                                                     \
    F(mallocx, false, 208, mallocx(208, 0))                                \
    F(rallocx, true, 1500, rallocx(block, 1500, 0))                        \
    F(xallocx, true, 105, IN_PLACE(105, 0))
/* clang-format on */

ALLOCATIONS(DEFINE_ALLOCATION)

static CALLSITE void *call_aligned_mallocx(void *block)
{
    (void)block;
    return kept(mallocx(4096, MALLOCX_LG_ALIGN(12) | MALLOCX_ZERO | MALLOCX_TCACHE_NONE));
}

/* As much of `extra` as there is room for: 8 bytes, and 12 of 1900. */
static CALLSITE void *call_xallocx_with_extra(void *block)
{
    return kept(IN_PLACE(100, 8));
}

static CALLSITE void *call_xallocx_with_much_extra(void *block)
{
    return kept(IN_PLACE(100, 1900));
}

static void make_calls(void)
{
    ALLOCATOR_JEMALLOC(TABLE_NAME)
    ALLOCATIONS(MAKE_ALLOCATION)
    MAKE_ALLOCATION(aligned_mallocx, false, 4096, )
    MAKE_ALLOCATION(xallocx_with_extra, true, 108, )
    MAKE_ALLOCATION(xallocx_with_much_extra, true, 112, )
    MAKE_RELEASE(dallocx, dallocx(block, 0))
    MAKE_RELEASE(sdallocx, sdallocx(block, BASE_BYTES, 0))
    MAKE_FAILURE(rallocx, rallocx(block, huge, 0) == NULL)
    MAKE_FAILURE(xallocx, xallocx(block, 2000, 0, 0) == 112)
    check_that_all_are_called();
}

int main(void)
{
    return answer_lines(make_calls);
}
