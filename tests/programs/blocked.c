/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads wait in system calls of every kind until standard input ends, and check the results:
 * these must not show that somebody stopped the threads meanwhile. Calls with a timeout are
 * repeated every second. Prints "waiting" when all threads wait, and "ok" at the end.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

enum { SECONDS = 1 };

static int pipe_ends[2], epoll_pipe[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int released; /* holding the mutex, or atomically */
static sem_t semaphore;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int is_released(void)
{
    return __atomic_load_n(&released, __ATOMIC_RELAXED);
}

static void *sleeps(void *unused)
{
    while (!is_released()) {
        double began = now();
        struct timespec rest = {0};
        require(nanosleep(&(struct timespec){.tv_sec = SECONDS}, &rest) == 0);
        require(now() - began >= SECONDS);
    }
    return unused;
}

static void *reads(void *unused)
{
    char byte = 0;
    require(read(pipe_ends[0], &byte, 1) == 1 && byte == 'x');
    return unused;
}

static void *waits_for_condition(void *unused)
{
    pthread_mutex_lock(&mutex);
    while (!released)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *waits_for_semaphore(void *unused)
{
    require(sem_wait(&semaphore) == 0);
    return unused;
}

static void *waits_in_epoll(void *unused)
{
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    require(epoll_ctl(epoll, EPOLL_CTL_ADD, epoll_pipe[0], &event) == 0);
    /* The kernel interrupts this call if the thread is stopped. */
    int count;
    do {
        count = epoll_wait(epoll, &event, 1, -1);
    } while (count < 0 && errno == EINTR);
    require(count == 1);
    close(epoll);
    return unused;
}

static void *polls(void *unused)
{
    while (!is_released()) {
        double began = now();
        struct pollfd nothing = {.fd = -1};
        require(poll(&nothing, 1, SECONDS * 1000) == 0);
        require(now() - began >= SECONDS * 0.99);
    }
    return unused;
}

static void *selects(void *unused)
{
    while (!is_released()) {
        struct timeval limit = {.tv_sec = SECONDS};
        require(select(0, NULL, NULL, NULL, &limit) == 0);
    }
    return unused;
}

static void *waits_for_signal(void *unused)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    require(sigwait(&set, &number) == 0 && number == SIGUSR2);
    return unused;
}

int main(void)
{
    static void *(*const kinds[])(void *) = {
        sleeps, reads,   waits_for_condition, waits_for_semaphore, waits_in_epoll,
        polls,  selects, waits_for_signal,
    };
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    pthread_t threads[KINDS];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    require(pipe(pipe_ends) == 0 && pipe(epoll_pipe) == 0 && sem_init(&semaphore, 0, 0) == 0);
    for (int i = 0; i < KINDS; i++)
        require(pthread_create(&threads[i], NULL, kinds[i], NULL) == 0);
    puts("waiting");
    fflush(stdout);
    char byte;
    require(read(STDIN_FILENO, &byte, 1) == 0);

    require(write(pipe_ends[1], "x", 1) == 1 && write(epoll_pipe[1], "x", 1) == 1);
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&released, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    sem_post(&semaphore);
    pthread_kill(threads[KINDS - 1], SIGUSR2);
    for (int i = 0; i < KINDS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    puts("ok");
    return 0;
}
