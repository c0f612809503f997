/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs on a coroutine's stack of 2 KiB inside an array, as green threads have them: there is no
 * guard page, and what is below belongs to somebody else. Signals have a stack of their own. Prints
 * "running", and after SIGTERM "ok", or how many bytes below the stack have changed.
 */
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "truth.h"

enum { BELOW = 16384, STACK = 2048, FILLED = 0xa5 };

static struct {
    unsigned char below[BELOW], stack[STACK];
} memory __attribute__((aligned(4096)));
static char signal_stack[65536];
static ucontext_t outside, coroutine;
static volatile sig_atomic_t is_over;

static void end(int signal)
{
    (void)signal;
    is_over = 1;
}

static void run(void)
{
    while (!is_over)
        ;
}

int main(void)
{
    const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
    const struct sigaction action = {.sa_handler = end, .sa_flags = SA_ONSTACK};
    require(sigaltstack(&stack, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0);
    free(kept(malloc(10)));
    memset(memory.below, FILLED, BELOW);
    require(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = memory.stack;
    coroutine.uc_stack.ss_size = STACK;
    coroutine.uc_link = &outside;
    makecontext(&coroutine, run, 0);
    puts("running");
    fflush(stdout);
    require(swapcontext(&outside, &coroutine) == 0);
    int changed = 0;
    for (int i = 0; i < BELOW; i++)
        changed += memory.below[i] != FILLED;
    if (changed > 0)
        printf("%d bytes below the stack have changed\n", changed);
    else
        puts("ok");
    return changed > 0;
}
