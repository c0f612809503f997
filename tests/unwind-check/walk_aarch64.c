/* SPDX-License-Identifier: Apache-2.0 */
/* Walk through own code and the C library's on aarch64. The exit status is 0 if the walk reaches
 * main and ends correctly. tests/e2e/unwind_aarch64.sh builds and runs it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/arch/registers.h"
#include "client/modules/module.h"
#include "client/unwind/unwind.h"
#include "client/unwind/unwind_memory.h"

int main(int argc, char **argv);

static struct unwind_stack_bounds bounds;
static struct unwind_memory memory;
static int failures;

static __attribute__((noinline)) void walk_here(unsigned frames_min)
{
    struct unwind_registers registers;
    uint64_t frames[64];
    __asm__ volatile("stp x19, x20, [%0]\n\tstp x21, x22, [%0, 16]\n\tstp x23, x24, [%0, 32]\n\t"
                     "stp x25, x26, [%0, 48]\n\tstp x27, x28, [%0, 64]\n\tstr x29, [%0, 80]\n\t"
                     "mov x9, sp\n\tstr x9, [%0, 88]\n\tadr x9, .\n\tstr x9, [%0, 96]"
                     :
                     : "r"(&registers)
                     : "x9", "memory");
    struct unwind_walk walk = unwind_callstack(&registers, &bounds, &memory, frames, 64, NULL);
    bool reached = false;
    for (unsigned i = 0; i < walk.count; i++)
        reached |= frames[i] >= (uintptr_t)main && frames[i] < (uintptr_t)main + 256;
    printf("%u frames, stop %d, main %s\n", walk.count, walk.stop, reached ? "reached" : "missed");
    if (walk.count < frames_min || walk.stop != UNWIND_OUTERMOST || !reached)
        failures++;
}

static int compare(const void *a, const void *b)
{
    static int calls;
    if (calls++ == 0)
        walk_here(7);
    return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void recurse(volatile int depth)
{
    if (depth > 0)
        recurse(depth - 1);
    else
        walk_here(20);
    depth = 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int numbers[] = {3, 1, 2};
    if (unwind_init() != 0)
        return 1;
    walk_here(3);
    recurse(20);
    qsort(numbers, 3, sizeof(numbers[0]), compare);
    return failures != 0;
}
