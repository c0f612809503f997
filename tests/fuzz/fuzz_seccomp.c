/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of system call filters against the kernel's. The input becomes a filter, which is
 * installed in a child. The child makes system calls with arguments around the filter's constants;
 * the interpreter must return the same verdicts.
 *
 * The kernel does not return a complete verdict: only the low 12 bits arrive, as an errno. So the
 * child's filter folds the 32 bits of each verdict into an errno. No call is ever executed: every
 * verdict is an errno, or the child's death if a filter divides by zero. The kernel can refuse a
 * filter; then the interpreter only has to terminate.
 */
#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/attach/seccomp_filter.h"

#define INSTRUCTIONS_MAX 64u
#define INSTRUCTION_BYTES 7u
#define CALLS 24u
#define DEAD 1L /* no verdict is positive */

/* Numbers with this bit belong to no system call, whatever a filter permits. */
#define NO_CALL 0x20000000u
#define BITS_OFF 0xc0000000u

/* Lengths of the code before and after the tested filter. */
#define PROLOGUE 4u
#define EPILOGUE 11u

struct call {
    int number;
    uint64_t arguments[6];
    long result; /* from the child */
};

static const uint16_t codes[] = {
    BPF_LD | BPF_W | BPF_ABS,
    BPF_LD | BPF_W | BPF_LEN,
    BPF_LDX | BPF_W | BPF_LEN,
    BPF_LD | BPF_IMM,
    BPF_LDX | BPF_IMM,
    BPF_LD | BPF_MEM,
    BPF_LDX | BPF_MEM,
    BPF_ST,
    BPF_STX,
    BPF_ALU | BPF_ADD | BPF_K,
    BPF_ALU | BPF_ADD | BPF_X,
    BPF_ALU | BPF_SUB | BPF_K,
    BPF_ALU | BPF_SUB | BPF_X,
    BPF_ALU | BPF_MUL | BPF_K,
    BPF_ALU | BPF_MUL | BPF_X,
    BPF_ALU | BPF_DIV | BPF_K,
    BPF_ALU | BPF_DIV | BPF_X,
    BPF_ALU | BPF_AND | BPF_K,
    BPF_ALU | BPF_AND | BPF_X,
    BPF_ALU | BPF_OR | BPF_K,
    BPF_ALU | BPF_OR | BPF_X,
    BPF_ALU | BPF_XOR | BPF_K,
    BPF_ALU | BPF_XOR | BPF_X,
    BPF_ALU | BPF_LSH | BPF_K,
    BPF_ALU | BPF_LSH | BPF_X,
    BPF_ALU | BPF_RSH | BPF_K,
    BPF_ALU | BPF_RSH | BPF_X,
    BPF_ALU | BPF_NEG,
    BPF_MISC | BPF_TAX,
    BPF_MISC | BPF_TXA,
    BPF_JMP | BPF_JA,
    BPF_JMP | BPF_JEQ | BPF_K,
    BPF_JMP | BPF_JEQ | BPF_X,
    BPF_JMP | BPF_JGT | BPF_K,
    BPF_JMP | BPF_JGT | BPF_X,
    BPF_JMP | BPF_JGE | BPF_K,
    BPF_JMP | BPF_JGE | BPF_X,
    BPF_JMP | BPF_JSET | BPF_K,
    BPF_JMP | BPF_JSET | BPF_X,
    BPF_RET | BPF_K,
    BPF_RET | BPF_A,
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

/* Make an instruction that the kernel mostly accepts; the codes after the known ones in the byte's
 * range come from the input. */
static struct sock_filter make_instruction(const uint8_t *bytes, size_t left)
{
    struct sock_filter made = {.jt = bytes[1], .jf = bytes[2]};
    memcpy(&made.k, bytes + 3, 4);
    if (bytes[0] >= 250) {
        made.code = (uint16_t)(bytes[1] | bytes[2] << 8);
        return made;
    }
    made.code = codes[bytes[0] % CODES];
    made.jt = (uint8_t)(made.jt % left);
    made.jf = (uint8_t)(made.jf % left);
    if (made.code == (BPF_JMP | BPF_JA))
        made.k %= (uint32_t)left;
    else if (made.code == (BPF_LD | BPF_W | BPF_ABS))
        made.k = made.k % 16 * 4;
    else if (made.code == (BPF_LD | BPF_MEM) || made.code == (BPF_LDX | BPF_MEM) ||
             made.code == BPF_ST || made.code == BPF_STX)
        made.k %= BPF_MEMWORDS;
    else if (made.code == (BPF_ALU | BPF_LSH | BPF_K) || made.code == (BPF_ALU | BPF_RSH | BPF_K))
        made.k %= 32;
    return made;
}

static uint32_t fold(uint32_t verdict)
{
    return (verdict ^ verdict >> 12 ^ verdict >> 24) & 0xfff;
}

/* Make the filter for the child: exit is permitted, and every verdict becomes an errno. */
static size_t make_folding(struct sock_filter *folding, const struct sock_filter *program,
                           size_t count)
{
    static const struct sock_filter prologue[PROLOGUE] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_IMM, 0),
    };
    static const struct sock_filter epilogue[EPILOGUE] = {
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 12),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
        BPF_STMT(BPF_ST, 0),
        BPF_STMT(BPF_MISC | BPF_TXA, 0),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 24),
        BPF_STMT(BPF_LDX | BPF_MEM, 0),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff),
        BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    memcpy(folding, prologue, sizeof(prologue));
    for (size_t i = 0; i < count; i++) {
        struct sock_filter *at = &folding[PROLOGUE + i];
        *at = program[i];
        if (at->code == (BPF_RET | BPF_K))
            at->k = SECCOMP_RET_ERRNO | fold(at->k);
        else if (at->code == (BPF_RET | BPF_A))
            *at = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(count - i - 1));
    }
    memcpy(folding + PROLOGUE + count, epilogue, sizeof(epilogue));
    return PROLOGUE + count + EPILOGUE;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 24 ^ *state >> 53;
}

