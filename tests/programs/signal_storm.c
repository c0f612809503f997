/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timer signals at a high rate interrupt allocations at any instruction, and their handlers
 * allocate; linked with an allocator that permits this (bump_allocator.c).
 * "storm": the handlers return. "escape": every eighth handler leaves the interrupted code by
 * siglongjmp. "quiet": like "storm", but the program calls the handler, without signals.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "truth.h"

enum { SIGNALS = 4000, EVERY_US = 100, CALM_CALLS = 2000, CANCELLED = 100, EARLY_SIGNALS = 100 };

static sigjmp_buf outside;
static volatile sig_atomic_t want_early;
static volatile sig_atomic_t escapes, signals, may_escape, want_escape, want_quiet;

static CALLSITE void *allocate_in_handler(size_t size)
{
    void *block = malloc(size);
    require(block); /* the allocator's memory is limited */
    return kept(block);
}

/* Called from a deeper frame than the frees: the stack pointer does not show that a free was
 * abandoned. */
static CALLSITE void *allocate_outside(size_t size)
{
    volatile char room[1024];
    room[0] = 1;
    return room[0] ? kept(malloc(size)) : NULL;
}

static CALLSITE void *allocate_calmly(size_t size)
{
    return kept(malloc(size));
}

static void on_alarm(int number)
{
    (void)number;
    if (signals >= SIGNALS)
        return;
    signals++;
    if (want_early && may_escape && signals < EARLY_SIGNALS) {
        escapes++;
        siglongjmp(outside, 1);
    }
    free(allocate_in_handler(40));
    /* Not the last call: later calls find the abandoned one. */
    if (want_escape && may_escape && signals % 8 == 0 && signals < SIGNALS) {
        may_escape = 0;
        escapes++;
        siglongjmp(outside, 1);
    }
}

static unsigned long long storm(void)
{
    static volatile unsigned long long calls;
    struct itimerval timer = {.it_interval.tv_usec = EVERY_US, .it_value.tv_usec = EVERY_US};
    calls = 0;
    signals = 0;
    if (!want_quiet)
        setitimer(ITIMER_REAL, &timer, NULL);

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
    return calls;
}

static void *allocate_until_cancelled(void *unused)
{
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    while (!want_quiet)
        free(allocate_outside(72));
    return NULL;
}

static void cancel_threads(void)
{
    for (int i = 0; i < CANCELLED; i++) {
        pthread_t thread;
        require(!pthread_create(&thread, NULL, allocate_until_cancelled, NULL));
        usleep(EVERY_US);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
}

static void *stay_calm(void *unused)
{
    (void)unused;
    for (int i = 0; i < CALM_CALLS; i++)
        free(allocate_calmly(100));
    return NULL;
}

/* In another thread than the one with abandoned samples. */
static void calm_thread(void)
{
    pthread_t thread;
    require(!pthread_create(&thread, NULL, stay_calm, NULL));
    pthread_join(thread, NULL);
}

static int obey(void)
{
    char line[16];
    ssize_t got;
    while ((got = read(STDIN_FILENO, line, sizeof(line))) > 0) {
        if (strncmp(line, "calm", 4) == 0)
            calm_thread();
        else if (strncmp(line, "cancel", 6) == 0)
            cancel_threads();
        else
            storm();
        if (write(STDOUT_FILENO, "ok\n", 3) != 3)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool commanded = argc > 1 && !strcmp(argv[1], "commanded");
    want_early = argc > 1 && !strcmp(argv[1], "early");
    want_escape = commanded || want_early || (argc > 1 && !strcmp(argv[1], "escape"));
    want_quiet = argc > 1 && !strcmp(argv[1], "quiet");
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    /* Otherwise allocate once before the signals: the profiler's initialization is not tested
     * here. */
    if (!want_early)
        free(malloc(1));
    if (commanded)
        return obey();
    unsigned long long calls = storm();
    fprintf(stderr, "calls: %llu, escapes: %d\n", calls, (int)escapes);
    /* The number of calls differs between runs. */
    truth("allocate_in_handler", 40ull * SIGNALS, SIGNALS);
    return 0;
}
