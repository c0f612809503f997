/* SPDX-License-Identifier: Apache-2.0 */
/* Registers, system calls and signal frames of x86-64. */
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "recorder/attach/arch/processor.h"
#include "util/kernel_calls.h"

/* The kernel's segments for code of 64 bits and its stack. */
#define SEGMENT_OF_CODE 0x33u
#define SEGMENT_OF_STACK 0x2bu

static const uint8_t call_and_return[] = {0x0f, 0x05, 0xc3}; /* syscall; ret */
/* mov $15, %rax; syscall */
static const uint8_t return_from_signal[] = {0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0,
                                             0,    0x0f, 0x05};

const struct processor_code processor_call = {call_and_return, 2};
const struct processor_code processor_call_and_return = {call_and_return, 3};
const struct processor_code processor_sigreturn = {return_from_signal, sizeof(return_from_signal)};

long registers_read(pid_t tid, struct user_regs_struct *registers)
{
    return tracee_request(PTRACE_GETREGS, tid, NULL, registers);
}

long registers_write(pid_t tid, const struct user_regs_struct *registers)
{
    return tracee_request(PTRACE_SETREGS, tid, NULL, (void *)(uintptr_t)registers);
}

void registers_set_call(struct user_regs_struct *registers, uint64_t instruction, uint64_t frame,
                        uint64_t sigreturn_code, long number, const uint64_t arguments[6])
{
    (void)sigreturn_code; /* the frame contains its address */
    registers->rip = instruction;
    /* The thread may have been stopped in code of 32 bits, where `syscall` is another instruction
     * and rip is cut. */
    registers->cs = SEGMENT_OF_CODE;
    registers->ss = SEGMENT_OF_STACK;
    if (frame != 0)
        registers->rsp = frame;
    registers->rax = (uint64_t)number;
    registers->orig_rax = UINT64_MAX; /* nothing must be restarted */
    registers->rdi = arguments[0];
    registers->rsi = arguments[1];
    registers->rdx = arguments[2];
    registers->r10 = arguments[3];
    registers->r8 = arguments[4];
    registers->r9 = arguments[5];
}

bool registers_sleep(const struct user_regs_struct *registers)
{
    const int64_t restart_block = -516; /* ERESTART_RESTARTBLOCK */
    return (int64_t)registers->orig_rax >= 0 &&
           ((int64_t)registers->rax == restart_block || registers->rax == SYS_restart_syscall);
}

/* Return whether the call has done nothing when it fails with EINTR, and may be made again.
 * signal(7) has those that fail if their thread is only stopped, or that have a timeout of their
 * socket. close() has closed its descriptor then, and of ioctl() nothing is known. */
static bool may_be_made_again(uint64_t number)
{
    switch (number) {
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_epoll_wait:
    case SYS_getrandom:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
    case SYS_read: /* inotify */
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmmsg:
    case SYS_recvmsg:
    case SYS_rt_sigtimedwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_sendmmsg:
    case SYS_sendmsg:
    case SYS_sendto:
    case SYS_write:
    case SYS_writev:
        return true;
    default:
        return false;
    }
}

enum registers_call registers_restart_call(pid_t tid, struct user_regs_struct *registers)
{
    const int64_t restart_without_handler = -514; /* ERESTARTNOHAND */
    (void)tid;
    if ((int64_t)registers->orig_rax < 0 || (int64_t)registers->rax != -EINTR)
        return REGISTERS_CALL_GOES_ON;
    if (!may_be_made_again(registers->orig_rax))
        return REGISTERS_CALL_FAILS;
    registers->rax = (uint64_t)restart_without_handler;
    return REGISTERS_CALL_RESTARTS;
}

int own_call_enter(struct tracee *tracee)
{
    (void)tracee;
    return 0;
}

int own_call_replace(struct tracee *tracee)
{
    (void)tracee;
    return 0;
}

void own_call_leave(const struct tracee *tracee)
{
    (void)tracee;
}

/* The flags and the code segment follow the interrupted pc. */
bool processor_is_saved_pc(const uint64_t *words)
{
    const uint64_t always_set = 2, flags = 0x3fffff;
    return (words[1] & always_set) != 0 && (words[1] & ~flags) == 0 &&
           (words[2] & 0xffff) == SEGMENT_OF_CODE;
}

void processor_write_call(uint8_t code[16], uint32_t target)
{
    /* endbr64; jmp *distance(%rip) */
    uint8_t bytes[16] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0,    0,
                         0,    0,    0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
    bytes[6] = (uint8_t)(target - 10);
    memcpy(code, bytes, sizeof(bytes));
}
