/* SPDX-License-Identifier: Apache-2.0 */
/* Registers, system calls and signal frames of aarch64. */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "recorder/attach/arch/processor.h"

static const uint8_t call_and_return[] = {0x01, 0,    0,    0xd4,
                                          0xc0, 0x03, 0x5f, 0xd6}; /* svc 0; ret */
static const uint8_t return_from_signal[] = {0x68, 0x11, 0x80, 0xd2,
                                             0x01, 0,    0,    0xd4}; /* mov x8, 139; svc 0 */

const struct processor_code processor_call = {call_and_return, 4};
const struct processor_code processor_call_and_return = {call_and_return, 8};
const struct processor_code processor_sigreturn = {return_from_signal, sizeof(return_from_signal)};

long registers_read(pid_t tid, struct user_regs_struct *registers)
{
    struct iovec vector = {registers, sizeof(*registers)};
    return tracee_request(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &vector);
}

long registers_write(pid_t tid, const struct user_regs_struct *registers)
{
    struct iovec vector = {(void *)(uintptr_t)registers, sizeof(*registers)};
    return tracee_request(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &vector);
}

void registers_set_call(struct user_regs_struct *registers, uint64_t instruction, uint64_t frame,
                        uint64_t sigreturn_code, long number, const uint64_t arguments[6])
{
    registers_set_pc(registers, instruction);
    if (frame != 0) {
        registers->sp = frame;
        registers->regs[30] = sigreturn_code;
    }
    registers->regs[8] = (uint64_t)number;
    for (unsigned i = 0; i < 6; i++)
        registers->regs[i] = arguments[i];
}

/* Here the kernel has decided before the stop whether it restarts the call, and its first argument
 * is overwritten by the result: nothing can be changed. */
enum registers_call registers_restart_call(pid_t tid, struct user_regs_struct *registers)
{
    int number = -1;
    struct iovec vector = {&number, sizeof(number)};
    if ((int64_t)registers->regs[0] != -EINTR ||
        tracee_request(PTRACE_GETREGSET, tid, (void *)NT_ARM_SYSTEM_CALL, &vector) < 0 ||
        number < 0)
        return REGISTERS_CALL_GOES_ON;
    return REGISTERS_CALL_FAILS;
}

/* The kernel has already taken back an interrupted call: only its number is left. */
bool registers_sleep(const struct user_regs_struct *registers)
{
    switch (registers->regs[8]) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_futex:
    case SYS_restart_syscall:
        return true;
    default:
        return false;
    }
}

/* The processor's state follows the interrupted pc, and then, aligned to 16 bytes, the first record
 * of the frame: the magic number and the size of struct fpsimd_context. */
bool processor_is_saved_pc(const uint64_t *words)
{
    const uint64_t kernel_state = UINT64_C(0xffffffff0000001f), first_record = 0x21046508001;
    return (words[1] & kernel_state) == 0 && words[3] == first_record;
}

void processor_write_call(uint8_t code[16], uint32_t target)
{
    /* bti c; ldr x16, distance; br x16; udf */
    uint32_t words[4] = {0xd503245f, 0x58000010 | (target - 4) / 4 << 5, 0xd61f0200, 0};
    memcpy(code, words, sizeof(words));
}
