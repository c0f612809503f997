/* SPDX-License-Identifier: Apache-2.0 */
/* ucontext fibers on small stacks, some from malloc, some from mmap, allocate and switch; another
 * thread resumes a fiber than the one that started it. */
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "truth.h"

enum { FIBERS = 64, ROUNDS = 100, STACK = 16 << 10 };

static ucontext_t scheduler, fibers[FIBERS];

static CALLSITE void *allocate_in_fiber(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_stack(size_t size)
{
    return kept(malloc(size));
}

static void run_fiber(int self)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *block = allocate_in_fiber(80);
        swapcontext(&fibers[self], &scheduler);
        free(block);
    }
}

static void *resume_all(void *argument)
{
    int rounds = *(int *)argument;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < FIBERS; i++)
            require(!swapcontext(&scheduler, &fibers[i]));
    }
    return NULL;
}

int main(void)
{
    for (int i = 0; i < FIBERS; i++) {
        void *stack =
            i % 2 ? allocate_stack(STACK)
                  : mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stack;
        fibers[i].uc_stack.ss_size = STACK;
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], (void (*)(void))run_fiber, 1, i);
    }
    int rounds = ROUNDS / 2;
    resume_all(&rounds);
    pthread_t thread;
    require(!pthread_create(&thread, NULL, resume_all, &rounds));
    pthread_join(thread, NULL);
    int last = 1;
    resume_all(&last);

    truth("allocate_in_fiber", 80ull * FIBERS * ROUNDS, FIBERS * ROUNDS);
    truth("allocate_stack", (unsigned long long)STACK * FIBERS / 2, FIBERS / 2);
    return 0;
}
