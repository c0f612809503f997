/* SPDX-License-Identifier: Apache-2.0 */
/* The real extended functions of the program's allocators. */
#ifndef HEAPPROFD_CLIENT_REAL_EXTENDED_H
#define HEAPPROFD_CLIENT_REAL_EXTENDED_H

#include <stdint.h>

#include "client/client.h"
#include "wire/allocator_functions.h"

#ifdef HEAPPROFD_ATTACHED

#include "client/attached.h"

static inline uint64_t real_extended(unsigned function)
{
    return load_relaxed(&heapprofd_attach_params.real[ATTACHED_EXTENDED + function]);
}

static inline void *real_heap_visit(void)
{
    return (void *)heapprofd_attach_params.heap_visit;
}

#else

/* By enum extended_function; 0: it is not hooked. */
extern HIDDEN uint64_t extended_reals[EXTENDED_FUNCTIONS];

static inline uint64_t real_extended(unsigned function)
{
    return load_relaxed(&extended_reals[function]);
}

/* Return mimalloc's mi_heap_visit_blocks; NULL: not found. */
void *real_heap_visit(void) HIDDEN;

#endif

#endif
