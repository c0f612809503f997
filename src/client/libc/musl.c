/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of musl that call other hooked ones, rewritten with the real ones. */
#include "client/libc/musl.h"

#include <string.h>
#include <sys/mman.h>

#include "client/elf_lookup.h"
#include "client/libc/libc.h"
#include "client/real_allocator.h"
#include "client/system.h"

#define PAGE_BYTES ((size_t)4096)

/* For blocks from here on, ask the kernel for pages of zeros. musl maps blocks of 128 KiB each by
 * itself: they are new, and this changes nothing. */
#define DISCARD_BYTES ((size_t)128 << 10)

static bool malloc_is_musls;

static bool page_is_zero(const char *page)
{
    uint64_t any = 0;
    for (size_t i = 0; i < PAGE_BYTES; i += sizeof(any))
        any |= *(const uint64_t *)(const void *)(page + i);
    return any == 0;
}

/* Fill whole pages with zeros. A page that is zero already is not written to: it may not be in
 * memory yet. */
static void clear_pages(char *page, size_t bytes)
{
    if (bytes >= DISCARD_BYTES && malloc_is_musls && !system_calls_are_forbidden() &&
        system_call(CALL_DISCARD, page, bytes) == 0)
        return;
    for (; bytes > 0; page += PAGE_BYTES, bytes -= PAGE_BYTES) {
        if (!page_is_zero(page))
            memset(page, 0, PAGE_BYTES);
    }
}

static void *allocate_cleared(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    char *memory = real.malloc(bytes);
    if (memory == NULL)
        return NULL;
    size_t head = -(uintptr_t)memory & (PAGE_BYTES - 1);
    if (bytes < head + PAGE_BYTES)
        return memset(memory, 0, bytes);
    size_t whole = (bytes - head) & ~(PAGE_BYTES - 1);
    memset(memory, 0, head);
    clear_pages(memory + head, whole);
    memset(memory + head + whole, 0, bytes - head - whole);
    return memory;
}

/* musl's aligned_alloc fails if malloc is not musl's. It cannot see that behind the hooks. */
static void *fail_to_align(size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    errno = ENOMEM;
    return NULL;
}

static void *align_by_memalign(size_t alignment, size_t size)
{
    return real.aligned_alloc(alignment, size);
}

static int align_for_posix(void **memory, size_t alignment, size_t size)
{
    if (alignment < sizeof(void *))
        return EINVAL;
    void *block = real.aligned_alloc(alignment, size);
    if (block == NULL)
        return errno;
    *memory = block;
    return 0;
}

static void *align_to_page(size_t size)
{
    return real.aligned_alloc(getauxval(AT_PAGESZ), size);
}

static bool is_musls(const char *name, const void *musl)
{
    return elf_lookup_next(name, 1).object == musl;
}

/* Return the object that is musl; NULL: the C library is another. */
static const void *musl_object(void)
{
    return libc_is_musl() ? elf_lookup_next("__libc_start_main", 1).object : NULL;
}

/* Version 1.2.2 brought reallocarray. */
bool musl_is_too_old(void)
{
    const void *musl = musl_object();
    return musl != NULL && !is_musls("reallocarray", musl);
}

void musl_replace_callers_of_hooks(void)
{
    const void *musl = musl_object();
    if (musl == NULL)
        return;
    malloc_is_musls = is_musls("malloc", musl);
    if (is_musls("calloc", musl))
        real.calloc = allocate_cleared;
    if (is_musls("aligned_alloc", musl) && !malloc_is_musls)
        real.aligned_alloc = fail_to_align;
    if (is_musls("memalign", musl))
        real.memalign = align_by_memalign;
    if (is_musls("posix_memalign", musl))
        real.posix_memalign = align_for_posix;
    if (is_musls("valloc", musl))
        real.valloc = align_to_page;
}
