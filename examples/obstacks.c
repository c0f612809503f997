/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc's obstacks in the profile, without building anything anew: a library to preload into
 * programs that use them (dpkg, elfutils' ar, ld and as).
 *
 * Objects are put into an obstack by macros, in the program itself, where nobody can stand in for
 * them. What can be seen from outside are its chunks: they are the heap "libc.obstack", and the
 * stack is that of the object that needed a new one.
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

/* The functions that <obstack.h> has its macros call. */

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

/* Whether a chunk holds nothing but the object that is about to move out of it: then it is given
 * back. */
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

/* Chunks that are newer than the object go. */
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

/* Its other name. */
void _obstack_free(struct obstack *obstack, void *object);
void _obstack_free(struct obstack *obstack, void *object)
{
    obstack_free(obstack, object);
}
