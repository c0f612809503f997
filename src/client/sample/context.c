/* SPDX-License-Identifier: Apache-2.0 */
/* Push, pop and check scopes; hash and send contexts and names. */
#include "client/sample/context.h"

#include <stddef.h>
#include <string.h>

#include "client/clock.h"
#include "client/forward.h"
#include "client/libc/libc.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sample.h"
#include "client/sample/stack_cache.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"
#include "client/system.h"
#include "heap_profile.h"
#include "wire/record.h"

HIDDEN __thread struct HeapProfileScope *context_innermost;
HIDDEN uint32_t context_is_recorded = 1; /* the first scope says hello, if no allocation did */

/* Whether a record of this thread's scopes was lost since the last one that was sent. */
static __thread bool record_was_lost;

/* Factor of a scope's checksum. A scope whose memory was reused does not have it. */
#define CHECK UINT64_C(0x5c0be5c0be5c0be5)

/* Names, contexts and stacks share one cache of sent hashes, so the hashes of each kind must
 * differ. */
#define HASH_OF_NAME UINT64_C(0x9e3779b97f4a7c15)
#define HASH_OF_CONTEXT UINT64_C(0xd1342543de82ef95)

/* Limit for following a chain that a jump may have broken. */
#define SCOPES_MAX 300

/* --- records of scopes --- */

/* Send a record. Return false if it is lost. */
static bool send_scope(struct ring_thread *thread, const struct HeapProfileScope *scope,
                       uint32_t flags)
{
    bool begins = (flags & RECORD_SCOPE_BEGINS) != 0;
    uint64_t now_ns = clock_now_ns(); /* 0: no clock can be read */
    sample_introduce(thread);
    uint64_t name = begins ? context_send_name(thread, scope->name) : 0;
    if (now_ns == 0 || (begins && name == 0))
        return false;
    struct record_scope *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return false;
    record->time_ns = now_ns;
    record->scope = (uintptr_t)scope;
    record->outer = (uintptr_t)(begins ? scope->outer : context_innermost);
    record->name = name;
    record->flags = flags | (record_was_lost ? RECORD_SCOPE_AFTER_LOSS : 0);
    return ring_writer_commit(thread, record, RECORD_SCOPE);
}

/* Record that a scope has begun or ended. */
static __attribute__((noinline)) void record_scope(const struct HeapProfileScope *scope,
                                                   uint32_t flags)
{
    int saved_errno = errno;
    if (client_state() == CLIENT_NEW)
        session_join_or_tick();
    struct thread_passage passage;
    thread_enter(&passage);
    bool is_wanted = client_state() == CLIENT_ACTIVE && load_relaxed(&context_is_recorded) != 0;
    struct ring_thread *thread = is_wanted ? thread_slot_get() : NULL;
    /* Contexts leave out scopes without a name, too. */
    if (thread != NULL && (scope->name != NULL || (flags & RECORD_SCOPE_BEGINS) == 0)) {
        record_was_lost = !send_scope(thread, scope, flags);
        if (record_was_lost)
            sample_lose(RING_LOST_SCOPES);
    }
    thread_leave(&passage);
    errno = saved_errno;
}

/* --- scopes --- */

static inline uintptr_t check_for(const char *name, const struct HeapProfileScope *outer,
                                  uintptr_t address)
{
    return (((uintptr_t)name ^ ((uintptr_t)outer << 1 | 1)) + address) * (uintptr_t)CHECK;
}

static uintptr_t check_of(const struct HeapProfileScope *scope, uintptr_t address)
{
    return check_for(scope->name, scope->outer, address);
}

/* Whether a scope is in the thread's chain; unknown if the chain is broken before. */
enum standing { IS_IN, IS_NOT_IN, IS_UNKNOWN };

/* Copy a scope's memory: by the kernel unless it is on the thread's own stack, because a scope that
 * a jump left may be unmapped. `thread` may be NULL. Return 0 or a negative errno. */
static long copy_scope(const struct ring_thread *thread, const struct HeapProfileScope *scope,
                       struct HeapProfileScope *copy)
{
    const struct unwind_stack_bounds *bounds = thread != NULL ? thread_slot_bounds(thread) : NULL;
    uintptr_t address = (uintptr_t)scope;
    if (bounds != NULL && address >= bounds->low && address < bounds->high &&
        bounds->high - address >= sizeof(*scope)) {
        *copy = *scope;
        return 0;
    }
    long got = system_read_memory(copy, address, sizeof(*copy));
    return got == (long)sizeof(*copy) ? 0 : got < 0 ? got : -EFAULT;
}

static __attribute__((noinline)) enum standing find_scope(const struct HeapProfileScope *scope)
{
    const struct HeapProfileScope *at = context_innermost;
    struct HeapProfileScope copy;
    for (int i = 0; i < SCOPES_MAX && at != NULL; i++) {
        if (at == scope)
            return IS_IN;
        if (copy_scope(load_relaxed(client_cell()), at, &copy) < 0 ||
            copy.check != check_of(&copy, (uintptr_t)at))
            return IS_UNKNOWN;
        at = copy.outer;
    }
    return at == NULL ? IS_NOT_IN : IS_UNKNOWN;
}

/* The pushed storage still holds a valid scope: a jump left it. End that scope, which would
 * otherwise point to itself. (If another thread left it in a reused stack, it is not in the chain.)
 */
static void end_abandoned_scope(struct HeapProfileScope *scope)
{
    if (find_scope(scope) == IS_IN)
        context_innermost = scope->outer;
}

