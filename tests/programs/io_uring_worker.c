/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_uring_worker [poll]: a thread of the kernel's reads from a pipe for the program, or with
 * "poll" looks for requests (SQPOLL), while the program sleeps in calls that the kernel restarts.
 * Prints "waiting". After SIGTERM the program writes to the pipe, and prints "ok" if the read
 * succeeded. Exits with 77 if the kernel permits no io_uring.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

static volatile sig_atomic_t is_over;

static struct {
    int fd;
    struct io_uring_params params;
    char *submissions, *completions;
    struct io_uring_sqe *entries;
} ring;

static void end(int signal)
{
    (void)signal;
    is_over = 1;
}

static void *map_ring(size_t bytes, off_t offset)
{
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);
    require(at != MAP_FAILED);
    return at;
}

static void open_ring(int is_polled)
{
    if (is_polled) {
        ring.params.flags = IORING_SETUP_SQPOLL;
        ring.params.sq_thread_idle = 1000000;
    }
    ring.fd = (int)syscall(SYS_io_uring_setup, 8, &ring.params);
    if (ring.fd < 0) {
        printf("io_uring_setup: %s\n", strerror(errno));
        exit(77);
    }
    const struct io_uring_params *params = &ring.params;
    ring.submissions =
        map_ring(params->sq_off.array + params->sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    ring.completions = map_ring(
        params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring.entries = map_ring(params->sq_entries * sizeof(*ring.entries), IORING_OFF_SQES);
}

static uint32_t *word_of(char *part, uint32_t offset)
{
    return (uint32_t *)(void *)(part + offset);
}

/* Have a worker read one byte. */
static void begin_read(int fd, char *byte)
{
    ring.entries[0] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ,
        .flags = IOSQE_ASYNC,
        .fd = fd,
        .addr = (uint64_t)(uintptr_t)byte,
        .len = 1,
    };
    *word_of(ring.submissions, ring.params.sq_off.array) = 0;
    __atomic_store_n(word_of(ring.submissions, ring.params.sq_off.tail), 1, __ATOMIC_RELEASE);
    /* The kernel's thread may sleep already, before the first request. */
    bool is_polled = (ring.params.flags & IORING_SETUP_SQPOLL) != 0;
    unsigned flags = is_polled ? IORING_ENTER_SQ_WAKEUP : 0;
    require(syscall(SYS_io_uring_enter, ring.fd, 1, 0, flags, NULL, 0) == 1);
}

/* Return the result of the read. */
static int finish_read(void)
{
    while (__atomic_load_n(word_of(ring.completions, ring.params.cq_off.tail), __ATOMIC_ACQUIRE) ==
           0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const char *first = ring.completions + ring.params.cq_off.cqes;
    return ((const struct io_uring_cqe *)(const void *)first)->res;
}

int main(int argc, char **argv)
{
    int ends[2];
    char byte = 0;
    (void)argv;
    signal(SIGTERM, end);
    require(pipe(ends) == 0);
    open_ring(argc > 1);
    begin_read(ends[0], &byte);
    puts("waiting");
    fflush(stdout);
    while (!is_over) {
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
        free(kept(malloc(10000)));
    }
    require(write(ends[1], "x", 1) == 1);
    int result = finish_read();
    if (result != 1 || byte != 'x') {
        printf("the worker's read: %d\n", result);
        return 1;
    }
    puts("ok");
    return 0;
}
