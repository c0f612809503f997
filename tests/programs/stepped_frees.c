/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handler runs after each instruction of an allocation, and sometimes frees many blocks: also
 * while the interrupted thread writes a record. The handler must not wait for that record if the
 * ring is full. Linked with an allocator that permits this (bump_allocator.c), whose free does
 * nothing. In the end all blocks are freed again, as their next owners would.
 */
#include <signal.h>
#include <stdint.h>

#include "single_step.h"

/* More frees at once than fit the smallest ring. Not at each step, because a reservation in the
 * ring is retried if another one came in between. */
enum { BLOCKS = 200000, FREES_AT_ONCE = 300, STEPS_BETWEEN = 53 };

static void *blocks[BLOCKS];
static volatile int freed, steps;

static CALLSITE void *allocate_block(size_t size)
{
    return kept(malloc(size));
}

static void on_step(int number)
{
    (void)number;
    if (++steps % STEPS_BETWEEN != 0)
        return;
    for (int i = 0; i < FREES_AT_ONCE && freed < BLOCKS; i++)
        free(blocks[freed++]);
}

static CALLSITE void *allocate_between(void (*before)(void), void (*after)(void), size_t size)
{
    before();
    void *block = malloc(size);
    after();
    return kept(block);
}

static void nothing(void) {}

int main(void)
{
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = allocate_block(40);
    /* First without steps: the second allocation has less to do, and fewer steps. */
    void *first = allocate_between(nothing, nothing, 72);
    void *second = allocate_between(step_begin, step_end, 72);
    int freed_in_steps = freed;
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(first);
    free(second);
    fprintf(stderr, "%d freed in %d steps\n", freed_in_steps, steps);
    truth("allocate_block", 40ull * BLOCKS, BLOCKS);
    return 0;
}
