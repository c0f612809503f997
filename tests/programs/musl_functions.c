/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the functions by which musl's library allocates through other functions of its own. Each
 * request must count once, and keep its meaning: blocks of calloc are zero and not in memory before
 * they are used, and errors are musl's.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

enum { CALLS = 200, LARGE = 64 << 20 };

static CALLSITE void *by_calloc(size_t count, size_t size)
{
    return kept(calloc(count, size));
}

static CALLSITE void *by_memalign(size_t alignment, size_t size)
{
    return kept(memalign(alignment, size));
}

static CALLSITE void *by_posix_memalign(size_t alignment, size_t size)
{
    void *block = NULL;
    errno = 0;
    require(!posix_memalign(&block, alignment, size) && errno == 0);
    return kept(block);
}

static CALLSITE void *by_aligned_alloc(size_t alignment, size_t size)
{
    return kept(aligned_alloc(alignment, size));
}

static CALLSITE void *by_valloc(size_t size)
{
    return kept(valloc(size));
}

static CALLSITE void *by_reallocarray(void *block, size_t count, size_t size)
{
    return kept(reallocarray(block, count, size));
}

static CALLSITE void *by_realloc(void *block, size_t size)
{
    return kept(realloc(block, size));
}

static void require_zeros(const char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        require(block[i] == 0);
}

static long resident_pages(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    require(file && fgets(text, sizeof(text), file));
    fclose(file);
    return atol(strchr(text, ' '));
}

/* Dirty blocks of many sizes, free them, and find zeros in those that calloc gives. */
static unsigned long long check_zeros(unsigned long long *calls)
{
    static const size_t sizes[] = {1, 15, 300, 4095, 4096, 9000, 60000, 131052, 200000, 1 << 20};
    unsigned long long bytes = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int round = 0; round < 4; round++) {
            char *dirty = malloc(sizes[i]);
            memset(dirty, 0xa5, sizes[i]);
            free(kept(dirty));
            char *block = by_calloc(1, sizes[i]);
            require_zeros(block, sizes[i]);
            memset(block, 0x5a, sizes[i]);
            free(block);
            bytes += sizes[i];
            ++*calls;
        }
    }
    return bytes;
}

static void check_errors(void)
{
    void *block = &block;
    errno = 0;
    require(!by_calloc(SIZE_MAX / 2, 3) && errno == ENOMEM);
    errno = 0;
    require(!by_memalign(24, 100) && errno == EINVAL);
    require(posix_memalign(&block, 4, 100) == EINVAL && block == &block);
    errno = 0;
    require(!by_reallocarray(NULL, SIZE_MAX / 2, 3) && errno == ENOMEM);
}

int main(void)
{
    unsigned long long calls = 0;
    for (size_t i = 1; i <= CALLS; i++) {
        void *aligned[] = {by_memalign(256, i), by_posix_memalign(512, i), by_aligned_alloc(64, i),
                           by_valloc(i)};
        require((uintptr_t)aligned[0] % 256 == 0 && (uintptr_t)aligned[1] % 512 == 0 &&
                (uintptr_t)aligned[2] % 64 == 0 && (uintptr_t)aligned[3] % 4096 == 0);
        for (int k = 0; k < 4; k++)
            free(aligned[k]);
        free(by_realloc(by_reallocarray(NULL, i, 8), 3 * i));
    }
    unsigned long long bytes = check_zeros(&calls);
    check_errors();

    long before = resident_pages();
    char *large = by_calloc(LARGE / 64, 64);
    require(resident_pages() - before < 100);
    require(large[LARGE - 1] == 0);
    free(large);

    unsigned long long sum = CALLS * (CALLS + 1) / 2;
    truth("by_calloc", bytes + LARGE, calls + 1);
    truth("by_memalign", sum, CALLS);
    truth("by_posix_memalign", sum, CALLS);
    truth("by_aligned_alloc", sum, CALLS);
    truth("by_valloc", sum, CALLS);
    truth("by_reallocarray", 8 * sum, CALLS);
    truth("by_realloc", 3 * sum, CALLS);
    return 0;
}
