/* SPDX-License-Identifier: Apache-2.0 */
/* See unwind_stack.h. */
#include "client/unwind/unwind_stack.h"

#include <errno.h>
#include <stddef.h>

#include "client/arch/unwind.h"
#include "client/system.h"
#include "wire/barrier.h"

#define PAGE_BYTES 4096u
#define PROBES 32u /* pages looked at by one system call */

/* Farther than this below its high end no stack is taken for a thread's own: what
 * lies there is looked at once, page by page (about 50 ns each). */
#define HOME_BYTES_MAX (UINT64_C(256) << 20)

/* Where the initial stack ends, by the loader; absent elsewhere than in glibc. */
extern void *__libc_stack_end __attribute__((weak));

/* The initial thread's control block lies beside the libraries, not on top of its stack: what
 * reaches from another stack up to there is none. 0: not known. */
static uintptr_t initial_control_block;

/* process_vm_readv is forbidden here (seccomp): found out once. */
static uint32_t copying_forbidden;

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

/* The number of pages from `from` on that can be read, of count. */
static unsigned probe_pages(uintptr_t from, unsigned count)
{
    struct iovec pages[PROBES];
    uint8_t bytes[PROBES];
    for (unsigned i = 0; i < count; i++)
        pages[i] = (struct iovec){.iov_base = (void *)(from + i * PAGE_BYTES), .iov_len = 1};
    struct iovec local = {.iov_base = bytes, .iov_len = count};
    long got =
        system_call(SYS_process_vm_readv, system_call(SYS_getpid), &local, 1, pages, count, 0);
    if (got >= 0)
        return (unsigned)got;
    if (got != -EPERM && got != -ENOSYS)
        return 0;
    /* mincore knows what is mapped, if not whether it may be read: good enough
     * between a thread's stack pointer and the end of its own stack. */
    store_relaxed(&copying_forbidden, 1);
    return system_call(SYS_mincore, from, count * (size_t)PAGE_BYTES, bytes) == 0 ? count : 0;
}

/* The first address at or after `from` that cannot be read, or `to`. */
static __attribute__((noinline)) uintptr_t readable_until(uintptr_t from, uintptr_t to)
{
    while (from < to) {
        uintptr_t left = (to - from + PAGE_BYTES - 1) / PAGE_BYTES;
        unsigned count = left < PROBES ? (unsigned)left : PROBES;
        unsigned readable = probe_pages(from, count);
        from += readable * PAGE_BYTES;
        if (readable < count)
            return from;
    }
    return to;
}

/* Tries [sp's page, high) as the home stack. */
static bool home_reaches(struct unwind_stack_bounds *bounds, uintptr_t sp, uintptr_t high)
{
    uintptr_t low = page_down(sp);
    if (sp >= high || high - low > HOME_BYTES_MAX)
        return false;
    if (readable_until(low, high) < high)
        return false;
    bounds->low = low;
    bounds->high = high;
    return true;
}

/* A stack pointer deeper than any before: the pages between are looked at. */
static bool home_extends(struct unwind_stack_bounds *bounds, uintptr_t sp)
{
    uintptr_t low = page_down(sp);
    if (sp >= bounds->low || bounds->high - low > HOME_BYTES_MAX)
        return false;
    if (low >= bounds->away_low && low < bounds->away_high)
        return false;
    uintptr_t until = readable_until(low, bounds->low);
    if (until < bounds->low) {
        bounds->away_low = low;
        bounds->away_high = until > low ? until : low + PAGE_BYTES;
        return false;
    }
    bounds->low = low;
    return true;
}

static bool runs_initial_thread(void)
{
    return system_call(SYS_gettid) == system_call(SYS_getpid);
}

/* A child that another thread has forked keeps that one's stack, and control block upon it. */
static bool control_block_ends_stack(void)
{
    if (initial_control_block != 0)
        return arch_thread_pointer() != initial_control_block;
    return !runs_initial_thread();
}

static bool home_find(struct unwind_stack_bounds *bounds, uintptr_t sp)
{
    if (bounds->high != 0)
        return home_extends(bounds, sp);
    uintptr_t low = page_down(sp);
    if (low >= bounds->away_low && low < bounds->away_high)
        return false;
    uintptr_t initial = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
    if (home_reaches(bounds, sp, page_down(initial + PAGE_BYTES - 1)))
        return true;
    if (control_block_ends_stack() && home_reaches(bounds, sp, arch_thread_pointer()))
        return true;
    bounds->away_low = low;
    bounds->away_high = low + PAGE_BYTES;
    return false;
}

void unwind_stack_init(void)
{
    if (runs_initial_thread())
        initial_control_block = arch_thread_pointer();
}

void unwind_stack_open(struct unwind_stack *stack, uintptr_t sp)
{
    struct unwind_stack_bounds *bounds = stack->bounds;
    stack->chunk_low = stack->chunk_high = 0;
    stack->low = stack->high = 0;
    bool home = (sp >= bounds->low && sp < bounds->high) || home_find(bounds, sp);
    if (home) {
        stack->low = bounds->low;
        stack->high = bounds->high;
    }
}

/* Out of the window: a chunk from address on, or less if its end is missing. */
static __attribute__((noinline)) bool read_copied(struct unwind_stack *stack, uintptr_t address,
                                                  uint64_t *value)
{
    if (address < stack->chunk_low || address + 8 > stack->chunk_high) {
        if (address < PAGE_BYTES || address >> ARCH_ADDRESS_BITS != 0 ||
            load_relaxed(&copying_forbidden))
            return false;
        long got = system_read_memory(stack->chunk, address, sizeof(stack->chunk));
        if (got == -EPERM || got == -ENOSYS)
            store_relaxed(&copying_forbidden, 1);
        if (got < 8) {
            stack->chunk_low = stack->chunk_high = 0;
            return false;
        }
        stack->chunk_low = address;
        stack->chunk_high = address + (uintptr_t)got;
    }
    __builtin_memcpy(value, (const uint8_t *)stack->chunk + (address - stack->chunk_low), 8);
    return true;
}

bool unwind_stack_read(struct unwind_stack *stack, uintptr_t address, uint64_t *value)
{
    if (address >= stack->low && address < stack->high && stack->high - address >= 8) {
        *value = unwind_stack_load(address);
        return true;
    }
    return read_copied(stack, address, value);
}
