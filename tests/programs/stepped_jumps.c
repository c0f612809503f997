/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread jumps out of its first allocation again and again, each time after more instructions. So
 * none of its stacks is walked to the end, until it allocates calmly. Linked with an allocator that
 * permits this (bump_allocator.c).
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "single_step.h"

/* Each attempt gets a little further than the one before. More of them than one thread has buffers
 * (33) leave a walk that has not found the thread's stack yet. */
enum { STRIDE = 15, STEPS_MAX = 2400, CALM_CALLS = 50 };

static volatile int steps_left = -1;
static volatile unsigned jumps;
static sigjmp_buf outside;

static CALLSITE void *allocate_in_steps(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_calmly(size_t size)
{
    return kept(malloc(size));
}

static void on_step(int number, siginfo_t *info, void *interrupted)
{
    (void)number;
    (void)info;
    if (steps_left-- > 0)
        return;
    step_no_more(interrupted);
    jumps++;
    siglongjmp(outside, 1);
}

static void *jump_and_be_calm(void *unused)
{
    for (volatile int steps = 0; steps < STEPS_MAX; steps += STRIDE) {
        if (sigsetjmp(outside, 1) != 0)
            continue;
        steps_left = steps;
        step_begin();
        allocate_in_steps(72);
        step_end();
    }
    for (int i = 0; i < CALM_CALLS; i++)
        free(allocate_calmly(100));
    return unused;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    free(allocate_calmly(100)); /* the profiler's initialization is not tested here */
    require(!pthread_create(&thread, NULL, jump_and_be_calm, NULL));
    pthread_join(thread, NULL);
    require(jumps > STEPS_MAX / STRIDE / 2);
    truth("allocate_calmly", 100ull * (CALM_CALLS + 1), CALM_CALLS + 1ull);
    return 0;
}
