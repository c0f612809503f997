/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter of system call filters, on programs of libseccomp and systemd and on invalid
 * ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "recorder/attach/seccomp_filter.h"

#define ARCHITECTURE 0xc000003eu
#define OTHER_ARCHITECTURE 0x40000003u

#define COUNT(program) (sizeof(program) / sizeof((program)[0]))
#define NUMBER offsetof(struct seccomp_data, nr)
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))

static uint32_t run(const struct sock_filter *program, size_t length, int number, uint64_t first,
                    uint64_t third)
{
    struct seccomp_data data = {.nr = number, .arch = ARCHITECTURE, .args = {first, 0, third}};
    return seccomp_filter_run(program, length, &data);
}

static void test_denied_number(void **state)
{
    (void)state;
    const struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    assert_int_equal(run(program, COUNT(program), SYS_mmap, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(run(program, COUNT(program), SYS_socketpair, 0, 0), SECCOMP_RET_KILL_PROCESS);
    struct seccomp_data other = {.nr = SYS_mmap, .arch = OTHER_ARCHITECTURE};
    assert_int_equal(seccomp_filter_run(program, COUNT(program), &other), SECCOMP_RET_KILL_PROCESS);
}

/* RestrictAddressFamilies= and MemoryDenyWriteExecute= check arguments. */
static void test_arguments(void **state)
{
    (void)state;
    const struct sock_filter families[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(0)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 97),
    };
    assert_int_equal(run(families, COUNT(families), SYS_socketpair, AF_UNIX, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(run(families, COUNT(families), SYS_socketpair, AF_INET, 0),
                     SECCOMP_RET_ERRNO | 97);
    const struct sock_filter memory[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    assert_int_equal(run(memory, COUNT(memory), SYS_mmap, 0, PROT_READ | PROT_EXEC),
                     SECCOMP_RET_ALLOW);
    assert_int_equal(run(memory, COUNT(memory), SYS_mmap, 0, PROT_WRITE | PROT_EXEC),
                     SECCOMP_RET_ERRNO | 1);
}

static void test_arithmetic(void **state)
{
    (void)state;
    const struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_IMM, 6),          BPF_STMT(BPF_ST, 3),
        BPF_STMT(BPF_LDX | BPF_MEM, 3),         BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0), /* 36 */
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 4),                                         /* 40 */
        BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 5),                                         /* 8 */
        BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 4),                                         /* 128 */
        BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 3),                                          /* 131 */
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),                                         /* 133 */
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),                                         /* 127 */
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),                                         /* 63 */
        BPF_STMT(BPF_MISC | BPF_TAX, 0),        BPF_STMT(BPF_ALU | BPF_NEG, 0),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), /* 0 */
        BPF_STMT(BPF_MISC | BPF_TXA, 0),        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    assert_int_equal(run(program, COUNT(program), 0, 0, 0), 63);
}

/* The kernel takes X modulo 32: a shift by 36 is a shift by 4. */
static void test_shifts_by_more_than_a_word(void **state)
{
    (void)state;
    const struct sock_filter left[] = {
        BPF_STMT(BPF_LD | BPF_IMM, 3),
        BPF_STMT(BPF_LDX | BPF_IMM, 36),
        BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    const struct sock_filter right[] = {
        BPF_STMT(BPF_LD | BPF_IMM, 0x330),
        BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0), /* 64 */
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_X, 0),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    assert_int_equal(run(left, COUNT(left), 0, 0, 0), 0x30);
    assert_int_equal(run(right, COUNT(right), 0, 0, 0), 0x330);
}

static void test_jumps(void **state)
{
    (void)state;
    const struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_STMT(BPF_LDX | BPF_IMM, 10),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 1),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 2),
        BPF_STMT(BPF_JMP | BPF_JA, 2),
        BPF_STMT(BPF_RET | BPF_K, 2),
        BPF_STMT(BPF_RET | BPF_K, 3),
        BPF_STMT(BPF_RET | BPF_K, 4),
    };
    assert_int_equal(run(program, COUNT(program), 11, 0, 0), 1);
    assert_int_equal(run(program, COUNT(program), 4, 0, 0), 4);
    assert_int_equal(run(program, COUNT(program), 8, 0, 0), 3);
}

static void test_broken_programs(void **state)
{
    (void)state;
    const struct sock_filter endless = BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff);
    const struct sock_filter unaligned = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2);
    const struct sock_filter outside = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64);
    const struct sock_filter no_memory = BPF_STMT(BPF_ST, BPF_MEMWORDS);
    const struct sock_filter no_end = BPF_STMT(BPF_LD | BPF_IMM, 0);
    const struct sock_filter by_zero = BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0);
    const struct sock_filter unknown = {.code = 0xffff};
    const struct sock_filter programs[] = {endless, unaligned, outside, no_memory,
                                           no_end,  by_zero,   unknown};
    for (size_t i = 0; i < COUNT(programs); i++)
        assert_int_equal(run(&programs[i], 1, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(run(programs, 0, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

/* Make a filter that forbids a call with the arguments that its row fixes. Return its length. */
static size_t forbid(enum client_call call, uint32_t verdict, struct sock_filter *filter)
{
    const struct client_call_row *row = &client_calls[call];
    struct {
        size_t offset;
        uint32_t value;
    } tests[7] = {{NUMBER, (uint32_t)row->number}};
    size_t count = 1, length = 0;
    for (size_t i = 0; i < 6; i++) {
        if (!CALL_IS_CHOSEN(row->arguments[i])) {
            tests[count].offset = ARGUMENT(i);
            tests[count++].value = (uint32_t)row->arguments[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t to_end = (uint8_t)(2 * (count - i - 1) + 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, tests[i].offset);
        filter[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, tests[i].value, 0, to_end);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return length;
}

/* Each call of the table is found in a filter that looks at its arguments, for its makers only. */
static void test_each_call(void **state)
{
    (void)state;
    for (unsigned i = 0; i < CLIENT_CALL_COUNT; i++) {
        const struct client_call_row *row = &client_calls[i];
        for (unsigned fails = 0; fails < 2; fails++) {
            struct sock_filter filter[16];
            size_t length =
                forbid(i, fails ? SECCOMP_RET_ERRNO | 1 : SECCOMP_RET_KILL_PROCESS, filter);
            struct client_filter_verdict verdict = {0}, of_others = {0};
            client_filter_check(filter, length, row->makers, &verdict);
            bool is_needed = row->need == CALL_SERIOUS || (!fails && row->need == CALL_BEARABLE);
            assert_int_equal(verdict.forbids, is_needed);
            assert_int_equal(verdict.forbids_copying, row->need == CALL_COPIES);
            assert_int_equal(verdict.forbids_unlocking, row->need == CALL_UNLOCKS);
            if (is_needed)
                assert_int_equal(client_calls[verdict.call].number, row->number);
            client_filter_check(filter, length, 0, &of_others);
            assert_false(of_others.forbids || of_others.forbids_copying);
        }
    }
}

/* Where a call will come from is not known when the filter is asked. */
static void test_filter_of_places(void **state)
{
    (void)state;
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct client_filter_verdict verdict = {0};
    client_filter_check(filter, COUNT(filter), CALL_ATTACHED, &verdict);
    assert_true(verdict.tells_places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_denied_number),   cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_arithmetic),      cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_broken_programs), cmocka_unit_test(test_shifts_by_more_than_a_word),
        cmocka_unit_test(test_each_call),       cmocka_unit_test(test_filter_of_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