/* Return a constant of the filter or a neighbour of it; sometimes any number. */
static uint32_t pick_word(const struct sock_filter *program, size_t count, uint64_t *random)
{
    uint64_t drawn = next_random(random);
    if (drawn % 8 == 0)
        return (uint32_t)next_random(random);
    return program[drawn / 8 % count].k + (uint32_t)(drawn >> 16 & 3) - 1;
}

static void make_calls(struct call calls[CALLS], const struct sock_filter *program, size_t count,
                       uint64_t random)
{
    for (unsigned i = 0; i < CALLS; i++) {
        calls[i].number = (int)((pick_word(program, count, &random) & ~BITS_OFF) | NO_CALL);
        for (int j = 0; j < 6; j++)
            calls[i].arguments[j] = pick_word(program, count, &random) |
                                    (uint64_t)pick_word(program, count, &random) << 32;
        calls[i].result = DEAD;
    }
}

extern const char fuzz_seccomp_after_call[];

__attribute__((noinline)) static long make_call(const struct call *call)
{
    register uint64_t r10 __asm__("r10") = call->arguments[3];
    register uint64_t r8 __asm__("r8") = call->arguments[4];
    register uint64_t r9 __asm__("r9") = call->arguments[5];
    long result;
    __asm__ volatile("syscall\n"
                     ".globl fuzz_seccomp_after_call\n"
                     "fuzz_seccomp_after_call:"
                     : "=a"(result)
                     : "a"((long)call->number), "D"(call->arguments[0]), "S"(call->arguments[1]),
                       "d"(call->arguments[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Return whether every jump of the filter stays inside it. Otherwise it could jump past the
 * folding. */
static bool stays_within(const struct sock_filter *program, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool is_jump = BPF_CLASS(program[i].code) == BPF_JMP;
        uint64_t furthest = program[i].jt > program[i].jf ? program[i].jt : program[i].jf;
        if (is_jump && program[i].code == (BPF_JMP | BPF_JA))
            furthest = program[i].k;
        if (is_jump && i + 1 + furthest >= count)
            return false;
    }
    return true;
}

/* Runs in the child, which shares our memory. */
static void ask(const struct sock_fprog *filter, struct call calls[CALLS], int *refused)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        abort();
    *refused = 0;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, filter) < 0) {
        *refused = errno;
        return;
    }
    for (unsigned i = 0; i < CALLS; i++)
        calls[i].result = make_call(&calls[i]);
}

/* Return whether the kernel accepted the filter. The results of the calls are written. */
static bool ask_kernel(struct sock_filter *filter, size_t count, struct call calls[CALLS])
{
    struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};
    volatile int refused = 0;
    int status;
    /* Before Linux 5.16 a core dump of the child would end all processes that share its memory. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    pid_t child = vfork();
    if (child == 0) {
        ask(&program, calls, (int *)&refused);
        for (;;)
            syscall(SYS_exit_group, 0); /* the sanitizer's _exit would make other calls */
    }
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    if (refused != 0 && refused != EINVAL)
        abort();
    return refused == 0;
}

static void compare(const struct sock_filter *program, size_t count, const struct call *call)
{
    struct seccomp_data data = {
        .nr = call->number,
        .arch = AUDIT_ARCH_X86_64,
        .instruction_pointer = (uintptr_t)fuzz_seccomp_after_call,
    };
    memcpy(data.args, call->arguments, sizeof(data.args));
    uint32_t verdict = seccomp_filter_run(program, count, &data);
    bool same = call->result == DEAD ? verdict == SECCOMP_RET_KILL_PROCESS
                                     : call->result == -(long)fold(verdict);
    if (same)
        return;
    fprintf(stderr, "system call %d: verdict %#x folds to %u, the kernel says %ld\n", call->number,
            verdict, fold(verdict), call->result);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sock_filter program[INSTRUCTIONS_MAX + 1];
    struct sock_filter folding[INSTRUCTIONS_MAX + 1 + PROLOGUE + EPILOGUE];
    struct call calls[CALLS];
    uint64_t random = size;
    size_t count = size / INSTRUCTION_BYTES;
    if (count == 0 || count > INSTRUCTIONS_MAX)
        return 0;
    for (size_t i = 0; i < size; i++)
        random = (random ^ data[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < count; i++)
        program[i] = make_instruction(data + i * INSTRUCTION_BYTES, count - i);
    program[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
    make_calls(calls, program, count, random);
    bool taken = stays_within(program, count) &&
                 ask_kernel(folding, make_folding(folding, program, count), calls);
    for (unsigned i = 0; i < CALLS; i++) {
        if (taken)
            compare(program, count, &calls[i]);
        if (taken && calls[i].result == DEAD)
            break;
    }
    if (!taken) {
        struct seccomp_data nothing = {0};
        seccomp_filter_run(program, count, &nothing);
    }
    return 0;
}
