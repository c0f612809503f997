/* SPDX-License-Identifier: Apache-2.0 */
/* Call mimalloc's extended functions. */
#include <mimalloc.h>

#include "extended.h"

/* Hidden from the compiler, which warns of it. */
static volatile size_t huge = 1ul << 60;

static mi_heap_t *heap;

#define RESIZED_IN_PLACE(count, size)                                                              \
    ({                                                                                             \
        require(mi_reallocarr(&block, count, size) == 0);                                          \
        block;                                                                                     \
    })

/* clang-format off */
#define ALLOCATIONS(F)                                                                              \
    F(mi_malloc, false, 201, mi_malloc(201))                                                        \
    F(mi_malloc_small, false, 202, mi_malloc_small(202))                                            \
    F(mi_mallocn, false, 3 * 71, mi_mallocn(3, 71))                                                 \
    F(mi_zalloc, false, 203, mi_zalloc(203))                                                        \
    F(mi_zalloc_small, false, 204, mi_zalloc_small(204))                                            \
    F(mi_calloc, false, 3 * 72, mi_calloc(3, 72))                                                   \
    F(mi_realloc, true, 1205, mi_realloc(block, 1205))                                              \
    F(mi_reallocn, true, 3 * 473, mi_reallocn(block, 3, 473))                                       \
    F(mi_reallocarray, true, 3 * 474, mi_reallocarray(block, 3, 474))                               \
    F(mi_reallocf, true, 1206, mi_reallocf(block, 1206))                                            \
    F(mi_reallocarr, true, 3 * 475, RESIZED_IN_PLACE(3, 475))                                \
    F(mi_rezalloc, true, 1207, mi_rezalloc(block, 1207))                                            \
    F(mi_recalloc, true, 3 * 476, mi_recalloc(block, 3, 476))                                       \
    F(mi_expand, true, 90, mi_expand(block, 90))                                                    \
    F(mi_strdup, false, 12, mi_strdup("eleven char"))                                               \
    F(mi_strndup, false, 7, mi_strndup("eleven char", 6))                                           \
    F(mi_memalign, false, 208, mi_memalign(64, 208))                                                \
    F(mi_aligned_alloc, false, 256, mi_aligned_alloc(64, 256))                                      \
    F(mi_posix_memalign, false, 209, STORED(mi_posix_memalign, 64, 209))                                               \
    F(mi_valloc, false, 210, mi_valloc(210))                                                        \
    F(mi_pvalloc, false, 211, mi_pvalloc(211))                                                      \
    F(mi_malloc_aligned, false, 212, mi_malloc_aligned(212, 512))                                   \
    F(mi_malloc_aligned_at, false, 213, mi_malloc_aligned_at(213, 512, 8))                          \
    F(mi_zalloc_aligned, false, 214, mi_zalloc_aligned(214, 512))                                   \
    F(mi_zalloc_aligned_at, false, 215, mi_zalloc_aligned_at(215, 512, 8))                          \
    F(mi_calloc_aligned, false, 3 * 77, mi_calloc_aligned(3, 77, 512))                              \
    F(mi_calloc_aligned_at, false, 3 * 78, mi_calloc_aligned_at(3, 78, 512, 8))                     \
    F(mi_realloc_aligned, true, 1216, mi_realloc_aligned(block, 1216, 512))                         \
    F(mi_realloc_aligned_at, true, 1217, mi_realloc_aligned_at(block, 1217, 512, 8))                \
    F(mi_rezalloc_aligned, true, 1218, mi_rezalloc_aligned(block, 1218, 512))                       \
    F(mi_rezalloc_aligned_at, true, 1219, mi_rezalloc_aligned_at(block, 1219, 512, 8))              \
    F(mi_recalloc_aligned, true, 3 * 479, mi_recalloc_aligned(block, 3, 479, 512))                  \
    F(mi_recalloc_aligned_at, true, 3 * 480, mi_recalloc_aligned_at(block, 3, 480, 512, 8))         \
    F(mi_aligned_recalloc, true, 3 * 481, mi_aligned_recalloc(block, 3, 481, 512))                  \
    F(mi_aligned_offset_recalloc, true, 3 * 482, mi_aligned_offset_recalloc(block, 3, 482, 512, 8)) \
    F(mi_new, false, 220, mi_new(220))                                                              \
    F(mi_new_nothrow, false, 221, mi_new_nothrow(221))                                              \
    F(mi_new_aligned, false, 222, mi_new_aligned(222, 512))                                         \
    F(mi_new_aligned_nothrow, false, 223, mi_new_aligned_nothrow(223, 512))                         \
    F(mi_new_n, false, 3 * 83, mi_new_n(3, 83))                                                     \
    F(mi_new_realloc, true, 1224, mi_new_realloc(block, 1224))                                      \
    F(mi_new_reallocn, true, 3 * 484, mi_new_reallocn(block, 3, 484))                               \
    F(mi_heap_malloc, false, 301, mi_heap_malloc(heap, 301))                                        \
    F(mi_heap_malloc_small, false, 302, mi_heap_malloc_small(heap, 302))                            \
    F(mi_heap_mallocn, false, 3 * 91, mi_heap_mallocn(heap, 3, 91))                                 \
    F(mi_heap_zalloc, false, 303, mi_heap_zalloc(heap, 303))                                        \
    F(mi_heap_calloc, false, 3 * 92, mi_heap_calloc(heap, 3, 92))                                   \
    F(mi_heap_realloc, true, 1304, mi_heap_realloc(heap, block, 1304))                              \
    F(mi_heap_reallocn, true, 3 * 493, mi_heap_reallocn(heap, block, 3, 493))                       \
    F(mi_heap_reallocf, true, 1305, mi_heap_reallocf(heap, block, 1305))                            \
    F(mi_heap_rezalloc, true, 1306, mi_heap_rezalloc(heap, block, 1306))                            \
    F(mi_heap_recalloc, true, 3 * 494, mi_heap_recalloc(heap, block, 3, 494))                       \
    F(mi_heap_strdup, false, 12, mi_heap_strdup(heap, "eleven char"))                               \
    F(mi_heap_strndup, false, 7, mi_heap_strndup(heap, "eleven char", 6))                           \
    F(mi_heap_malloc_aligned, false, 307, mi_heap_malloc_aligned(heap, 307, 512))                   \
    F(mi_heap_malloc_aligned_at, false, 308, mi_heap_malloc_aligned_at(heap, 308, 512, 8))          \
    F(mi_heap_zalloc_aligned, false, 309, mi_heap_zalloc_aligned(heap, 309, 512))                   \
    F(mi_heap_zalloc_aligned_at, false, 310, mi_heap_zalloc_aligned_at(heap, 310, 512, 8))          \
    F(mi_heap_calloc_aligned, false, 3 * 95, mi_heap_calloc_aligned(heap, 3, 95, 512))              \
    F(mi_heap_calloc_aligned_at, false, 3 * 96, mi_heap_calloc_aligned_at(heap, 3, 96, 512, 8))     \
    F(mi_heap_realloc_aligned, true, 1311, mi_heap_realloc_aligned(heap, block, 1311, 512))         \
    F(mi_heap_realloc_aligned_at, true, 1312, mi_heap_realloc_aligned_at(heap, block, 1312, 512, 8)) \
    F(mi_heap_rezalloc_aligned, true, 1313, mi_heap_rezalloc_aligned(heap, block, 1313, 512))       \
    F(mi_heap_rezalloc_aligned_at, true, 1314, mi_heap_rezalloc_aligned_at(heap, block, 1314, 512, 8)) \
    F(mi_heap_recalloc_aligned, true, 3 * 497, mi_heap_recalloc_aligned(heap, block, 3, 497, 512))  \
    F(mi_heap_recalloc_aligned_at, true, 3 * 498, mi_heap_recalloc_aligned_at(heap, block, 3, 498, 512, 8)) \
    F(mi_heap_alloc_new, false, 315, mi_heap_alloc_new(heap, 315))                                  \
    F(mi_heap_alloc_new_n, false, 3 * 99, mi_heap_alloc_new_n(heap, 3, 99))

