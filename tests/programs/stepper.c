/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates from its start: a block at each step, and a step about every millisecond.
 *
 *   stepper STEPS           make STEPS steps
 *   stepper attached STEPS  make steps until a profiler has attached, and then STEPS more; each
 *                           also allocates a block that it frees at once
 *
 *   stepper stuck STEPS     the same without such blocks, but first wait uninterruptibly in the
 *                           kernel until standard input ends
 *
 * Prints the number of all steps.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

enum { BLOCK_BYTES = 1000, PASSING_BYTES = 3000, STEPS_MAX = 100000 };

static CALLSITE void *step_block(void)
{
    return kept(malloc(BLOCK_BYTES));
}

static CALLSITE void *passing_block(void)
{
    return kept(malloc(PASSING_BYTES));
}

static void step(int passes)
{
    step_block();
    if (passes)
        free(passing_block());
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Read without stdio, which would allocate. */
static int is_attached(void)
{
    static char maps[1 << 16];
    size_t length = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY);
    while (length + 1 < sizeof(maps) &&
           (got = read(fd, maps + length, sizeof(maps) - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    maps[length] = 0;
    return strstr(maps, "heapprofd_client") != NULL;
}

/* The parent of a vfork child is blocked until the child has ended. */
static void be_stuck(void)
{
    static char byte;
    if (vfork() == 0) {
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
        _exit(0);
    }
}

int main(int argc, char **argv)
{
    int stuck = argc > 1 && strcmp(argv[1], "stuck") == 0;
    int attached = argc > 1 && strcmp(argv[1], "attached") == 0, waits = stuck || attached;
    int steps = argc > 1 + waits ? atoi(argv[1 + waits]) : 0, made = 0;
    require(steps > 0);
    if (stuck)
        be_stuck();
    for (; waits && !is_attached(); made++) {
        require(made < STEPS_MAX);
        step(attached);
    }
    for (int i = 0; i < steps; i++, made++)
        step(attached);
    char line[32];
    int length = snprintf(line, sizeof(line), "%d\n", made);
    return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}
