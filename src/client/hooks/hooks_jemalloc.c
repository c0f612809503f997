/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of jemalloc's extended free functions, by their names: they may release memory from malloc
 * in libraries that are opened later, whose calls bindings.c does not bind.
 */
#include <stddef.h>

#include "client/client.h"
#include "client/elf_lookup.h"
#include "client/real_allocator.h"
#include "client/sample/sample.h"

typedef void (*dallocx_function)(void *memory, int flags);
typedef void (*sdallocx_function)(void *memory, size_t size, int flags);

/* NULL: not looked up yet, or not loaded yet. */
static dallocx_function next_dallocx;
static sdallocx_function next_sdallocx;

EXPORT void dallocx(void *memory, int flags);
EXPORT void sdallocx(void *memory, size_t size, int flags);

__attribute__((constructor(101))) static void resolve_at_start(void)
{
    next_dallocx = (dallocx_function)elf_lookup_next("dallocx", 1).address;
    next_sdallocx = (sdallocx_function)elf_lookup_next("sdallocx", 1).address;
}

void dallocx(void *memory, int flags)
{
    real_resolve();
    sample_check_free(memory);
    dallocx_function release = load_relaxed(&next_dallocx);
    if (release == NULL) {
        release = (dallocx_function)real_next("dallocx");
        store_relaxed(&next_dallocx, release);
    }
    if (release != NULL)
        release(memory, flags);
    else
        real.free(memory); /* without jemalloc, it can only come from malloc */
}

void sdallocx(void *memory, size_t size, int flags)
{
    real_resolve();
    sample_check_free(memory);
    sdallocx_function release = load_relaxed(&next_sdallocx);
    if (release == NULL) {
        release = (sdallocx_function)real_next("sdallocx");
        store_relaxed(&next_sdallocx, release);
    }
    if (release != NULL)
        release(memory, size, flags);
    else
        real.free(memory);
}
