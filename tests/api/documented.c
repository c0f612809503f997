/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The example in the documentation of heapprofd's Custom Allocator API, in C: an allocator that
 * reports its allocations and frees, with a heap that is notified when it is profiled. Prints the
 * allocator's results, so that the output is the same with every library.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "heap_profile.h"

static uint32_t g_heap_id;
static uint64_t g_interval;

static char g_memory[1 << 20];
static size_t g_used;

static void enabled(void *data, const AHeapProfileEnableCallbackInfo *info)
{
    *(uint64_t *)data = AHeapProfileEnableCallbackInfo_getSamplingInterval(info);
}

static void disabled(void *data, const AHeapProfileDisableCallbackInfo *info)
{
    (void)info;
    *(uint64_t *)data = 0;
}

static void my_init(void)
{
    AHeapInfo *info = AHeapInfo_create("invalid.example.c");
    AHeapInfo_setEnabledCallback(info, enabled, &g_interval);
    AHeapInfo_setDisabledCallback(info, disabled, &g_interval);
    g_heap_id = AHeapProfile_registerHeap(info);
}

__attribute__((noinline)) static void *my_malloc(size_t size)
{
    if (size > sizeof(g_memory) - g_used)
        return NULL;
    void *ptr = g_memory + g_used;
    g_used += (size + 15) & ~(size_t)15;
    AHeapProfile_reportAllocation(g_heap_id, (uintptr_t)ptr, size);
    return ptr;
}

static void my_free(void *ptr)
{
    AHeapProfile_reportFree(g_heap_id, (uintptr_t)ptr);
}

int main(void)
{
    my_init();
    for (int i = 0; i < 100; i++) {
        void *kept = my_malloc(100);
        void *freed = my_malloc(50);
        if (!kept || !freed)
            return 1;
        my_free(freed);
    }
    /* A program that does its own sampling. */
    AHeapProfile_reportSample(g_heap_id, 1, 4096);
    AHeapProfile_reportFree(g_heap_id, 1);
    AHeapProfile_reportFree(g_heap_id, 12345);
    printf("used %zu\n", g_used);
    return 0;
}
