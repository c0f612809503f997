/* SPDX-License-Identifier: Apache-2.0 */
/* Call tcmalloc's extended functions. Those of C++ have the names and arguments of its header,
 * which declares them for C++ only. */
#include <gperftools/tcmalloc.h>

#include "extended.h"

extern const char nothrow_tag[1];
const char nothrow_tag[1];

void *tc_new(size_t size);
void *tc_newarray(size_t size);
void tc_delete(void *memory);
void tc_deletearray(void *memory);
void *tc_new_nothrow(size_t size, const void *tag);
void *tc_newarray_nothrow(size_t size, const void *tag);
void *tc_new_aligned(size_t size, size_t alignment);
void *tc_new_aligned_nothrow(size_t size, size_t alignment, const void *tag);
void *tc_newarray_aligned(size_t size, size_t alignment);
void *tc_newarray_aligned_nothrow(size_t size, size_t alignment, const void *tag);
void tc_delete_sized(void *memory, size_t size);
void tc_delete_nothrow(void *memory, const void *tag);
void tc_delete_aligned(void *memory, size_t alignment);
void tc_delete_sized_aligned(void *memory, size_t size, size_t alignment);
void tc_delete_aligned_nothrow(void *memory, size_t alignment, const void *tag);
void tc_deletearray_sized(void *memory, size_t size);
void tc_deletearray_nothrow(void *memory, const void *tag);
void tc_deletearray_aligned(void *memory, size_t alignment);
void tc_deletearray_sized_aligned(void *memory, size_t size, size_t alignment);
void tc_deletearray_aligned_nothrow(void *memory, size_t alignment, const void *tag);

/* clang-format off */
#define ALLOCATIONS(F)                                                                  \
    F(tc_malloc, false, 201, tc_malloc(201))                                            \
    F(tc_malloc_skip_new_handler, false, 202, tc_malloc_skip_new_handler(202))          \
    F(tc_calloc, false, 3 * 67, tc_calloc(3, 67))                                       \
    F(tc_realloc, true, 1204, tc_realloc(block, 1204))                                  \
    F(tc_memalign, false, 205, tc_memalign(64, 205))                                    \
    F(tc_posix_memalign, false, 206, STORED(tc_posix_memalign, 64, 206))                \
    F(tc_valloc, false, 207, tc_valloc(207))                                            \
    F(tc_pvalloc, false, 208, tc_pvalloc(208))                                          \
    F(tc_new, false, 209, tc_new(209))                                                  \
    F(tc_new_nothrow, false, 210, tc_new_nothrow(210, nothrow_tag))                     \
    F(tc_newarray, false, 211, tc_newarray(211))                                        \
    F(tc_newarray_nothrow, false, 212, tc_newarray_nothrow(212, nothrow_tag))           \
    F(tc_new_aligned, false, 213, tc_new_aligned(213, 128))                             \
    F(tc_new_aligned_nothrow, false, 214, tc_new_aligned_nothrow(214, 128, nothrow_tag)) \
    F(tc_newarray_aligned, false, 215, tc_newarray_aligned(215, 128))                   \
    F(tc_newarray_aligned_nothrow, false, 216, tc_newarray_aligned_nothrow(216, 128, nothrow_tag))

#define RELEASES(F)                                                                     \
    F(tc_free, tc_free(block))                                                          \
    F(tc_cfree, tc_cfree(block))                                                        \
    F(tc_free_sized, tc_free_sized(block, BASE_BYTES))                                  \
    F(tc_delete, tc_delete(block))                                                      \
    F(tc_delete_sized, tc_delete_sized(block, BASE_BYTES))                              \
    F(tc_delete_nothrow, tc_delete_nothrow(block, nothrow_tag))                         \
    F(tc_delete_aligned, tc_delete_aligned(block, 16))                                  \
    F(tc_delete_sized_aligned, tc_delete_sized_aligned(block, BASE_BYTES, 16))          \
    F(tc_delete_aligned_nothrow, tc_delete_aligned_nothrow(block, 16, nothrow_tag))     \
    F(tc_deletearray, tc_deletearray(block))                                            \
    F(tc_deletearray_sized, tc_deletearray_sized(block, BASE_BYTES))                    \
    F(tc_deletearray_nothrow, tc_deletearray_nothrow(block, nothrow_tag))               \
    F(tc_deletearray_aligned, tc_deletearray_aligned(block, 16))                        \
    F(tc_deletearray_sized_aligned, tc_deletearray_sized_aligned(block, BASE_BYTES, 16)) \
    F(tc_deletearray_aligned_nothrow, tc_deletearray_aligned_nothrow(block, 16, nothrow_tag))
/* clang-format on */

ALLOCATIONS(DEFINE_ALLOCATION)

static void make_calls(void)
{
    ALLOCATOR_TCMALLOC(TABLE_NAME)
    ALLOCATIONS(MAKE_ALLOCATION)
    RELEASES(MAKE_RELEASE)
    check_that_all_are_called();
}

int main(void)
{
    return answer_lines(make_calls);
}
