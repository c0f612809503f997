/* SPDX-License-Identifier: Apache-2.0 */
/* Prints "begun", allocates steadily for about three seconds, and prints a checksum. The profiler
 * may be killed or stopped meanwhile. */
#include <time.h>

#include "truth.h"

enum { ROUNDS = 300, PER_ROUND = 2000, LIVE = 512 };

static CALLSITE unsigned char *allocate_steadily(size_t size)
{
    return kept(malloc(size));
}

int main(void)
{
    static unsigned char *live[LIVE];
    unsigned long sum = 0;
    puts("begun");
    fflush(stdout);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned j = 0; j < PER_ROUND; j++) {
            unsigned slot = (i * PER_ROUND + j) * 2654435761u % LIVE;
            if (live[slot])
                sum += *live[slot];
            free(live[slot]);
            live[slot] = allocate_steadily(1 + j);
            *live[slot] = (unsigned char)j;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    printf("sum %lu\n", sum);
    return 0;
}
