/* SPDX-License-Identifier: Apache-2.0 */
/* Find a thread's home stack and check that it is readable; copy from other stacks. */
#include "client/unwind/unwind_stack.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "client/arch/unwind.h"
#include "client/system.h"
#include "wire/barrier.h"

#define PAGE_BYTES 4096u

/* The largest range that is taken for a thread's own stack. It is checked once,
 * page by page (about 50 ns each). */
#define HOME_BYTES_MAX (UINT64_C(256) << 20)

static uintptr_t initial_stack_end; /* 0: unknown */

/* The initial thread's control block. It is near the libraries, not on top of a stack, so a range
 * that ends there is not a stack. 0: unknown. */
static uintptr_t initial_control_block;

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

/* Return the first address at or after `from` that cannot be read, or `to`. */
static __attribute__((noinline)) uintptr_t readable_until(uintptr_t from, uintptr_t to)
{
    while (from < to) {
        uintptr_t left = (to - from + PAGE_BYTES - 1) / PAGE_BYTES;
        unsigned count = left < SYSTEM_PROBES ? (unsigned)left : SYSTEM_PROBES;
        unsigned readable = system_probe_pages(from, count);
        from += readable * PAGE_BYTES;
        if (readable < count)
            return from;
    }
    return to;
}

/* Set the home stack to [sp's page, high) if that is readable. */
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

/* Extend the home stack to a deeper stack pointer, if the pages between are readable. */
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
    return system_call(CALL_OWN_THREAD) == system_call(CALL_OWN_PROCESS);
}

/* Return whether the control block is on top of the stack. In a child that another thread has
 * forked, it is on top of that thread's stack. */
static bool control_block_ends_stack(void)
{
    if (initial_control_block != 0)
        return arch_thread_pointer() != initial_control_block;
    return !runs_initial_thread();
}

bool unwind_stack_find_home(struct unwind_stack_bounds *bounds, uintptr_t sp)
{
    if (bounds->high != 0)
        return home_extends(bounds, sp);
    uintptr_t low = page_down(sp);
    if (low >= bounds->away_low && low < bounds->away_high)
        return false;
    if (home_reaches(bounds, sp, page_down(initial_stack_end + PAGE_BYTES - 1)))
        return true;
    if (control_block_ends_stack() && home_reaches(bounds, sp, arch_thread_pointer()))
        return true;
    bounds->away_low = low;
    bounds->away_high = low + PAGE_BYTES;
    return false;
}

void unwind_stack_init(uintptr_t stack_end)
{
    initial_stack_end = stack_end;
    if (runs_initial_thread())
        initial_control_block = arch_thread_pointer();
}

/* Allow direct reads of the part of a foreign stack that cannot vanish: the thread's alternate
 * signal stack while the thread runs on it, or the page of the frame that called us. */
static __attribute__((noinline)) void open_foreign(struct unwind_stack *stack, uintptr_t sp,
                                                   bool innermost)
{
    stack_t alternate;
    if (system_call(CALL_SIGNAL_STACK, &alternate) == 0 && (alternate.ss_flags & SS_ONSTACK) != 0) {
        uintptr_t low = (uintptr_t)alternate.ss_sp, high = low + alternate.ss_size;
        if (sp >= low && sp < high && readable_until(page_down(sp), high) >= high) {
            stack->low = sp;
            stack->high = high;
            return;
        }
    }
    /* The call of the hook has just written below sp. */
    if (innermost) {
        stack->low = sp;
        stack->high = page_down(sp - 1) + PAGE_BYTES;
    }
}

void unwind_stack_find(struct unwind_stack *stack, uintptr_t sp, bool innermost)
{
    struct unwind_stack_bounds *bounds = stack->bounds;
    stack->low = stack->high = 0;
    if (unwind_stack_find_home(bounds, sp)) {
        stack->low = bounds->low;
        stack->high = bounds->high;
    } else if (!system_copies_memory()) {
        open_foreign(stack, sp, innermost);
    }
}

/* Read from the chunk; if the address is outside it, copy a new one, shorter if its end is
 * unmapped. */
static __attribute__((noinline)) bool read_copied(struct unwind_stack *stack, uintptr_t address,
                                                  uint64_t *value)
{
    if (address < stack->chunk_low || address + 8 > stack->chunk_high) {
        if (address < PAGE_BYTES || address >> ARCH_ADDRESS_BITS != 0)
            return false;
        long got = system_read_memory(stack->chunk, address, sizeof(stack->chunk));
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
