/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates from its first moment on: in preinit functions (not of musl), in constructors of a
 * library and of its own, in main and in a thread. With arguments it becomes another program then.
 *
 *     from_start [PROGRAM [ARGUMENT...]]
 *     from_start await     main first waits until the profiler has attached, for 20 s at most
 *
 * The test builds it in several ways: -DLIBRARY for the library, -DWITH_LIBRARY to use it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

#ifdef LIBRARY

CALLSITE void *allocate_in_library(size_t size)
{
    return kept(malloc(size));
}

__attribute__((constructor)) static void construct_library(void)
{
    for (size_t i = 0; i < 100; i++)
        free(allocate_in_library(1000 + i));
}

int use_library(void)
{
    return 1;
}

#else

int use_library(void);

static CALLSITE void *allocate_in_constructor(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_main(size_t size)
{
    return kept(calloc(1, size));
}

static CALLSITE void *allocate_in_thread(size_t size)
{
    return kept(realloc(NULL, size));
}

static void prepare(void)
{
    free(allocate_in_constructor(10));
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = prepare;

__attribute__((constructor(101))) static void construct_early(void)
{
    free(allocate_in_constructor(20));
}

__attribute__((constructor)) static void construct_late(void)
{
    free(allocate_in_constructor(30));
}

static void *run(void *unused)
{
    for (size_t i = 0; i < 50; i++)
        free(allocate_in_thread(300));
    return unused;
}

/* Nobody must trace a program that runs. */
static void print_tracer(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    require(status != NULL);
    while (fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "TracerPid:", 10) == 0)
            fputs(line, stdout);
    }
    fclose(status);
}

static int is_attached(void)
{
    static char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    require(maps != NULL);
    while (!found && fgets(line, sizeof(line), maps) != NULL)
        found = strstr(line, "heapprofd_client") != NULL;
    fclose(maps);
    return found;
}

static void await_profiler(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    for (int i = 0; i < 10000 && !is_attached(); i++)
        nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc > 1 && strcmp(argv[1], "await") == 0) {
        await_profiler();
        argc = 1;
    }
    for (size_t i = 0; i < 1000; i++)
        free(allocate_in_main(100 + i));
    require(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    print_tracer();
#ifdef WITH_LIBRARY
    require(use_library() == 1);
    truth("allocate_in_library", 100 * 1000 + 4950, 100);
#endif
#ifdef __GLIBC__
    truth("allocate_in_constructor", 60, 3);
#else
    truth("allocate_in_constructor", 50, 2);
#endif
    truth("allocate_in_main", 1000 * 100 + 499500, 1000);
    truth("allocate_in_thread", 50 * 300, 50);
    fflush(stdout);
    if (argc > 1)
        execv(argv[1], argv + 1);
    return 3;
}

#endif
