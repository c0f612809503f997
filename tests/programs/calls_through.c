/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates below functions of libraries that are loaded without unwind information: one alone, or
 * one below another, with the program's own code between them. Arguments:
 *
 *   ROUNDS         in the initial thread, in another thread, and on a fiber
 *   until_closed   until standard input is closed
 */
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "truth.h"

void *through_minidebug(void *(*call)(size_t size), size_t size);
void *through_debug_frame(void *(*call)(size_t size), size_t size);
void *through_nothing(void *(*call)(size_t size), size_t size);

CALLSITE void *behind_minidebug(size_t size)
{
    return kept(malloc(size));
}

CALLSITE void *behind_both(size_t size)
{
    return kept(malloc(size));
}

CALLSITE void *between(size_t size)
{
    return kept(through_debug_frame(behind_both, size));
}

CALLSITE void *behind_nothing(size_t size)
{
    return kept(malloc(size));
}

CALLSITE void call_through_all(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        free(through_minidebug(behind_minidebug, 100));
        free(through_minidebug(between, 200));
        free(through_nothing(behind_nothing, 300));
    }
}

CALLSITE void *run_thread(void *rounds)
{
    call_through_all(*(int *)rounds);
    return NULL;
}

static ucontext_t scheduler, fiber;

CALLSITE void run_fiber(int rounds)
{
    call_through_all(rounds);
}

static void begin_fiber(int rounds)
{
    static char stack[64 << 10];
    require(getcontext(&fiber) == 0);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = sizeof(stack);
    fiber.uc_link = &scheduler;
    makecontext(&fiber, (void (*)(void))run_fiber, 1, rounds);
    require(swapcontext(&scheduler, &fiber) == 0);
}

int main(int argc, char **argv)
{
    require(argc == 2);
    if (strcmp(argv[1], "until_closed") == 0) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        while (poll(&input, 1, 1) == 0)
            call_through_all(1);
        return 0;
    }
    int rounds = atoi(argv[1]);
    pthread_t thread;
    call_through_all(rounds);
    require(pthread_create(&thread, NULL, run_thread, &rounds) == 0);
    pthread_join(thread, NULL);
    begin_fiber(rounds);
    truth("behind_minidebug", 300ull * (unsigned)rounds, 3ull * (unsigned)rounds);
    truth("behind_both", 600ull * (unsigned)rounds, 3ull * (unsigned)rounds);
    truth("behind_nothing", 900ull * (unsigned)rounds, 3ull * (unsigned)rounds);
    return 0;
}
