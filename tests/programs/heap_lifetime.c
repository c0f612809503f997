/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap that is described and used before main, in main and after it, in constructors and
 * destructors of every kind. Its allocations have consecutive ids; those from before main are live
 * at the end.
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "heap_profile.h"
#include "truth.h"

enum { EACH = 10, BYTES = 100 };

static uint32_t heap;

static CALLSITE void before_main(uint64_t id)
{
    AHeapProfile_reportAllocation(heap, id, BYTES);
    kept(&heap);
}

static CALLSITE void inside_main(uint64_t id)
{
    AHeapProfile_reportAllocation(heap, id, BYTES);
    kept(&heap);
}

static CALLSITE void in_exit_handler(uint64_t id)
{
    AHeapProfile_reportAllocation(heap, id, BYTES);
    kept(&heap);
}

static CALLSITE void in_destructor(uint64_t id)
{
    AHeapProfile_reportAllocation(heap, id, BYTES);
    kept(&heap);
}

static CALLSITE void in_key_destructor(uint64_t id)
{
    AHeapProfile_reportAllocation(heap, id, BYTES);
    kept(&heap);
}

static void free_each(uint64_t first)
{
    for (int i = 0; i < EACH; i++)
        AHeapProfile_reportFree(heap, first + (uint64_t)i);
}

__attribute__((constructor(101))) static void construct(void)
{
    heap = AHeapProfile_registerHeap(AHeapInfo_create("lifetime"));
    for (uint64_t i = 0; i < EACH; i++)
        before_main(i);
}

__attribute__((destructor(101))) static void destruct(void)
{
    for (uint64_t i = 0; i < EACH; i++)
        in_destructor(1000 + i);
    free_each(1000);
}

static void at_exit(void)
{
    for (uint64_t i = 0; i < EACH; i++)
        in_exit_handler(2000 + i);
    free_each(2000);
}

static void end_of_thread(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < EACH; i++)
        in_key_destructor(3000 + i);
    free_each(3000);
}

static void *run_thread(void *key)
{
    pthread_setspecific(*(pthread_key_t *)key, key);
    return NULL;
}

int main(void)
{
    pthread_key_t key;
    pthread_t thread;
    require(atexit(at_exit) == 0);
    require(pthread_key_create(&key, end_of_thread) == 0);
    require(pthread_create(&thread, NULL, run_thread, &key) == 0);
    pthread_join(thread, NULL);
    for (uint64_t i = 0; i < EACH; i++)
        inside_main(4000 + i);
    free_each(4000);
    puts("done");
    return 0;
}
