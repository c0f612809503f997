/* SPDX-License-Identifier: Apache-2.0 */
/* The initial thread makes its first allocation on a fiber, whose stack is right below other
 * memory. The program unmaps that memory, and code without unwind information allocates with a
 * frame pointer into it. */
#include <sys/mman.h>
#include <ucontext.h>

#include "truth.h"

enum { STACK = 64 << 10, ROUNDS = 100 };

static ucontext_t outside, fiber;
static char *memory; /* two halves: the fiber's stack, and above it the memory that is unmapped */

/* Call malloc(size) with the given value in the frame pointer. */
void *allocate_without_frame(size_t size, const void *frame_pointer);
__asm__(".text\n"
        ".type allocate_without_frame, %function\n"
        "allocate_without_frame:\n"
#if defined(__x86_64__)
        "push %rbp\n"
        "mov %rsi, %rbp\n"
        "call malloc@plt\n"
        "pop %rbp\n"
        "ret\n"
#else
        "stp x29, x30, [sp, #-16]!\n"
        "mov x29, x1\n"
        "bl malloc\n"
        "ldp x29, x30, [sp], #16\n"
        "ret\n"
#endif
        ".size allocate_without_frame, . - allocate_without_frame\n");

static CALLSITE void *allocate_in_fiber(size_t size)
{
    return kept(malloc(size));
}

static void run_fiber(void)
{
    free(allocate_in_fiber(80));
    munmap(memory + STACK, STACK);
    for (int i = 0; i < ROUNDS; i++)
        free(allocate_without_frame(40, memory + STACK + 256));
}

int main(void)
{
    memory = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = memory;
    fiber.uc_stack.ss_size = STACK;
    fiber.uc_link = &outside;
    makecontext(&fiber, run_fiber, 0);
    swapcontext(&outside, &fiber);
    truth("allocate_in_fiber", 80, 1);
    truth("allocate_without_frame", 40 * ROUNDS, ROUNDS);
    return 0;
}
