/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call of a function in the table of wire/allocator_functions.h requests and returns, by the
 * function's row. Arguments are the six registers that a call may have.
 */
#ifndef HEAPPROFD_CLIENT_EXTENDED_ROW_H
#define HEAPPROFD_CLIENT_EXTENDED_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/allocator_functions.h"

#define EXTENDED_ARGUMENTS 6
#define EXTENDED_NO_ARGUMENT EXTENDED_ARGUMENTS

/* A row of the table. */
struct extended_row {
    uint8_t kind;
    uint8_t block, count, bytes; /* arguments, or EXTENDED_NO_ARGUMENT */
    uint16_t nothrow;            /* enum extended_function; EXTENDED_FUNCTIONS: it does not throw */
};

#define EXTENDED_ARGUMENT__ EXTENDED_NO_ARGUMENT
#define EXTENDED_ARGUMENT_0 0
#define EXTENDED_ARGUMENT_1 1
#define EXTENDED_ARGUMENT_2 2
#define EXTENDED_ARGUMENT_3 3
#define EXTENDED__ EXTENDED_FUNCTIONS
#define EXTENDED_ROW(row_kind, row_block, row_count, row_bytes, row_nothrow)                       \
    {                                                                                              \
        .kind = EXTENDED_##row_kind, .block = EXTENDED_ARGUMENT_##row_block,                       \
        .count = EXTENDED_ARGUMENT_##row_count, .bytes = EXTENDED_ARGUMENT_##row_bytes,            \
        .nothrow = EXTENDED_##row_nothrow,                                                         \
    }

typedef uint64_t extended_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Set the size that the caller requests. Return true for an overflow. */
static inline bool extended_multiply(const struct extended_row *row, const uint64_t *arguments,
                                     size_t *bytes)
{
    *bytes = row->bytes != EXTENDED_NO_ARGUMENT ? arguments[row->bytes] : 0;
    return row->count != EXTENDED_NO_ARGUMENT &&
           __builtin_mul_overflow(arguments[row->count], *bytes, bytes);
}

/* Return the size that the caller requests; SIZE_MAX, which no allocator has, for an overflow. */
static inline size_t extended_requested_bytes(const struct extended_row *row,
                                              const uint64_t *arguments)
{
    size_t bytes;
    return extended_multiply(row, arguments, &bytes) ? SIZE_MAX : bytes;
}

/* Return the block that is resized, or NULL. */
static inline void *extended_resized_block(const struct extended_row *row,
                                           const uint64_t *arguments)
{
    if (row->kind == EXTENDED_STORE || row->block == EXTENDED_NO_ARGUMENT)
        return NULL;
    void *block = (void *)arguments[row->block];
    return row->kind == EXTENDED_RESIZE_STORED && block != NULL ? *(void **)block : block;
}

/* Return the block that the caller has now; NULL: the call failed. Set *bytes where only the result
 * shows it. */
static inline void *extended_resulting_block(const struct extended_row *row,
                                             const uint64_t *arguments, uint64_t result,
                                             size_t *bytes)
{
    switch (row->kind) {
    case EXTENDED_STRING:
        *bytes = result != 0 ? strlen((const char *)result) + 1 : 0;
        return (void *)result;
    case EXTENDED_STORE:
    case EXTENDED_RESIZE_STORED:
        return (int)result == 0 ? *(void **)arguments[row->block] : NULL;
    case EXTENDED_RESIZE_IN_PLACE: {
        if (result < *bytes)
            return NULL;
        size_t extra = arguments[row->bytes + 1];
        *bytes = result - *bytes < extra ? result : *bytes + extra;
        return (void *)arguments[row->block];
    }
    default:
        return (void *)result;
    }
}

/* Call the function at `real`. A hook's last call must leave none of its frame on the stack. */
static inline __attribute__((always_inline)) uint64_t extended_call_at(uint64_t real,
                                                                       const uint64_t *arguments)
{
    return ((extended_function *)real)(arguments[0], arguments[1], arguments[2], arguments[3],
                                       arguments[4], arguments[5]);
}

#endif
