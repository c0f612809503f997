/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes children in every way, and each of them allocates: fork, vfork, posix_spawn, the bare clone
 * system call as a fork, and clone with shared memory.
 * The parent's figures must not include a forked child's; with --follow-children each child has its
 * own profile.
 */
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

enum { ROUNDS = 10, BLOCKS = 100, STACK = 64 << 10 };

extern char **environ;

static CALLSITE void *allocate_in_parent(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_child(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_sharing_child(size_t size)
{
    return kept(malloc(size));
}

static int wait_for(pid_t pid)
{
    int status;
    require(waitpid(pid, &status, __WALL) == pid);
    return status;
}

static void work_as_child(void)
{
    for (int i = 0; i < BLOCKS; i++)
        free(allocate_in_child(1000));
}

static int run_sharing(void *argument)
{
    void **block = argument;
    *block = allocate_in_sharing_child(500);
    return 3;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        work_as_child();
        return 5;
    }
    static char stack[STACK] __attribute__((aligned(16)));
    for (int i = 0; i < ROUNDS; i++) {
        free(allocate_in_parent(100));

        pid_t pid = fork();
        require(pid >= 0);
        if (!pid) {
            work_as_child();
            _exit(1);
        }
        require(wait_for(pid) == 1 << 8);

        pid = vfork();
        require(pid >= 0);
        if (!pid) {
            execl("/proc/self/exe", "children", "child", (char *)NULL);
            _exit(9);
        }
        require(wait_for(pid) == 5 << 8);

        char *arguments[] = {argv[0], "child", NULL};
        require(!posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ));
        require(wait_for(pid) == 5 << 8);

        pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        require(pid >= 0);
        if (!pid) {
            work_as_child();
            _exit(2);
        }
        require(wait_for(pid) == 2 << 8);

        void *block = NULL;
        pid = clone(run_sharing, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &block);
        require(wait_for(pid) == 3 << 8);
        require(block);
        free(block);
        free(allocate_in_parent(100));
    }
    truth("allocate_in_parent", 100ull * 2 * ROUNDS, 2 * ROUNDS);
    truth("allocate_in_sharing_child", 500ull * ROUNDS, ROUNDS);
    /* Each of the process's children has its own entry. */
    truth("allocate_in_child", 0, 0);
    return 0;
}
