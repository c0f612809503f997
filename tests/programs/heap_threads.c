/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrent threads report to a shared heap and to one heap of each thread, and free their
 * neighbours' allocations.
 *
 *   heap_threads THREADS COUNT
 *
 * Each thread makes COUNT allocations of 10 bytes in the heap "shared", of which every second one
 * stays live, and COUNT of 7 bytes in "own N", which are all freed.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "heap_profile.h"
#include "truth.h"

enum { THREADS_MAX = 64 };

static pthread_barrier_t barrier;
static uint32_t shared;
static uint64_t thread_count, count;

static CALLSITE void allocate_shared(uint64_t id)
{
    AHeapProfile_reportAllocation(shared, id, 10);
    kept(&shared);
}

static CALLSITE void allocate_own(uint32_t heap, uint64_t id)
{
    AHeapProfile_reportAllocation(heap, id, 7);
    kept(&heap);
}

static void *run(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument, next = (number + 1) % thread_count;
    char name[32];
    snprintf(name, sizeof(name), "own %d", (int)number);
    pthread_barrier_wait(&barrier);
    uint32_t own = AHeapProfile_registerHeap(AHeapInfo_create(name));
    require(own != 0);
    for (uint64_t i = 0; i < count; i++) {
        allocate_shared(number * count + i);
        allocate_own(own, i);
    }
    pthread_barrier_wait(&barrier);
    for (uint64_t i = 0; i < count; i += 2)
        AHeapProfile_reportFree(shared, next * count + i);
    for (uint64_t i = 0; i < count; i++)
        AHeapProfile_reportFree(own, i);
    return NULL;
}

int main(int argc, char **argv)
{
    require(argc == 3);
    thread_count = strtoul(argv[1], NULL, 10);
    count = strtoul(argv[2], NULL, 10);
    require(thread_count >= 1 && thread_count <= THREADS_MAX && count % 2 == 0);
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)thread_count);
    shared = AHeapProfile_registerHeap(AHeapInfo_create("shared"));
    for (uint64_t i = 0; i < thread_count; i++)
        require(pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i) == 0);
    for (uint64_t i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
