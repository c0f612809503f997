/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the attacher writes to a thread's shadow stack. The kernel's two requests and the thread's
 * memory are made by hand: few machines have a shadow stack. A model of what the processor and the
 * kernel do with it, when the thread returns through its frame, is the judge.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/tracee.h"
#include "uint_in_range.h"

#define SIGRETURN UINT64_C(0x7f0012345678)
#define WORDS 16u
#define BOTTOM UINT64_C(0x7f5500000000) /* address of memory[0] */

static uint64_t memory[WORDS], pointer; /* 0: the thread has no shadow stack */
static unsigned requests, writes;

long tracee_request(int request, pid_t tid, void *address, void *data)
{
    const struct iovec *vector = data;
    assert_int_equal(tid, 5);
    assert_int_equal((uintptr_t)address, 0x204);
    assert_int_equal(vector->iov_len, sizeof(pointer));
    requests++;
    if (pointer == 0)
        return -ENODEV;
    if (request == PTRACE_GETREGSET)
        memcpy(vector->iov_base, &pointer, sizeof(pointer));
    else
        memcpy(&pointer, vector->iov_base, sizeof(pointer));
    return 0;
}

int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes)
{
    (void)tracee;
    assert_uint_in_range(address, BOTTOM, BOTTOM + sizeof(memory) - bytes);
    memcpy((uint8_t *)memory + (address - BOTTOM), from, bytes);
    writes++;
    return 0;
}

static struct tracee_thread worker = {.tid = 5};

static struct tracee begin(uint64_t frame)
{
    memset(memory, 0x77, sizeof(memory));
    pointer = BOTTOM + 8 * sizeof(uint64_t);
    requests = writes = 0;
    return (struct tracee){.worker = &worker, .sigreturn = SIGRETURN, .worker_frame = frame};
}

static uint64_t pop(void)
{
    uint64_t word = memory[(pointer - BOTTOM) / sizeof(word)];
    pointer += sizeof(word);
    return word;
}

static void a_killed_attachers_thread_returns(void **state)
{
    (void)state;
    struct tracee tracee = begin(0x1000);
    uint64_t own = pointer;
    assert_int_equal(shadow_stack_enter(&tracee), 0);
    /* ret */
    assert_int_equal(pop(), SIGRETURN);
    /* rt_sigreturn */
    uint64_t token = pop();
    assert_int_equal(token >> 63, 1);
    assert_int_equal(token & ~(UINT64_C(1) << 63), own);
    assert_int_equal(memory[8], UINT64_C(0x7777777777777777));
}

static void its_pointer_comes_back(void **state)
{
    (void)state;
    struct tracee tracee = begin(0x1000);
    uint64_t own = pointer;
    assert_int_equal(shadow_stack_enter(&tracee), 0);
    assert_int_not_equal(pointer, own);
    shadow_stack_leave(&tracee);
    assert_int_equal(pointer, own);
}

static void other_threads_are_left_alone(void **state)
{
    (void)state;
    struct tracee tracee = begin(0x1000);
    pointer = 0;
    assert_int_equal(shadow_stack_enter(&tracee), 0);
    shadow_stack_leave(&tracee);
    assert_int_equal(requests, 1);
    /* Without a frame there is nothing to return to. */
    tracee = begin(0);
    assert_int_equal(shadow_stack_enter(&tracee), 0);
    shadow_stack_leave(&tracee);
    assert_int_equal(requests, 0);
    assert_int_equal(writes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_attachers_thread_returns),
        cmocka_unit_test(its_pointer_comes_back),
        cmocka_unit_test(other_threads_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
