/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shadow stack (CET) of a thread that makes system calls for us.
 *
 * Nothing is needed for the calls themselves: no return is executed. But if we are killed, the
 * thread returns into the code that returns from a signal handler, and the kernel looks for what it
 * pushes for one (setup_signal_shadow_stack() and restore_signal_shadow_stack() of Linux 6.6):
 *
 *   pointer - 8    the pointer before, marked by its highest bit
 *   pointer - 16   the address of that code, which the `ret` compares
 *
 * Both are written as the kernel does, below the thread's pointer, where nothing else is. A tracer
 * may write both the shadow stack and the pointer. Between the two requests for the pointer and the
 * registers they do not belong together: a kill just there ends the program.
 */
#include <errno.h>
#include <sys/uio.h>

#include "recorder/attach/arch/processor.h"

#ifndef NT_X86_SHSTK
#define NT_X86_SHSTK 0x204
#endif

#define MARK (UINT64_C(1) << 63)

static long request_pointer(int request, const struct tracee *tracee, uint64_t *pointer)
{
    struct iovec vector = {pointer, sizeof(*pointer)};
    return tracee_request(request, tracee->worker->tid, (void *)NT_X86_SHSTK, &vector);
}

int shadow_stack_enter(struct tracee *tracee)
{
    uint64_t pointer;
    /* The request fails for a thread without one, and on other kernels and processors. */
    if (tracee->worker_frame == 0 || request_pointer(PTRACE_GETREGSET, tracee, &pointer) < 0)
        return 0;
    const uint64_t words[2] = {tracee->sigreturn, pointer | MARK};
    uint64_t ours = pointer - sizeof(words);
    int code = tracee_write(tracee, ours, words, sizeof(words));
    if (code == 0)
        code = (int)request_pointer(PTRACE_SETREGSET, tracee, &ours);
    if (code == 0)
        tracee->shadow_stack = pointer;
    return code;
}

void shadow_stack_leave(const struct tracee *tracee)
{
    uint64_t pointer = tracee->shadow_stack;
    if (pointer != 0)
        request_pointer(PTRACE_SETREGSET, tracee, &pointer);
}
