/* SPDX-License-Identifier: Apache-2.0 */
/* Look the real functions up, with substitutes for those that the program does not have. */
#include "client/real_allocator.h"

#include <malloc.h>

#include "client/elf_lookup.h"
#include "client/libc/libc.h"
#include "client/libc/musl.h"
#include "client/sample/sample.h"
#include "client/system.h"

/* Nothing here needs a relocation: an IFUNC resolver may allocate before this library has been
 * relocated. */
static const char cxx_names[CXX_FUNCTIONS][40] = {
    [CXX_NEW] = "_Znwm",
    [CXX_NEW_ARRAY] = "_Znam",
    [CXX_NEW_NOTHROW] = "_ZnwmRKSt9nothrow_t",
    [CXX_NEW_ARRAY_NOTHROW] = "_ZnamRKSt9nothrow_t",
    [CXX_NEW_ALIGNED] = "_ZnwmSt11align_val_t",
    [CXX_NEW_ARRAY_ALIGNED] = "_ZnamSt11align_val_t",
    [CXX_NEW_ALIGNED_NOTHROW] = "_ZnwmSt11align_val_tRKSt9nothrow_t",
    [CXX_NEW_ARRAY_ALIGNED_NOTHROW] = "_ZnamSt11align_val_tRKSt9nothrow_t",
    [CXX_DELETE] = "_ZdlPv",
    [CXX_DELETE_ARRAY] = "_ZdaPv",
    [CXX_DELETE_SIZED] = "_ZdlPvm",
    [CXX_DELETE_ARRAY_SIZED] = "_ZdaPvm",
    [CXX_DELETE_NOTHROW] = "_ZdlPvRKSt9nothrow_t",
    [CXX_DELETE_ARRAY_NOTHROW] = "_ZdaPvRKSt9nothrow_t",
    [CXX_DELETE_ALIGNED] = "_ZdlPvSt11align_val_t",
    [CXX_DELETE_ARRAY_ALIGNED] = "_ZdaPvSt11align_val_t",
    [CXX_DELETE_SIZED_ALIGNED] = "_ZdlPvmSt11align_val_t",
    [CXX_DELETE_ARRAY_SIZED_ALIGNED] = "_ZdaPvmSt11align_val_t",
    [CXX_DELETE_ALIGNED_NOTHROW] = "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    [CXX_DELETE_ARRAY_ALIGNED_NOTHROW] = "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

static const char *allocator_name;

struct real_functions real;

const char *real_allocator_name(void)
{
#ifdef HEAPPROFD_NO_HOOKS
    return ""; /* nobody's malloc is profiled */
#else
    return allocator_name != NULL ? allocator_name : "";
#endif
}

static void *next_function(const char *name)
{
    return elf_lookup_next(name, 1).address;
}

void *real_next(const char *name)
{
    void *address = elf_lookup_next(name, 0).address;
    /* If we may not check addresses through the kernel, only an object that is being unloaded can
     * be missed. */
    return address != NULL ? address : elf_lookup_next(name, 1).address;
}

/* If the C library lacks the C23 names, they are free(). */
static void free_sized_as_free(void *memory, size_t size)
{
    (void)size;
    real.free(memory);
}

static void free_aligned_sized_as_free(void *memory, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    real.free(memory);
}

/* musl has no pvalloc. */
static void *pvalloc_as_valloc(size_t size)
{
    size_t page = getauxval(AT_PAGESZ), rounded;
    if (__builtin_add_overflow(size, page - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    return real.valloc(rounded & ~(page - 1));
}

static void resolve_cxx(void)
{
    for (int i = 0; i < CXX_FUNCTIONS; i++)
        real.cxx[i] = next_function(cxx_names[i]);
    const void *allocator = elf_lookup_next("malloc", 1).object;
    real.cxx_allocates =
        real.cxx[CXX_NEW] != NULL && elf_lookup_next(cxx_names[CXX_NEW], 1).object == allocator;
}

void real_resolve(void)
{
    if (real.malloc != NULL)
        return;
    struct elf_found found_malloc = elf_lookup_next("malloc", 1);
    void *found_free = next_function("free");
    if (found_malloc.address == NULL || found_free == NULL)
        __builtin_trap(); /* a program without any malloc cannot have called ours */
    allocator_name = found_malloc.object_name;
    real.calloc = next_function("calloc");
    real.realloc = next_function("realloc");
    real.reallocarray = next_function("reallocarray");
    real.posix_memalign = next_function("posix_memalign");
    real.aligned_alloc = next_function("aligned_alloc");
    real.memalign = next_function("memalign");
    real.valloc = next_function("valloc");
    real.pvalloc = next_function("pvalloc");
    real.cfree = next_function("cfree");
    real.free_sized = next_function("free_sized");
    real.free_aligned_sized = next_function("free_aligned_sized");
    real.dlclose = next_function("dlclose");
    real.dlopen = next_function("dlopen");
    real.dlsym = next_function("dlsym");
    real.free = found_free;
    if (real.pvalloc == NULL)
        real.pvalloc = pvalloc_as_valloc;
    if (real.cfree == NULL)
        real.cfree = found_free;
    if (real.free_sized == NULL)
        real.free_sized = free_sized_as_free;
    if (real.free_aligned_sized == NULL)
        real.free_aligned_sized = free_aligned_sized_as_free;
    resolve_cxx();
    musl_replace_callers_of_hooks();
    real.malloc = found_malloc.address;
#ifndef HEAPPROFD_NO_HOOKS
    store_relaxed(&sample_live_set.near, LIVE_SET_NEAR_NOTHING);
#endif
}

/* --- substitutes if no C++ library is loaded, yet something calls its functions --- */

static void *allocate_or_die(size_t size)
{
    void *memory = malloc(size > 0 ? size : 1);
    if (memory == NULL)
        abort(); /* there is no library to throw with */
    return memory;
}

static void *allocate_aligned_or_die(size_t size, size_t alignment)
{
    void *memory = memalign(alignment, size > 0 ? size : 1);
    if (memory == NULL)
        abort();
    return memory;
}

static void *fallback_of(enum cxx_function function)
{
    if (function >= CXX_DELETE)
        return (void *)free;
    bool aligned = function >= CXX_NEW_ALIGNED;
    return aligned ? (void *)allocate_aligned_or_die : (void *)allocate_or_die;
}

void *real_cxx(enum cxx_function function)
{
    real_resolve();
    void *address = load_relaxed(&real.cxx[function]);
    if (address == NULL) {
        address = elf_lookup_next(cxx_names[function], 0).address;
        if (address == NULL)
            address = fallback_of(function);
        store_relaxed(&real.cxx[function], address);
    }
    return address;
}

/* A client without hooks calls none of these functions, and may come after the C library in link
 * order. */
#ifndef HEAPPROFD_NO_HOOKS
__attribute__((constructor(101))) static void resolve_at_start(void)
{
    real_resolve();
}
#endif
