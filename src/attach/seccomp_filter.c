/* SPDX-License-Identifier: Apache-2.0 */
/* Check system call filters by running them. The interpreter follows the kernel's rules for classic
 * BPF on struct seccomp_data: 32-bit words, loads from its 64 bytes, sixteen words of scratch
 * memory. */
#include "attach/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/process_files.h"
#include "util/seccomp_program.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

/* How bad it is if the filter makes the system call fail. */
enum severity {
    AVOIDABLE, /* the client works without it, and does not make it (avoid_copying) */
    BEARABLE,  /* the client makes it, but works without it */
    SERIOUS,   /* we could not attach, or not detach cleanly */
};

/* The injected calls and the later calls of the client, with the arguments that filters check:
 * domains, operations, protections. The other arguments are 0, because addresses are not known in
 * advance. */
static const struct {
    int number;
    const char *name;
    enum severity severity;
    uint64_t arguments[6];
} needed[] = {
    {SYS_munmap, "munmap", SERIOUS, {0, 4096}},
    {SYS_getpid, "getpid", SERIOUS, {0}},
    {SYS_rt_sigreturn, "rt_sigreturn", SERIOUS, {0}},
#define NEEDED_TO_LEAVE 3
    {SYS_mmap, "mmap", SERIOUS, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS}},
    {SYS_mmap, "mmap", SERIOUS, {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED}},
    {SYS_mmap, "mmap", SERIOUS, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED}},
    {SYS_mmap, "mmap", BEARABLE, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE}},
    {SYS_madvise, "madvise", SERIOUS, {0, 4096, MADV_WIPEONFORK}},
    {SYS_madvise, "madvise", BEARABLE, {0, 4096, MADV_NOHUGEPAGE}},
    {SYS_madvise, "madvise", BEARABLE, {0, 4096, MADV_DONTDUMP}},
    {SYS_madvise, "madvise", BEARABLE, {0, 4096, MADV_DONTNEED}},
    {SYS_memfd_create, "memfd_create", SERIOUS, {0, MFD_CLOEXEC}},
    {SYS_socketpair, "socketpair", SERIOUS, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC}},
    {SYS_recvmsg, "recvmsg", SERIOUS, {0, 0, MSG_CMSG_CLOEXEC | MSG_DONTWAIT}},
    {SYS_close, "close", SERIOUS, {0}},
    {SYS_gettid, "gettid", SERIOUS, {0}},
    {SYS_futex, "futex", SERIOUS, {0, FUTEX_WAIT}},
    {SYS_futex, "futex", BEARABLE, {0, FUTEX_WAKE, 1}},
    {SYS_msync, "msync", BEARABLE, {0, 4096, MS_ASYNC | MS_INVALIDATE}},
    {SYS_rt_sigprocmask, "rt_sigprocmask", BEARABLE, {(uint64_t)-1, 0, 0, 8}},
    {SYS_tgkill, "tgkill", BEARABLE, {0}},
    {SYS_kill, "kill", BEARABLE, {0}},
    {SYS_prctl, "prctl", BEARABLE, {PR_GET_NAME}},
    {SYS_prlimit64, "prlimit64", BEARABLE, {0, RLIMIT_AS}},
    {SYS_prlimit64, "prlimit64", BEARABLE, {0, RLIMIT_DATA}},
    {SYS_sigaltstack, "sigaltstack", BEARABLE, {0}},
    {SYS_sched_yield, "sched_yield", BEARABLE, {0}},
    {SYS_clock_gettime, "clock_gettime", BEARABLE, {CLOCK_MONOTONIC}},
    {SYS_clock_gettime, "clock_gettime", BEARABLE, {CLOCK_MONOTONIC_COARSE}},
    {SYS_process_vm_readv, "process_vm_readv", AVOIDABLE, {0}},
    {SYS_readlinkat, "readlinkat", BEARABLE, {(uint64_t)AT_FDCWD}},
    {SYS_openat, "openat", BEARABLE, {(uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC}},
    {SYS_read, "read", BEARABLE, {0}},
};

