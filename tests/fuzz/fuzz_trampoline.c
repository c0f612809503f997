/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions before and after attaching patches their entries: both are run, and must end with the
 * same registers, flags, stack and memory, or with the same fault at the same instruction.
 *
 * The input is three bytes that select a run, and the function's first bytes:
 *  - from start to end;
 *  - a thread is after its k-th instruction while the function is patched (trampoline_enter);
 *  - a thread is in the k-th instruction of the trampoline while the patch is removed
 *    (trampoline_leave).
 * The code around the function is int3, so that every branch out of it is seen.
 *
 * trampoline_inputs.c decides which instructions are run. A first run single-steps and checks each
 * instruction before its execution. An input is skipped if an instruction would access code, which
 * differs between the runs, or this program's own memory, which may change in between: only the
 * data is the same at the start of each run.
 *
 * Code and data are at separate low addresses. A filter refuses every system call from there. This
 * program is not built with AddressSanitizer, whose shadow would be within reach of the code.
 */
#include <Zydis/Zydis.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "recorder/attach/trampoline.h"
#include "trampoline_inputs.h"

#define NEAR_TRAMPOLINE UINT64_C(0x18000000)
#define FAR_TRAMPOLINE UINT64_C(0x70000000)
#define CODE_END UINT64_C(0x7fff0000)

#define CODE_BYTES 0x1000u
#define DATA_BYTES 0x2000u
#define HEAD_BYTES 3u
#define STEPS_MAX 32u
#define INT3 0xcc

/* Limit of the distance of an operand's first and last byte from its address: FXRSTOR reads 512
 * bytes, and the address of a push is the stack pointer before it. */
#define OPERAND_REACH 1024u
/* Below this address there is only memory that this file maps. */
#define OWN_MEMORY (UINT64_C(1) << 44)
#define USER_END (UINT64_C(1) << 47)
/* The part of the thread's control block that does not change; the stack protector reads it. */
#define CONTROL_BLOCK_BYTES 0x38u

#define TRAP_FLAG UINT64_C(0x100)
#define FLAGS UINT64_C(0xcd5) /* carry, parity, adjust, zero, sign, direction, overflow */

enum way { WHOLE, LOOK, ENTER, LEAVE };

/* The state at the end of a run. */
struct outcome {
    int signal;
    uint64_t fault; /* address of SIGSEGV and SIGBUS */
    greg_t registers[NGREG];
    uint8_t floating[512]; /* in FXSAVE's format */
    uint8_t upper[256];    /* upper halves of the vector registers, which FXSAVE omits */
    uint8_t data[DATA_BYTES];
};

/* The current run. */
static struct {
    bool active;
    enum way way;
    unsigned steps, switch_at; /* switch_at: after this many instructions */
    uint64_t next;             /* LOOK: address after the last instruction */
    bool left_out;             /* LOOK: the input cannot be compared */
    const struct trampoline *trampoline;
    struct outcome *outcome;
} run;

static struct sigaction old_actions[NSIG];
static sigset_t others; /* signals that no instruction causes */
static uint8_t floating_state[512] __attribute__((aligned(16)));
static uint8_t initial_data[DATA_BYTES];
static uint64_t initial_registers[16]; /* in the order of fuzz_trampoline_start */

/* Return address of fuzz_trampoline_start, and its stack pointer. */
uint64_t fuzz_trampoline_stack;
extern const char fuzz_trampoline_end[];
extern uint64_t fuzz_trampoline_target, fuzz_trampoline_flags;
extern uint8_t fuzz_trampoline_has_avx;
uint64_t fuzz_trampoline_target, fuzz_trampoline_flags;
uint8_t fuzz_trampoline_has_avx;

