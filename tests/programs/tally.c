/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates and keeps its own tally of calls and bytes over time, in a file that it maps. So its
 * figures before any moment are known, whichever process was killed at it.
 *
 *     tally FILE MS
 *
 * The file: for each thread ENTRIES of {CLOCK_BOOTTIME ns, calls, bytes}, as a ring buffer; unused
 * entries are zero. After MS milliseconds, or at SIGTERM, it prints the calls of each thread.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define ENTRIES 131072 /* one each 0.5 ms: 65 s, longer than a test looks back on a busy machine */
#define CALLS_OF_ENTRY 20
#define LIVE 64

struct entry {
    _Atomic uint64_t when_ns, calls, bytes;
};

static struct entry *entries;
static uint64_t calls_of[THREADS];
static _Atomic uint64_t end_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void end(int signal)
{
    (void)signal;
    end_ns = 0;
}

__attribute__((noinline)) static void *tally_block(size_t size)
{
    return malloc(size);
}

static void *work(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    const struct timespec pause = {.tv_nsec = 500000};
    void *blocks[LIVE] = {0};
    uint64_t calls = 0, bytes = 0;
    for (size_t entry = 0; now_ns() < end_ns; entry++) {
        for (int i = 0; i < CALLS_OF_ENTRY; i++) {
            size_t size = 16 + calls * 37 % 1000;
            free(blocks[calls % LIVE]);
            blocks[calls % LIVE] = tally_block(size);
            calls++;
            bytes += size;
        }
        /* Write the time last: an entry with a new time is complete. */
        struct entry *noted = &entries[thread * ENTRIES + entry % ENTRIES];
        atomic_store(&noted->when_ns, 0);
        atomic_store(&noted->calls, calls);
        atomic_store(&noted->bytes, bytes);
        atomic_store(&noted->when_ns, now_ns());
        nanosleep(&pause, NULL);
    }
    for (int i = 0; i < LIVE; i++)
        free(blocks[i]);
    calls_of[thread] = calls;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    size_t bytes = sizeof(struct entry) * ENTRIES * THREADS;
    if (argc < 3)
        return 2;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return 2;
    entries = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (entries == MAP_FAILED)
        return 2;
    end_ns = now_ns() + strtoull(argv[2], NULL, 10) * 1000000u;
    signal(SIGTERM, end);
    if (pthread_create(&thread, NULL, work, (void *)1) != 0)
        return 2;
    work(NULL);
    pthread_join(thread, NULL);
    printf("%llu %llu\n", (unsigned long long)calls_of[0], (unsigned long long)calls_of[1]);
    return 0;
}
