/* SPDX-License-Identifier: Apache-2.0 */
/* Signal handlers on alternate stacks allocate, in the main thread and in threads, nested too. */
#include <pthread.h>
#include <signal.h>

#include "truth.h"

enum { ROUNDS = 2000, THREADS = 4, STACK = 32 << 10 };

static CALLSITE void *allocate_in_handler(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_nested_handler(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_outside(size_t size)
{
    return kept(malloc(size));
}

static void on_usr1(int number)
{
    (void)number;
    void *block = allocate_in_handler(48);
    raise(SIGUSR2);
    free(block);
}

static void on_usr2(int number)
{
    (void)number;
    free(allocate_in_nested_handler(24));
}

static void *run(void *argument)
{
    char *memory = argument;
    stack_t stack = {.ss_sp = memory, .ss_size = STACK};
    require(!sigaltstack(&stack, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        void *block = allocate_outside(64);
        raise(SIGUSR1);
        free(block);
    }
    stack.ss_flags = SS_DISABLE;
    require(!sigaltstack(&stack, NULL));
    return NULL;
}

int main(void)
{
    static char memory[THREADS + 1][STACK] __attribute__((aligned(16)));
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_usr2;
    sigaction(SIGUSR2, &action, NULL);

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        require(!pthread_create(&threads[i], NULL, run, memory[i]));
    run(memory[THREADS]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    int all = (THREADS + 1) * ROUNDS;
    truth("allocate_outside", 64ull * all, all);
    truth("allocate_in_handler", 48ull * all, all);
    truth("allocate_in_nested_handler", 24ull * all, all);
    return 0;
}
