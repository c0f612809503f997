/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers its own limits and continues: no more memory ("memory"), or no descriptors ("files").
 * Allocations above the limit fail as without a profiler. With "data" it only holds 8 MiB, under
 * the limits that it was started with. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "truth.h"

enum { BLOCKS = 2000, LARGE_BLOCKS = 32, LARGE_BYTES = 256 << 10 };

static CALLSITE void *allocate_within(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_beyond(size_t size)
{
    return kept(malloc(size));
}

static void limit(int resource, rlim_t value)
{
    struct rlimit limit = {value, value};
    require(!setrlimit(resource, &limit));
}

static int hold_data(void)
{
    for (int i = 0; i < LARGE_BLOCKS; i++)
        require(allocate_within(LARGE_BYTES));
    truth("allocate_within", LARGE_BLOCKS * LARGE_BYTES, LARGE_BLOCKS);
    return 0;
}

/* Leave free memory in the heap, below a block that stays: no allocator gives it back. */
static void make_room(void)
{
    void *room[40];
    for (int i = 0; i < 40; i++) {
        require((room[i] = malloc(100 << 10)));
        memset(room[i], 1, 100 << 10);
    }
    require(malloc(100));
    for (int i = 0; i < 40; i++)
        free(room[i]);
}

int main(int argc, char **argv)
{
    require(argc == 2);
    if (!strcmp(argv[1], "data"))
        return hold_data();
    make_room();
    if (!strcmp(argv[1], "memory"))
        limit(RLIMIT_AS, 1 << 20);
    else
        limit(RLIMIT_NOFILE, 0);
    static void *blocks[BLOCKS];
    unsigned long long calls = 0;
    for (int i = 0; i < BLOCKS; i++, calls++)
        require((blocks[i] = allocate_within(32)));
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    if (!strcmp(argv[1], "memory")) {
        errno = 0;
        void *block = allocate_beyond((size_t)1 << 30);
        printf("beyond: %s\n", block ? "given" : strerror(errno));
    } else {
        errno = 0;
        int descriptor = open("/dev/null", O_RDONLY);
        printf("open: %d %s\n", descriptor, strerror(errno));
    }
    truth("allocate_within", 32 * calls, calls);
    return 0;
}
