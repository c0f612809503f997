/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another thread allocates in the middle of the first allocation after a library was unloaded,
 * after each of its instructions in turn: also when the client is about to report that the address
 * space changed. Later allocations must keep their call stacks, too. Linked with an allocator that
 * permits this (bump_allocator.c). Argument: the path of a library.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "single_step.h"

/* A reservation in the ring takes more than STRIDE steps; the report comes before STEPS_MAX. */
enum { STRIDE = 15, STEPS_MAX = 720, BLOCKS_AFTER = 3 };

static volatile int steps_left = -1;
static int asked, done; /* allocations of the other thread */

static CALLSITE void *allocate_in_steps(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_thread(size_t size)
{
    return kept(malloc(size));
}

static void *other_thread(void *unused)
{
    for (int number = 0;; number++) {
        int wanted;
        while ((wanted = __atomic_load_n(&asked, __ATOMIC_ACQUIRE)) == number)
            sched_yield();
        if (wanted < 0)
            return unused;
        free(allocate_in_thread(40));
        __atomic_store_n(&done, number + 1, __ATOMIC_RELEASE);
    }
}

static void ask_other_thread(void)
{
    int number = __atomic_add_fetch(&asked, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != number)
        sched_yield();
}

static void on_step(int number, siginfo_t *info, void *interrupted)
{
    (void)number;
    (void)info;
    if (steps_left < 0 || steps_left-- > 0)
        return;
    ask_other_thread();
    step_no_more(interrupted);
}

/* A sample through the library makes it known to the profiler. */
static void use_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    require(library);
    void *function = dlsym(library, "plugin_a_allocate");
    void *(*allocate)(size_t);
    memcpy(&allocate, &function, sizeof(allocate));
    free(allocate(8));
    require(!dlclose(library));
}

int main(int argc, char **argv)
{
    pthread_t thread;
    require(argc == 2);
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    require(!pthread_create(&thread, NULL, other_thread, NULL));
    unsigned long long rounds = 0;
    for (int steps = 0; steps < STEPS_MAX; steps += STRIDE, rounds++) {
        use_library(argv[1]);
        steps_left = steps;
        step_begin();
        void *block = allocate_in_steps(72);
        step_end();
        free(block);
        for (int i = 0; i < BLOCKS_AFTER; i++)
            ask_other_thread();
    }
    unsigned long long calls = (unsigned long long)asked;
    __atomic_store_n(&asked, -1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    truth("allocate_in_thread", 40 * calls, calls);
    truth("allocate_in_steps", 72 * rounds, rounds);
    return 0;
}
