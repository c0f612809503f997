/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of all twenty forms of operator new and delete, for programs whose
 * allocator has its own (jemalloc, tcmalloc, mimalloc). If new calls malloc
 * (libstdc++, libc++), the hooks only jump to the real functions.
 */

#include "client/client.h"
#include "client/real_allocator.h"
#include "client/sample/sample.h"

/* Return a real function, to be cast to the type that its caller needs: the ABI
 * passes integer arguments alike, however many there are. */
static inline void *real_function(enum cxx_function function)
{
    void *address = load_relaxed(&real.cxx[function]);
    return likely(address != NULL) ? address : real_cxx(function);
}

/* The common part of all slow halves, which entry.S calls. */
static void *allocate_slowly(enum cxx_function function, size_t size, size_t second,
                             const void *third, const struct unwind_registers *caller)
{
    cxx_allocate allocate = real_cxx(function);
    void *memory = allocate(size, second, third);
    sample_allocation(memory, size, caller);
    return memory;
}

/* An exported form of new, its entry through entry.S, and its slow half. `second`
 * and `third` are the form's arguments after the size, or 0. */
#define CXX_ALLOCATION(symbol, form, parameters, second, third)                                    \
    HIDDEN void *entry_##symbol parameters;                                                        \
    EXPORT void *symbol parameters;                                                                \
    HIDDEN void *slow_##symbol(size_t size, size_t b, const void *c,                               \
                               const struct unwind_registers *caller);                             \
    EXPORT_HOT void *symbol parameters                                                             \
    {                                                                                              \
        if (likely(!real.cxx_allocates || client_count(size)))                                     \
            return ((cxx_allocate)real_function(form))(size, (size_t)(second), (third));           \
        return entry_##symbol CXX_ARGUMENTS_##form;                                                \
    }                                                                                              \
    HIDDEN void *slow_##symbol(size_t size, size_t b, const void *c,                               \
                               const struct unwind_registers *caller)                              \
    {                                                                                              \
        return allocate_slowly(form, size, b, c, caller);                                          \
    }

#define CXX_ARGUMENTS_CXX_NEW (size)
#define CXX_ARGUMENTS_CXX_NEW_ARRAY (size)
#define CXX_ARGUMENTS_CXX_NEW_NOTHROW (size, tag)
#define CXX_ARGUMENTS_CXX_NEW_ARRAY_NOTHROW (size, tag)
#define CXX_ARGUMENTS_CXX_NEW_ALIGNED (size, alignment)
#define CXX_ARGUMENTS_CXX_NEW_ARRAY_ALIGNED (size, alignment)
#define CXX_ARGUMENTS_CXX_NEW_ALIGNED_NOTHROW (size, alignment, tag)
#define CXX_ARGUMENTS_CXX_NEW_ARRAY_ALIGNED_NOTHROW (size, alignment, tag)

/* clang-format off */
CXX_ALLOCATION(_Znwm, CXX_NEW, (size_t size), 0, NULL)
CXX_ALLOCATION(_Znam, CXX_NEW_ARRAY, (size_t size), 0, NULL)
CXX_ALLOCATION(_ZnwmRKSt9nothrow_t, CXX_NEW_NOTHROW, (size_t size, const void *tag), tag, NULL)
CXX_ALLOCATION(_ZnamRKSt9nothrow_t, CXX_NEW_ARRAY_NOTHROW, (size_t size, const void *tag), tag, NULL)
CXX_ALLOCATION(_ZnwmSt11align_val_t, CXX_NEW_ALIGNED, (size_t size, size_t alignment), alignment, NULL)
CXX_ALLOCATION(_ZnamSt11align_val_t, CXX_NEW_ARRAY_ALIGNED, (size_t size, size_t alignment), alignment, NULL)
CXX_ALLOCATION(_ZnwmSt11align_val_tRKSt9nothrow_t, CXX_NEW_ALIGNED_NOTHROW,
               (size_t size, size_t alignment, const void *tag), alignment, tag)
CXX_ALLOCATION(_ZnamSt11align_val_tRKSt9nothrow_t, CXX_NEW_ARRAY_ALIGNED_NOTHROW,
               (size_t size, size_t alignment, const void *tag), alignment, tag)
/* clang-format on */

/* If delete calls free, free's hook does the look-up. */
static inline void note_release(const void *memory)
{
    if (unlikely(real.cxx_allocates))
        sample_check_free(memory);
}

#define CXX_RELEASE(symbol, form)                                                                  \
    EXPORT void symbol(void *memory, size_t b, size_t c);                                          \
    EXPORT_HOT void symbol(void *memory, size_t b, size_t c)                                       \
    {                                                                                              \
        note_release(memory);                                                                      \
        ((cxx_release)real_function(form))(memory, b, c);                                          \
    }

CXX_RELEASE(_ZdlPv, CXX_DELETE)
CXX_RELEASE(_ZdaPv, CXX_DELETE_ARRAY)
CXX_RELEASE(_ZdlPvm, CXX_DELETE_SIZED)
CXX_RELEASE(_ZdaPvm, CXX_DELETE_ARRAY_SIZED)
CXX_RELEASE(_ZdlPvRKSt9nothrow_t, CXX_DELETE_NOTHROW)
CXX_RELEASE(_ZdaPvRKSt9nothrow_t, CXX_DELETE_ARRAY_NOTHROW)
CXX_RELEASE(_ZdlPvSt11align_val_t, CXX_DELETE_ALIGNED)
CXX_RELEASE(_ZdaPvSt11align_val_t, CXX_DELETE_ARRAY_ALIGNED)
CXX_RELEASE(_ZdlPvmSt11align_val_t, CXX_DELETE_SIZED_ALIGNED)
CXX_RELEASE(_ZdaPvmSt11align_val_t, CXX_DELETE_ARRAY_SIZED_ALIGNED)
CXX_RELEASE(_ZdlPvSt11align_val_tRKSt9nothrow_t, CXX_DELETE_ALIGNED_NOTHROW)
CXX_RELEASE(_ZdaPvSt11align_val_tRKSt9nothrow_t, CXX_DELETE_ARRAY_ALIGNED_NOTHROW)
