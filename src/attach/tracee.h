/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in our hands: all of its threads stopped, its memory read and written, system calls
 * made in its name. Nothing of a thread's own state changes by it: what it was doing when it
 * was stopped, a system call too, goes on when it is let go.
 *
 * Functions return 0 or a negative errno; -ESRCH: the process is gone.
 */
#ifndef HEAPPROFD_ATTACH_TRACEE_H
#define HEAPPROFD_ATTACH_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* A thread is given this long to stop; where it would run and waits for a processor, it is given
 * this long to have its turn. (A thread of the idle class beside eight that compute had one every
 * two to three seconds.) */
#define TRACEE_STOP_MS 1000
/* A thread that would run if it had a processor is waited for that long. */
#define TRACEE_TURN_MS 10000

struct tracee_thread {
    pid_t tid;
    bool stopped;
    bool gone;
    bool has_registers; /* registers are what they were when it stopped */
    bool moved;         /* and have to be written back */
    struct user_regs_struct registers;
};

struct tracee {
    pid_t pid;
    int memory_fd; /* /proc/PID/mem */
    struct tracee_thread *threads;
    size_t thread_count, thread_room;
    unsigned patience_ms;         /* TRACEE_STOP_MS, unless the caller sets it */
    uint64_t syscall_instruction; /* address of one; found by the caller */
    uint64_t sigreturn;           /* likewise; if not 0, a `ret` stands behind the former */
    pid_t stuck;                  /* a thread that did not stop in time */
    bool stuck_without_processor; /* it would have run */
    bool hurries;                 /* we run before all others until they go on */
    int own_policy, own_priority;
    uint64_t resumed_us; /* when the last thread was let go, CLOCK_MONOTONIC */

    /* While system calls are made. */
    struct tracee_thread *worker;
    uint64_t worker_mask;
    uint64_t worker_frame; /* its way back should we be killed (return_frame.h); 0: none */
    uint64_t rseq_field,
        rseq_value; /* address of its critical section's pointer, and what it was */
};

int tracee_open(struct tracee *tracee, pid_t pid);

/* Lets go of threads that are still held, and frees. */
void tracee_close(struct tracee *tracee);

/* Stops all threads. -ETIMEDOUT: one does not stop (tracee->stuck); all are let go then. */
int tracee_stop(struct tracee *tracee);

/* Waits until this thread, which goes on, has run for a moment, has nothing to run for, or has had
 * no turn for TRACEE_TURN_MS. */
void tracee_wait_turn(const struct tracee *tracee, pid_t tid);

/* Has the kernel take note of threads that were moved: should we be killed, they go on from there.
 * To be called once that place is there, and before the old one is gone. */
void tracee_move(struct tracee *tracee);

/* Let go of threads that did not stop in time and stand by now. Return how many still run. */
unsigned tracee_release_pending(void);

/* Whether this thread did not stop in time, and has not stopped since. */
bool tracee_is_pending(pid_t tid);

/* Lets all threads go on, those that were moved where they were moved to. */
void tracee_resume(struct tracee *tracee);

int tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes);
int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes);

/* As much as there is up to `bytes`; the number of bytes. */
size_t tracee_read_some(const struct tracee *tracee, uint64_t address, void *to, size_t bytes);

/* The registers of a stopped thread; NULL if it is gone. Changes take effect by `moved`. */
struct user_regs_struct *tracee_registers(struct tracee_thread *thread);

/* System calls, in one of the stopped threads: begin, any number of calls, end. */
int tracee_work_begin(struct tracee *tracee);
int tracee_work_end(struct tracee *tracee);

/* What the system call returned, a negative errno of its own among it; `code` is 0, or why
 * it could not be made at all. */
long tracee_system_call(struct tracee *tracee, int *code, long number, const uint64_t arguments[6]);

#endif
