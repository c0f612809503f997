/* SPDX-License-Identifier: Apache-2.0 */
/* Build a signal frame. The layout is the kernel's struct rt_sigframe on aarch64: a siginfo and a
 * ucontext, whose last part is a list of records: here the vector registers (FPSIMD), and the end.
 * It does not contain what SVE and SME add to them. */
#include "recorder/attach/return_frame.h"

#include <asm/sigcontext.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "recorder/attach/arch/processor.h"

/* The kernel's types: those of glibc differ in their names, and are longer. */
struct kernel_context {
    uint64_t flags, link;
    uint64_t stack_pointer, stack_flags, stack_bytes;
    uint64_t signal_mask;
    uint8_t unused[128 - 8];
    struct {
        uint64_t fault_address, registers[31], sp, pc, state;
        struct fpsimd_context vectors __attribute__((aligned(16)));
        struct _aarch64_ctx end;
    } machine __attribute__((aligned(16)));
};

struct frame {
    uint8_t siginfo[128];
    struct kernel_context context;
};

_Static_assert(offsetof(struct frame, context.machine) == 128 + 176, "as struct rt_sigframe");
_Static_assert(sizeof(struct fpsimd_context) == 0x210, "as processor_is_saved_pc() expects");

/* After a signal handler, a sleep that the thread was about to continue has been interrupted. */
static void settle_system_call(const struct tracee *tracee, struct user_regs_struct *registers)
{
    if (!tracee->worker_in_call || registers->regs[8] != SYS_restart_syscall)
        return;
    registers->regs[0] = (uint64_t)-EINTR;
    registers->pc += 4;
}

static bool read_vectors(pid_t tid, struct fpsimd_context *vectors)
{
    struct user_fpsimd_struct state;
    struct iovec vector = {&state, sizeof(state)};
    if (tracee_request(PTRACE_GETREGSET, tid, (void *)NT_PRFPREG, &vector) < 0 ||
        vector.iov_len < sizeof(state))
        return false;
    *vectors = (struct fpsimd_context){
        .head = {FPSIMD_MAGIC, sizeof(*vectors)}, .fpsr = state.fpsr, .fpcr = state.fpcr};
    _Static_assert(sizeof(vectors->vregs) == sizeof(state.vregs), "32 registers of 128 bits");
    memcpy(vectors->vregs, state.vregs, sizeof(state.vregs));
    return true;
}

bool return_frame_make(struct return_frame *frame, const struct tracee *tracee, pid_t tid,
                       const struct user_regs_struct *registers, uint64_t signal_mask,
                       uint64_t sigreturn, uint64_t end, bool with_tiles)
{
    (void)with_tiles; /* x86-64's */
    struct user_regs_struct settled = *registers;
    struct frame content;
    memset(&content, 0, sizeof(content));
    if (sigreturn == 0 || !read_vectors(tid, &content.context.machine.vectors))
        return false;
    settle_system_call(tracee, &settled);
    memcpy(content.context.machine.registers, settled.regs, sizeof(settled.regs));
    content.context.machine.sp = settled.sp;
    content.context.machine.pc = settled.pc;
    content.context.machine.state = settled.pstate;
    content.context.signal_mask = signal_mask;
    /* Keep its alternate signal stack: the kernel ignores invalid flags. */
    content.context.stack_flags = INT32_MAX;
    _Static_assert(sizeof(content) <= sizeof(frame->bytes), "it has room");
    frame->start = frame->entry = (end - sizeof(content)) & ~UINT64_C(15);
    frame->count = sizeof(content);
    memcpy(frame->bytes, &content, sizeof(content));
    return true;
}
