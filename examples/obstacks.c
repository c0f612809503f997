/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Show glibc's obstacks in the profile, without rebuilding anything: a library to preload into
 * programs that use them (dpkg, elfutils' ar, ld and as).
 *
 * Macros in the program itself put objects into an obstack, and a library cannot replace them. It
 * can replace the functions that allocate chunks: these are the heap "libc.obstack", with the stack
 * of the object that needed a new chunk.
 */
#include <heap_profile.h>

#include <dlfcn.h>
#include <obstack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static uint32_t heap;

__attribute__((constructor)) static void describe(void)
{
    heap = AHeapProfile_registerHeap(AHeapInfo_create("libc.obstack"));
}

static void report_chunk(const struct _obstack_chunk *chunk)
{
    AHeapProfile_reportAllocation(heap, (uintptr_t)chunk,
                                  (uintptr_t)chunk->limit - (uintptr_t)chunk);
}

/* The functions that the macros of <obstack.h> call. */

int _obstack_begin(struct obstack *obstack, int size, int alignment, void *(*get)(long),
                   void (*give)(void *))
{
    static __typeof__(_obstack_begin) *real;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "_obstack_begin");
    int result = real(obstack, size, alignment, get, give);
    if (obstack->chunk != NULL)
        report_chunk(obstack->chunk);
    return result;
}

int _obstack_begin_1(struct obstack *obstack, int size, int alignment, void *(*get)(void *, long),
                     void (*give)(void *, void *), void *argument)
{
    static __typeof__(_obstack_begin_1) *real;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "_obstack_begin_1");
    int result = real(obstack, size, alignment, get, give, argument);
    if (obstack->chunk != NULL)
        report_chunk(obstack->chunk);
    return result;
}

/* Return whether a chunk has only the object that is about to move out of it. Then the chunk is
 * freed. */
static bool will_be_given_back(const struct obstack *obstack)
{
    uintptr_t mask = (uintptr_t)obstack->alignment_mask;
    uintptr_t first = ((uintptr_t)obstack->chunk->contents + mask) & ~mask;
    return !obstack->maybe_empty_object && (uintptr_t)obstack->object_base == first;
}

void _obstack_newchunk(struct obstack *obstack, int length)
{
    static __typeof__(_obstack_newchunk) *real;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "_obstack_newchunk");
    if (will_be_given_back(obstack))
        AHeapProfile_reportFree(heap, (uintptr_t)obstack->chunk);
    real(obstack, length);
    report_chunk(obstack->chunk);
}

/* Report the chunks that are newer than the object as freed. */
static void report_freed(const struct obstack *obstack, const void *object)
{
    const struct _obstack_chunk *chunk = obstack->chunk;
    while (chunk != NULL &&
           ((const void *)chunk >= object || (const void *)chunk->limit < object)) {
        AHeapProfile_reportFree(heap, (uintptr_t)chunk);
        chunk = chunk->prev;
    }
}

#undef obstack_free
void obstack_free(struct obstack *obstack, void *object)
{
    static __typeof__(obstack_free) *real;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "obstack_free");
    report_freed(obstack, object);
    real(obstack, object);
}

/* The other name of obstack_free. */
void _obstack_free(struct obstack *obstack, void *object);
void _obstack_free(struct obstack *obstack, void *object)
{
    obstack_free(obstack, object);
}