static inline void link_scope(struct HeapProfileScope *scope, const char *name)
{
    struct HeapProfileScope *outer = context_innermost;
    /* Two stores: gcc would join the words in a vector register first. */
    store_relaxed(&scope->name, name);
    store_relaxed(&scope->outer, outer);
    scope->check = check_for(name, outer, (uintptr_t)scope);
    barrier_signal(); /* a signal handler that allocates sees it complete */
    context_innermost = scope;
    if (unlikely(load_relaxed(&context_is_recorded) != 0))
        record_scope(scope, RECORD_SCOPE_BEGINS);
}

/* Push a scope whose storage may be that of an abandoned one. */
static __attribute__((noinline)) void push_again(struct HeapProfileScope *scope, const char *name)
{
    if (scope->check == check_of(scope, (uintptr_t)scope))
        end_abandoned_scope(scope);
    link_scope(scope, name);
}

EXPORT_HOT void HeapProfile_pushContext(struct HeapProfileScope *scope, const char *name)
{
    FORWARD(push, scope, name);
    /* Stacks grow downwards: storage that is pushed again is at the innermost scope or above it.
     * Storage below it is new and may be uninitialized, so it is not read. Without an innermost
     * scope, the subtraction wraps around. */
    if (unlikely((uintptr_t)scope > (uintptr_t)context_innermost - 1))
        push_again(scope, name);
    else
        link_scope(scope, name);
}

/* Pop a scope that is not the innermost: pop the scopes inside it, too, unless it was popped
 * already. */
static __attribute__((noinline)) void pop_out_of_turn(struct HeapProfileScope *scope)
{
    enum standing standing = find_scope(scope);
    bool whole = scope->check == check_of(scope, (uintptr_t)scope);
    if (standing == IS_IN || (standing == IS_UNKNOWN && whole))
        context_innermost = scope->outer;
    scope->check = 0;
    if (load_relaxed(&context_is_recorded) != 0)
        record_scope(scope, 0);
}

EXPORT_HOT void HeapProfile_popContext(struct HeapProfileScope *scope)
{
    FORWARD(pop, scope);
    if (unlikely(scope != context_innermost)) {
        pop_out_of_turn(scope);
        return;
    }
    context_innermost = scope->outer;
    scope->check = 0;
    if (unlikely(load_relaxed(&context_is_recorded) != 0))
        record_scope(scope, 0);
}

/* Copy a scope. Return false if it is not valid. */
static bool read_scope(const struct ring_thread *thread, const struct HeapProfileScope *scope,
                       struct HeapProfileScope *copy)
{
    long code = copy_scope(thread, scope, copy);
    if (code == -EPERM || code == -ENOSYS) /* the scope may be valid */
        sample_lose(RING_LOST_UNWIND);
    return code == 0 && copy->check == check_of(copy, (uintptr_t)scope);
}

/* --- hashes --- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 29;
}

static uint64_t context_finish(uint64_t hash)
{
    hash = mix(hash, hash >> 32);
    return hash != 0 ? hash : 1;
}

static uint64_t hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = HASH_OF_NAME ^ length;
    for (; length > 0;) {
        size_t part = length < 8 ? length : 8;
        uint64_t word = 0;
        memcpy(&word, bytes, part);
        hash = mix(hash, word);
        bytes += part;
        length -= part;
    }
    return context_finish(hash);
}

/* --- sending --- */

uint64_t context_send_name(struct ring_thread *thread, const char *name)
{
    if (name == NULL)
        return 0;
    size_t length = strnlen(name, RECORD_NAME_BYTES_MAX - 1);
    uint64_t hash = hash_bytes(name, length);
    if (stack_cache_holds(hash))
        return hash;
    struct record_name *record = ring_writer_reserve(thread, (uint32_t)(sizeof(*record) + length));
    if (record == NULL)
        return 0;
    record->hash = hash;
    record->length = (uint32_t)length;
    memcpy(record->bytes, name, length);
    if (!ring_writer_commit(thread, record, RECORD_NAME))
        return 0;
    stack_cache_add(hash);
    return hash;
}

/* Return whether the scope is among the first `steps` of the chain. The chain may contain a circle
 * if storage that a jump left was overwritten and then pushed again. */
static bool was_passed(const struct ring_thread *thread, const struct HeapProfileScope *scope,
                       unsigned steps)
{
    const struct HeapProfileScope *passed = context_innermost;
    struct HeapProfileScope copy;
    for (unsigned i = 0; i < steps; i++, passed = copy.outer) {
        if (passed == scope || !read_scope(thread, passed, &copy))
            return true;
    }
    return false;
}

uint64_t context_send(struct ring_thread *thread)
{
    uint64_t names[RECORD_CONTEXT_NAMES_MAX];
    uint32_t count = 0;
    uint64_t hash = HASH_OF_CONTEXT;
    const struct HeapProfileScope *scope = context_innermost, *inner = NULL;
    struct HeapProfileScope copy;
    bool turned = false; /* false while each scope is at a higher address than the one before */
    for (unsigned steps = 0; scope != NULL && count < RECORD_CONTEXT_NAMES_MAX; steps++) {
        turned |= scope <= inner;
        if ((turned && was_passed(thread, scope, steps)) || !read_scope(thread, scope, &copy))
            break;
        inner = scope;
        uint64_t name = context_send_name(thread, copy.name);
        if (name != 0) {
            names[count++] = name;
            hash = mix(hash, name);
        }
        scope = copy.outer;
    }
    if (count == 0)
        return 0;
    hash = context_finish(hash);
    if (stack_cache_holds(hash))
        return hash;
    struct record_context *record =
        ring_writer_reserve(thread, (uint32_t)(sizeof(*record) + count * sizeof(names[0])));
    if (record == NULL)
        return 0;
    record->hash = hash;
    record->count = count;
    memcpy(record->names, names, count * sizeof(names[0]));
    if (!ring_writer_commit(thread, record, RECORD_CONTEXT))
        return 0;
    stack_cache_add(hash);
    return hash;
}
