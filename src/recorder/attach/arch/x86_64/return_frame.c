/* SPDX-License-Identifier: Apache-2.0 */
/* Build a signal frame. The layout is the kernel's struct rt_sigframe on x86-64: the return
 * address, then a ucontext, and elsewhere the extended processor state, aligned to 64 bytes. */
#include "recorder/attach/return_frame.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

#define LEGACY_BYTES 512u
#define HEADER_BYTES 64u
#define STATE_BYTES_MAX 12288u

/* Offset of the kernel's struct _fpx_sw_bytes in the legacy area. */
#define SOFTWARE_AT 464u
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u

#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u

/* Tiles (AMX) take 8 KiB. The kernel refuses a frame with room for them from a thread that did not
 * request them, and most others do not use them at the moment. */
#define FEATURES_OF_TILES (UINT64_C(3) << 17)

/* The kernel's part of ucontext_t: glibc's signal mask is longer. */
#define CONTEXT_BYTES (offsetof(ucontext_t, uc_sigmask) + 8)

/* Results of an interrupted system call that the kernel resolves when a signal handler returns.
 * Resolve them in the same way. */
enum restart {
    RESTART_SYS = 512,
    RESTART_NO_INTERRUPT = 513,
    RESTART_NO_HANDLER = 514,
    RESTART_BLOCK = 516,
};

static void settle_system_call(struct user_regs_struct *registers)
{
    int64_t result = (int64_t)registers->rax;
    if ((int64_t)registers->orig_rax < 0)
        return;
    if (result == -RESTART_BLOCK) {
        registers->rax = (uint64_t)-EINTR;
    } else if (result == -RESTART_SYS || result == -RESTART_NO_INTERRUPT ||
               result == -RESTART_NO_HANDLER) {
        registers->rax = registers->orig_rax;
        registers->rip -= 2;
    }
}

static void fill_context(ucontext_t *context, struct user_regs_struct registers, uint64_t mask,
                         uint64_t state)
{
    settle_system_call(&registers);
    greg_t *to = context->uc_mcontext.gregs;
    to[REG_R8] = (greg_t)registers.r8;
    to[REG_R9] = (greg_t)registers.r9;
    to[REG_R10] = (greg_t)registers.r10;
    to[REG_R11] = (greg_t)registers.r11;
    to[REG_R12] = (greg_t)registers.r12;
    to[REG_R13] = (greg_t)registers.r13;
    to[REG_R14] = (greg_t)registers.r14;
    to[REG_R15] = (greg_t)registers.r15;
    to[REG_RDI] = (greg_t)registers.rdi;
    to[REG_RSI] = (greg_t)registers.rsi;
    to[REG_RBP] = (greg_t)registers.rbp;
    to[REG_RBX] = (greg_t)registers.rbx;
    to[REG_RDX] = (greg_t)registers.rdx;
    to[REG_RAX] = (greg_t)registers.rax;
    to[REG_RCX] = (greg_t)registers.rcx;
    to[REG_RSP] = (greg_t)registers.rsp;
    to[REG_RIP] = (greg_t)registers.rip;
    to[REG_EFL] = (greg_t)registers.eflags;
    to[REG_CSGSFS] = (greg_t)((registers.cs & 0xffff) | (registers.ss & 0xffff) << 48);
    memcpy(&context->uc_mcontext.fpregs, &state, sizeof(state));
    memcpy(&context->uc_sigmask, &mask, sizeof(mask));
    context->uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS;
    /* Keep its alternate signal stack: the kernel ignores invalid flags. */
    context->uc_stack.ss_flags = INT32_MAX;
}

/* Return the size of the state of these features in the standard layout. */
static uint32_t state_bytes(uint64_t features)
{
    uint32_t end = LEGACY_BYTES + HEADER_BYTES;
    for (unsigned feature = 2; feature < 63; feature++) {
        uint32_t size, offset, flags, unused;
        if ((features >> feature & 1) == 0)
            continue;
        __cpuid_count(0xd, feature, size, offset, flags, unused);
        if (offset + size > end)
            end = offset + size;
    }
    return end;
}

/* Read the thread's extended state in the form of a signal frame. Return its bytes, including the
 * trailing mark, or 0. */
static uint32_t read_state(pid_t tid, uint8_t state[STATE_BYTES_MAX + 4], bool with_tiles)
{
    uint8_t whole[4 * STATE_BYTES_MAX];
    struct iovec vector = {whole, sizeof(whole)};
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, tid, NT_X86_XSTATE, &vector) < 0 ||
        vector.iov_len < LEGACY_BYTES + HEADER_BYTES)
        return 0;
    uint64_t features, used;
    memcpy(&features, whole + SOFTWARE_AT, sizeof(features));
    memcpy(&used, whole + LEGACY_BYTES, sizeof(used));
    if (!with_tiles || (used & FEATURES_OF_TILES) == 0)
        features &= ~FEATURES_OF_TILES;
    uint32_t bytes = state_bytes(features);
    if (bytes > STATE_BYTES_MAX || bytes > vector.iov_len)
        return 0;
    memcpy(state, whole, bytes);
    const struct {
        uint32_t magic1, extended_size;
        uint64_t features;
        uint32_t state_size, pad[7];
    } software = {MAGIC1, bytes + 4, features, bytes, {0}};
    _Static_assert(sizeof(software) == LEGACY_BYTES - SOFTWARE_AT, "fills the legacy area");
    memcpy(state + SOFTWARE_AT, &software, sizeof(software));
    used &= features;
    memcpy(state + LEGACY_BYTES, &used, sizeof(used));
    const uint32_t mark = MAGIC2;
    memcpy(state + bytes, &mark, sizeof(mark));
    return bytes + 4;
}

bool return_frame_make(struct return_frame *frame, const struct tracee *tracee, pid_t tid,
                       const struct user_regs_struct *registers, uint64_t signal_mask,
                       uint64_t sigreturn, uint64_t end, bool with_tiles)
{
    uint8_t state[STATE_BYTES_MAX + 4];
    ucontext_t context;
    (void)tracee;
    uint32_t bytes = sigreturn != 0 ? read_state(tid, state, with_tiles) : 0;
    if (bytes == 0)
        return false;
    uint64_t state_at = (end - bytes) & ~UINT64_C(63);
    frame->start = ((state_at - CONTEXT_BYTES) & ~UINT64_C(15)) - 8;
    frame->entry = frame->start;
    frame->count = state_at + bytes - frame->start;
    if (frame->count > sizeof(frame->bytes))
        return false;
    memset(frame->bytes, 0, frame->count);
    memset(&context, 0, sizeof(context));
    fill_context(&context, *registers, signal_mask, state_at);
    memcpy(frame->bytes, &sigreturn, sizeof(sigreturn));
    memcpy(frame->bytes + sizeof(sigreturn), &context, CONTEXT_BYTES);
    memcpy(frame->bytes + (state_at - frame->start), state, bytes);
    return true;
}
