/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has more threads at a time than the client has room for: as many as the argument says, which have
 * all allocated and wait. One further thread then allocates, and its malloc and free must cost no
 * more than those of the first one. Prints "threads: NUMBER" to the standard error, or ends with 77
 * if the system allows no such number.
 */
#include <limits.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

enum { CALLS = 1000, ROUNDS = 9 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Two conditions, so that a thread that starts wakes only main, and not all threads before it. */
static pthread_cond_t one_started = PTHREAD_COND_INITIALIZER, all_end = PTHREAD_COND_INITIALIZER;
static int started, ended;

static CALLSITE void *allocate(void)
{
    return kept(malloc(24));
}

static void *wait_for_end(void *unused)
{
    free(allocate());
    pthread_mutex_lock(&mutex);
    started++;
    pthread_cond_signal(&one_started);
    while (!ended)
        pthread_cond_wait(&all_end, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static long processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Set *per_call_ns to the processor time of a malloc and free: the least of several rounds. */
static void *take_time(void *per_call_ns)
{
    long least = LONG_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        long before = processor_ns();
        for (int i = 0; i < CALLS; i++)
            free(allocate());
        long taken = (processor_ns() - before) / CALLS;
        least = taken < least ? taken : least;
    }
    *(long *)per_call_ns = least;
    return NULL;
}

static long time_of_new_thread(void)
{
    long per_call_ns = 0;
    pthread_t thread;
    require(!pthread_create(&thread, NULL, take_time, &per_call_ns));
    require(!pthread_join(thread, NULL));
    return per_call_ns;
}

int main(int argc, char **argv)
{
    require(argc == 2);
    int wanted = atoi(argv[1]);
    pthread_attr_t small;
    require(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 16384) &&
            !pthread_attr_setguardsize(&small, 0));
    long first_ns = time_of_new_thread();
    for (int i = 0; i < wanted; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, wait_for_end, NULL))
            _exit(77);
    }
    pthread_mutex_lock(&mutex);
    while (started < wanted)
        pthread_cond_wait(&one_started, &mutex);
    pthread_mutex_unlock(&mutex);
    long late_ns = time_of_new_thread();
    fprintf(stderr, "threads: %d, a call takes %ld ns in the first, %ld ns in the last\n", wanted,
            first_ns, late_ns);
    printf("calls: %d\n", wanted + 2 * CALLS * ROUNDS);
    fflush(stdout);
    /* The kernel ends the threads faster than they could. */
    _exit(late_ns > 20 * first_ns + 20000 ? 1 : 0);
}
