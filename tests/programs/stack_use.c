/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far below its caller's frame an allocation touches the stack, if the profiler samples it.
 *
 *   stack_use MOST [VERBOSE]
 *
 * A thread runs on a stack that is filled with a pattern, calls the functions below, and finds the
 * lowest changed byte. It fails if that is more than MOST bytes away. Signals are blocked.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

enum { STACK = 256 << 10, PATTERN = 0xa5, ROUNDS = 20 };

static unsigned char *stack;
static size_t most;
static int is_verbose;
static unsigned long long calls;

/* Call a function and return how many bytes below this frame it has used. */
static CALLSITE size_t use_of(void (*function)(void))
{
    unsigned char *here = __builtin_frame_address(0);
    for (volatile unsigned char *at = stack; at < here - 256; at++)
        *at = PATTERN;
    function();
    unsigned char *low = stack;
    while (low < here && *low == PATTERN)
        low++;
    return (size_t)(here - low);
}

static CALLSITE void *allocate(size_t size)
{
    calls++;
    return kept(malloc(size));
}

static void allocate_and_free(void)
{
    free(allocate(100));
}

static void reallocate(void)
{
    free(kept(realloc(allocate(100), 5000)));
}

static void clear(void)
{
    free(kept(calloc(10, 10)));
}

static void handle(int number)
{
    (void)number;
    free(allocate(100));
}

static void raise_signal(void)
{
    raise(SIGUSR1);
}

static void check(const char *what, void (*function)(void))
{
    size_t used = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t now = use_of(function);
        used = now > used ? now : used;
    }
    if (is_verbose)
        printf("%s: %zu bytes\n", what, used);
    if (used > most)
        fprintf(stderr, "%s uses %zu bytes of stack\n", what, used);
    require(used <= most);
}

static void *run(void *argument)
{
    check("malloc and free", allocate_and_free);
    check("realloc", reallocate);
    check("calloc", clear);
    static unsigned char alternate[64 << 10];
    stack_t other = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    sigaltstack(&other, NULL);
    signal(SIGUSR1, handle);
    check("a signal", raise_signal);
    fflush(stdout);
    pid_t child = fork();
    require(child >= 0);
    if (!child) {
        check("malloc in a child", allocate_and_free);
        fflush(stdout);
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
    return argument;
}

int main(int argc, char **argv)
{
    require(argc >= 2);
    most = strtoul(argv[1], NULL, 10);
    is_verbose = argc > 2;
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stack != MAP_FAILED);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    require(!pthread_attr_setstack(&attributes, stack, STACK));
    require(!pthread_create(&thread, &attributes, run, NULL));
    pthread_join(thread, NULL);
    truth("allocate", 100 * calls, calls);
    return 0;
}
