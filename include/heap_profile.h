/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Show a program's own heaps in heap profiles: arenas, pools, slabs, GPU buffers, a runtime's
 * objects.
 *
 * The AHeap* functions have the names, types and semantics of Perfetto's heapprofd (its Custom
 * Allocator API). The HeapProfile_* functions are additions of this library. Link to
 * libheapprofd_client (pkg-config heapprofd-client), or define HEAP_PROFILE_NOOP before this header
 * is included to build without the library.
 *
 * All functions can be called from any thread, from global constructors, before and after main, in
 * a forked child, and from the callbacks. None of them allocates from the heap, waits for a lock,
 * or changes errno. Signal handlers must not call AHeapProfile_registerHeap or the functions that
 * set up an AHeapInfo.
 */
#ifndef HEAP_PROFILE_H
#define HEAP_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A description of a heap. It belongs to the library after its creation. */
typedef struct AHeapInfo AHeapInfo;
/* Arguments of the enabled and the disabled callback. Valid while the callback runs. */
typedef struct AHeapProfileEnableCallbackInfo AHeapProfileEnableCallbackInfo;
typedef struct AHeapProfileDisableCallbackInfo AHeapProfileDisableCallbackInfo;

typedef void (*AHeapProfileEnabledCallback)(void *data, const AHeapProfileEnableCallbackInfo *info);
typedef void (*AHeapProfileDisabledCallback)(void *data,
                                             const AHeapProfileDisableCallbackInfo *info);

#ifndef HEAP_PROFILE_NOOP

/*
 * Create the description of a heap. The name has 1 to 63 bytes, and is copied. Two descriptions
 * with the same name make two heaps.
 * Return NULL if the name is empty or too long, or if there are 255 heaps.
 */
AHeapInfo *AHeapInfo_create(const char *heap_name);

/*
 * Set the functions that are called when a session starts to profile the heap, and when it stops.
 * The calls alternate and never overlap. They run on a thread that is inside one of these
 * functions, or inside malloc if malloc is hooked; the library holds no lock meanwhile.
 * Return info. A NULL info, or one that is already registered, is returned unchanged.
 */
AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *info, AHeapProfileEnabledCallback callback,
                                        void *data);
AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *info, AHeapProfileDisabledCallback callback,
                                         void *data);

/* Return the mean number of bytes between samples. */
uint64_t
AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *info);

/* Register the heap and return its id. Return 0 for NULL or a registered heap; all functions below
 * ignore heap 0. */
uint32_t AHeapProfile_registerHeap(AHeapInfo *info);

/*
 * Report that `size` bytes were allocated under allocation_id, which can be any number. If the id
 * is in use, its old allocation counts as freed first.
 * Return whether the allocation was sampled. Only sampled allocations need a report when they are
 * freed.
 */
bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t allocation_id, uint64_t size);

/* The same for programs that do their own sampling: `size` is the number of bytes that the sample
 * represents. */
bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t allocation_id, uint64_t size);

/* Report that allocation_id is freed, before the id can be used again. Unknown ids are ignored. */
void AHeapProfile_reportFree(uint32_t heap_id, uint64_t allocation_id);

/* Like AHeapProfile_reportAllocation, with the name of the allocation's type: a string that
 * stays valid and unchanged while the library is loaded, or one from HeapProfile_intern. NULL:
 * no type. */
bool HeapProfile_reportAllocationOfType(uint32_t heap_id, uint64_t allocation_id, uint64_t size,
                                        const char *type);

/* Return a permanent copy of the text (its first 1,023 bytes), the same one for equal texts. For
 * languages without static strings. Return NULL if there is no memory, or if 65,536 texts exist. */
const char *HeapProfile_intern(const char *text);

/*
 * A scope marks the current thread's allocations, in all heaps, as made on behalf of `name` (a
 * string as for types) until the scope is popped. The caller provides the storage, which must stay
 * in place until the pop.
 *
 * A pop also removes all scopes that were pushed later. So a scope that a longjmp or another
 * language's exception left without a pop ends with the next outer scope. The pop of a scope that
 * is not pushed, or not any more, does nothing. Scopes belong to threads: a thread that switches
 * fibers must pop its scopes before.
 */
