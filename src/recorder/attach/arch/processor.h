/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attaching needs to know about a processor, besides its instructions (trampoline.h) and its
 * signal frames (return_frame.h). The header in <processor>/ has facts and small functions; its
 * registers.c implements this page.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_ARCH_PROCESSOR_H
#define HEAPPROFD_RECORDER_ATTACH_ARCH_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "recorder/attach/tracee.h"

#if defined(__x86_64__)
#include "recorder/attach/arch/x86_64/processor.h"
#elif defined(__aarch64__)
#include "recorder/attach/arch/aarch64/processor.h"
#endif

/* --- registers of a stopped thread --- */

/* Return 0 or a negative errno. */
long registers_read(pid_t tid, struct user_regs_struct *registers);
long registers_write(pid_t tid, const struct user_regs_struct *registers);

/*
 * Prepare a system call: the thread will execute the instruction at `instruction`. If `frame` is
 * not 0, it is the address of a return frame (return_frame.h), which the thread enters through
 * `sigreturn` by the return instruction that follows.
 */
void registers_set_call(struct user_regs_struct *registers, uint64_t instruction, uint64_t frame,
                        uint64_t sigreturn, long number, const uint64_t arguments[6]);

/* What our stop of a thread did to the system call that it was in. */
enum registers_call {
    REGISTERS_CALL_GOES_ON, /* or there was none */
    REGISTERS_CALL_RESTARTS,
    REGISTERS_CALL_FAILS, /* with EINTR */
};

/* Some calls fail with EINTR if their thread is stopped, without any signal. Change the registers
 * of such a call so that the kernel restarts it, unless the thread handles a signal first. A
 * timeout begins anew. */
enum registers_call registers_restart_call(pid_t tid, struct user_regs_struct *registers);

/* Return whether the thread sleeps for a time, or is about to continue such a sleep. */
bool registers_sleep(const struct user_regs_struct *registers);

/* --- the system call that the worker was stopped in --- */

/*
 * Called before the worker's registers are replaced, after its signals are blocked, and when its
 * registers are restored. On x86-64 they do nothing: its registers contain all that the kernel
 * knows about the call (tracee_call.c).
 */
int own_call_enter(struct tracee *tracee);
int own_call_replace(struct tracee *tracee);
void own_call_leave(const struct tracee *tracee);

/* --- the worker's second stack of return addresses --- */

/*
 * A program may have its return addresses on a second stack as well, which only calls, returns and
 * the kernel write (x86-64: shadow stack; aarch64: guarded control stack). A return that finds
 * another address there is a fault. Make the return from our system call into the return frame one
 * that does not, and undo that. -ENOTSUP: such a thread cannot be used.
 */
int shadow_stack_enter(struct tracee *tracee);
void shadow_stack_leave(const struct tracee *tracee);

/* --- code and stacks --- */

/* Machine code that is searched for in a process. */
struct processor_code {
    const uint8_t *bytes;
    size_t count;
};

/* A system call; one that is followed by a return; and the code that returns from a signal handler.
 */
extern const struct processor_code processor_call, processor_call_and_return, processor_sigreturn;

/* Write code of 16 bytes that jumps to the address in the word at `target` bytes after it, a
 * multiple of 8 below 128. Calls and jumps may lead to it. */
void processor_write_call(uint8_t code[16], uint32_t target);

/*
 * Return whether words[0] is the pc that the kernel saved in the frame of a signal handler, by the
 * words that follow it there. Reads PROCESSOR_FRAME_WORDS words.
 */
bool processor_is_saved_pc(const uint64_t *words);

#endif
