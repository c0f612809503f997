/* SPDX-License-Identifier: Apache-2.0 */
/* 1,000 threads alive at once, each allocating; half of the blocks are freed by another thread. */
#include <pthread.h>

#include "truth.h"

enum { THREADS = 1000, BLOCKS = 50 };

static pthread_barrier_t all_allocated;
static void *blocks[THREADS][BLOCKS];

static CALLSITE void *allocate_in_thread(size_t size)
{
    return kept(malloc(size));
}

static void *run(void *argument)
{
    size_t self = (size_t)argument;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[self][i] = allocate_in_thread(16 + i);
        require(blocks[self][i]);
    }
    pthread_barrier_wait(&all_allocated);
    for (size_t i = 0; i < BLOCKS; i += 2)
        free(blocks[(self + 1) % THREADS][i]);
    return NULL;
}

int main(void)
{
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&all_allocated, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        require(!pthread_create(&threads[i], &attributes, run, (void *)i));
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    truth("allocate_in_thread", THREADS * (BLOCKS * 16 + BLOCKS * (BLOCKS - 1) / 2),
          THREADS * BLOCKS);
    return 0;
}
