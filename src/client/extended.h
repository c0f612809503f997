/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the allocators' extended functions (wire/allocator_functions.h), in the preloaded and in
 * the attached client. extended_NAME is the hot path. Everything else is one function for all of
 * them: what distinguishes them is a row of the table.
 *
 * The functions whose names are in the table must be hooked together: a block that mallocx returned
 * and free releases, or the other way round, is one live sample of the heap libc.malloc.
 */
#ifndef HEAPPROFD_CLIENT_EXTENDED_H
#define HEAPPROFD_CLIENT_EXTENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/arch/registers.h"
#include "client/client.h"
#include "client/extended_row.h"
#include "wire/allocator_functions.h"

extern HIDDEN const struct extended_row extended_rows[EXTENDED_FUNCTIONS];

/* What the entry does after extended_call(): jump to a function, or, if `jump` is 0, return. */
struct extended_verdict {
    uint64_t result;
    uint64_t jump;
};

/* The slow half of all hooks, called by their entries (arch/<cpu>/entry_extended.S). */
HIDDEN struct extended_verdict extended_call(unsigned function, const uint64_t *arguments,
                                             const struct unwind_registers *caller);

#define EXTENDED_PARAMETERS uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f
#define EXTENDED_DECLARE(name, ...)                                                                \
    HIDDEN uint64_t extended_##name(EXTENDED_PARAMETERS);                                          \
    HIDDEN uint64_t extended_slow_##name(EXTENDED_PARAMETERS);
ALLOCATOR_EXTENDED(EXTENDED_DECLARE)
#undef EXTENDED_DECLARE

#endif
