/* SPDX-License-Identifier: Apache-2.0 */
/* A timer's signal handler allocates while it interrupts functions that call nothing: their return
 * address may be in a register only, and their frame unsaved. */
#include <signal.h>
#include <sys/time.h>

#include "truth.h"

enum { SIGNALS = 200, STEPS = 2000 };

static volatile sig_atomic_t signals;
static volatile unsigned sink;

static CALLSITE void *allocate_in_handler(size_t size)
{
    return kept(malloc(size));
}

static void on_alarm(int number)
{
    (void)number;
    if (signals < SIGNALS) {
        free(allocate_in_handler(48));
        signals++;
    }
}

static CALLSITE unsigned spin_in_leaf(unsigned seed)
{
    for (unsigned i = 0; i < STEPS; i++) {
        seed = seed * 1664525u + 1013904223u;
        __asm__ volatile("" : "+r"(seed));
    }
    return seed;
}

static CALLSITE unsigned call_leaf(unsigned seed)
{
    return spin_in_leaf(seed) + 1;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval period = {{0, 1000}, {0, 1000}}, never = {0};
    require(!sigaction(SIGALRM, &action, NULL));
    require(!setitimer(ITIMER_REAL, &period, NULL));
    while (signals < SIGNALS)
        sink = call_leaf(sink);
    require(!setitimer(ITIMER_REAL, &never, NULL));
    truth("allocate_in_handler", 48ull * SIGNALS, SIGNALS);
    return 0;
}
