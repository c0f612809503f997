/* SPDX-License-Identifier: Apache-2.0 */
/* Repeatedly closes all descriptors except the standard ones, opens its own under the same numbers,
 * and checks that these stay untouched. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "truth.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* headers before Linux 5.9 lack it */
#endif

enum { ROUNDS = 200, FILES = 20 };

static CALLSITE void *allocate_between(size_t size)
{
    return kept(malloc(size));
}

static void *allocate_in_new_thread(void *argument)
{
    free(allocate_between(100));
    return argument;
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 2)
            syscall(SYS_close_range, 3u, ~0u, 0u);
        else
            for (int descriptor = 3; descriptor < 256; descriptor++)
                close(descriptor);
        void *block = allocate_between(1000);

        int files[FILES][2];
        for (int i = 0; i < FILES; i++) {
            require(!pipe(files[i]));
            require(files[i][0] == 3 + 2 * i);
        }
        pthread_t thread;
        require(!pthread_create(&thread, NULL, allocate_in_new_thread, NULL));
        pthread_join(thread, NULL);
        for (int i = 0; i < FILES; i++) {
            char letter = (char)('a' + i), back = 0;
            require(write(files[i][1], &letter, 1) == 1);
            require(fcntl(files[i][0], F_SETFL, O_NONBLOCK) == 0);
            require(read(files[i][0], &back, 1) == 1 && back == letter);
            require(read(files[i][0], &back, 1) == -1);
        }
        free(block);
    }
    truth("allocate_between", (1000ull + 100) * ROUNDS, 2 * ROUNDS);
    return 0;
}
