/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints everything visible that the C library promises about its allocation functions: results on
 * failure, errno before and after, alignment, usable sizes, contents.
 * The output must be the same with and without the profiler.
 */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "truth.h"

/* C23: missing in some C libraries, but possibly present in the profiler. */
void free_sized(void *block, size_t size) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

static volatile size_t too_much = PTRDIFF_MAX, most = SIZE_MAX, nothing = 0, three = 3,
                       sixty_four = 64;

static void say(const char *what, const void *block, int result)
{
    int kept_errno = errno;
    printf("%-34s %s result %d errno %d\n", what, block ? "block" : "null ", result, kept_errno);
    errno = 4242;
}

static void check_sizes(void)
{
    static const size_t sizes[] = {0,    1,     24,     25,     100,    1000,   4096,
                                   5000, 65536, 100000, 131072, 200000, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *block = malloc(sizes[i]);
        printf("malloc(%zu): usable %zu aligned %d errno %d\n", sizes[i], malloc_usable_size(block),
               (uintptr_t)block % 16 == 0, errno);
        memset(block, 0xa5, malloc_usable_size(block));
        block = realloc(block, sizes[i] * 2 + 1);
        bool same = true;
        for (size_t j = 0; j < sizes[i]; j++)
            same = same && block[j] == 0xa5;
        printf("realloc: usable %zu same %d\n", malloc_usable_size(block), same);
        free(block);
        unsigned char *cleared = calloc(sizes[i] / 4 + 1, 4);
        bool zero = true;
        for (size_t j = 0; j < sizes[i]; j++)
            zero = zero && cleared[j] == 0;
        printf("calloc: usable %zu zero %d errno %d\n", malloc_usable_size(cleared), zero, errno);
        free(cleared);
    }
}

static void check_alignment(void)
{
    for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
        void *block = memalign(alignment, 100);
        printf("memalign(%zu): aligned %d usable %d errno %d\n", alignment,
               (uintptr_t)block % alignment == 0, malloc_usable_size(block) >= 100, errno);
        free(block);
        block = aligned_alloc(alignment, alignment * 2);
        printf("aligned_alloc(%zu): aligned %d errno %d\n", alignment,
               (uintptr_t)block % alignment == 0, errno);
        free(block);
        block = (void *)1;
        int result = posix_memalign(&block, alignment, 100);
        printf("posix_memalign(%zu): result %d touched %d errno %d\n", alignment, result,
               block != (void *)1, errno);
        if (!result)
            free(block);
    }
    void *page = valloc(10), *pages = pvalloc(4097);
    printf("valloc aligned %d, pvalloc aligned %d usable %d\n", (uintptr_t)page % 4096 == 0,
           (uintptr_t)pages % 4096 == 0, malloc_usable_size(pages) >= 8192);
    free(page);
    free(pages);
}

static void check_failures(void)
{
    errno = 4242;
    void *block = malloc(too_much + 1);
    say("malloc(PTRDIFF_MAX + 1)", block, 0);
    block = malloc(most);
    say("malloc(SIZE_MAX)", block, 0);
    block = calloc(too_much, 3);
    say("calloc that overflows", block, 0);
    block = calloc(most, most);
    say("calloc(SIZE_MAX, SIZE_MAX)", block, 0);
    block = calloc(too_much, 1);
    say("calloc(PTRDIFF_MAX, 1)", block, 0);
    block = reallocarray(NULL, too_much, 3);
    say("reallocarray that overflows", block, 0);
    block = memalign(64, too_much);
    say("memalign of too much", block, 0);
    block = memalign(most / 2 + 1, 100);
    say("memalign to 2^63", block, 0);
    block = aligned_alloc(three, 100);
    say("aligned_alloc to 3", block, 0);
    free(block);
    errno = 4242;
    block = aligned_alloc(nothing, 100);
    say("aligned_alloc to 0", block, 0);
    free(block);
    errno = 4242;
    block = aligned_alloc(sixty_four, 100);
    say("aligned_alloc of no multiple", block, 0);
    free(block);
    block = valloc(too_much);
    say("valloc of too much", block, 0);
    block = pvalloc(most - 10);
    say("pvalloc of too much", block, 0);

    static const size_t alignments[] = {0, 1, 2, 4, 7, 8, 24, 48};
    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        block = NULL;
        int result = posix_memalign(&block, alignments[i], 100);
        say("posix_memalign", block, result);
        free(block);
    }
    block = NULL;
    int result = posix_memalign(&block, 64, too_much);
    say("posix_memalign of too much", block, result);
}

static void check_realloc(void)
{
    errno = 4242;
    char *old = malloc(100);
    strcpy(old, "kept");
    void *grown = realloc(old, too_much + 1);
    say("realloc of too much", grown, strcmp(old, "kept"));
    grown = reallocarray(old, too_much, 3);
    say("reallocarray that overflows", grown, strcmp(old, "kept"));
    free(old);
    void *block = realloc(NULL, 10);
    say("realloc(NULL, 10)", block, 0);
    block = realloc(block, 0);
    say("realloc(block, 0)", block, 0);
    block = realloc(NULL, 0);
    say("realloc(NULL, 0)", block, 0);
    free(block);
    block = reallocarray(NULL, 0, 10);
    say("reallocarray(NULL, 0, 10)", block, 0);
    free(block);
    free(NULL);
    say("free(NULL)", NULL, 0);
    printf("usable size of NULL: %zu\n", malloc_usable_size(NULL));
    for (int i = 0; i < 1000; i++) {
        void *first = malloc(10 + (size_t)i * 7);
        free(realloc(first, 1 + (size_t)i * 31 % 5000));
        if (errno != 4242)
            printf("errno became %d in round %d\n", errno, i);
        errno = 4242;
    }
}

static void check_sized_free(void)
{
    errno = 4242;
    for (size_t size = 1; size < 100000; size *= 3) {
        void *block = malloc(size);
        if (free_sized)
            free_sized(block, size);
        else
            free(block);
        block = aligned_alloc(64, size);
        if (free_aligned_sized)
            free_aligned_sized(block, 64, size);
        else
            free(block);
    }
    say("sized free", NULL, 0);
}

static void check_large(void)
{
    errno = 4242;
    char *mapped = malloc((size_t)64 << 20);
    mapped[0] = 1;
    mapped[(64 << 20) - 1] = 2;
    mapped = realloc(mapped, (size_t)128 << 20);
    printf("large: %d %d errno %d\n", mapped[0], mapped[(64 << 20) - 1], errno);
    free(mapped);
    say("large free", NULL, 0);
}

int main(void)
{
    errno = 4242;
    check_sizes();
    check_alignment();
    check_failures();
    check_realloc();
    check_sized_free();
    check_large();
    return 0;
}