/* Load all registers and jump to the target; return when the signal handler arranges it. */
void fuzz_trampoline_start(const uint64_t registers[16], const uint8_t *floating);
__asm__(".text\n"
        ".globl fuzz_trampoline_start\n"
        ".type fuzz_trampoline_start, @function\n"
        "fuzz_trampoline_start:\n"
        "  push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "  mov %rsp, fuzz_trampoline_stack(%rip)\n"
        "  cmpb $0, fuzz_trampoline_has_avx(%rip)\n"
        "  je 1f\n"
        "  vzeroupper\n"
        "1: fxrstor64 (%rsi)\n"
        "  mov 0(%rdi), %rax\n mov 8(%rdi), %rbx\n mov 16(%rdi), %rcx\n mov 24(%rdi), %rdx\n"
        "  mov 32(%rdi), %rsi\n mov 48(%rdi), %rbp\n"
        "  mov 64(%rdi), %r8\n mov 72(%rdi), %r9\n mov 80(%rdi), %r10\n mov 88(%rdi), %r11\n"
        "  mov 96(%rdi), %r12\n mov 104(%rdi), %r13\n mov 112(%rdi), %r14\n mov 120(%rdi), %r15\n"
        "  pushq fuzz_trampoline_flags(%rip)\n"
        "  popfq\n"
        "  mov 56(%rdi), %rsp\n"
        "  mov 40(%rdi), %rdi\n"
        "  jmp *fuzz_trampoline_target(%rip)\n"
        ".globl fuzz_trampoline_end\n"
        "fuzz_trampoline_end:\n"
        "  pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "  ret\n"
        ".size fuzz_trampoline_start, . - fuzz_trampoline_start\n");

/* --- check of an instruction before its execution --- */

static uint64_t register_value(ZydisRegister name, const greg_t *registers)
{
    static const int by_number[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                    REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                    REG_R12, REG_R13, REG_R14, REG_R15};
    if (name == ZYDIS_REGISTER_NONE)
        return 0;
    if (name == ZYDIS_REGISTER_RIP)
        return run.next;
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
    if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
        input_fail("an address by a register that is none of the sixteen");
    uint64_t value = (uint64_t)registers[by_number[whole - ZYDIS_REGISTER_RAX]];
    unsigned bits = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, name);
    return bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value;
}

static bool is_in(uint64_t address, uint64_t code)
{
    return address + OPERAND_REACH >= code && address < code + CODE_BYTES + OPERAND_REACH;
}

static bool is_code(uint64_t address)
{
    return is_in(address, CODE) || is_in(address, NEAR_TRAMPOLINE) ||
           is_in(address, FAR_TRAMPOLINE);
}

/* Return whether the operand is the same in each run: in the data, or unmapped. */
static bool may_access(const ZydisDecodedInstruction *decoded, const ZydisDecodedOperand *operand,
                       const greg_t *registers)
{
    uint64_t address = (uint64_t)operand->mem.disp.value +
                       register_value(operand->mem.base, registers) +
                       register_value(operand->mem.index, registers) * operand->mem.scale;
    if (decoded->address_width == 32)
        address = (uint32_t)address;
    if (operand->mem.segment == ZYDIS_REGISTER_FS)
        return address + operand->size / 8 <= CONTROL_BLOCK_BYTES && address < CONTROL_BLOCK_BYTES;
    return !is_code(address) && (address < OWN_MEMORY || address >= USER_END);
}

/* Return whether the next instruction may be run. */
static bool may_step(const greg_t *registers)
{
    const struct attached_site *site = &run.trampoline->site;
    uint64_t pc = (uint64_t)registers[REG_RIP], last = run.next;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (is_in(pc, NEAR_TRAMPOLINE) || is_in(pc, FAR_TRAMPOLINE))
        return false;
    if (pc < FUNCTION || pc >= site->address + site->length)
        return true; /* int3 */
    if (!input_decode((const uint8_t *)(uintptr_t)pc, INPUT_BYTES_MAX, &decoded, operands))
        return false;
    run.next = pc + decoded.length;
    /* The patched bytes are entered only from above, or by a repeated instruction. */
    if (pc > site->address && pc != last && run.next != last)
        return false;
    for (unsigned i = 0; i < decoded.operand_count; i++) {
        const ZydisDecodedOperand *operand = &operands[i];
        if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
            operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
            continue;
        if (!may_access(&decoded, operand, registers))
            return false;
    }
    return true;
}

/* --- running --- */

