/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal interrupts the very first allocation of each thread, after another instruction of it
 * each time. The threads continue. Linked with an allocator that permits this (bump_allocator.c).
 * Obeys commands from standard input, one a line:
 *
 *   calm       the initial thread allocates
 *   allocate   the handlers allocate
 *   jump       the handlers leave by siglongjmp
 *   pairs      the same with threads in sequence; each frees its predecessor's allocation
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "single_step.h"

/* Enough for a thread to get its slot. A system call is one step. */
enum { THREADS = 150, STRIDE = 6, CALLS_AFTER = 4, CALM_CALLS = 2000 };

/* The profiler has buffers for 64 stacks at once. A thread that loses the processor during a sample
 * holds one, and so does its handler. */
enum { AT_ONCE = 25, GROUPS = THREADS / AT_ONCE };

static __thread volatile int steps_left = -1;
static __thread sigjmp_buf outside;
static volatile bool want_jump;
static pthread_barrier_t ready[GROUPS];

static CALLSITE void *allocate_in_handler(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_first(size_t size)
{
    volatile char room[1024]; /* a deeper frame than the calls after a jump */
    room[0] = 1;
    return room[0] ? kept(malloc(size)) : NULL;
}

static CALLSITE void *allocate_afterwards(size_t size)
{
    return kept(malloc(size));
}

/* A signal that the profiler can block, unlike the step's own signal. */
static void on_step(int number, siginfo_t *info, void *interrupted)
{
    (void)number;
    (void)info;
    if (steps_left < 0 || steps_left-- > 0)
        return;
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    step_no_more(interrupted);
}

static void on_signal(int number)
{
    (void)number;
    if (want_jump)
        siglongjmp(outside, 1);
    free(allocate_in_handler(40));
}

static void *live(void *number)
{
    if (sigsetjmp(outside, 1) == 0) {
        steps_left = (int)(intptr_t)number * STRIDE;
        step_begin();
        allocate_first(72);
        step_end();
    }
    for (int i = 0; i < CALLS_AFTER; i++)
        allocate_afterwards(100);
    pthread_barrier_wait(&ready[(intptr_t)number / AT_ONCE]);
    pause();
    return NULL;
}

static void interrupt_threads(bool jump)
{
    want_jump = jump;
    for (intptr_t i = 0; i < THREADS; i++) {
        pthread_barrier_t *group = &ready[i / AT_ONCE];
        pthread_t thread;
        if (i % AT_ONCE == 0)
            require(!pthread_barrier_init(group, NULL, AT_ONCE + 1));
        require(!pthread_create(&thread, NULL, live, (void *)i));
        pthread_detach(thread);
        if (i % AT_ONCE == AT_ONCE - 1)
            pthread_barrier_wait(group);
    }
}

static CALLSITE void *allocate_for_successor(size_t size)
{
    return kept(malloc(size));
}

static void *left_block;
static volatile pid_t pair_tid;

static void *leave_block(void *unused)
{
    (void)unused;
    pair_tid = (pid_t)syscall(SYS_gettid);
    left_block = allocate_for_successor(56);
    return NULL;
}

static void *free_block(void *number)
{
    pair_tid = (pid_t)syscall(SYS_gettid);
    if (sigsetjmp(outside, 1) == 0) {
        steps_left = (int)(intptr_t)number * STRIDE;
        step_begin();
        allocate_first(72);
        step_end();
    }
    free(left_block);
    return NULL;
}

/* Another thread can get its slot afterwards. */
static void run_to_end(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    require(!pthread_create(&thread, NULL, run, argument));
    require(!pthread_join(thread, NULL));
    while (syscall(SYS_tgkill, getpid(), pair_tid, 0) == 0)
        sched_yield();
}

static void interrupt_pairs(void)
{
    want_jump = true;
    for (intptr_t i = 0; i < THREADS; i++) {
        run_to_end(leave_block, NULL);
        run_to_end(free_block, (void *)i);
    }
}

static CALLSITE void *allocate_calmly(size_t size)
{
    return kept(malloc(size));
}

int main(void)
{
    char line[16];
    ssize_t got;
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct sigaction signal = {.sa_handler = on_signal};
    sigaction(SIGTRAP, &step, NULL);
    sigaction(SIGUSR1, &signal, NULL);
    while ((got = read(STDIN_FILENO, line, sizeof(line))) > 0) {
        if (strncmp(line, "calm", 4) == 0)
            for (int i = 0; i < CALM_CALLS; i++)
                free(allocate_calmly(100));
        else if (strncmp(line, "pairs", 5) == 0)
            interrupt_pairs();
        else
            interrupt_threads(strncmp(line, "jump", 4) == 0);
        if (write(STDOUT_FILENO, "ok\n", 3) != 3)
            return 1;
    }
    return 0;
}
