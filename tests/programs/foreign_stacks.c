/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates where a walk leads to memory that is not the thread's own stack: with a frame pointer
 * into a page that another thread takes away and gives back all the time, and deep on a fiber. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "truth.h"

enum { PAGE = 4096, CALLS = 20000, DEEP_CALLS = 100, DEPTH = 200, STACK = 256 << 10 };

static char *page;
static atomic_int done;
static ucontext_t outside, fiber;

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

static void *take_and_give(void *unused)
{
    while (!done) {
        mprotect(page, PAGE, PROT_NONE);
        mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    }
    return unused;
}

static CALLSITE void *allocate_in_fiber(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE int allocate_deep(int depth)
{
    volatile char frame[64];
    frame[0] = 1;
    if (depth > 0)
        return allocate_deep(depth - 1) + frame[0];
    for (int i = 0; i < DEEP_CALLS; i++)
        free(allocate_in_fiber(80));
    return frame[0];
}

static void run_fiber(void)
{
    for (int i = 0; i < CALLS; i++)
        free(allocate_without_frame(40, page + 256));
    allocate_deep(DEPTH);
}

int main(void)
{
    /* The page is above the fiber's stack, so that the frame pointer is plausible. */
    char *memory =
        mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = memory + STACK;
    pthread_t thread;
    require(!pthread_create(&thread, NULL, take_and_give, NULL));
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = memory;
    fiber.uc_stack.ss_size = STACK;
    fiber.uc_link = &outside;
    makecontext(&fiber, run_fiber, 0);
    require(!swapcontext(&outside, &fiber));
    done = 1;
    pthread_join(thread, NULL);
    truth("allocate_without_frame", 40ull * CALLS, CALLS);
    truth("allocate_in_fiber", 80ull * DEEP_CALLS, DEEP_CALLS);
    return 0;
}
