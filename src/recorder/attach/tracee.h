/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A traced process. Stops all of its threads, reads and writes its memory, and makes system calls
 * in one of the stopped threads. The thread's own state does not change: the code or system call in
 * which it was stopped continues afterwards.
 *
 * Threads that the kernel runs in the process (io_uring's workers, vhost) are left alone: they
 * never run the program's code, and a stop would make their work fail with EINTR.
 *
 * Every wait has a limit, and the kernel ends a stop in which we stand still (stop_guard.h).
 *
 * Functions return 0 or a negative errno. -ESRCH: the process has ended. -ETIMEDOUT: a thread
 * (tracee->stuck) did not stop, or did not make a system call, in time.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_TRACEE_H
#define HEAPPROFD_RECORDER_ATTACH_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include "wire/client_calls.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

#define TRACEE_SYSCALL_STOP (SIGTRAP | 0x80) /* see PTRACE_O_TRACESYSGOOD */

/* Time for a thread to stop while it waits in the kernel. */
#define TRACEE_STOP_MS 1000
/* Time for it to make a system call for us: memory may be short. */
#define TRACEE_CALL_MS 1000
/* Time for a runnable thread to get a processor. (A thread of the idle class beside eight busy
 * threads got one every two to three seconds.) */
#define TRACEE_TURN_MS 10000

struct tracee_thread {
    pid_t tid;
    bool stopped;
    bool gone;
    bool has_registers; /* `registers` are those at its stop */
    bool moved;         /* `registers` must be written back */
    struct user_regs_struct registers;
};

struct tracee {
    pid_t pid;
    int memory_fd; /* /proc/PID/mem */
    struct tracee_thread *threads;
    size_t thread_count, thread_capacity;
    unsigned patience_ms;         /* TRACEE_STOP_MS, unless the caller sets it */
    uint64_t syscall_instruction; /* address of a system call instruction; the caller finds it */
    uint64_t sigreturn;           /* likewise; if not 0, a `ret` follows syscall_instruction */
    bool is_held;                 /* the process, one thread, is seized and stopped already */
    pid_t stuck;                  /* a thread that did not stop in time */
    bool stuck_without_processor; /* it got no processor */
    bool priority_raised;         /* we have real-time priority until the threads continue */
    int own_policy, own_priority;
    unsigned calls_cut;  /* system calls that failed with EINTR because of our stops */
    uint64_t stopped_us; /* when the first thread was told to stop, CLOCK_MONOTONIC */
    uint64_t resumed_us; /* when the last thread was released */

    /* During system calls. */
    struct tracee_thread *worker;
    int work_code; /* the first error of tracee_system_call() */
    uint64_t worker_mask;
    bool worker_in_call;   /* it entered its own system call again (arch/aarch64/own_call.c) */
    uint64_t worker_frame; /* where its `ret` finds its return frame (return_frame.h); 0: none */
    bool worker_is_lent;   /* it has our registers */
    uint64_t shadow_stack; /* its pointer in there before ours (shadow_stack_enter()); 0: none */
    uint64_t rseq_field;   /* address of the pointer to its critical section (rseq); 0: none */
    uint64_t rseq_value;   /* that pointer */
};

/* Make a ptrace request. Return its result or a negative errno. */
long tracee_request(int request, pid_t tid, void *address, void *data);

int tracee_open(struct tracee *tracee, pid_t pid);

/* Release threads that are still stopped, and free. */
void tracee_close(struct tracee *tracee);

/* Stop all threads. -ETIMEDOUT: one does not stop (tracee->stuck), and all are released. */
int tracee_stop(struct tracee *tracee);

/* Wait until this runnable thread has got a processor or blocks, for at most TRACEE_TURN_MS. */
void tracee_wait_turn(const struct tracee *tracee, pid_t tid);

/* Write the registers of moved threads to the kernel, so that they continue from the new place if
 * we are killed. Call it once the new place exists, and before the old one is removed. */
void tracee_move(struct tracee *tracee);

/* Leave threads where they are whose registers were changed and not written yet. */
void tracee_forget_moves(struct tracee *tracee);

/* Release threads that did not stop in time but are stopped now. Return how many have not stopped.
 */
unsigned tracee_release_pending(void);

/* Reap a traced thread that has ended, so that its parent learns of it. The end of a child of ours
 * is left to whoever waits for it. */
void tracee_reap(pid_t tid);

/* Release this process, of one thread, which was told to stop and has not, once it has. */
void tracee_release_later(pid_t pid);

/* Return a thread of the process that did not stop in time and has not stopped since; 0: none. */
pid_t tracee_pending_of(pid_t pid);

/* Let all threads continue, moved ones from their new place. */
void tracee_resume(struct tracee *tracee);

int tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes);
int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes);

/* Read up to `bytes` bytes. Return how many were read. */
size_t tracee_read_some(const struct tracee *tracee, uint64_t address, void *to, size_t bytes);

/* Set what is done meanwhile while we wait for a thread, some dozens of times a second: a caller
 * can serve others. NULL: nothing. */
void tracee_serve_meanwhile(void (*serve)(void *context), void *context);

/* Note that we wait for something: give a sign of life, and let the caller serve others. */
void tracee_waits(void);

/* How long a thread has been waited for. */
struct tracee_patience {
    uint64_t began_us, runnable_us;
};

struct tracee_patience tracee_patience_begin(void);

/* Return whether a thread has been waited for too long: it waited in the kernel at all checks of
 * `blocked_ms`, or it gets no processor. Note it in tracee->stuck. */
bool tracee_patience_is_over(struct tracee *tracee, struct tracee_patience *patience, pid_t tid,
                             unsigned blocked_ms);

/* Return the registers of a stopped thread, or NULL if it has ended. Set `moved` after a change. */
struct user_regs_struct *tracee_registers(struct tracee_thread *thread);

/* Memory of ours in the process that nothing refers to. */
struct tracee_room {
    uint64_t start, end;
};

/*
 * Make system calls in one of the stopped threads: begin, any number of calls, end. The thread's
 * return frame is written into `room`, or, if that is NULL, below its stack pointer: then the bytes
 * that it replaces are put back. tracee_work_end() returns the first error of all calls.
 */
int tracee_work_begin(struct tracee *tracee, const struct tracee_room *room);
void tracee_work_move(struct tracee *tracee, const struct tracee_room *room);
int tracee_work_end(struct tracee *tracee);

/* Make a call, with the arguments that the table leaves open. Return its result, which may be a
 * negative errno. Set `code` to 0, or to the reason why the call could not be made. */
long tracee_system_call(struct tracee *tracee, int *code, enum client_call call,
                        const uint64_t chosen[6]);

#endif
