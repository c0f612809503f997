/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that the kernel ends with EINTR if it stops their thread, without any signal. Here they
 * wait until standard input ends, and none of them may return. One more thread waits for signals
 * that it handles: each must end its call with EINTR, also if the thread is being stopped. Prints
 * "waiting" when all threads wait, and at the end the number of signals.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "truth.h"

static unsigned waiting, interrupted; /* atomic */
static int semaphores;

static void begin(void)
{
    __atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
}

static void *waits_in_epoll(void *unused)
{
    struct epoll_event event;
    int epoll = epoll_create1(0);
    begin();
    int count = epoll_wait(epoll, &event, 1, -1);
    fprintf(stderr, "epoll_wait returned %d, errno %d\n", count, errno);
    abort();
    return unused;
}

static void *waits_for_semaphore(void *unused)
{
    struct sembuf take = {.sem_op = -1};
    const struct timespec limit = {.tv_sec = 3600};
    begin();
    /* It is removed at the end. */
    require(semtimedop(semaphores, &take, 1, &limit) < 0 && errno == EIDRM);
    return unused;
}

static void *waits_for_blocked_signal(void *unused)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    begin();
    int number = sigwaitinfo(&set, NULL);
    fprintf(stderr, "sigwaitinfo returned %d, errno %d\n", number, errno);
    abort();
    return unused;
}

static void *receives(void *unused)
{
    int ends[2];
    char byte;
    const struct timeval limit = {.tv_sec = 3600};
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    begin();
    ssize_t got = recv(ends[0], &byte, 1, 0);
    fprintf(stderr, "recv returned %zd, errno %d\n", got, errno);
    abort();
    return unused;
}

static void *reads_events(void *unused)
{
    char events[512];
    int inotify = inotify_init1(0);
    begin();
    ssize_t got = read(inotify, events, sizeof(events));
    fprintf(stderr, "read of inotify returned %zd, errno %d\n", got, errno);
    abort();
    return unused;
}

static void handle(int number)
{
    (void)number;
}

static void *is_interrupted(void *unused)
{
    struct epoll_event event;
    sigset_t none;
    int epoll = epoll_create1(0);
    sigemptyset(&none);
    begin();
    for (;;) {
        /* The signal can only arrive during the call. */
        require(epoll_pwait(epoll, &event, 1, -1, &none) < 0 && errno == EINTR);
        __atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(void)
{
    static void *(*const kinds[])(void *) = {waits_in_epoll, waits_for_blocked_signal, receives,
                                             reads_events, is_interrupted};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    pthread_t threads[KINDS], semaphore;
    sigset_t set;
    unsigned sent = 0;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    require(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    semaphores = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
    require(semaphores >= 0 && semctl(semaphores, 0, SETVAL, 0) == 0);
    require(pthread_create(&semaphore, NULL, waits_for_semaphore, NULL) == 0);
    for (int i = 0; i < KINDS; i++)
        require(pthread_create(&threads[i], NULL, kinds[i], NULL) == 0);
    while (__atomic_load_n(&waiting, __ATOMIC_RELAXED) < KINDS + 1)
        sched_yield();
    puts("waiting");
    fflush(stdout);
    /* One signal at a time: a call that is made again in spite of one would wait for ever. */
    while (poll(&input, 1, 0) == 0) {
        free(kept(malloc(100)));
        if (__atomic_load_n(&interrupted, __ATOMIC_RELAXED) == sent) {
            sent++;
            require(pthread_kill(threads[KINDS - 1], SIGUSR1) == 0);
        }
        sched_yield();
    }
    while (__atomic_load_n(&interrupted, __ATOMIC_RELAXED) < sent)
        sched_yield();
    require(semctl(semaphores, 0, IPC_RMID) == 0 && pthread_join(semaphore, NULL) == 0);
    printf("%u signals\n", sent);
    return 0;
}