static void put(uint64_t address, const uint8_t *bytes, size_t count)
{
    volatile uint8_t *to = (volatile uint8_t *)(uintptr_t)address;
    for (size_t i = 0; i < count; i++)
        to[i] = bytes[i];
}

static void put_patch(const struct trampoline *trampoline, bool patched)
{
    const struct attached_site *site = &trampoline->site;
    put(site->address, patched ? site->patched : site->original, site->length);
}

/* Stop a thread at this point and move it. Return false if the run continues to its switch
 * point. */
static bool switch_code(greg_t *registers)
{
    uint64_t pc = (uint64_t)registers[REG_RIP];
    if (run.way == ENTER) {
        if (run.steps != run.switch_at)
            return false;
        uint64_t to = trampoline_enter(run.trampoline, pc);
        put_patch(run.trampoline, true);
        if (to != 0)
            registers[REG_RIP] = (greg_t)to;
        return true;
    }
    uint64_t to = trampoline_leave(run.trampoline, pc);
    bool inside = pc >= run.trampoline->site.trampoline &&
                  pc < run.trampoline->site.trampoline + run.trampoline->code_bytes;
    if ((to != 0) != inside)
        input_fail("trampoline_leave does not know its own code");
    /* The jumps to the hook and to the trampoline do not belong to the function. */
    if (!inside || run.steps++ != run.switch_at)
        return false;
    put_patch(run.trampoline, false);
    registers[REG_RIP] = (greg_t)to;
    return true;
}

/* Copy the upper halves of the vector registers from a signal's frame. */
static void copy_upper(uint8_t upper[256], const uint8_t *frame)
{
    const size_t size_at = 464, present_at = 512, upper_at = 576; /* in the frame, as by XSAVE */
    const uint64_t upper_bit = 4;
    uint32_t magic;
    uint64_t present;
    memset(upper, 0, 256);
    memcpy(&magic, frame + size_at, sizeof(magic));
    memcpy(&present, frame + present_at, sizeof(present));
    if (fuzz_trampoline_has_avx && magic == FP_XSTATE_MAGIC1 && (present & upper_bit) != 0)
        memcpy(upper, frame + upper_at, 256);
}

static void end_run(int signal, const siginfo_t *info, ucontext_t *context)
{
    struct outcome *outcome = run.outcome;
    greg_t *registers = context->uc_mcontext.gregs;
    outcome->signal = signal;
    outcome->fault = signal == SIGSEGV || signal == SIGBUS ? (uint64_t)(uintptr_t)info->si_addr : 0;
    memcpy(outcome->registers, registers, sizeof(outcome->registers));
    memcpy(outcome->floating, context->uc_mcontext.fpregs, sizeof(outcome->floating));
    copy_upper(outcome->upper, (const uint8_t *)context->uc_mcontext.fpregs);
    memcpy(outcome->data, (const void *)(uintptr_t)DATA, DATA_BYTES);
    memcpy(context->uc_mcontext.fpregs, floating_state, 464); /* the rest belongs to the kernel */
    run.active = false;
    registers[REG_RIP] = (greg_t)(uintptr_t)fuzz_trampoline_end;
    registers[REG_RSP] = (greg_t)fuzz_trampoline_stack;
    registers[REG_EFL] = 0x202;
}

static void on_signal(int signal, siginfo_t *info, void *data)
{
    ucontext_t *context = data;
    greg_t *registers = context->uc_mcontext.gregs;
    if (!run.active) {
        sigaction(signal, &old_actions[signal], NULL);
        return; /* happens again, and the next handler sees it */
    }
    bool is_step = signal == SIGTRAP && info->si_code == TRAP_TRACE;
    uint64_t pc = (uint64_t)registers[REG_RIP];
    if (is_step && (pc < CODE || pc >= CODE_END))
        return; /* not yet there */
    if (is_step && run.way == LOOK)
        run.left_out = run.steps++ > STEPS_MAX || !may_step(registers);
    if (!is_step || run.steps > STEPS_MAX || run.left_out) {
        end_run(signal, info, context);
        return;
    }
    if (run.way == LOOK)
        return;
    if (switch_code(registers))
        registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    else if (run.way == ENTER)
        run.steps++;
}

