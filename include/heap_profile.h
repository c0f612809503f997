/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps of one's own in a heap profile: arenas, pools, slabs, GPU buffers, a runtime's objects.
 *
 * The AHeap* functions are those of Perfetto's heapprofd (its Custom Allocator API), by name, type
 * and meaning; what begins with HeapProfile_ is ours beside them. Link to libheapprofd_client
 * (pkg-config heapprofd-client), or define HEAP_PROFILE_NOOP before this header is included to
 * build without it.
 *
 * All functions may be called from any thread, from global constructors, before and after main, in
 * a forked child, and from the callbacks. None allocates, blocks on a lock, or changes errno. Not
 * from signal handlers: AHeapProfile_registerHeap and what sets an AHeapInfo up.
 */
#ifndef HEAP_PROFILE_H
#define HEAP_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A heap that is being described; belongs to the library once it was made. */
typedef struct AHeapInfo AHeapInfo;
/* What an enabled callback is told, and a disabled one. Valid while the callback runs. */
typedef struct AHeapProfileEnableCallbackInfo AHeapProfileEnableCallbackInfo;
typedef struct AHeapProfileDisableCallbackInfo AHeapProfileDisableCallbackInfo;

typedef void (*AHeapProfileEnabledCallback)(void *data, const AHeapProfileEnableCallbackInfo *info);
typedef void (*AHeapProfileDisabledCallback)(void *data,
                                             const AHeapProfileDisableCallbackInfo *info);

#ifndef HEAP_PROFILE_NOOP

/*
 * Describes a heap by its name, 1 to 63 bytes, which is copied. NULL: the name is empty or too
 * long, or there are 255 heaps. The same name twice makes two heaps.
 */
AHeapInfo *AHeapInfo_create(const char *heap_name);

/*
 * To be called when a session begins to profile the heap, and when it no longer does: in turns,
 * one at a time, on a thread that is inside one of these functions, or inside malloc where that is
 * hooked, with no lock of ours held.
 * Returns info; NULL info is passed through, and so is one that is registered already, unchanged.
 */
AHeapInfo *AHeapInfo_setEnabledCallback(AHeapInfo *info, AHeapProfileEnabledCallback callback,
                                        void *data);
AHeapInfo *AHeapInfo_setDisabledCallback(AHeapInfo *info, AHeapProfileDisabledCallback callback,
                                         void *data);

/* The mean number of bytes from one sample to the next. */
uint64_t
AHeapProfileEnableCallbackInfo_getSamplingInterval(const AHeapProfileEnableCallbackInfo *info);

/* The heap's id from now on; 0, which all below ignore, for NULL or what is registered already. */
uint32_t AHeapProfile_registerHeap(AHeapInfo *info);

/*
 * size bytes were allocated under allocation_id, any number; an id that is in use counts as freed
 * first. Returns whether the allocation was sampled: only those need be told of when they are
 * freed.
 */
bool AHeapProfile_reportAllocation(uint32_t heap_id, uint64_t allocation_id, uint64_t size);

/* The same for programs that sample themselves: size is what the sample stands for. */
bool AHeapProfile_reportSample(uint32_t heap_id, uint64_t allocation_id, uint64_t size);

/* allocation_id is free; one that is unknown is ignored. To be called before it is used again. */
void AHeapProfile_reportFree(uint32_t heap_id, uint64_t allocation_id);

/* As AHeapProfile_reportAllocation, of a named type: a string that stays as it is while the
 * library is loaded, or one that HeapProfile_intern gave. NULL: of no type. */
bool HeapProfile_reportAllocationOfType(uint32_t heap_id, uint64_t allocation_id, uint64_t size,
                                        const char *type);

/* A copy of text (its first 1,023 bytes) that stays for ever, the same for equal text; for
 * languages without static strings. NULL: no memory, or 65,536 texts are interned already. */
const char *HeapProfile_intern(const char *text);

/*
 * A scope on the current thread: what it allocates meanwhile, in any heap, is done on behalf of
 * `name` (a string as of a type). The storage is the caller's and stays in place until the pop. A
 * pop takes its own scope and all that were pushed after it, so that scopes which a longjmp or an
 * exception of another language left end with the next one further out; the pop of one that is
 * not pushed (any more) does nothing. Scopes belong to threads: one that switches fibers pops
 * before it does.
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

/* A program may have parts that are built without the library beside others: not the same class. */
#ifdef HEAP_PROFILE_NOOP
inline namespace HeapProfileNoop
{
#endif

/* A scope as long as the object lives. */
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

/* HEAP_PROFILE_SCOPE("ParseAuthorStyleSheet"); from here to the end of the block. */
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
