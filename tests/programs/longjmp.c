/* SPDX-License-Identifier: Apache-2.0 */
/* longjmp over frames that allocate, and siglongjmp out of handlers that allocate, on the
 * interrupted stack and on an alternate one. */
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "truth.h"

enum { ROUNDS = 2000, STACK = 64 << 10 };

static jmp_buf back;
static sigjmp_buf recover;
static volatile int *forbidden;

static CALLSITE void *allocate_before_jump(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_handler(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void descend(int depth)
{
    void *block = allocate_before_jump(50);
    if (depth == 0) {
        free(block);
        longjmp(back, 1);
    }
    free(block);
    descend(depth - 1);
    kept(NULL);
}

static void on_fault(int number)
{
    (void)number;
    free(allocate_in_handler(70));
    siglongjmp(recover, 1);
}

static CALLSITE void fault_often(int flags)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = flags};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < ROUNDS; i++) {
        if (!sigsetjmp(recover, 1))
            *forbidden = 1;
    }
}

int main(void)
{
    static char memory[STACK] __attribute__((aligned(16)));
    stack_t stack = {.ss_sp = memory, .ss_size = STACK};
    sigaltstack(&stack, NULL);
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (volatile int i = 0; i < ROUNDS; i++) {
        if (!setjmp(back))
            descend(9);
    }
    fault_often(0);
    fault_often(SA_ONSTACK);
    truth("allocate_before_jump", 50ull * 10 * ROUNDS, 10 * ROUNDS);
    truth("allocate_in_handler", 70ull * 2 * ROUNDS, 2 * ROUNDS);
    return 0;
}
