/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handle SIGBUS during guarded work. The signal is thread-directed. In a thread without a guard the
 * handler restores the default action, and the access faults again. The handler stays installed
 * while any thread has a guard.
 */
#include "profile/symbols/mapped_guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned guards;
static struct sigaction before;
static _Thread_local sigjmp_buf *way_out;

static void file_ended(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (way_out != NULL && info->si_code > 0)
        siglongjmp(*way_out, 1);
    signal(number, SIG_DFL);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = file_ended, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&lock);
    if (guards++ == 0)
        sigaction(SIGBUS, &action, &before);
    pthread_mutex_unlock(&lock);
}

static void remove_handler(void)
{
    pthread_mutex_lock(&lock);
    if (--guards == 0)
        sigaction(SIGBUS, &before, NULL);
    pthread_mutex_unlock(&lock);
}

int mapped_guard_run(guarded_work *work, void *context)
{
    sigjmp_buf here;
    int result = -EIO;
    install();
    if (sigsetjmp(here, 1) == 0) {
        way_out = &here;
        result = work(context);
    } else {
        result = -EIO;
    }
    way_out = NULL;
    remove_handler();
    return result;
}
