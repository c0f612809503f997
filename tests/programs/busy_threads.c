/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy_threads COUNT SECONDS: COUNT threads allocate, fill, check and free memory by all of C's
 * functions, for SECONDS or until SIGTERM. Prints "busy" before they all begin, and "ok" at the end
 * if there was no error.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "truth.h"

static int stop;
/* The first threads would keep the processors from the one that starts the others. */
static pthread_barrier_t begin;

static void check_filled(const unsigned char *block, size_t size, unsigned char with)
{
    for (size_t i = 0; i < size; i += 37)
        require(block[i] == with);
}

static void *allocate_somehow(unsigned how, size_t size)
{
    void *block = NULL;
    switch (how % 6) {
    case 0:
        return kept(malloc(size));
    case 1:
        return kept(calloc(1, size));
    case 2:
        return kept(realloc(NULL, size));
    case 3:
        require(posix_memalign(&block, 64, size) == 0 && (uintptr_t)block % 64 == 0);
        return kept(block);
    case 4:
        block = kept(memalign(128, size));
        require((uintptr_t)block % 128 == 0);
        return block;
    default:
        return kept(reallocarray(NULL, (size + 7) / 8, 8));
    }
}

static void *work(void *seed)
{
    enum { KEPT = 16 };
    unsigned char *blocks[KEPT] = {0};
    size_t sizes[KEPT] = {0};
    unsigned state = (unsigned)(uintptr_t)seed;
    pthread_barrier_wait(&begin);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        state = state * 1664525u + 1013904223u;
        unsigned slot = state >> 16 & (KEPT - 1);
        size_t size = 1 + (state >> 20 & 1023);
        if (blocks[slot] != NULL)
            check_filled(blocks[slot], sizes[slot], (unsigned char)slot);
        if (blocks[slot] != NULL && (state >> 8 & 3) == 0) {
            blocks[slot] = kept(realloc(blocks[slot], size));
        } else {
            free(blocks[slot]);
            blocks[slot] = allocate_somehow(state >> 10, size);
        }
        require(blocks[slot] != NULL);
        memset(blocks[slot], (int)slot, size);
        sizes[slot] = size;
        if ((state >> 4 & 1023) == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    for (int i = 0; i < KEPT; i++)
        free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 4, seconds = argc > 2 ? atoi(argv[2]) : 2;
    pthread_t *threads = calloc((size_t)count, sizeof(*threads));
    pthread_attr_t attributes;
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    require(pthread_barrier_init(&begin, NULL, (unsigned)count + 1) == 0);
    for (int i = 0; i < count; i++)
        require(pthread_create(&threads[i], &attributes, work, (void *)(uintptr_t)(i + 1)) == 0);
    puts("busy");
    fflush(stdout);
    pthread_barrier_wait(&begin);
    /* A profiler that stops the threads interrupts this call. */
    while (sigtimedwait(&end, NULL, &(struct timespec){.tv_sec = seconds}) < 0 && errno == EINTR)
        ;
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    puts("ok");
    return 0;
}
