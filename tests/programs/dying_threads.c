/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that end in the middle of an allocation, each after another instruction of it, by the
 * bare system call. All live at the same time, so that each has its own slot and buffer of the
 * profiler. Then the initial thread continues alone. Linked with an allocator without locks
 * (bump_allocator.c).
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "truth.h"

enum { THREADS = 300, STEPS_APART = 5, CALLS = 1000 };

static pthread_barrier_t ready;
static volatile int ended;
static __thread volatile int steps_left;

static CALLSITE void *allocate_and_die(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_afterwards(size_t size)
{
    return kept(malloc(size));
}

static void on_step(int number)
{
    (void)number;
    if (--steps_left > 0)
        return;
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_exit, 0);
}

static CALLSITE void step(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
#endif
}

static void *live_and_die(void *number)
{
    for (int round = 0;; round++) {
        if (round == 2) {
            pthread_barrier_wait(&ready);
            steps_left = 1 + (int)(intptr_t)number * STEPS_APART;
            step();
        }
        allocate_and_die(50);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    require(!pthread_barrier_init(&ready, NULL, THREADS));
    for (intptr_t i = 0; i < THREADS; i++)
        require(!pthread_create(&threads[i], NULL, live_and_die, (void *)i));
    while (__atomic_load_n(&ended, __ATOMIC_SEQ_CST) < THREADS)
        usleep(1000);
    usleep(10000);
    for (int i = 0; i < CALLS; i++)
        allocate_afterwards(100);
    truth("allocate_afterwards", 100ull * CALLS, CALLS);
    return 0;
}