#define RELEASES(F)                                                                                 \
    F(mi_free, mi_free(block))                                                                      \
    F(mi_cfree, mi_cfree(block))                                                                    \
    F(mi_free_size, mi_free_size(block, BASE_BYTES))                                                \
    F(mi_free_size_aligned, mi_free_size_aligned(block, BASE_BYTES, 16))                            \
    F(mi_free_aligned, mi_free_aligned(block, 16))
/* clang-format on */

ALLOCATIONS(DEFINE_ALLOCATION)

/* Blocks of all sizes in a heap: those of a destroyed one are gone, those of a deleted one stay. */
static const size_t heap_sizes[] = {8, 24, 100, 1000, 10000, 100000, 1000000, 10000000};
enum { HEAP_SIZES = sizeof(heap_sizes) / sizeof(heap_sizes[0]), HEAP_BLOCKS = 200 };

static CALLSITE void *destroyed_block(mi_heap_t *of, size_t size)
{
    return kept(mi_heap_malloc(of, size));
}

static CALLSITE void *destroyed_aligned_block(mi_heap_t *of, size_t size)
{
    return kept(mi_heap_malloc_aligned(of, size, 4096));
}

static CALLSITE void *deleted_block(mi_heap_t *of, size_t size)
{
    return kept(mi_heap_malloc(of, size));
}

static void make_heaps(void)
{
    mi_heap_t *destroyed = mi_heap_new(), *deleted = mi_heap_new();
    unsigned long bytes = 0, calls = 0;
    for (int i = 0; i < HEAP_SIZES; i++) {
        /* Some of the large ones. */
        for (int j = 0; j < HEAP_BLOCKS && (heap_sizes[i] < 100000 || j < 2); j++, calls++) {
            bytes += heap_sizes[i];
            require(destroyed_block(destroyed, heap_sizes[i]) != NULL);
            require(destroyed_aligned_block(destroyed, heap_sizes[i]) != NULL);
            require(deleted_block(deleted, heap_sizes[i]) != NULL);
        }
    }
    mi_heap_destroy(destroyed);
    mi_heap_delete(deleted);
    note_call("mi_heap_destroy");
    print_truth("destroyed_block", bytes, calls, 0);
    print_truth("destroyed_aligned_block", bytes, calls, 0);
    print_truth("deleted_block", bytes, calls, bytes);
}

static void make_calls(void)
{
    ALLOCATOR_MIMALLOC(TABLE_NAME)
    heap = mi_heap_new();
    ALLOCATIONS(MAKE_ALLOCATION)
    RELEASES(MAKE_RELEASE)
    MAKE_FAILURE(mi_realloc, mi_realloc(block, huge) == NULL)
    MAKE_FAILURE(mi_reallocn, mi_reallocn(block, huge, huge) == NULL)
    MAKE_FAILURE(mi_reallocarr, mi_reallocarr(&block, huge, huge) != 0)
    require(mi_reallocarr(NULL, 3, 475) != 0);
    MAKE_FAILURE(mi_expand, mi_expand(block, 5000) == NULL)
    require(mi_reallocf(base_block(), huge) == NULL);
    base_is_gone();
    make_heaps();
    check_that_all_are_called();
}

int main(void)
{
    return answer_lines(make_calls);
}
