/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure the cost of an allocation in the program itself. Print one figure: nanoseconds of the
 * thread's CPU time, the minimum of several passes.
 *
 *   micro pair PAIRS [THREADS]   a malloc of 64 bytes and its free; with threads the mean of them
 *   micro deep PAIRS FRAMES      the same below FRAMES frames
 *   micro hold BLOCKS            BLOCKS live blocks of 64 bytes; prints RssAnon in KiB
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PASSES = 7, THREADS_MAX = 64 };

static unsigned long pairs;
static pthread_barrier_t begin;

static inline void *kept(void *block)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static __attribute__((noinline)) double time_pairs(void)
{
    double start = cpu_now();
    for (unsigned long i = 0; i < pairs; i++)
        free(kept(malloc(64)));
    return (cpu_now() - start) / (double)pairs;
}

static __attribute__((noinline)) double time_at_depth(unsigned frames)
{
    volatile unsigned here = frames;
    double figure = here <= 1 ? time_pairs() : time_at_depth(here - 1);
    return figure + 0 * here;
}

static double least_at_depth(unsigned frames)
{
    double least = 1e18;
    for (int pass = 0; pass < PASSES; pass++) {
        double figure = time_at_depth(frames);
        if (figure < least)
            least = figure;
    }
    return least;
}

static void *run(void *argument)
{
    pthread_barrier_wait(&begin);
    *(double *)argument = least_at_depth(1);
    return NULL;
}

static double time_threads(unsigned threads)
{
    pthread_t handles[THREADS_MAX];
    double figures[THREADS_MAX], sum = 0;
    pthread_barrier_init(&begin, NULL, threads);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&handles[i], NULL, run, &figures[i]) != 0)
            exit(1);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        sum += figures[i];
    }
    return sum / threads;
}

static int print_memory(unsigned long blocks)
{
    for (unsigned long i = 0; i < blocks; i++)
        kept(malloc(64));
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        if (strncmp(line, "RssAnon:", 8) == 0)
            printf("%ld\n", strtol(line + 8, NULL, 10));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pairs = strtoul(argv[2], NULL, 10);
    unsigned number = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    if (strcmp(argv[1], "hold") == 0)
        return print_memory(pairs);
    if (strcmp(argv[1], "pair") == 0 && number >= 1 && number <= THREADS_MAX)
        printf("%.2f\n", number == 1 ? least_at_depth(1) : time_threads(number));
    else if (strcmp(argv[1], "deep") == 0)
        printf("%.2f\n", least_at_depth(number));
    else
        return 2;
    return 0;
}
