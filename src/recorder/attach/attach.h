/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to a running process that was not started under heap_profile: brings the client into
 * it, redirects its allocation functions to the client, and removes all of that again.
 *
 * The client is a blob that needs no loader and no file (src/client/attached). All threads are
 * stopped together once to attach and once to detach (milliseconds; the outcome has the time). In
 * between nothing is traced: the caller may die, and the process continues.
 *
 * The caller first makes the ring (target_open() in src/recorder), passes its descriptor, and reads
 * the ring like that of a process that joined by itself. A call takes about two seconds at
 * most, unless threads of the process wait for a processor (patience_ms). If this process stands
 * still while it holds another, it is killed after ten seconds (stop_guard.h). Not thread-safe:
 * ptrace belongs to the calling thread.
 *
 * It waits with waitpid() for the threads of that process only. A caller with a SIGCHLD handler
 * that reaps all children must leave these threads alone.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_ATTACH_H
#define HEAPPROFD_RECORDER_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

/* Why an attach was refused or failed. Functions return a negative errno besides. */
enum attach_refusal {
    ATTACH_FAILED = 0,  /* something else: see the message */
    ATTACH_NO_PROCESS,  /* no such process, or it is a zombie or ended meanwhile */
    ATTACH_FORBIDDEN,   /* the kernel forbids it: another user, ptrace_scope, a kernel thread */
    ATTACH_TRACED,      /* a debugger traces it already */
    ATTACH_HAS_CLIENT,  /* the preload library is in it: use its handshake instead */
    ATTACH_ATTACHED,    /* another session is attached to it */
    ATTACH_UNSUPPORTED, /* 32 bit, another processor, or no known allocator */
    ATTACH_SECCOMP,     /* its system call filter forbids calls that we need */
    ATTACH_BUSY,        /* a thread could not be stopped in time: try again later */
};

/* Whether the objects of CPython are counted, as the heap python.object. */
enum attach_python {
    ATTACH_PYTHON_ABSENT = 0, /* the program is not CPython */
    ATTACH_PYTHON_COUNTED,
    ATTACH_PYTHON_HAS_OTHER, /* CPython allocates objects by other functions than pymalloc's */
    ATTACH_PYTHON_PRINTS,    /* it prints pymalloc's statistics (PYTHONMALLOCSTATS) */
    ATTACH_PYTHON_FAILED,    /* no memory could be mapped for it */
};

/* When a process is attached to. */
enum attach_moment {
    ATTACH_WHILE_IT_RUNS,
    /* It has the preload library, which has said hello and is dormant because the program's own
     * allocator comes before it. Patch only that allocator. */
    ATTACH_AT_HELLO,
    /* It stands at its program's first instruction (entry.h). Attaching releases it. */
    ATTACH_AT_ENTRY,
};

/* Options of an attach. The fields are those of struct handshake_reply. */
struct attach_options {
    pid_t pid;
    int ring_fd;             /* from ring_reader_open(); the caller keeps it */
    uint64_t data_bytes;     /* of the ring */
    uint64_t interval_bytes; /* 0: malloc is not profiled */
    uint64_t block_client_timeout_us;
    uint64_t adaptive_threshold_bytes, adaptive_max_interval_bytes;
    uint64_t start_ms; /* CLOCK_MONOTONIC_COARSE */
    uint32_t flags; /* enum handshake_flag; HELLO_AFTER_FORK has no effect: children are dormant */
    enum attach_moment moment;
    pid_t daemon_pid; /* the process whose life the client checks when the ring is full; 0: use the
                         heartbeat */
    /* How long to wait for threads that wait in the kernel; 0: one second. A thread that gets no
     * processor is waited for longer. Meanwhile all other threads are stopped, and the caller
     * blocks. */
    unsigned patience_ms;
    uint32_t max_overhead_percent;
    uint64_t wide_interval_bytes;
    bool wants_python;   /* profile the heap python.object */
    bool wants_families; /* profile allocators that libraries have under other names */
};

#define ATTACH_LEFT_BYTES 256

/* What was done. */
struct attach_outcome {
    enum attach_refusal refusal; /* if the call failed */
    unsigned threads;
    uint64_t stopped_us; /* time in which all threads were stopped */
    unsigned calls_cut; /* system calls that failed with EINTR because their threads were stopped */
    char allocator[64]; /* file name of the object with the patched malloc */
    bool allocator_is_shared;  /* that is a library: the other libraries' calls are seen, too */
    bool allocator_has_others; /* another allocator's functions count beside it */
    enum attach_python python;
    char unseen_family[24];        /* an allocator of a library that cannot be patched; "": none */
    char added[ATTACH_LEFT_BYTES]; /* heaps that attach_update_families() has added; "": none */
    unsigned functions_refused;    /* found, but not of a form that can be patched */
    char refused[ATTACH_LEFT_BYTES]; /* which and why, "" if none */
    bool code_restored;              /* detach: every patched byte was restored and read back */
    bool left_mapped;  /* detach: a thread was still inside; the next attach removes it */
    bool process_gone; /* detach: it ended or became another program */
    char left[ATTACH_LEFT_BYTES]; /* what stays in the process and why, "" if nothing */
};

struct attach;

/*
 * Attach. Return NULL with a refusal in the outcome and a message (what, why, the remedy) in the
 * error. In that case nothing in the process has changed.
 */
struct attach *attach_open(const struct attach_options *options, struct attach_outcome *outcome,
                           struct error *error);

/*
 * Look whether the process has opened libraries with allocators under other names, and patch these,
 * too (if wants_families). Cheap if there is nothing new, and nothing is stopped then: one read for
 * each library. Return 0; or a negative errno with a message, and the family in the outcome. If the
 * refusal is ATTACH_BUSY, the next call tries again.
 */
int attach_update_families(struct attach *attach, struct attach_outcome *outcome,
                           struct error *error);

/*
 * Detach and free. Return 0, or a negative errno with a message if the code could not be restored.
 * A process that has ended or called exec is not an error. After it, drain the ring one last time:
 * nothing writes to it any more.
 */
int attach_close(struct attach *attach, struct attach_outcome *outcome, struct error *error);

/* Set what is done while an attach or a detach waits, some dozens of times a second, so that other
 * processes need not wait, too. NULL: nothing. */
void attach_serve_meanwhile(void (*serve)(void *context), void *context);

/* Release threads that did not stop in time but are stopped now. Return how many are left. A thread
 * that stops later stays stopped until this is called, so call it often while the result is not 0.
 */
unsigned attach_tidy(void);

/* Return 0, or -EAGAIN with a message if a thread of the process is left that attach_tidy() has not
 * released yet. Cheap: attach_open() would be refused. */
int attach_check_released(pid_t pid, struct error *error);

/*
 * Check whether attach_open() would be refused, without stopping anything (for the doctor). Return
 * 0, or a negative errno with the message and the refusal.
 */
int attach_check(pid_t pid, struct attach_outcome *outcome, struct error *error);

/* Check whether a program that has just started can be attached to: its loader is done. Cheap
 * enough to be called often. Return 0; -EAGAIN: not yet; or a negative errno: attach_open() will
 * return the reason. */
int attach_check_loaded(pid_t pid);

#endif
