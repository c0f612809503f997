/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of fibers (ucontext) that alternate on one thread, with a heap and malloc.
 *
 *   heap_fibers orderly    a fiber pops its scope before it yields, as documented
 *   heap_fibers careless   it yields inside its scope, and its stack is unmapped at the end
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "heap_profile.h"
#include "truth.h"

enum { FIBERS = 8, ROUNDS = 50, STACK_BYTES = 64 << 10, BYTES = 100 };

static ucontext_t loop, fibers[FIBERS];
static void *stacks[FIBERS];
static bool careless;
static uint32_t heap;
static uint64_t next_id;

static CALLSITE void allocate_in_fiber(void)
{
    AHeapProfile_reportAllocation(heap, next_id++, BYTES);
    free(kept(malloc(BYTES)));
}

static CALLSITE void allocate_outside(void)
{
    AHeapProfile_reportAllocation(heap, next_id++, BYTES);
    free(kept(malloc(BYTES)));
}

static void allocate_in_scope(int number, bool yields)
{
    static const char *const names[FIBERS] = {"fiber 0", "fiber 1", "fiber 2", "fiber 3",
                                              "fiber 4", "fiber 5", "fiber 6", "fiber 7"};
    HEAP_PROFILE_SCOPE(names[number]);
    allocate_in_fiber();
    if (yields)
        require(swapcontext(&fibers[number], &loop) == 0);
}

static void run_fiber(int number)
{
    for (;;) {
        allocate_in_scope(number, careless);
        if (!careless)
            require(swapcontext(&fibers[number], &loop) == 0);
    }
}

static void make_fiber(int number)
{
    stacks[number] =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stacks[number] != MAP_FAILED);
    require(getcontext(&fibers[number]) == 0);
    fibers[number].uc_stack.ss_sp = stacks[number];
    fibers[number].uc_stack.ss_size = STACK_BYTES;
    makecontext(&fibers[number], (void (*)(void))run_fiber, 1, number);
}

int main(int argc, char **argv)
{
    careless = argc > 1 && strcmp(argv[1], "careless") == 0;
    heap = AHeapProfile_registerHeap(AHeapInfo_create("fibers"));
    for (int i = 0; i < FIBERS; i++)
        make_fiber(i);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < FIBERS; i++)
            require(swapcontext(&loop, &fibers[i]) == 0);
        allocate_outside();
    }
    for (int i = 0; i < FIBERS; i++)
        munmap(stacks[i], STACK_BYTES);
    /* The memory of the fibers' scopes is unmapped now. */
    for (int i = 0; i < ROUNDS; i++)
        allocate_outside();
    for (uint64_t i = 0; i < next_id; i++)
        AHeapProfile_reportFree(heap, i);
    puts("done");
    return 0;
}
