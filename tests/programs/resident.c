/* SPDX-License-Identifier: Apache-2.0 */
/* resident KIND: takes known sizes of a kind of memory, prints "ready", and waits for input. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB (1u << 20)
#define STACK_BYTES (512u << 10)
#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL, from Linux 6.13 on */

static void *touch_stack(void *ready)
{
    char block[STACK_BYTES];
    memset(block, 1, sizeof(block));
    __asm__ volatile("" : : "r"(block) : "memory");
    pthread_barrier_wait(ready);
    pause();
    return NULL;
}

/* Give the thread a stack as glibc 2.42 makes them: its guard page is a part of the mapping. */
static int set_guarded_stack(pthread_attr_t *attributes)
{
    char *stack =
        mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (stack == MAP_FAILED || madvise(stack, (size_t)page_bytes, GUARD_INSTALL) < 0)
        return 1;
    return pthread_attr_setstack(attributes, stack + page_bytes, 2 * MIB - (size_t)page_bytes);
}

static int begin_threads(bool are_guarded)
{
    static pthread_barrier_t ready;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_barrier_init(&ready, NULL, 9);
    pthread_attr_init(&attributes);
    for (int i = 0; i < 8; i++) {
        if ((are_guarded && set_guarded_stack(&attributes) != 0) ||
            pthread_create(&thread, &attributes, touch_stack, &ready) != 0)
            return 1;
    }
    pthread_barrier_wait(&ready);
    return 0;
}

static int map_and_touch(int flags, bool by_syscall)
{
    const int protection = PROT_READ | PROT_WRITE;
    char *memory = by_syscall ? (char *)syscall(SYS_mmap, NULL, 50 * MIB, protection, flags, -1, 0)
                              : mmap(NULL, 50 * MIB, protection, flags, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    memset(memory, 1, 30 * MIB);
    return 0;
}

/* 40 MB in small pieces, of which every fourth stays: the others are on free lists. */
static int fragment(void)
{
    enum { PIECES = 200000, PIECE = 200 };
    static void *pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE);
        if (pieces[i] == NULL)
            return 1;
        memset(pieces[i], 1, PIECE);
    }
    for (int i = 0; i < PIECES; i++) {
        if (i % 4 != 0)
            free(pieces[i]);
    }
    return 0;
}

/* Advice for a part of a block divides its mapping, as NumPy's for huge pages does. */
static int keep_untouched(bool with_advice)
{
    static char *volatile block;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    block = malloc(40 * MIB);
    if (block == NULL)
        return 1;
    char *whole_pages = block + (page - (size_t)block % page);
    if (with_advice && madvise(whole_pages, 20 * MIB, MADV_DONTFORK) != 0)
        return 1;
    memset(block, 1, 10 * MIB);
    return 0;
}

static int round_up(void)
{
    /* 24 bytes of each 32 are usable, and 17 are requested. */
    for (int i = 0; i < 100000; i++) {
        char *volatile piece = malloc(17);
        if (piece == NULL)
            return 1;
        piece[0] = 1;
    }
    return 0;
}

/* Many calls, and little memory. */
static int repeat(void)
{
    for (int i = 0; i < 300000; i++) {
        char *volatile piece = malloc(100);
        if (piece == NULL)
            return 1;
        piece[0] = 1;
        free(piece);
    }
    return 0;
}

/* Blocks that are only read, but for one page of each. */
static int only_read(void)
{
    enum { BLOCKS = 100, BLOCK = 384000, PAGE = 4096 };
    for (int i = 0; i < BLOCKS; i++) {
        volatile char *block = calloc(1, BLOCK);
        if (block == NULL)
            return 1;
        for (int at = 0; at < BLOCK; at += PAGE)
            (void)block[at];
        block[0] = 1;
    }
    return 0;
}

/* 4 MB in small pieces, of which the last stays: an arena gives no memory below it back. */
static void *fill_arena(void *ready)
{
    enum { PIECES = 4000, PIECE = 1000 };
    static _Thread_local void *pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE);
        if (pieces[i] != NULL)
            memset(pieces[i], 1, PIECE);
    }
    pthread_barrier_wait(ready);
    for (int i = 0; i < PIECES - 1; i++)
        free(pieces[i]);
    pthread_barrier_wait(ready);
    pause();
    return NULL;
}

static int fill_arenas(void)
{
    static pthread_barrier_t ready;
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, 13);
    for (int i = 0; i < 12; i++) {
        if (pthread_create(&thread, NULL, fill_arena, &ready) != 0)
            return 1;
    }
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&ready);
    return 0;
}

/* 60 MB that are given back, in the second step or at once. */
static int give_back(bool in_steps)
{
    char *volatile block = malloc(60 * MIB);
    if (block == NULL)
        return 1;
    memset(block, 1, 60 * MIB);
    if (in_steps) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    free(block);
    return 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    int code = strcmp(kind, "threads") == 0     ? begin_threads(false)
               : strcmp(kind, "guarded") == 0   ? begin_threads(true)
               : strcmp(kind, "mapped") == 0    ? map_and_touch(MAP_PRIVATE | MAP_ANONYMOUS, false)
               : strcmp(kind, "syscall") == 0   ? map_and_touch(MAP_PRIVATE | MAP_ANONYMOUS, true)
               : strcmp(kind, "shared") == 0    ? map_and_touch(MAP_SHARED | MAP_ANONYMOUS, false)
               : strcmp(kind, "freed") == 0     ? fragment()
               : strcmp(kind, "untouched") == 0 ? keep_untouched(false)
               : strcmp(kind, "advised") == 0   ? keep_untouched(true)
               : strcmp(kind, "rounded") == 0   ? round_up()
               : strcmp(kind, "repeated") == 0  ? repeat()
               : strcmp(kind, "read") == 0      ? only_read()
               : strcmp(kind, "arenas") == 0    ? fill_arenas()
               : strcmp(kind, "shrunk") == 0    ? give_back(true)
               : strcmp(kind, "passing") == 0   ? give_back(false)
                                                : 2;
    if (code != 0)
        return code;
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
