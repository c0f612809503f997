/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends 4,000 threads, by return, pthread_exit and cancellation; their thread-specific
 * destructors allocate, too. */
#include <pthread.h>
#include <unistd.h>

#include "truth.h"

enum { THREADS = 4000, TOGETHER = 8 };

static pthread_key_t key;

static CALLSITE void *allocate_in_thread(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_destructor(size_t size)
{
    return kept(malloc(size));
}

static void destroy(void *value)
{
    free(value);
    free(allocate_in_destructor(33));
}

static void *run(void *argument)
{
    size_t self = (size_t)argument;
    pthread_setspecific(key, allocate_in_thread(100));
    free(allocate_in_thread(200));
    if (self % 4 == 1)
        pthread_exit(NULL);
    if (self % 4 == 2) {
        for (;;)
            pause();
    }
    return NULL;
}

int main(void)
{
    require(!pthread_key_create(&key, destroy));
    for (size_t i = 0; i < THREADS; i += TOGETHER) {
        pthread_t threads[TOGETHER];
        for (size_t j = 0; j < TOGETHER; j++)
            require(!pthread_create(&threads[j], NULL, run, (void *)j));
        for (size_t j = 0; j < TOGETHER; j++) {
            if (j % 4 == 2)
                pthread_cancel(threads[j]);
            pthread_join(threads[j], NULL);
        }
    }
    /* A cancelled thread may not have reached its first allocation. */
    puts("4000 threads came and went");
    return 0;
}