static void execute(const struct trampoline *trampoline, enum way way, unsigned switch_at,
                    bool patched, struct outcome *outcome)
{
    run.way = way;
    run.steps = 0;
    run.next = 0;
    run.left_out = false;
    run.switch_at = switch_at;
    run.trampoline = trampoline;
    run.outcome = outcome;
    put_patch(trampoline, patched);
    memcpy((void *)(uintptr_t)DATA, initial_data, DATA_BYTES);
    fuzz_trampoline_target = FUNCTION;
    fuzz_trampoline_flags = 0x202 | (way != WHOLE ? TRAP_FLAG : 0);
    run.active = true;
    fuzz_trampoline_start(initial_registers, floating_state);
}

/* --- comparing --- */

static uint64_t in_function(const struct trampoline *trampoline, uint64_t pc)
{
    uint64_t to = trampoline_leave(trampoline, pc);
    return to != 0 ? to : pc;
}

static bool is_same_end(const struct outcome *left, const struct outcome *right)
{
    return left->signal == right->signal && left->fault == right->fault &&
           left->registers[REG_RIP] == right->registers[REG_RIP];
}

static void compare(const struct trampoline *trampoline, const struct outcome *expected,
                    const struct outcome *actual)
{
    static const int compared[] = {REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13,
                                   REG_R14, REG_R15, REG_RDI, REG_RSI, REG_RBP, REG_RBX,
                                   REG_RDX, REG_RAX, REG_RCX, REG_RSP};
    uint64_t pc = (uint64_t)expected->registers[REG_RIP];
    uint64_t got = in_function(trampoline, (uint64_t)actual->registers[REG_RIP]);
    if (expected->signal != actual->signal || expected->fault != actual->fault || pc != got) {
        fprintf(stderr, "signal %d at %#lx for %#lx, but %d at %#lx for %#lx\n", expected->signal,
                pc, expected->fault, actual->signal, got, actual->fault);
        input_fail("it ends otherwise");
    }
    for (size_t i = 0; i < sizeof(compared) / sizeof(compared[0]); i++) {
        if (expected->registers[compared[i]] != actual->registers[compared[i]])
            input_fail("a register differs");
    }
    if (((expected->registers[REG_EFL] ^ actual->registers[REG_EFL]) & (greg_t)FLAGS) != 0) {
        fprintf(stderr, "flags %#llx, but %#llx\n", expected->registers[REG_EFL],
                actual->registers[REG_EFL]);
        input_fail("a flag differs");
    }
    /* Bytes 6 to 24 tell of the last instruction and its operand; the registers are before 416. */
    if (memcmp(expected->floating, actual->floating, 6) != 0 ||
        memcmp(expected->floating + 24, actual->floating + 24, 416 - 24) != 0)
        input_fail("a floating point register differs");
    if (memcmp(expected->upper, actual->upper, sizeof(expected->upper)) != 0)
        input_fail("an upper half of a vector register differs");
    if (memcmp(expected->data, actual->data, DATA_BYTES) != 0)
        input_fail("memory differs");
}

/* --- initialization --- */

static void map(uint64_t address, size_t bytes, int protection)
{
    void *at = mmap((void *)(uintptr_t)address, bytes, protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (void *)(uintptr_t)address)
        input_fail("its addresses are taken");
}

/* Answer system calls from the code with a signal. */
static void refuse_system_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)CODE_END, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        input_fail("no filter of system calls");
}

