/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Obeys commands from standard input, one a line, and answers each with "ok":
 *
 *   hold COUNT BYTES   allocate COUNT blocks and keep them
 *   drop               free all kept blocks
 *   churn COUNT BYTES  allocate and free COUNT blocks, one at a time
 *   exit STATUS        exit without freeing
 *   exec PATH [A [B]]  execute that program
 *   fork               fork a child that does "hold 10 1000" and ends; answer after its end
 *   forbid WORD N...   from now on a filter (seccomp) gives these system calls that verdict; set by
 *                      prctl()
 *   permit WORD N...   the same for all other system calls; set by syscall()
 *   deny N I VALUE     from now on a filter kills for that system call if argument I is VALUE
 *   dispatch           from now on a system call from outside the C library ends the program
 * (Syscall User Dispatch) lock               lock all present and future memory (mlockall) probe
 * request filters that the kernel refuses leave              go on in another thread; the first one
 * ends
 *
 * WORD is kill, trap or errno.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

enum { HELD_MAX = 5000000 };

static void *held[HELD_MAX];
static size_t held_count;

static CALLSITE void *hold_block(size_t bytes)
{
    return kept(malloc(bytes));
}

static CALLSITE void *churn_block(size_t bytes)
{
    return kept(malloc(bytes));
}

static CALLSITE void *child_block(size_t bytes)
{
    return kept(malloc(bytes));
}

static void hold(size_t count, size_t bytes)
{
    for (size_t i = 0; i < count && held_count < HELD_MAX; i++)
        held[held_count++] = hold_block(bytes);
}

static void drop(void)
{
    while (held_count > 0)
        free(held[--held_count]);
}

static void churn(size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        free(churn_block(bytes));
}

static void fork_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 10; i++)
            child_block(1000);
        _exit(0);
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        _exit(98);
}

/* Start a child that allocates nothing, and ends with its parent. */
static void fork_idle_child(void)
{
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

static void become(const char *line)
{
    char path[128], first[16], second[16];
    int count = sscanf(line, "%*s %127s %15s %15s", path, first, second);
    execl(path, path, count > 1 ? first : NULL, count > 2 ? second : NULL, NULL);
    _exit(127);
}

static uint32_t verdict_of(const char *word)
{
    if (strcmp(word, "allow") == 0)
        return SECCOMP_RET_ALLOW;
    if (strcmp(word, "errno") == 0)
        return SECCOMP_RET_ERRNO | EPERM;
    return strcmp(word, "trap") == 0 ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS;
}

static long set_by_prctl(struct sock_fprog *program)
{
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

static long set_by_syscall(struct sock_fprog *program)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
}

/* Give one verdict for the system calls with these numbers, and another for all others. */
static void filter_calls(const char *numbers, const char *listed, const char *others,
                         long (*set)(struct sock_fprog *))
{
    enum { CALLS_MAX = 100 };
    struct sock_filter filter[2 * CALLS_MAX + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    struct sock_fprog program = {.len = 1, .filter = filter};
    while (program.len < 2 * CALLS_MAX) {
        char *end;
        unsigned long number = strtoul(numbers, &end, 10);
        if (end == numbers)
            break;
        struct sock_filter pair[] = {
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, verdict_of(listed)),
        };
        memcpy(filter + program.len, pair, sizeof(pair));
        program.len += 2;
        numbers = end;
    }
    filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict_of(others));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || set(&program) != 0)
        _exit(99);
}

static void deny(const char *line)
{
    unsigned number, index, value;
    if (sscanf(line, "%*s %u %u %u", &number, &index, &value) != 3)
        _exit(93);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * index),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(99);
}

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

/* Set *start and *end to the mapping of the C library's code. Return whether it was found. */
static int find_code(uintptr_t *start, uintptr_t *end)
{
    char line[512];
    int found = 0;
    uintptr_t function = (uintptr_t)strtoul;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL)
        found = sscanf(line, "%lx-%lx", start, end) == 2 && function >= *start && function < *end;
    if (maps != NULL)
        fclose(maps);
    return found;
}

static void end_at_stray_call(int number)
{
    (void)number;
    _exit(92);
}

static CALLSITE void dispatch_calls(void)
{
    static volatile char selector;
    uintptr_t start, end;
    struct sigaction action = {.sa_handler = end_at_stray_call};
    if (!find_code(&start, &end) || sigaction(SIGSYS, &action, NULL) != 0)
        _exit(91);
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, start, end - start, &selector) != 0)
        _exit(77);
    selector = 1;
}

static void probe_filters(void)
{
    struct sock_fprog invalid = {0};
    if (set_by_prctl(NULL) != -1 || errno != EFAULT || set_by_syscall(NULL) != -1 ||
        errno != EFAULT || set_by_prctl(&invalid) != -1 || errno != EINVAL ||
        set_by_syscall(&invalid) != -1 || errno != EINVAL)
        _exit(97);
}

/* Read without stdio, which would allocate. */
static int read_line(char *line, size_t size)
{
    size_t used = 0;
    while (used + 1 < size) {
        ssize_t got = read(STDIN_FILENO, line + used, 1);
        if (got <= 0)
            return 0;
        if (line[used] == '\n')
            break;
        used++;
    }
    line[used] = 0;
    return 1;
}

int main(void);

static void answer(void)
{
    if (write(STDOUT_FILENO, "ok\n", 3) != 3)
        _exit(1);
}

static void *go_on(void *first)
{
    if (pthread_join((pthread_t)first, NULL) != 0)
        _exit(95);
    answer();
    exit(main()); /* it obeys the next commands */
}

static void leave(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, go_on, (void *)pthread_self()) != 0)
        _exit(94);
    pthread_exit(NULL);
}

int main(void)
{
    char line[1024], verb[16], word[8];
    unsigned long count, bytes;
    while (read_line(line, sizeof(line))) {
        count = bytes = 0;
        if (sscanf(line, "%15s %lu %lu", verb, &count, &bytes) < 1)
            continue;
        if (strcmp(verb, "hold") == 0)
            hold(count, bytes);
        else if (strcmp(verb, "drop") == 0)
            drop();
        else if (strcmp(verb, "churn") == 0)
            churn(count, bytes);
        else if (strcmp(verb, "fork") == 0)
            fork_child();
        else if (strcmp(verb, "idle") == 0)
            fork_idle_child();
        else if (strcmp(verb, "exec") == 0)
            become(line);
        else if (strcmp(verb, "lock") == 0 && mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            _exit(96);
        else if (strcmp(verb, "deny") == 0)
            deny(line);
        else if (strcmp(verb, "dispatch") == 0)
            dispatch_calls();
        else if (strcmp(verb, "probe") == 0)
            probe_filters();
        else if (sscanf(line, "forbid %7s", word) == 1)
            filter_calls(line + strlen("forbid ") + strlen(word), word, "allow", set_by_prctl);
        else if (sscanf(line, "permit %7s", word) == 1)
            filter_calls(line + strlen("permit ") + strlen(word), "allow", word, set_by_syscall);
        else if (strcmp(verb, "leave") == 0)
            leave();
        else if (strcmp(verb, "exit") == 0)
            _exit((int)count);
        answer();
    }
    return 0;
}
