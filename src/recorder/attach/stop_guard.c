/* SPDX-License-Identifier: Apache-2.0 */
/* Three timers of the kernel: for SIGCONT, for SIGKILL, and for a signal that does nothing. */
#include "recorder/attach/stop_guard.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "util/clock.h"

/* Set the timers back at most this often. */
#define STEP_MS 100

/* A signal that nobody sends. */
#define WAKE_SIGNAL SIGSTKFLT
#define WAKE_MS 20

enum { CONTINUE, KILL, WAKE, TIMERS };

static const struct {
    int signal;
    long first_ms, period_ms;
} kinds[TIMERS] = {
    [CONTINUE] = {SIGCONT, STOP_GUARD_CONTINUE_MS, 0},
    [KILL] = {SIGKILL, STOP_GUARD_KILL_MS, 0},
    [WAKE] = {WAKE_SIGNAL, WAKE_MS, WAKE_MS},
};

static struct {
    bool is_on;
    bool is_weak; /* without SIGKILL */
    timer_t timers[TIMERS];
    uint64_t step_ms;
    struct sigaction own_action; /* for WAKE_SIGNAL, before */
    sigset_t own_mask;
} guard;

static const struct itimerspec never;

static void do_nothing(int signal)
{
    (void)signal;
}

static struct timespec from_ms(long ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
}

static void stop_guard_start(int kind)
{
    const struct itimerspec time = {.it_interval = from_ms(kinds[kind].period_ms),
                                    .it_value = from_ms(kinds[kind].first_ms)};
    timer_settime(guard.timers[kind], 0, &time, NULL);
}

static void delete_timers(int count)
{
    for (int i = 0; i < count; i++)
        timer_delete(guard.timers[i]);
}

int stop_guard_begin(void)
{
    bool was_on = guard.is_on;
    guard.is_weak = false;
    for (int i = 0; i < TIMERS && !was_on; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = kinds[i].signal};
        if (timer_create(CLOCK_MONOTONIC, &event, &guard.timers[i]) < 0) {
            int code = -errno;
            delete_timers(i);
            return code;
        }
    }
    guard.is_on = true;
    guard.step_ms = 0;
    stop_guard_step();
    return 0;
}

void stop_guard_step(void)
{
    if (!guard.is_on)
        return;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    if (now_ms < guard.step_ms + STEP_MS)
        return;
    guard.step_ms = now_ms;
    stop_guard_start(CONTINUE);
    if (!guard.is_weak)
        stop_guard_start(KILL);
}

void stop_guard_end(bool may_stop)
{
    if (!guard.is_on)
        return;
    stop_guard_interrupt_waits(false);
    guard.is_weak = may_stop;
    timer_settime(guard.timers[KILL], 0, &never, NULL);
    if (may_stop)
        return;
    delete_timers(TIMERS);
    guard.is_on = false;
}

void stop_guard_interrupt_waits(bool on)
{
    static bool is_on;
    if (on == is_on || !guard.is_on)
        return;
    is_on = on;
    if (on) {
        const struct sigaction action = {.sa_handler = do_nothing}; /* without SA_RESTART */
        sigset_t wake;
        sigemptyset(&wake);
        sigaddset(&wake, WAKE_SIGNAL);
        sigaction(WAKE_SIGNAL, &action, &guard.own_action);
        sigprocmask(SIG_UNBLOCK, &wake, &guard.own_mask);
        stop_guard_start(WAKE);
        return;
    }
    timer_settime(guard.timers[WAKE], 0, &never, NULL);
    /* Ignoring it drops one that is on its way. */
    signal(WAKE_SIGNAL, SIG_IGN);
    sigprocmask(SIG_SETMASK, &guard.own_mask, NULL);
    sigaction(WAKE_SIGNAL, &guard.own_action, NULL);
}