static void set_up(void)
{
    static const int signals[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};
    static uint8_t stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_sigaction = on_signal};
    uint64_t random = 1;
    if ((uint64_t)(uintptr_t)sbrk(0) < OWN_MEMORY)
        input_fail("its own heap is within reach of the code: link it as a PIE");
    map(CODE, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    map(NEAR_TRAMPOLINE, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    map(FAR_TRAMPOLINE, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    map(DATA, DATA_BYTES, PROT_READ | PROT_WRITE);
    memset((void *)(uintptr_t)CODE, INT3, CODE_BYTES);
    for (size_t i = 0; i < DATA_BYTES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        initial_data[i] = (uint8_t)(random >> 56);
    }
    fuzz_trampoline_has_avx = __builtin_cpu_supports("avx") != 0;
    __asm__ volatile("fxsave64 %0" : "=m"(floating_state));
    for (size_t i = 0; i < 256; i++) /* the sixteen vector registers */
        floating_state[160 + i] = initial_data[i];
    refuse_system_calls();
    sigaltstack(&alternate, NULL);
    sigfillset(&action.sa_mask);
    sigfillset(&others);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        sigaction(signals[i], &action, &old_actions[signals[i]]);
        sigdelset(&others, signals[i]);
    }
}

/* Fill the registers with pointers into the data, small numbers, and random numbers. */
static void make_registers(uint64_t random)
{
    for (int i = 0; i < 16; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t drawn = random >> 20;
        initial_registers[i] = drawn % 4 == 0   ? drawn
                               : drawn % 4 == 1 ? drawn / 4 % 64
                                                : DATA + 0x400 + drawn / 4 % 0x1800;
    }
    initial_registers[7] = DATA + DATA_BYTES / 2; /* rsp */
}

static void put_trampoline(const struct trampoline *trampoline, uint64_t at, uint64_t hook)
{
    uint8_t jump[5] = {0xe9};
    int32_t distance = (int32_t)(at - (hook + 5));
    memcpy(jump + 1, &distance, 4);
    put(hook, jump, sizeof(jump));
    put(at, trampoline->code, trampoline->code_bytes);
}

static void put_function(const uint8_t *code, const struct trampoline *trampoline)
{
    uint8_t bytes[INPUT_BYTES_MAX];
    size_t length = trampoline->site.address + trampoline->site.length - FUNCTION;
    memset(bytes, INT3, sizeof(bytes));
    memcpy(bytes, code, length);
    put(FUNCTION, bytes, sizeof(bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome expected, actual;
    static bool is_set_up;
    uint8_t code[INPUT_BYTES_MAX];
    struct trampoline trampoline;
    const char *why = NULL;
    unsigned count;
    if (!is_set_up)
        set_up();
    is_set_up = true;
    if (size <= HEAD_BYTES || size - HEAD_BYTES > sizeof(code))
        return 0;
    size_t length = size - HEAD_BYTES;
    uint64_t at = data[0] & 1 ? FAR_TRAMPOLINE : NEAR_TRAMPOLINE, hook = at + 0x800;
    memcpy(code, data + HEAD_BYTES, length);
    if (data[0] & 2)
        input_redirect(code, length);
    at += (data[0] & 4) != 0;
    if (trampoline_make(&trampoline, FUNCTION, code, length, hook, at, &why) < 0) {
        if (why == NULL)
            input_fail("it refuses without a reason");
        return 0;
    }
    if (!input_may_run(&trampoline, &count))
        return 0;
    sigset_t before;
    sigprocmask(SIG_BLOCK, &others, &before); /* they would be delivered on the code's stack */
    make_registers(data[1]);
    put_function(code, &trampoline);
    put_trampoline(&trampoline, at, hook);
    execute(&trampoline, LOOK, 0, false, &actual);
    if (run.left_out)
        goto out;
    execute(&trampoline, WHOLE, 0, false, &expected);
    /* Nothing is patched in these two. Some virtual machines end an instruction otherwise if it is
     * stepped: SIGSEGV for SIGBUS. Then the input says nothing about trampolines. */
    if (!is_same_end(&expected, &actual))
        goto out;
    execute(&trampoline, WHOLE, 0, true, &actual);
    compare(&trampoline, &expected, &actual);
    if (data[0] & 8) {
        execute(&trampoline, ENTER, data[2] % count, false, &actual);
        compare(&trampoline, &expected, &actual);
    }
    if (data[0] & 16) {
        execute(&trampoline, LEAVE, data[2] % count, true, &actual);
        compare(&trampoline, &expected, &actual);
    }
out:
    sigprocmask(SIG_SETMASK, &before, NULL);
    return 0;
}
