/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of each kind of family, from the table. */
#include "client/hooks/families.h"

#define ROW(name, library, since, kind, block, count, bytes, nothrow)                              \
    {#name, EXTENDED_ROW(kind, block, count, bytes, nothrow)},
static const struct family_row jemalloc_rows[] = {ALLOCATOR_STANDARD(ROW) ALLOCATOR_JEMALLOC(ROW)};
static const struct family_row mimalloc_rows[] = {ALLOCATOR_MIMALLOC(ROW)
                                                      ALLOCATOR_MIMALLOC_3(ROW)};
static const struct family_row tbb_rows[] = {ALLOCATOR_STANDARD(ROW) ALLOCATOR_TBB(ROW)};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT_OF(mimalloc_rows) <= FAMILY_FUNCTIONS, "each function has a thunk");

const struct family_row *family_rows(enum family_kind kind, unsigned *count)
{
    switch (kind) {
    case FAMILY_MIMALLOC:
        *count = COUNT_OF(mimalloc_rows);
        return mimalloc_rows;
    case FAMILY_TBB:
        *count = COUNT_OF(tbb_rows);
        return tbb_rows;
    default:
        *count = COUNT_OF(jemalloc_rows);
        return jemalloc_rows;
    }
}
