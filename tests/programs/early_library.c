/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose indirect function is resolved while the loader relocates it. At that time the
 * loader has not relocated all other libraries. The resolver allocates, frees, and keeps blocks.
 */
#include <string.h>
#include <sys/mman.h>

#include "truth.h"

int early_call(void);
void early_free(void);

static void *kept_blocks[4];
static int result;

static int call(void)
{
    return result;
}

typedef int (*function)(void);

/* Each function of malloc's family, before and after the first block is freed. */
static __attribute__((used)) function resolve(void)
{
    free(NULL);
    free(kept(malloc(100)));
    kept_blocks[0] = kept(malloc(1000));
    kept_blocks[1] = kept(calloc(10, 100));
    kept_blocks[2] = kept(realloc(realloc(NULL, 50), 5000));
    if (posix_memalign(&kept_blocks[3], 64, 200))
        return NULL;
    free(kept(aligned_alloc(64, 128)));
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || munmap(page, 4096))
        return NULL;
    memset(kept_blocks[2], 1, 5000);
    for (int i = 0; i < 4; i++)
        result += kept_blocks[i] != NULL;
    return call;
}

static int pick(void) __attribute__((ifunc("resolve")));

int early_call(void)
{
    return pick();
}

void early_free(void)
{
    for (int i = 0; i < 4; i++)
        free(kept_blocks[i]);
}
