/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to a process that runs and was not started under us: brings the client into it, lets
 * its allocation functions lead there, and takes all of that out again.
 *
 * The client comes as a blob that needs no loader and no file (src/client/attached). All threads
 * are stopped together once to attach and once to detach (milliseconds; the outcome says how many).
 * In between nothing is traced: whoever called may die, and the process goes on.
 *
 * A caller makes the ring first (target_open() in src/daemon), hands over its descriptor, and reads
 * the ring as it would that of a process that said hello. Nothing here blocks for longer than
 * about two seconds. Not for several threads at once: ptrace belongs to the thread that calls.
 *
 * Waits with waitpid() for the threads of that process alone; a caller with a SIGCHLD handler that
 * reaps every child must leave them alone.
 */
#ifndef HEAPPROFD_ATTACH_ATTACH_H
#define HEAPPROFD_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

/* Why an attach was refused or failed; what the functions here return negated is an errno. */
enum attach_refusal {
    ATTACH_FAILED = 0, /* something else: see the message */
    ATTACH_NO_PROCESS, /* no such process, or it is a zombie or ended meanwhile */
    ATTACH_FORBIDDEN,  /* the kernel does not let us: another user, ptrace_scope, a kernel thread */
    ATTACH_TRACED,     /* a debugger has it already */
    ATTACH_HAS_CLIENT, /* the preload library is in it: use its handshake instead */
    ATTACH_ATTACHED,   /* another session is attached to it */
    ATTACH_UNSUPPORTED, /* 32 bit, another processor, no allocator that we can find */
    ATTACH_SECCOMP,     /* its system call filter forbids what we need */
    ATTACH_BUSY,        /* a thread could not be stopped in time: later may work */
};

/* What the process is to do; the fields are those of struct handshake_reply. */
struct attach_options {
    pid_t pid;
    int ring_fd;             /* of ring_reader_open(); stays the caller's */
    uint64_t data_bytes;     /* of the ring */
    uint64_t interval_bytes; /* >= 1 */
    uint64_t block_client_timeout_us;
    uint64_t start_ms; /* CLOCK_MONOTONIC_COARSE */
    uint32_t flags; /* enum handshake_flag; HELLO_AFTER_FORK has no effect, children are dormant */
    /* The preload library is in the process and asleep, since the program's own allocator stands
     * before it: that allocator, and no other, is to be patched. */
    bool beside_client;
    pid_t daemon_pid; /* whom the client asks for when the ring is full; 0: go by the heartbeat */
    /* How long to wait for threads that wait in the kernel; 0: a second. One that gets no processor is
     * waited for longer. All other threads stand meanwhile, and so does the caller. */
    unsigned patience_ms;
};

#define ATTACH_LEFT_BYTES 256

/* What was done. Of times, stopped_us is how long all threads stood, total_us the whole call. */
struct attach_outcome {
    enum attach_refusal refusal; /* where the call failed */
    unsigned threads;
    uint64_t stopped_us, total_us;
    char allocator[64];              /* file name of the object with the patched malloc */
    unsigned functions_patched;      /* entries; aliases count once */
    unsigned functions_refused;      /* found, but not of a form that can be patched */
    char refused[ATTACH_LEFT_BYTES]; /* which and why, "" if none */
    bool code_restored;              /* detach: each patched byte read back as it was before */
    bool left_mapped;             /* detach: a thread was still inside; a later attach reuses it */
    bool process_gone;            /* detach: it ended or became another program */
    char left[ATTACH_LEFT_BYTES]; /* what was left and why, "" if nothing */
};

struct attach;

/*
 * Attaches. NULL with a refusal in the outcome and a message for people (what, why, the remedy) in
 * the error: nothing in the process has changed then.
 */
struct attach *attach_open(const struct attach_options *options, struct attach_outcome *outcome,
                           struct error *error);

/*
 * Detaches and frees. 0, or a negative errno with a message where the code could not be restored.
 * A process that has ended or exec'ed is no error. After it the ring may be drained for the last
 * time: nothing writes to it any more.
 */
int attach_close(struct attach *attach, struct attach_outcome *outcome, struct error *error);

/* Frees without detaching: the hooks stay and pass through once the ring's owner is gone. */
void attach_abandon(struct attach *attach);

/* Let go of threads that did not stop in time, and do now. Return how many still do not: they would
 * stand from the moment in which they stop, so call this often while there are any. */
unsigned attach_tidy(void);

/*
 * Whether attach_open() would be refused, by what can be read without stopping anything (doctor).
 * 0, or a negative errno with the message and the refusal.
 */
int attach_check(pid_t pid, struct attach_outcome *outcome, struct error *error);

/* Whether a program that has just begun is so far that it can be attached to: its loader is done.
 * Cheap, to be asked often. 0; -EAGAIN: not yet; or a negative errno: attach_open() will say why.
 */
int attach_check_loaded(pid_t pid);

#endif