/* The registers of a running filter. */
struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
};

/* The kernel refuses constant shifts of 32 bits or more, and takes shifts by X modulo 32. */
#define SHIFT_MASK 31u

/* Run a load or a store. Return false if it is invalid. */
static bool run_move(struct machine *machine, uint16_t code, uint32_t k,
                     const struct seccomp_data *data)
{
    bool is_in_memory = k < BPF_MEMWORDS;
    switch (code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (k > sizeof(*data) - 4 || k % 4 != 0)
            return false;
        memcpy(&machine->a, (const char *)data + k, 4);
        return true;
    case BPF_LD | BPF_W | BPF_LEN:
        machine->a = sizeof(*data);
        return true;
    case BPF_LDX | BPF_W | BPF_LEN:
        machine->x = sizeof(*data);
        return true;
    case BPF_LD | BPF_IMM:
        machine->a = k;
        return true;
    case BPF_LDX | BPF_IMM:
        machine->x = k;
        return true;
    case BPF_LD | BPF_MEM:
        machine->a = is_in_memory ? machine->memory[k] : 0;
        return is_in_memory;
    case BPF_LDX | BPF_MEM:
        machine->x = is_in_memory ? machine->memory[k] : 0;
        return is_in_memory;
    case BPF_ST:
    case BPF_STX:
        if (is_in_memory)
            machine->memory[k] = code == BPF_ST ? machine->a : machine->x;
        return is_in_memory;
    default:
        return false;
    }
}

/* Calculate. Return false if the operation is invalid. */
static bool run_arithmetic(uint32_t *a, uint16_t code, uint32_t operand)
{
    if (code == (BPF_ALU | BPF_NEG)) {
        *a = 0 - *a;
        return true;
    }
    switch (code & ~BPF_X) {
    case BPF_ALU | BPF_ADD:
        *a += operand;
        return true;
    case BPF_ALU | BPF_SUB:
        *a -= operand;
        return true;
    case BPF_ALU | BPF_MUL:
        *a *= operand;
        return true;
    case BPF_ALU | BPF_DIV:
        if (operand != 0)
            *a /= operand;
        return operand != 0;
    case BPF_ALU | BPF_AND:
        *a &= operand;
        return true;
    case BPF_ALU | BPF_OR:
        *a |= operand;
        return true;
    case BPF_ALU | BPF_XOR:
        *a ^= operand;
        return true;
    case BPF_ALU | BPF_LSH:
        *a <<= operand & SHIFT_MASK;
        return true;
    case BPF_ALU | BPF_RSH:
        *a >>= operand & SHIFT_MASK;
        return true;
    default:
        return false;
    }
}

/* Set *skipped to the number of instructions that a jump skips. Return false if it is invalid. */
static bool run_jump(const struct sock_filter *at, uint32_t a, uint32_t operand, size_t *skipped)
{
    bool holds;
    switch (at->code & ~BPF_X) {
    case BPF_JMP | BPF_JEQ:
        holds = a == operand;
        break;
    case BPF_JMP | BPF_JGT:
        holds = a > operand;
        break;
    case BPF_JMP | BPF_JGE:
        holds = a >= operand;
        break;
    case BPF_JMP | BPF_JSET:
        holds = (a & operand) != 0;
        break;
    default:
        *skipped = at->k;
        return at->code == (BPF_JMP | BPF_JA);
    }
    *skipped = holds ? at->jt : at->jf;
    return true;
}

