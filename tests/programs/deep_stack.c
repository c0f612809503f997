/* SPDX-License-Identifier: Apache-2.0 */
/* A recursion of 100,000 frames that allocates at many depths, and a thousand times at its
 * innermost frame. */
#include <pthread.h>

#include "truth.h"

enum { DEPTH = 100000, EVERY = 1000, AT_BOTTOM = 1000 };

static CALLSITE void *allocate_on_the_way(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_at_bottom(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE unsigned descend(unsigned depth)
{
    volatile char ballast[64];
    ballast[depth % 64] = (char)depth;
    if (depth == DEPTH) {
        for (int i = 0; i < AT_BOTTOM; i++)
            free(allocate_at_bottom(128));
        return 0;
    }
    if (depth % EVERY == 0)
        free(allocate_on_the_way(256));
    unsigned below = descend(depth + 1);
    return below + 1 + (unsigned char)(ballast[depth % 64] - (char)depth);
}

static void *run(void *argument)
{
    *(unsigned *)argument = descend(0);
    return NULL;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)256 << 20);
    pthread_t thread;
    unsigned depth = 0;
    require(!pthread_create(&thread, &attributes, run, &depth));
    pthread_join(thread, NULL);
    printf("depth %u\n", depth);
    truth("allocate_on_the_way", 256ull * (DEPTH / EVERY), DEPTH / EVERY);
    truth("allocate_at_bottom", 128ull * AT_BOTTOM, AT_BOTTOM);
    return 0;
}
