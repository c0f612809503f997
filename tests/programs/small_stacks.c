/* SPDX-License-Identifier: Apache-2.0 */
/* Threads on stacks of 16 KiB, glibc's minimum, next to an inaccessible page. They check that an
 * allocation does not touch the stack below a margin. */
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "truth.h"

enum { THREADS = 200, BLOCKS = 50, STACK = 16 << 10 };

static CALLSITE void *allocate_in_thread(size_t size)
{
    return kept(malloc(size));
}

static void *run(void *argument)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *block = allocate_in_thread(300);
        block = realloc(block, 600);
        free(block);
    }
    return argument;
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, page + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED);
    require(!mprotect(memory + page, STACK, PROT_READ | PROT_WRITE));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    require(!pthread_attr_setstack(&attributes, memory + page, STACK));
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        require(!pthread_create(&thread, &attributes, run, NULL));
        pthread_join(thread, NULL);
    }
    truth("allocate_in_thread", 300ull * THREADS * BLOCKS, THREADS * BLOCKS);
    return 0;
}
