/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service for bench/continuous.py that allocates at a given rate, as steadily as a timer allows:
 *
 *     continuous_work MEGABYTES_PER_SECOND
 *
 * Each 20 ms it allocates its share in blocks of 16 to 1,039 bytes. Stacks are 8 to 40 frames deep
 * and end in one of 512 paths through eight functions. A thirty-second part of the blocks is kept
 * until 20,000 newer ones are.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TICK_NS 20000000L
#define KEPT 20000
#define CALLEES 8

typedef void *allocate_function(unsigned path, unsigned depth, size_t size);
static allocate_function step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7;
static allocate_function *const steps[CALLEES] = {step_0, step_1, step_2, step_3,
                                                  step_4, step_5, step_6, step_7};

#define STEP(name)                                                                                 \
    __attribute__((noinline)) static void *name(unsigned path, unsigned depth, size_t size)        \
    {                                                                                              \
        void *block =                                                                              \
            depth == 0 ? malloc(size) : steps[path % CALLEES](path / CALLEES, depth - 1, size);    \
        __asm__ volatile("" : "+r"(block)); /* no tail call: the frame stays */                    \
        return block;                                                                              \
    }
STEP(step_0)
STEP(step_1) STEP(step_2) STEP(step_3) STEP(step_4) STEP(step_5) STEP(step_6) STEP(step_7)

    static uint64_t state = 88172645463325252u;

static uint32_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static void work(size_t bytes)
{
    static void *kept[KEPT];
    static unsigned next;
    for (size_t done = 0; done < bytes;) {
        uint32_t drawn = draw();
        unsigned path = drawn % 512;
        size_t size = 16 + (drawn >> 9) % 1024;
        /* The path decides the depth, so that there are not more stacks than paths. */
        void *block = step_0(path, 8 + path % 33, size);
        done += size;
        if (drawn >> 27 != 0) {
            free(block);
            continue;
        }
        free(kept[next]);
        kept[next] = block;
        next = (next + 1) % KEPT;
    }
}

int main(int count, char **arguments)
{
    double rate = count == 2 ? atof(arguments[1]) * 1e6 : 0;
    struct timespec next;
    if (rate <= 0)
        return fprintf(stderr, "usage: continuous_work MEGABYTES_PER_SECOND\n"), 2;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        work((size_t)(rate * TICK_NS / 1e9));
        next.tv_nsec += TICK_NS;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}
