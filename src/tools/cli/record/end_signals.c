/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers write to an eventfd. */
#include "tools/cli/record/end_signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/clock.h"

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDS (sizeof(ends) / sizeof(ends[0]))

/* timeout(1) signals us and our process group: two signals within this time count as one. */
#define SAME_REQUEST_MS 250

static struct {
    pid_t process; /* children inherit the handlers, but the requests are for this process */
    int event;     /* an eventfd, readable after a signal */
    bool second_kills;
    uint64_t last_ms; /* the last request for the end */
    struct sigaction before[ENDS];
} signals_state;
static _Atomic bool is_to_dump;
static _Atomic unsigned end_requests;

static void take_end(int number)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (end_requests > 0 && now_ms - signals_state.last_ms < SAME_REQUEST_MS)
        return;
    signals_state.last_ms = now_ms;
    if (end_requests++ > 0 && signals_state.second_kills) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void take_signal(int number)
{
    int error_before = errno;
    uint64_t one = 1;
    if (getpid() != signals_state.process)
        return;
    if (number == SIGUSR1)
        is_to_dump = true;
    else
        take_end(number);
    if (write(signals_state.event, &one, sizeof(one)) < 0)
        errno = 0; /* the counter is full: it is readable already */
    errno = error_before;
}

int end_signals_take(bool second_kills)
{
    struct sigaction action = {.sa_handler = take_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    signals_state.process = getpid();
    signals_state.second_kills = second_kills;
    is_to_dump = false;
    end_requests = 0;
    signals_state.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals_state.event < 0)
        return -1;
    for (size_t i = 0; i < ENDS; i++) {
        struct sigaction *before = &signals_state.before[i];
        /* Under nohup(1) SIGHUP stays ignored. */
        if (sigaction(ends[i], NULL, before) == 0 &&
            !(ends[i] == SIGHUP && before->sa_handler == SIG_IGN))
            sigaction(ends[i], &action, NULL);
    }
    sigaction(SIGUSR1, &action, NULL);
    return signals_state.event;
}

static void ignore_signal(int number)
{
    (void)number;
}

void end_signals_restore(bool end_requested)
{
    struct sigaction once = {.sa_handler = ignore_signal,
                             .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    signal(SIGUSR1, SIG_IGN);
    for (size_t i = 0; i < ENDS; i++) {
        const struct sigaction *before = &signals_state.before[i];
        bool passes = !end_requested && before->sa_handler == SIG_DFL;
        sigaction(ends[i], passes ? &once : before, NULL);
    }
    close(signals_state.event);
}

bool end_signals_read(int signals, bool *dump)
{
    uint64_t count;
    if (read(signals, &count, sizeof(count)) < 0)
        return false;
    *dump |= atomic_exchange(&is_to_dump, false);
    return end_requests > 0;
}

unsigned end_signals_count(void)
{
    return end_requests;
}