struct HeapProfileScope {
    const char *name;
    struct HeapProfileScope *outer;
    uintptr_t check;
};
void HeapProfile_pushContext(struct HeapProfileScope *scope, const char *name);
void HeapProfile_popContext(struct HeapProfileScope *scope);

#else /* HEAP_PROFILE_NOOP */

static inline AHeapInfo *AHeapInfo_create(const char *heap_name)
{
    (void)heap_name;
    return 0;
}
static inline AHeapInfo *
AHeapInfo_setEnabledCallback(AHeapInfo *info, AHeapProfileEnabledCallback callback, void *data)
{
    (void)callback;
    (void)data;
    return info;
}
static inline AHeapInfo *
AHeapInfo_setDisabledCallback(AHeapInfo *info, AHeapProfileDisabledCallback callback, void *data)
{
    (void)callback;
    (void)data;
    return info;
}
static inline uint64_t
AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *info)
{
    (void)info;
    return 0;
}
static inline uint32_t AHeapProfile_registerHeap(AHeapInfo *info)
{
    (void)info;
    return 0;
}
static inline bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t allocation_id,
                                                 uint64_t size)
{
    (void)heap_id;
    (void)allocation_id;
    (void)size;
    return false;
}
static inline bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t allocation_id,
                                             uint64_t size)
{
    (void)heap_id;
    (void)allocation_id;
    (void)size;
    return false;
}
static inline void AHeapProfile_reportFree(uint32_t heap_id, uint64_t allocation_id)
{
    (void)heap_id;
    (void)allocation_id;
}
static inline bool HeapProfile_reportAllocationOfType(uint32_t heap_id, uint64_t allocation_id,
                                                      uint64_t size, const char *type)
{
    (void)heap_id;
    (void)allocation_id;
    (void)size;
    (void)type;
    return false;
}
static inline const char *HeapProfile_intern(const char *text)
{
    return text;
}
struct HeapProfileScope {
    const char *name;
};
static inline void HeapProfile_pushContext(struct HeapProfileScope *scope, const char *name)
{
    scope->name = name;
}
static inline void HeapProfile_popContext(struct HeapProfileScope *scope)
{
    (void)scope;
}

#endif /* HEAP_PROFILE_NOOP */

#ifdef __cplusplus
} /* extern "C" */

/* One program can have parts that are built with the library and parts that are built without:
 * their classes must differ. */
#ifdef HEAP_PROFILE_NOOP
inline namespace HeapProfileNoop
{
#endif

/* A scope with the lifetime of the object. */
class HeapProfileScopeGuard
{
  public:
    explicit HeapProfileScopeGuard(const char *name)
    {
        HeapProfile_pushContext(&scope_, name);
    }
    ~HeapProfileScopeGuard()
    {
        HeapProfile_popContext(&scope_);
    }
    HeapProfileScopeGuard(const HeapProfileScopeGuard &) = delete;
    HeapProfileScopeGuard &operator=(const HeapProfileScopeGuard &) = delete;

  private:
    HeapProfileScope scope_;
};

#ifdef HEAP_PROFILE_NOOP
} // namespace HeapProfileNoop
#endif
#endif

/* HEAP_PROFILE_SCOPE("ParseAuthorStyleSheet"); opens a scope until the end of the block. */
#define HEAP_PROFILE_JOIN_(a, b) a##b
#define HEAP_PROFILE_JOIN(a, b) HEAP_PROFILE_JOIN_(a, b)
#ifdef __cplusplus
#define HEAP_PROFILE_SCOPE(name)                                                                   \
    HeapProfileScopeGuard HEAP_PROFILE_JOIN(heap_profile_scope_, __LINE__)(name)
#else
#define HEAP_PROFILE_SCOPE(name)                                                                   \
    struct HeapProfileScope HEAP_PROFILE_JOIN(heap_profile_scope_, __LINE__)                       \
        __attribute__((cleanup(HeapProfile_popContext)));                                          \
    HeapProfile_pushContext(&HEAP_PROFILE_JOIN(heap_profile_scope_, __LINE__), name)
#endif

#endif
