/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make system calls in a stopped thread.
 *
 * A thread that PTRACE_INTERRUPT took out of a system call is inside the kernel's signal delivery,
 * and its registers say that the call is to be restarted (on x86-64: -ERESTART... in rax and the
 * call's number in orig_rax). If it continues from there with these registers, the kernel restarts
 * the call. Therefore a system call of ours ends in a stop of the same kind, and the thread's own
 * registers are restored only there.
 */
#include "attach/tracee_call.h"

#include <errno.h>
#include <sys/wait.h>

#include "attach/arch/processor.h"
#include "attach/return_frame.h"

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

int worker_wait(struct tracee *tracee)
{
    int status;
    pid_t got;
    do {
        got = waitpid(tracee->worker->tid, &status, __WALL);
    } while (got < 0 && errno == EINTR);
    if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
        tracee->worker->gone = true;
        return -ESRCH;
    }
    return status;
}

/* Save the state of restartable sequences (rseq). An allocator may be stopped inside such a
 * sequence. The kernel would treat our code as the end of the sequence and clear its pointer. */
static void note_rseq(struct tracee *tracee)
{
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, pad;
    } configuration = {0};
    tracee->rseq_field = 0;
    if (tracee_request(PTRACE_GET_RSEQ_CONFIGURATION, tracee->worker->tid,
                       (void *)(uintptr_t)sizeof(configuration), &configuration) < 0 ||
        configuration.pointer == 0)
        return;
    uint64_t field = configuration.pointer + 8;
    if (tracee_read(tracee, field, &tracee->rseq_value, 8) == 0 && tracee->rseq_value != 0)
        tracee->rseq_field = field;
}

static long prepare_call(struct tracee *tracee, enum client_call call, const uint64_t chosen[6])
{
    uint64_t arguments[6];
    client_call_fill(call, (const int64_t *)chosen, (int64_t *)arguments);
    struct user_regs_struct registers = tracee->worker->registers;
    registers_set_call(&registers, tracee->syscall_instruction, tracee->worker_frame,
                       tracee->sigreturn, client_calls[call].number, arguments);
    return registers_write(tracee->worker->tid, &registers);
}

/* Choose a thread, if possible one that does not sleep: if we are killed, its sleep ends early. */
static struct tracee_thread *choose_worker(struct tracee *tracee)
{
    struct tracee_thread *any = NULL;
    for (size_t i = 0; i < tracee->thread_count; i++) {
        const struct user_regs_struct *registers = tracee_registers(&tracee->threads[i]);
        if (registers == NULL)
            continue;
        if (!registers_sleep(registers))
            return &tracee->threads[i];
        if (any == NULL)
            any = &tracee->threads[i];
    }
    return any;
}

int tracee_work_begin(struct tracee *tracee)
{
    tracee->worker = choose_worker(tracee);
    if (tracee->worker == NULL)
        return -ESRCH;
    if (tracee->syscall_instruction == 0) {
        tracee->worker = NULL;
        return -ENOTSUP;
    }
    pid_t tid = tracee->worker->tid;
    uint64_t all = UINT64_MAX;
    note_rseq(tracee);
    long code = tracee_request(PTRACE_GETSIGMASK, tid, (void *)8, &tracee->worker_mask);
    tracee->worker_frame = 0;
    if (code == 0)
        code = own_call_enter(tracee);
    if (code == 0) {
        tracee->worker_frame = return_frame_put(tracee, tid, &tracee->worker->registers,
                                                tracee->worker_mask, tracee->sigreturn);
        /* Set up its return before its signals are blocked. */
        static const uint64_t nothing[6];
        code = prepare_call(tracee, CALL_OWN_PROCESS, nothing);
    }
    if (code == 0)
        code = tracee_request(PTRACE_SETSIGMASK, tid, (void *)8, &all);
    if (code == 0)
        code = own_call_replace(tracee);
    if (code < 0)
        tracee->worker = NULL;
    return (int)code;
}

int worker_run_to_call(struct tracee *tracee)
{
    for (;;) {
        long code = tracee_request(PTRACE_SYSCALL, tracee->worker->tid, NULL, NULL);
        if (code < 0)
            return (int)code;
        int status = worker_wait(tracee);
        if (status < 0)
            return status;
        if (WSTOPSIG(status) == SYSCALL_STOP)
            return 0;
        /* All signals are blocked, so another signal is a fault of the instruction itself. A stop
         * of the whole process waits for us. */
        if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
            return -EFAULT;
    }
}

long tracee_system_call(struct tracee *tracee, int *code, enum client_call call,
                        const uint64_t chosen[6])
{
    struct user_regs_struct registers;
    *code = (int)prepare_call(tracee, call, chosen);
    if (*code == 0)
        *code = worker_run_to_call(tracee);
    if (*code == 0)
        *code = worker_run_to_call(tracee);
    if (*code == 0)
        *code = (int)registers_read(tracee->worker->tid, &registers);
    return *code == 0 ? registers_result(&registers) : -EIO;
}

int tracee_work_end(struct tracee *tracee)
{
    struct tracee_thread *worker = tracee->worker;
    if (worker == NULL || worker->gone)
        return -ESRCH;
    int status = 0;
    tracee_request(PTRACE_INTERRUPT, worker->tid, NULL, NULL);
    do {
        long code = tracee_request(PTRACE_CONT, worker->tid, NULL, NULL);
        status = code < 0 ? (int)code : worker_wait(tracee);
    } while (status >= 0 && status >> 16 != PTRACE_EVENT_STOP);
    if (status >= 0) {
        /* Restore its own registers last: until then the return frame protects it. */
        tracee_request(PTRACE_SETSIGMASK, worker->tid, (void *)8, &tracee->worker_mask);
        registers_write(worker->tid, &worker->registers);
        own_call_leave(tracee);
        if (tracee->rseq_field != 0)
            tracee_write(tracee, tracee->rseq_field, &tracee->rseq_value, 8);
    }
    tracee->worker = NULL;
    return status < 0 ? status : 0;
}
