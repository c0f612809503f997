/*
 * Timer signals at a high rate interrupt allocations at any instruction, and their handlers
 * allocate; linked with an allocator that permits that (bump_allocator.c).
 * "storm": the handlers return. "escape": every eighth leaves by siglongjmp, out of whatever
 * it had interrupted. "quiet": as "storm", but the handler is called, not sent for.
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "truth.h"

enum { SIGNALS = 4000, EVERY_US = 100 };

static sigjmp_buf outside;
static volatile sig_atomic_t escapes, signals, may_escape, want_escape, want_quiet;

static CALLSITE void *allocate_in_handler(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_outside(size_t size)
{
    return kept(malloc(size));
}

static void on_alarm(int number)
{
    (void)number;
    if (signals >= SIGNALS)
        return;
    signals++;
    free(allocate_in_handler(40));
    if (want_escape && may_escape && signals % 8 == 0) {
        may_escape = 0;
        escapes++;
        siglongjmp(outside, 1);
    }
}

int main(int argc, char **argv)
{
    want_escape = argc > 1 && !strcmp(argv[1], "escape");
    want_quiet = argc > 1 && !strcmp(argv[1], "quiet");
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    /* A first allocation before signals may come: the profiler's own beginning is another matter.
     */
    free(malloc(1));
    struct itimerval timer = {.it_interval.tv_usec = EVERY_US, .it_value.tv_usec = EVERY_US};
    if (!want_quiet)
        setitimer(ITIMER_REAL, &timer, NULL);

    static volatile unsigned long long calls;
    sigsetjmp(outside, 1);
    may_escape = 1;
    while (signals < SIGNALS) {
        void *block = allocate_outside(72);
        calls++;
        free(block);
        if (want_quiet)
            on_alarm(SIGALRM);
    }
    may_escape = 0;
    memset(&timer, 0, sizeof(timer));
    setitimer(ITIMER_REAL, &timer, NULL);

    fprintf(stderr, "calls: %llu, escapes: %d\n", calls, (int)escapes);
    /* How many calls there is time for differs between runs. */
    truth("allocate_in_handler", 40ull * SIGNALS, SIGNALS);
    return 0;
}
