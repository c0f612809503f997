/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure the cost of reports to a custom heap, and of scopes, in the program itself. Print one
 * figure: nanoseconds of the thread's CPU time, the minimum of several passes.
 *
 *   heaps report COUNT         AHeapProfile_reportAllocation of 64 bytes
 *   heaps typed COUNT          HeapProfile_reportAllocationOfType of 64 bytes
 *   heaps free COUNT           AHeapProfile_reportFree
 *   heaps scope COUNT          HeapProfile_pushContext and HeapProfile_popContext
 *   heaps deep COUNT FRAMES    a report and its free below FRAMES frames
 *   heaps empty COUNT          only the loop
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "heap_profile.h"

enum { PASSES = 7, IDS = 1024, BLOCK_BYTES = 64 };

static unsigned long count;
static uint32_t heap;
static uint64_t first_id;

static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Like an allocator that returns the same thousand blocks repeatedly. */
static inline uint64_t id_of(unsigned long i)
{
    return first_id + i % IDS * BLOCK_BYTES;
}

static void empty_all(void)
{
    for (unsigned long i = 0; i < count; i++) {
        uint64_t id = id_of(i);
        __asm__ volatile("" : : "r"(id) : "memory");
    }
}

static void report_all(void)
{
    for (unsigned long i = 0; i < count; i++)
        AHeapProfile_reportAllocation(heap, id_of(i), BLOCK_BYTES);
}

static void report_all_typed(void)
{
    for (unsigned long i = 0; i < count; i++)
        HeapProfile_reportAllocationOfType(heap, id_of(i), BLOCK_BYTES, "Block");
}

static void free_all(void)
{
    for (unsigned long i = 0; i < count; i++)
        AHeapProfile_reportFree(heap, id_of(i));
}

static void scope_all(void)
{
    for (unsigned long i = 0; i < count; i++) {
        HEAP_PROFILE_SCOPE("bench");
        __asm__ volatile("" : : : "memory");
    }
}

static void report_and_free_all(void)
{
    for (unsigned long i = 0; i < count; i++) {
        AHeapProfile_reportAllocation(heap, id_of(i), BLOCK_BYTES);
        AHeapProfile_reportFree(heap, id_of(i));
    }
}

static __attribute__((noinline)) double time_at_depth(void (*what)(void), unsigned frames)
{
    volatile unsigned here = frames;
    if (here > 1)
        return time_at_depth(what, here - 1) + 0 * here;
    double start = cpu_now();
    what();
    return (cpu_now() - start) / (double)count;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*what)(void);
    } kinds[] = {{"report", report_all},
                 {"typed", report_all_typed},
                 {"free", free_all},
                 {"scope", scope_all},
                 {"empty", empty_all},
                 {"deep", report_and_free_all},
                 {NULL, NULL}};
    unsigned frames = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1, kind = 0;
    while (argc > 2 && kinds[kind].name != NULL && strcmp(argv[1], kinds[kind].name) != 0)
        kind++;
    if (argc < 3 || kinds[kind].name == NULL)
        return 2;
    count = strtoul(argv[2], NULL, 10);
    heap = AHeapProfile_registerHeap(AHeapInfo_create("bench"));
    static char blocks[IDS * BLOCK_BYTES];
    first_id = (uintptr_t)blocks;
    double least = 1e18;
    for (int pass = 0; pass < PASSES; pass++) {
        double figure = time_at_depth(kinds[kind].what, frames);
        if (figure < least)
            least = figure;
    }
    printf("%.2f\n", least);
    return 0;
}
