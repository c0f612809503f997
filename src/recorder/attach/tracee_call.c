/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make system calls in a stopped thread.
 *
 * A thread that PTRACE_INTERRUPT took out of a system call is inside the kernel's signal delivery,
 * and its registers say that the call is to be restarted (on x86-64: -ERESTART... in rax and the
 * call's number in orig_rax). If it continues from there with these registers, the kernel restarts
 * the call. Therefore a system call of ours ends in a stop of the same kind, and the thread's own
 * registers are restored only there.
 *
 * Every thread that is used must return to user mode: it begins our call there. Threads of the
 * kernel's in a process do not, and are never among the stopped ones (tracee.h). Nor does a thread
 * while its cgroup is frozen, or while it gets no processor. So every wait has a limit. After it
 * the thread is stopped again and has its own registers back; if it does not stop either, it is
 * released once it does, and returns through its frame. Only a thread without a frame is waited for
 * without a limit: with our registers it could not go on.
 *
 * The frame is in memory of ours as soon as there is some. The first call of an attach, and the
 * last one of a detach, need it below the stack pointer, which may be somebody else's memory
 * (coroutines with small stacks). What was there is put back, unless somebody has changed it
 * meanwhile: io_uring and processes that share the memory write while the threads are stopped.
 */
#include "recorder/attach/tracee_call.h"

#include <errno.h>
#include <sys/wait.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/return_frame.h"
#include "recorder/attach/stop_guard.h"

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* A frame in the process's memory. */
struct placed_frame {
    struct return_frame frame;
    bool is_foreign; /* not in memory of ours */
    uint8_t before[RETURN_FRAME_BYTES_MAX];
};

/* The frame of the one worker, and the place where it moves to. */
static struct {
    struct placed_frame placed[2];
    unsigned current;
} frames;

int worker_wait(struct tracee *tracee)
{
    struct tracee_thread *worker = tracee->worker;
    struct tracee_patience patience = tracee_patience_begin();
    int status;
    pid_t got;
    while ((got = waitpid(worker->tid, &status, __WALL)) < 0 && errno == EINTR) {
        tracee_waits();
        bool must_return = tracee->worker_is_lent && tracee->worker_frame == 0;
        if (!must_return &&
            tracee_patience_is_over(tracee, &patience, worker->tid, TRACEE_CALL_MS)) {
            worker->stopped = false;
            return -ETIMEDOUT;
        }
    }
    if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
        worker->gone = true;
        return -ESRCH;
    }
    worker->stopped = true;
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

/* --- its return frame --- */

/* Put the bytes back that the frame has replaced. */
static void take_frame(const struct tracee *tracee, struct placed_frame *placed)
{
    const struct return_frame *frame = &placed->frame;
    uint8_t now[RETURN_FRAME_BYTES_MAX];
    if (frame->count == 0 || tracee_read(tracee, frame->start, now, frame->count) < 0)
        return;
    for (size_t i = 0; i < frame->count; i++) {
        if (now[i] == frame->bytes[i])
            now[i] = placed->is_foreign ? placed->before[i] : 0;
    }
    tracee_write(tracee, frame->start, now, frame->count);
    placed->frame.count = 0;
}

/* Make the frame and write it into the room, or (NULL) below the stack pointer. */
static bool write_frame(struct tracee *tracee, const struct tracee_room *room,
                        struct placed_frame *placed, bool with_tiles)
{
    const struct user_regs_struct *registers = &tracee->worker->registers;
    struct return_frame *frame = &placed->frame;
    uint64_t end = room != NULL ? room->end : registers_sp(registers) - PROCESSOR_RED_ZONE_BYTES;
    bool is_made = return_frame_make(frame, tracee, tracee->worker->tid, registers,
                                     tracee->worker_mask, tracee->sigreturn, end, with_tiles);
    placed->is_foreign = room == NULL;
    if (is_made && (room == NULL || frame->start >= room->start) &&
        tracee_read(tracee, frame->start, placed->before, frame->count) == 0 &&
        tracee_write(tracee, frame->start, frame->bytes, frame->count) == 0)
        return true;
    frame->count = 0;
    return false;
}

/* A whole frame below the stack pointer is better than one without tiles in the room; there, and on
 * a small stack, tiles may find no place. */
static bool put_frame(struct tracee *tracee, const struct tracee_room *room,
                      struct placed_frame *placed)
{
    return write_frame(tracee, room, placed, true) ||
           (room == NULL && write_frame(tracee, room, placed, false));
}

/* Place the first frame. Without one the thread does not survive our death. */
static void begin_frame(struct tracee *tracee, const struct tracee_room *room)
{
    struct placed_frame *placed = &frames.placed[frames.current];
    bool is_placed =
        (room != NULL && put_frame(tracee, room, placed)) || put_frame(tracee, NULL, placed);
    tracee->worker_frame = is_placed ? placed->frame.entry : 0;
}

/* Move the frame, in an order in which the thread always finds one. */
void tracee_work_move(struct tracee *tracee, const struct tracee_room *room)
{
    struct placed_frame *from = &frames.placed[frames.current];
    struct placed_frame *to = &frames.placed[frames.current ^ 1];
    static const uint64_t nothing[6];
    if (tracee->worker == NULL || !tracee->worker->stopped || tracee->worker_frame == 0)
        return;
    bool is_put = put_frame(tracee, room, to);
    if (!is_put && room != NULL)
        return;
    tracee->worker_frame = is_put ? to->frame.entry : 0;
    if (prepare_call(tracee, CALL_OWN_PROCESS, nothing) < 0)
        return;
    take_frame(tracee, from);
    frames.current ^= 1;
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

/* Give the worker our registers, and block its signals. */
static long lend_worker(struct tracee *tracee, const struct tracee_room *room)
{
    static const uint64_t nothing[6];
    uint64_t all = UINT64_MAX;
    begin_frame(tracee, room);
    tracee->worker_is_lent = true;
    /* Set up its return before its signals are blocked. */
    long code = prepare_call(tracee, CALL_OWN_PROCESS, nothing);
    if (code == 0)
        code = shadow_stack_enter(tracee);
    if (code == 0)
        code = tracee_request(PTRACE_SETSIGMASK, tracee->worker->tid, (void *)8, &all);
    return code == 0 ? own_call_replace(tracee) : code;
}

int tracee_work_begin(struct tracee *tracee, const struct tracee_room *room)
{
    tracee->worker = choose_worker(tracee);
    tracee->work_code = 0;
    tracee->worker_frame = 0;
    tracee->worker_is_lent = false;
    tracee->shadow_stack = 0;
    if (tracee->worker == NULL)
        return -ESRCH;
    if (tracee->syscall_instruction == 0) {
        tracee->worker = NULL;
        return -ENOTSUP;
    }
    stop_guard_interrupt_waits(true);
    note_rseq(tracee);
    long code =
        tracee_request(PTRACE_GETSIGMASK, tracee->worker->tid, (void *)8, &tracee->worker_mask);
    if (code == 0)
        code = own_call_enter(tracee);
    if (code == 0)
        code = lend_worker(tracee, room);
    if (code < 0) {
        tracee->work_code = (int)code;
        tracee_work_end(tracee);
    }
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
        if (WSTOPSIG(status) == TRACEE_SYSCALL_STOP)
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
    /* A thread that was given up may stop at any time, but not for this call. */
    *code = tracee->worker->stopped ? (int)prepare_call(tracee, call, chosen) : -ETIMEDOUT;
    if (*code == 0)
        *code = worker_run_to_call(tracee);
    if (*code == 0)
        *code = worker_run_to_call(tracee);
    if (*code == 0)
        *code = (int)registers_read(tracee->worker->tid, &registers);
    if (tracee->work_code == 0)
        tracee->work_code = *code;
    return *code == 0 ? registers_result(&registers) : -EIO;
}

/* Bring the worker to a stop outside of system calls. Return its status or a negative errno. */
static int stop_worker(struct tracee *tracee)
{
    struct tracee_thread *worker = tracee->worker;
    tracee_request(PTRACE_INTERRUPT, worker->tid, NULL, NULL);
    int status;
    do {
        long code = worker->stopped ? tracee_request(PTRACE_CONT, worker->tid, NULL, NULL) : 0;
        status = code < 0 ? (int)code : worker_wait(tracee);
    } while (status >= 0 && status >> 16 != PTRACE_EVENT_STOP);
    return status;
}

int tracee_work_end(struct tracee *tracee)
{
    struct tracee_thread *worker = tracee->worker;
    if (worker == NULL)
        return -ESRCH;
    int status = worker->gone ? -ESRCH : stop_worker(tracee);
    if (status >= 0 && tracee->worker_is_lent) {
        /* Restore its own registers before the frame goes: until then it protects the thread. */
        tracee_request(PTRACE_SETSIGMASK, worker->tid, (void *)8, &tracee->worker_mask);
        registers_write(worker->tid, &worker->registers);
        shadow_stack_leave(tracee);
        own_call_leave(tracee);
        if (tracee->rseq_field != 0)
            tracee_write(tracee, tracee->rseq_field, &tracee->rseq_value, 8);
        take_frame(tracee, &frames.placed[frames.current]);
    }
    frames.placed[frames.current].frame.count = 0;
    stop_guard_interrupt_waits(false);
    tracee->worker = NULL;
    return status < 0 ? status : tracee->work_code;
}
