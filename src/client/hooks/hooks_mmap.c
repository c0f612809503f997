/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the functions that map memory: mmap, mmap64, mremap, munmap, brk, sbrk. The C library's
 * malloc, its thread stacks and the loader use internal versions and do not call the hooks.
 *
 * While no session profiles the heap libc.mmap, a call costs a few loads and a jump to the real
 * function. Otherwise the slow half calls the real function and counts its result. A failed call
 * changes nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/client.h"
#include "client/elf_lookup.h"
#include "client/heaps/heaps.h"
#include "client/heaps/python_object.h"
#include "client/heaps/ranges.h"
#include "client/libc/libc.h"

/* As in <linux/mman.h>. <sys/mman.h> cannot be included: it declares mremap with a variable
 * argument. On x86-64 and aarch64 that argument is passed in the same register as a fixed one. It
 * is passed on even if the caller did not give it. */
#define MREMAP_DONTUNMAP 4
#define MAP_FAILED ((void *)-1)

typedef const struct unwind_registers *caller_registers;

#define HOOK(type, name, ...)                                                                      \
    EXPORT type name(__VA_ARGS__);                                                                 \
    HIDDEN type entry_##name(__VA_ARGS__);                                                         \
    HIDDEN type slow_##name(__VA_ARGS__, caller_registers caller)

HOOK(void *, mmap, void *address, size_t length, int protection, int flags, int fd, off_t offset);
HOOK(void *, mmap64, void *address, size_t length, int protection, int flags, int fd, off_t offset);
HOOK(void *, mremap, void *old, size_t old_length, size_t length, int flags, void *address);
HOOK(int, munmap, void *address, size_t length);
HOOK(int, brk, void *address);
HOOK(void *, sbrk, intptr_t increment);

/* NULL: not looked up yet, or missing in this C library. */
static struct {
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    void *(*mmap64)(void *, size_t, int, int, int, off_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    int (*munmap)(void *, size_t);
    int (*brk)(void *);
    void *(*sbrk)(intptr_t);
} next;

static bool is_resolved;

static void look_up(void)
{
    next.mmap = elf_lookup_next("mmap", 1).address;
    next.mmap64 = elf_lookup_next("mmap64", 1).address;
    next.mremap = elf_lookup_next("mremap", 1).address;
    next.munmap = elf_lookup_next("munmap", 1).address;
    next.brk = elf_lookup_next("brk", 1).address;
    next.sbrk = elf_lookup_next("sbrk", 1).address;
}

/* Look the functions up, at start-up before there are threads. Idempotent. */
static __attribute__((constructor(101))) void resolve(void)
{
    if (load_acquire(&is_resolved))
        return;
    ranges_init();
    look_up();
    store_release(&is_resolved, true);
}

/* --- hot --- */

/* Return whether no session profiles mappings. (Heap 0 is always idle.) */
static inline __attribute__((always_inline)) bool is_unprofiled(void)
{
    uint32_t id = load_acquire(&heaps_mmap);
    if (unlikely(!client_is_relocated())) {
        look_up();
        return true;
    }
    return likely(load_relaxed(&client.process->heap_states[id]) == HEAP_IDLE) &&
           likely(!heaps_should_check());
}

/* Return the result of mmap, after telling the heap python.object of a failure. */
static inline void *noted(void *memory, const void *address, size_t length, int fd)
{
    if (unlikely(memory == MAP_FAILED))
        python_object_note_failed_mapping(address, length, fd);
    return memory;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    python_object_note_mapping();
    if (is_unprofiled() && likely(next.mmap != NULL))
        return noted(next.mmap(address, length, protection, flags, fd, offset), address, length,
                     fd);
    return entry_mmap(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    python_object_note_mapping();
    if (is_unprofiled() && likely(next.mmap64 != NULL))
        return noted(next.mmap64(address, length, protection, flags, fd, offset), address, length,
                     fd);
    return entry_mmap64(address, length, protection, flags, fd, offset);
}

void *mremap(void *old, size_t old_length, size_t length, int flags, void *address)
{
    if (is_unprofiled() && likely(next.mremap != NULL))
        return next.mremap(old, old_length, length, flags, address);
    return entry_mremap(old, old_length, length, flags, address);
}

int munmap(void *address, size_t length)
{
    if (is_unprofiled() && likely(next.munmap != NULL))
        return next.munmap(address, length);
    return entry_munmap(address, length);
}

int brk(void *address)
{
    if (is_unprofiled() && likely(next.brk != NULL))
        return next.brk(address);
    return entry_brk(address);
}

void *sbrk(intptr_t increment)
{
    if (is_unprofiled() && likely(next.sbrk != NULL))
        return next.sbrk(increment);
    return entry_sbrk(increment);
}

/* --- slow; called by entry_mmap.S --- */

static long hooks_mmap_refuse(void)
{
    errno = ENOSYS;
    return -1;
}

void *slow_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset,
                caller_registers caller)
{
    resolve();
    if (next.mmap == NULL)
        return (void *)hooks_mmap_refuse();
    struct range_call call = ranges_enter(caller);
    void *memory =
        noted(next.mmap(address, length, protection, flags, fd, offset), address, length, fd);
    if (memory != MAP_FAILED)
        ranges_leave(&call, 0, 0, (uintptr_t)memory, ranges_round_up(length), caller);
    return memory;
}

void *slow_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset,
                  caller_registers caller)
{
    return slow_mmap(address, length, protection, flags, fd, offset, caller);
}

