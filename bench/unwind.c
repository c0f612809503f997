/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure the cost of a warm frame: our unwinder, a walk of frame pointers (the limit), and
 * libunwind's cached unw_backtrace, on the same stack in the same run.
 *
 * The stack consists of eight functions of different frame sizes that call each other in an
 * irregular order; they keep frame pointers so that all three can walk. Each figure is the fastest
 * of ROUNDS rounds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "client/arch/registers.h"
#include "client/libc/libc.h"
#include "client/unwind/unwind.h"
#include "client/unwind/unwind_memory.h"

#define ROUNDS 30
#define WALKS 2000

typedef unsigned (*walker)(void);

static struct unwind_stack_bounds bounds;
static struct unwind_memory memory;
static uint64_t frames[UNWIND_FRAMES_MAX];
static void *their_frames[UNWIND_FRAMES_MAX];
static uintptr_t top;

static __attribute__((noinline)) unsigned walk_ours(void)
{
    struct unwind_registers registers;
    __asm__ volatile("mov %%rbx, 0(%0)\n\tmov %%rbp, 8(%0)\n\tmov %%r12, 16(%0)\n\t"
                     "mov %%r13, 24(%0)\n\tmov %%r14, 32(%0)\n\tmov %%r15, 40(%0)\n\t"
                     "mov %%rsp, 48(%0)\n\tlea 0(%%rip), %%rax\n\tmov %%rax, 56(%0)"
                     :
                     : "r"(&registers)
                     : "rax", "memory");
    struct unwind_walk walk =
        unwind_callstack(&registers, &bounds, &memory, frames, NULL, UNWIND_FRAMES_MAX, NULL);
    unwind_write_recalled(&walk, &memory, frames);
    return walk.count;
}

static __attribute__((noinline)) unsigned walk_frame_pointers(void)
{
    uintptr_t *frame = __builtin_frame_address(0);
    unsigned count = 0;
    while ((uintptr_t)frame < top && count < UNWIND_FRAMES_MAX) {
        frames[count++] = frame[1] - 1;
        if (frame[0] <= (uintptr_t)frame)
            break;
        frame = (uintptr_t *)frame[0];
    }
    return count;
}

static __attribute__((noinline)) unsigned walk_theirs(void)
{
    return (unsigned)unw_backtrace(their_frames, UNWIND_FRAMES_MAX);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double time_walker(walker walk, unsigned *count)
{
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < WALKS; i++)
            *count = walk();
        double each = (now_ns() - start) / WALKS;
        if (each < best)
            best = each;
    }
    return best;
}

static void measure(void)
{
    static const struct {
        const char *name;
        walker walk;
    } walkers[] = {
        {"ours", walk_ours}, {"frame pointers", walk_frame_pointers}, {"libunwind", walk_theirs}};
    for (unsigned i = 0; i < sizeof(walkers) / sizeof(walkers[0]); i++) {
        unsigned count = 0;
        double each = time_walker(walkers[i].walk, &count);
        printf("%-16s %4u frames %9.1f ns a stack %6.2f ns a frame\n", walkers[i].name, count, each,
               each / count);
    }
}

static void go_down(unsigned depth, uint32_t random);

#define LEVEL(number, bytes)                                                                       \
    static __attribute__((noinline)) void level_##number(unsigned depth, uint32_t random)          \
    {                                                                                              \
        volatile char space[bytes];                                                                \
        space[0] = (char)depth;                                                                    \
        go_down(depth - 1, random * 1664525u + 1013904223u + (uint32_t)space[0]);                  \
        space[0] = 0;                                                                              \
    }
LEVEL(0, 8)
LEVEL(1, 24)
LEVEL(2, 40)
LEVEL(3, 72)
LEVEL(4, 104)
LEVEL(5, 200)
LEVEL(6, 16)
LEVEL(7, 56)

static __attribute__((noinline)) void go_down(unsigned depth, uint32_t random)
{
    static void (*const levels[])(unsigned, uint32_t) = {level_0, level_1, level_2, level_3,
                                                         level_4, level_5, level_6, level_7};
    if (depth == 0)
        measure();
    else
        levels[random >> 29](depth, random);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    top = (uintptr_t)__builtin_frame_address(0);
    if (unwind_init(&(struct unwind_process){.stack_end = libc_stack_end()}) != 0)
        return 1;
    go_down(13, 1);
    go_down(97, 1);
    return 0;
}
