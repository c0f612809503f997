/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common hook of the allocators' extended functions.
 *
 * The preloaded and the attached client differ in how they count a call: an attached hook also sees
 * the calls that the allocator makes of its own functions, and only the outermost one counts. And
 * exceptions may not pass through the attached client, which has no unwind information.
 */
#include "client/extended.h"

#include "client/real_extended.h"
#include "client/sample/sample.h"
#ifdef HEAPPROFD_ATTACHED
#include "client/attached/hooks.h"
#endif

#define ROW(name, library, since, kind, block, count, bytes, nothrow)                              \
    [EXTENDED_##name] = EXTENDED_ROW(kind, block, count, bytes, nothrow),

const struct extended_row extended_rows[EXTENDED_FUNCTIONS] = {ALLOCATOR_EXTENDED(ROW)};

/* The hot paths are one function, which is inlined into each hook with its row as a constant. */
#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t call_real(unsigned function, const uint64_t *arguments)
{
    return extended_call_at(real_extended(function), arguments);
}

/* Not inlined: most blocks are near no sample, and the hooks have six arguments to keep. */
static __attribute__((noinline)) bool near_might_be_live(const void *block)
{
    return live_set_near_might_hold(&sample_live_set, (uintptr_t)block);
}

INLINE bool live_set_might_have(const void *block)
{
    return unlikely(live_set_has_near(&sample_live_set, (uintptr_t)block)) &&
           near_might_be_live(block);
}

/* --- what the two clients do differently --- */

#ifdef HEAPPROFD_ATTACHED

typedef struct hook_call extended_account;

static extended_account account_begin(const struct unwind_registers *caller)
{
    return hook_call_begin(caller, true);
}

static bool account_counts(extended_account account)
{
    return account.thread != NULL;
}

static void account_end(extended_account account, const void *memory, size_t bytes,
                        const struct unwind_registers *caller)
{
    hook_call_end(account, memory, bytes, caller);
}

INLINE bool might_be_live(const void *block)
{
    /* Without the table, the live set may not be mapped either. */
    return unlikely(load_acquire(&thread_table) == NULL) || live_set_might_have(block);
}

INLINE bool might_be_freed(const void *block)
{
    return likely(load_acquire(&thread_table) != NULL) && live_set_might_have(block);
}

static void note_free(const void *block)
{
    hook_check_free(block);
}

/* Call a function that does not throw in place of one that does. */
INLINE unsigned callable(const struct extended_row *row, unsigned function)
{
    return row->nothrow != EXTENDED_FUNCTIONS ? row->nothrow : function;
}

typedef struct attached_thread *extended_counted;

INLINE extended_counted count_bytes(size_t bytes)
{
    return hook_count(bytes);
}

/* Make a call that needs nothing but counting: `counted` is the thread's entry. */
INLINE uint64_t call_counted(const struct extended_row *row, unsigned function,
                             extended_counted counted, const uint64_t *arguments)
{
    if (function == EXTENDED_malloc) /* jemalloc's calls no other */
        return call_real(function, arguments);
    uint64_t result = PASS(counted, uint64_t, call_real(callable(row, function), arguments));
    bool is_final = likely(result != 0) || callable(row, function) == function;
    return is_final ? result : call_real(function, arguments);
}

#else

typedef struct {
    bool unused;
} extended_account;

static extended_account account_begin(const struct unwind_registers *caller)
{
    (void)caller;
    return (extended_account){false};
}

static bool account_counts(extended_account account)
{
    (void)account;
    return true;
}

static void account_end(extended_account account, const void *memory, size_t bytes,
                        const struct unwind_registers *caller)
{
    (void)account;
    sample_allocation(memory, bytes, caller);
}

INLINE bool might_be_live(const void *block)
{
    return live_set_might_have(block);
}

INLINE bool might_be_freed(const void *block)
{
    return might_be_live(block);
}

static void note_free(const void *block)
{
    sample_check_free(block);
}

INLINE unsigned callable(const struct extended_row *row, unsigned function)
{
    (void)row;
    return function;
}

typedef bool extended_counted;

INLINE extended_counted count_bytes(size_t bytes)
{
    return client_count(bytes);
}

INLINE uint64_t call_counted(const struct extended_row *row, unsigned function,
                             extended_counted counted, const uint64_t *arguments)
{
    (void)row;
    (void)counted;
    return call_real(function, arguments);
}

#endif

/* --- heaps of mimalloc --- */

/* The first members of mi_heap_area_t, the same in all versions. */
struct heap_area {
    void *blocks;
    size_t reserved;
};

static bool forget_area(const void *heap, const struct heap_area *area, void *block,
                        size_t block_bytes, void *argument)
{
    (void)heap;
    (void)block;
    (void)block_bytes;
    (void)argument;
    sample_free_range((uintptr_t)area->blocks, (uintptr_t)area->blocks + area->reserved);
    return true;
}

/* The heap's blocks die without calls of free. Without mi_heap_visit_blocks they stay live in the
 * profile: count that as a lost free. */
static void forget_heap(const void *heap, const struct unwind_registers *caller)
{
    typedef bool (*visit_function)(const void *, bool, void *, void *);
    visit_function visit = (visit_function)real_heap_visit();
    extended_account account = account_begin(caller);
    if (visit == NULL)
        sample_lose(RING_LOST_FREE);
    else if (account_counts(account))
        visit(heap, false, (void *)forget_area, NULL);
    account_end(account, NULL, 0, caller);
}

/* --- the hook --- */

static struct extended_verdict call_slowly(unsigned function, const uint64_t *arguments,
                                           size_t bytes, const struct unwind_registers *caller)
{
    const struct extended_row *row = &extended_rows[function];
    extended_account account = account_begin(caller);
    if (!account_counts(account) && callable(row, function) != function) {
        account_end(account, NULL, 0, caller);
        return (struct extended_verdict){.jump = real_extended(function)};
    }
    const void *block = extended_resized_block(row, arguments);
    /* Remove the block from the live set before another thread can get its address. */
    int freed = block != NULL && account_counts(account) ? sample_free_for_realloc(block) : 0;
    struct extended_verdict verdict = {call_real(callable(row, function), arguments), 0};
    const void *memory = extended_resulting_block(row, arguments, verdict.result, &bytes);
    bool survives = bytes != 0 && row->kind != EXTENDED_RESIZE_OR_FREE;
    if (memory == NULL && freed && survives)
        sample_unfree(block);
    account_end(account, memory, bytes, caller);
    return verdict;
}

struct extended_verdict extended_call(unsigned function, const uint64_t *arguments,
                                      const struct unwind_registers *caller)
{
    const struct extended_row *row = &extended_rows[function];
    if (row->kind == EXTENDED_DESTROY_HEAP) {
        forget_heap((const void *)arguments[0], caller);
        return (struct extended_verdict){.jump = real_extended(function)};
    }
    if (row->kind == EXTENDED_RELEASE) {
        note_free((const void *)arguments[row->block]);
        return (struct extended_verdict){.jump = real_extended(function)};
    }
    struct extended_verdict verdict =
        call_slowly(function, arguments, extended_requested_bytes(row, arguments), caller);
    /* A function that throws reports the failure itself, with none of our frames on the stack. */
    if (unlikely(verdict.jump == 0 && verdict.result == 0) && callable(row, function) != function)
        verdict.jump = real_extended(function);
    return verdict;
}

/* --- hot --- */

INLINE uint64_t call_hot(unsigned function, const struct extended_row *row, extended_function *slow,
                         const uint64_t *arguments)
{
    void *block = row->block != EXTENDED_NO_ARGUMENT ? (void *)arguments[row->block] : NULL;
    size_t bytes;
    switch (row->kind) {
    case EXTENDED_RELEASE:
        if (likely(block == NULL || !might_be_freed(block)))
            return call_real(function, arguments);
        break;
    case EXTENDED_RESIZE:
    case EXTENDED_RESIZE_OR_FREE:
        /* For NULL, might_be_live() is true (a free place holds 0). */
        if (unlikely(block != NULL && might_be_live(block)))
            break;
        /* fall through */
    case EXTENDED_ALLOCATE:
    case EXTENDED_STORE:
        if (likely(!extended_multiply(row, arguments, &bytes))) {
            extended_counted counted = count_bytes(bytes);
            if (likely(counted))
                return call_counted(row, function, counted, arguments);
        }
        break;
    default:
        break;
    }
    return extended_call_at((uint64_t)slow, arguments);
}

#define HOOK(name, library, since, kind, block, count, bytes, nothrow)                             \
    HIDDEN uint64_t extended_##name(EXTENDED_PARAMETERS)                                           \
    {                                                                                              \
        static const struct extended_row row = EXTENDED_ROW(kind, block, count, bytes, nothrow);   \
        const uint64_t arguments[EXTENDED_ARGUMENTS] = {a, b, c, d, e, f};                         \
        return call_hot(EXTENDED_##name, &row, extended_slow_##name, arguments);                   \
    }

ALLOCATOR_EXTENDED(HOOK)
