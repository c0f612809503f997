/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two functions after each hook's hot path, in the preloaded and in the attached client.
 *
 * entry_NAME (arch/<cpu>/entry.S) has the hook's own arguments. It saves the caller's registers and
 * calls slow_NAME with them, always as the fourth argument.
 */
#ifndef HEAPPROFD_CLIENT_HOOKS_HOOK_ENTRIES_H
#define HEAPPROFD_CLIENT_HOOKS_HOOK_ENTRIES_H

#include <stddef.h>

#include "client/arch/registers.h"
#include "client/client.h"

/* `parameters` are those of the hook, the rest the types of the slow half's first three. */
#define HOOK(type, name, parameters, ...)                                                          \
    HIDDEN type entry_##name parameters;                                                           \
    HIDDEN type slow_##name(__VA_ARGS__, const struct unwind_registers *caller)

HOOK(void *, malloc, (size_t size), size_t, size_t, size_t);
HOOK(void *, calloc, (size_t count, size_t size), size_t, size_t, size_t);
HOOK(void *, realloc, (void *memory, size_t size), void *, size_t, size_t);
HOOK(void *, reallocarray, (void *memory, size_t count, size_t size), void *, size_t, size_t);
HOOK(int, posix_memalign, (void **memory, size_t alignment, size_t size), void **, size_t, size_t);
HOOK(void *, aligned_alloc, (size_t alignment, size_t size), size_t, size_t, size_t);
HOOK(void *, memalign, (size_t alignment, size_t size), size_t, size_t, size_t);
HOOK(void *, valloc, (size_t size), size_t, size_t, size_t);
HOOK(void *, pvalloc, (size_t size), size_t, size_t, size_t);

#endif
