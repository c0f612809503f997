/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread waits as in vfork(), where it cannot be stopped, for a child with memory of its own;
 * another allocates a little all the time. Prints "waiting" before that, and after SIGTERM, which
 * ends the wait, "ok".
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

static volatile pid_t *child; /* in memory that it shares with its parent */
static int is_over;

static void *wait_in_vfork(void *unused)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        *child = getpid();
        for (;;)
            pause();
    }
    require(pid > 0 && waitpid(pid, NULL, 0) == pid);
    return unused;
}

static void *allocate(void *unused)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        free(kept(malloc(100)));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(child != MAP_FAILED);
    require(pthread_create(&threads[0], NULL, wait_in_vfork, NULL) == 0);
    require(pthread_create(&threads[1], NULL, allocate, NULL) == 0);
    while (*child == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    puts("waiting");
    fflush(stdout);
    require(sigwait(&set, &number) == 0);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    require(kill(*child, SIGKILL) == 0);
    for (int i = 0; i < 2; i++)
        require(pthread_join(threads[i], NULL) == 0);
    puts("ok");
    return 0;
}
