/* SPDX-License-Identifier: Apache-2.0 */
/* Call the functions of newer_allocator.c. */
#include <stddef.h>

#include "extended.h"

#define TOKEN , 7
#define NO_TOKEN

/* Their declarations matter only for what they return. */
#define DECLARE(name, ...) void *name();
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wdeprecated-non-prototype"
ALLOCATOR_MIMALLOC_3(DECLARE)
ALLOCATOR_TOKEN(DECLARE)
ALLOCATOR_FAST_TOKEN(DECLARE)

#define STORED_BY(function, size, ...)                                                             \
    ({                                                                                             \
        void *stored = NULL;                                                                       \
        function(&stored, 64ul, size __VA_ARGS__);                                                 \
        stored;                                                                                    \
    })

#define OF_C(F, prefix, base, token)                                                               \
    F(prefix##malloc, false, base + 1ul, prefix##malloc(base + 1ul token))                         \
    F(prefix##calloc, false, 3 * (base + 2ul), prefix##calloc(3ul, base + 2ul token))              \
    F(prefix##realloc, true, base + 3ul, prefix##realloc(block, base + 3ul token))                 \
    F(prefix##reallocarray, true, 3 * (base + 4ul),                                                \
      prefix##reallocarray(block, 3ul, base + 4ul token))                                          \
    F(prefix##memalign, false, base + 5ul, prefix##memalign(64ul, base + 5ul token))               \
    F(prefix##aligned_alloc, false, base + 6ul, prefix##aligned_alloc(64ul, base + 6ul token))     \
    F(prefix##valloc, false, base + 7ul, prefix##valloc(base + 7ul token))                         \
    F(prefix##pvalloc, false, base + 8ul, prefix##pvalloc(base + 8ul token))                       \
    F(prefix##posix_memalign, false, base + 9ul,                                                   \
      STORED_BY(prefix##posix_memalign, base + 9ul, token))
#define OF_CXX(F, prefix, base)                                                                    \
    F(prefix##_Znwm, false, base + 11ul, prefix##_Znwm(base + 11ul))                               \
    F(prefix##_Znam, false, base + 12ul, prefix##_Znam(base + 12ul))                               \
    F(prefix##_ZnwmRKSt9nothrow_t, false, base + 13ul,                                             \
      prefix##_ZnwmRKSt9nothrow_t(base + 13ul, NULL))                                              \
    F(prefix##_ZnamRKSt9nothrow_t, false, base + 14ul,                                             \
      prefix##_ZnamRKSt9nothrow_t(base + 14ul, NULL))                                              \
    F(prefix##_ZnwmSt11align_val_t, false, base + 15ul,                                            \
      prefix##_ZnwmSt11align_val_t(base + 15ul, 64ul))                                             \
    F(prefix##_ZnamSt11align_val_t, false, base + 16ul,                                            \
      prefix##_ZnamSt11align_val_t(base + 16ul, 64ul))                                             \
    F(prefix##_ZnwmSt11align_val_tRKSt9nothrow_t, false, base + 17ul,                              \
      prefix##_ZnwmSt11align_val_tRKSt9nothrow_t(base + 17ul, 64ul, NULL))                         \
    F(prefix##_ZnamSt11align_val_tRKSt9nothrow_t, false, base + 18ul,                              \
      prefix##_ZnamSt11align_val_tRKSt9nothrow_t(base + 18ul, 64ul, NULL))

#define ALLOCATIONS(F)                                                                             \
    OF_C(F, __alloc_token_, 200, TOKEN)                                                            \
    OF_C(F, __alloc_token_0_, 300, NO_TOKEN)                                                       \
    OF_CXX(F, __alloc_token_0_, 300)                                                               \
    OF_C(F, __alloc_token_1_, 400, NO_TOKEN)                                                       \
    OF_CXX(F, __alloc_token_1_, 400)                                                               \
    F(mi_umalloc, false, 501ul, mi_umalloc(501ul, NULL))                                           \
    F(mi_ucalloc, false, 3 * 502ul, mi_ucalloc(3ul, 502ul, NULL))                                  \
    F(mi_urealloc, true, 503ul, mi_urealloc(block, 503ul, NULL, NULL))                             \
    F(mi_umalloc_aligned, false, 504ul, mi_umalloc_aligned(504ul, 64ul, NULL))                     \
    F(mi_uzalloc_aligned, false, 505ul, mi_uzalloc_aligned(505ul, 64ul, NULL))                     \
    F(mi_umalloc_small, false, 506ul, mi_umalloc_small(506ul, NULL))                               \
    F(mi_uzalloc_small, false, 507ul, mi_uzalloc_small(507ul, NULL))                               \
    F(mi_heap_zalloc_small, false, 508ul, mi_heap_zalloc_small(NULL, 508ul))                       \
    F(mi_theap_malloc, false, 509ul, mi_theap_malloc(NULL, 509ul))                                 \
    F(mi_theap_zalloc, false, 510ul, mi_theap_zalloc(NULL, 510ul))                                 \
    F(mi_theap_calloc, false, 3 * 511ul, mi_theap_calloc(NULL, 3ul, 511ul))                        \
    F(mi_theap_malloc_small, false, 512ul, mi_theap_malloc_small(NULL, 512ul))                     \
    F(mi_theap_zalloc_small, false, 513ul, mi_theap_zalloc_small(NULL, 513ul))                     \
    F(mi_theap_malloc_aligned, false, 514ul, mi_theap_malloc_aligned(NULL, 514ul, 64ul))           \
    F(mi_theap_realloc, true, 515ul, mi_theap_realloc(NULL, block, 515ul))

ALLOCATIONS(DEFINE_ALLOCATION)

static void make_calls(void)
{
    ALLOCATOR_MIMALLOC_3(TABLE_NAME)
    ALLOCATOR_TOKEN(TABLE_NAME)
    ALLOCATOR_FAST_TOKEN(TABLE_NAME)
    ALLOCATIONS(MAKE_ALLOCATION)
    MAKE_RELEASE(mi_free_small, mi_free_small(block))
    MAKE_RELEASE(mi_ufree, mi_ufree(block, NULL))
    check_that_all_are_called();
}

int main(void)
{
    return answer_lines(make_calls);
}