/* Count an mremap like a realloc: the old range is unmapped, and a new one mapped. */
void *slow_mremap(void *old, size_t old_length, size_t length, int flags, void *address,
                  caller_registers caller)
{
    resolve();
    if (next.mremap == NULL)
        return (void *)hooks_mmap_refuse();
    struct range_call call = ranges_enter(caller);
    void *memory = next.mremap(old, old_length, length, flags, address);
    if (memory == MAP_FAILED)
        return memory;
    /* An old length of 0 maps shared memory a second time. */
    size_t unmapped = flags & MREMAP_DONTUNMAP ? 0 : ranges_round_up(old_length);
    ranges_leave(&call, (uintptr_t)old, unmapped, (uintptr_t)memory, ranges_round_up(length),
                 caller);
    return memory;
}

int slow_munmap(void *address, size_t length, caller_registers caller)
{
    resolve();
    if (next.munmap == NULL)
        return (int)hooks_mmap_refuse();
    struct range_call call = ranges_enter(caller);
    int result = next.munmap(address, length);
    if (result == 0)
        ranges_leave(&call, (uintptr_t)address, ranges_round_up(length), 0, 0, caller);
    return result;
}

/* Count a moved end of the data segment. */
static void account_break(const struct range_call *call, uintptr_t old, uintptr_t now,
                          caller_registers caller)
{
    if (now > old)
        ranges_leave(call, 0, 0, old, now - old, caller);
    else if (now < old)
        ranges_leave(call, now, old - now, 0, 0, caller);
}

int slow_brk(void *address, caller_registers caller)
{
    resolve();
    if (next.brk == NULL)
        return (int)hooks_mmap_refuse();
    struct range_call call = ranges_enter(caller);
    uintptr_t old = next.sbrk != NULL ? (uintptr_t)next.sbrk(0) : (uintptr_t)address;
    int result = next.brk(address);
    if (result == 0)
        account_break(&call, old, (uintptr_t)address, caller);
    return result;
}

void *slow_sbrk(intptr_t increment, caller_registers caller)
{
    resolve();
    if (next.sbrk == NULL)
        return (void *)hooks_mmap_refuse();
    struct range_call call = ranges_enter(caller);
    void *old = next.sbrk(increment);
    if (old != MAP_FAILED)
        account_break(&call, (uintptr_t)old, (uintptr_t)old + (uintptr_t)increment, caller);
    return old;
}