/* Run a filter. Jumps only lead forward, so every program ends. */
uint32_t seccomp_filter_run(const struct sock_filter *program, size_t length,
                            const struct seccomp_data *data)
{
    struct machine machine = {0};
    for (size_t pc = 0; pc < length; pc++) {
        const struct sock_filter *at = &program[pc];
        uint32_t operand = BPF_SRC(at->code) == BPF_X ? machine.x : at->k;
        size_t skipped = 0;
        bool is_valid = true;
        switch (BPF_CLASS(at->code)) {
        case BPF_ALU:
            is_valid = run_arithmetic(&machine.a, at->code, operand);
            break;
        case BPF_JMP:
            is_valid = run_jump(at, machine.a, operand, &skipped);
            break;
        case BPF_MISC:
            if (at->code == (BPF_MISC | BPF_TAX))
                machine.x = machine.a;
            else if (at->code == (BPF_MISC | BPF_TXA))
                machine.a = machine.x;
            else
                is_valid = false;
            break;
        case BPF_RET:
            if (at->code == (BPF_RET | BPF_K))
                return at->k;
            if (at->code == (BPF_RET | BPF_A))
                return machine.a;
            return SECCOMP_RET_KILL_PROCESS;
        default:
            is_valid = run_move(&machine, at->code, at->k, data);
        }
        if (!is_valid)
            return SECCOMP_RET_KILL_PROCESS;
        pc += skipped;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static bool is_bad(uint32_t verdict, enum severity severity)
{
    uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;
    if (action == SECCOMP_RET_ERRNO)
        return severity == SERIOUS;
    return action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG;
}

static int check_program(const struct sock_filter *program, size_t length, size_t needed_count,
                         bool *avoid_copying, struct error *error)
{
    for (size_t i = 0; i < needed_count; i++) {
        struct seccomp_data data = {.nr = needed[i].number, .arch = SECCOMP_OUR_MACHINE};
        memcpy(data.args, needed[i].arguments, sizeof(data.args));
        bool bad = is_bad(seccomp_filter_run(program, length, &data), needed[i].severity);
        if (bad && needed[i].severity == AVOIDABLE)
            *avoid_copying = true;
        else if (bad)
            return error_set(error, -EPERM,
                             "it forbids the system call %s (seccomp), which the profiler's client "
                             "needs: run it without that restriction",
                             needed[i].name);
    }
    return 0;
}

int seccomp_filter_check(pid_t pid, pid_t tid, enum seccomp_purpose purpose, bool *avoid_copying,
                         struct error *error)
{
    struct sock_filter program[BPF_MAXINSNS];
    size_t needed_count =
        purpose == SECCOMP_TO_LEAVE ? NEEDED_TO_LEAVE : sizeof(needed) / sizeof(needed[0]);
    for (unsigned long index = 0;; index++) {
        long length = syscall(SYS_ptrace, PTRACE_SECCOMP_GET_FILTER, tid, index, program);
        if (length < 0 && errno == ENOENT)
            return 0; /* no more filters */
        if (length < 0 || length > BPF_MAXINSNS) {
            /* Unlike EPERM or EACCES, EINVAL mostly means that there are no filters. Check /proc
             * for its other meanings only once per process: all threads are stopped meanwhile. */
            struct process_status status;
            if ((errno == EINVAL && tid != pid) || process_status_read(tid, &status) < 0 ||
                status.seccomp_mode == 0)
                return 0;
            if (status.seccomp_mode == 1)
                return error_set(error, -EPERM,
                                 "it forbids nearly all system calls (strict seccomp)");
            if (process_status_read(getpid(), &status) == 0 && status.seccomp_mode > 0)
                return error_set(
                    error, -EPERM,
                    "it restricts its system calls (seccomp), and a profiler with such "
                    "restrictions, as in systemd's service or a container, cannot read them: "
                    "attach as root of the machine without the daemon "
                    "(HEAPPROFD_RUN_DIR=/run/heapprofd-alone), or start it under heap_profile");
            return error_set(
                error, -EPERM,
                "it restricts its system calls (seccomp), and only CAP_SYS_ADMIN can read the "
                "restrictions: attach as root, or start it under heap_profile");
        }
        int code = check_program(program, (size_t)length, needed_count, avoid_copying, error);
        if (code < 0)
            return code;
    }
}
