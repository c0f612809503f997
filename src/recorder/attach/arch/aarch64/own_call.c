/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interrupted system call of a thread that makes system calls for us: aarch64.
 *
 * The kernel takes an interrupted call back before it stops the thread: the pc is at the call's
 * instruction again, and the first argument in its register. Only the kernel knows whether the
 * thread will repeat the call or continue it (restart_syscall, after sleeps for a time), and it
 * forgets that if the pc changes. So the thread begins its call once more, and stops at the entry,
 * where its registers show which of the two it is. There the number is replaced.
 */
#include <elf.h>
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/tracee_call.h"

#ifndef NT_ARM_SSVE
#define NT_ARM_SSVE 0x40b
#endif
#ifndef NT_ARM_GCS
#define NT_ARM_GCS 0x410
#endif

/* Signals that may be delivered to the thread before it begins its call. */
#define SIGNALS_MAX 8

/* More than the vector registers of 2,048 bits take. */
#define VECTORS_BYTES_MAX 16384u

/* struct user_sve_header. */
struct vectors_header {
    uint32_t bytes, bytes_max;
    uint16_t length, length_max, flags, reserved;
};
#define HAS_WIDE_VECTORS 1u /* SVE_PT_REGS_SVE */

/* The worker's vector registers, if it uses them in their full width (SVE, or SME's streaming
 * mode). System calls discard what does not belong to FPSIMD. There is one worker at a time. */
static struct {
    uintptr_t note; /* 0: nothing to restore */
    size_t bytes;
    union {
        struct vectors_header header;
        uint8_t bytes[VECTORS_BYTES_MAX];
    } state;
} vectors;

static void save_vectors(pid_t tid)
{
    static const uintptr_t notes[] = {NT_ARM_SVE, NT_ARM_SSVE};
    vectors.note = 0;
    for (size_t i = 0; i < 2 && vectors.note == 0; i++) {
        struct iovec vector = {&vectors.state, sizeof(vectors.state)};
        if (tracee_request(PTRACE_GETREGSET, tid, (void *)notes[i], &vector) < 0 ||
            vector.iov_len < sizeof(vectors.state.header) ||
            (vectors.state.header.flags & HAS_WIDE_VECTORS) == 0)
            continue;
        vectors.note = notes[i];
        vectors.bytes = vector.iov_len;
    }
}

static bool is_at_call(const struct tracee *tracee, const struct user_regs_struct *registers)
{
    const uint32_t call = 0xd4000001, number = 0x1fffe0;
    uint32_t word;
    return tracee_read(tracee, registers->pc, &word, sizeof(word)) == 0 && (word & ~number) == call;
}

/* Let a signal's handler begin: it interrupts the call for good. */
static int deliver(struct tracee *tracee, int signal)
{
    pid_t tid = tracee->worker->tid;
    tracee_request(PTRACE_INTERRUPT, tid, NULL, NULL);
    long code = tracee_request(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signal);
    return code < 0 ? (int)code : worker_wait(tracee);
}

int own_call_enter(struct tracee *tracee)
{
    struct tracee_thread *worker = tracee->worker;
    tracee->worker_in_call = false;
    save_vectors(worker->tid);
    for (int signals = 0; signals < SIGNALS_MAX; signals++) {
        const struct user_regs_struct *registers = tracee_registers(worker);
        if (registers == NULL)
            return -ESRCH;
        if (!is_at_call(tracee, registers))
            return 0;
        long code = tracee_request(PTRACE_SYSCALL, worker->tid, NULL, NULL);
        int status = code < 0 ? (int)code : worker_wait(tracee);
        if (status >= 0 && status >> 16 == 0 && WSTOPSIG(status) == TRACEE_SYSCALL_STOP) {
            struct user_regs_struct entry;
            tracee->worker_in_call = true;
            code = registers_read(worker->tid, &entry);
            if (code == 0)
                worker->registers.regs[8] = entry.regs[8];
            return (int)code;
        }
        if (status >= 0 && status >> 16 == 0)
            status = deliver(tracee, WSTOPSIG(status));
        if (status < 0)
            return status;
        worker->has_registers = false;
    }
    return -EAGAIN;
}

int own_call_replace(struct tracee *tracee)
{
    int number = SYS_getpid;
    struct iovec vector = {&number, sizeof(number)};
    if (!tracee->worker_in_call)
        return 0;
    long code =
        tracee_request(PTRACE_SETREGSET, tracee->worker->tid, (void *)NT_ARM_SYSTEM_CALL, &vector);
    return code < 0 ? (int)code : worker_run_to_call(tracee);
}

void own_call_leave(const struct tracee *tracee)
{
    struct iovec vector = {&vectors.state, vectors.bytes};
    if (vectors.note != 0)
        tracee_request(PTRACE_SETREGSET, tracee->worker->tid, (void *)vectors.note, &vector);
    vectors.note = 0;
}

/* Refuse a thread with a guarded control stack: its return into the return frame would be a fault,
 * and so would each `ret` that ends a trampoline far from its function. */
int shadow_stack_enter(struct tracee *tracee)
{
    struct {
        uint64_t enabled, locked, pointer;
    } state = {0};
    struct iovec vector = {&state, sizeof(state)};
    bool is_known =
        tracee_request(PTRACE_GETREGSET, tracee->worker->tid, (void *)NT_ARM_GCS, &vector) == 0;
    return is_known && (state.enabled & 1) != 0 ? -ENOTSUP : 0;
}

void shadow_stack_leave(const struct tracee *tracee)
{
    (void)tracee;
}
