/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads report allocations and frees in several heaps, with types and in scopes, and use malloc,
 * until standard input ends. Some threads end and others start. The enable and disable callbacks of
 * each heap must alternate and never overlap; otherwise the exit status is not 0.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_profile.h"
#include "truth.h"

enum { THREADS = 8, HEAPS = 6, ROUNDS = 20000, IDS = 64 };

static struct heap {
    uint32_t id;
    atomic_int inside;
    bool profiled;
    unsigned turns;
} heaps[HEAPS];
static atomic_bool over;
static atomic_uint wrong;

static void turn(struct heap *heap, bool profiled)
{
    if (atomic_fetch_add(&heap->inside, 1) != 0 || heap->profiled == profiled)
        atomic_fetch_add(&wrong, 1);
    heap->profiled = profiled;
    heap->turns++;
    AHeapProfile_reportAllocation(heap->id, UINT64_MAX, 1);
    free(kept(malloc(100)));
    atomic_fetch_sub(&heap->inside, 1);
}

static void on_enabled(void *heap, const AHeapProfileEnableCallbackInfo *info)
{
    if (AHeapProfileEnableCallbackInfo_getSamplingInterval(info) == 0)
        atomic_fetch_add(&wrong, 1);
    turn(heap, true);
}

static void on_disabled(void *heap, const AHeapProfileDisableCallbackInfo *info)
{
    (void)info;
    turn(heap, false);
}

static void work(uint64_t base)
{
    static const char *const types[] = {"one", "two", "three", NULL};
    for (uint64_t i = 0; i < ROUNDS && !atomic_load(&over); i++) {
        uint32_t heap = heaps[i % (HEAPS - 1)].id; /* the program samples the last heap by itself */
        uint64_t id = base + i % IDS;
        HEAP_PROFILE_SCOPE(types[i % 3]);
        HeapProfile_reportAllocationOfType(heap, id, 1 + i % 1000, types[i % 4]);
        if (i % 7 == 0)
            AHeapProfile_reportSample(heaps[HEAPS - 1].id, base + IDS, 100);
        free(kept(malloc(1 + i % 500)));
        if (i % 3 != 0)
            AHeapProfile_reportFree(heap, id);
    }
}

static void *work_once(void *base)
{
    work((uintptr_t)base);
    return NULL;
}

static void *keep_working(void *base)
{
    for (uint64_t round = 0; !atomic_load(&over); round++) {
        pthread_t thread;
        work((uintptr_t)base);
        require(pthread_create(&thread, NULL, work_once, (char *)base + 1000) == 0);
        pthread_join(thread, NULL);
        if (round % 4 == 0) {
            pid_t pid = fork();
            if (pid == 0) {
                work((uintptr_t)base);
                _exit(0);
            }
            int status = -1;
            require(waitpid(pid, &status, 0) == pid && status == 0);
        }
    }
    return NULL;
}

int main(void)
{
    static const char *const names[HEAPS] = {"a", "b", "c", "d", "e", "f"};
    pthread_t threads[THREADS];
    for (int i = 0; i < HEAPS; i++) {
        AHeapInfo *info = AHeapInfo_create(names[i]);
        AHeapInfo_setEnabledCallback(info, on_enabled, &heaps[i]);
        AHeapInfo_setDisabledCallback(info, on_disabled, &heaps[i]);
        heaps[i].id = AHeapProfile_registerHeap(info);
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, keep_working, (void *)(i << 20)) == 0);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < HEAPS; i++)
        printf("%s %u\n", names[i], heaps[i].turns);
    require(atomic_load(&wrong) == 0);
    return 0;
}
