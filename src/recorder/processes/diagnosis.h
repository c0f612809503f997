/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains to users why a profile is empty or partial: what happened, and what to do about it. Uses
 * the facts that the session has gathered and, if the library never reported, the program's ELF
 * file.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_DIAGNOSIS_H
#define HEAPPROFD_RECORDER_PROCESSES_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/attach/attach.h"
#include "recorder/ring/ring_reader.h"

#define DIAGNOSIS_BYTES_MAX 1024

struct diagnosis_facts {
    const char *name;        /* the program's */
    const char *executable;  /* path of its file; NULL or "": unknown */
    bool said_hello;         /* the library ran in it, and reported */
    const char *library;     /* path of the preload library; NULL: do not examine it */
    const char *refused;     /* reason why its hello got no ring; NULL: it got one */
    uint64_t interval_bytes; /* malloc's; 0: malloc is not profiled */
    const char *allocator; /* file name of the object with the profiled malloc; may be NULL or "" */
    const char *unseen_reason; /* why the program's own allocator is not seen; may be NULL or "" */
    unsigned heaps_reported;   /* number of heaps other than malloc's */
    const char *unreported; /* heaps that were requested by name and never reported, as in "a, b";
                            NULL: none */
    bool mmap_wanted;       /* the session names libc.mmap */
    /* These are among them, and not in that list. */
    bool mmap_unreported, python_unreported;
    bool hides_python_objects; /* attached to: CPython's own allocator was not seen */
    enum attach_python python; /* attached to: the reason */
    uint64_t samples;
    struct ring_totals totals;
    bool corrupted;
    bool out_of_memory; /* the daemon had no memory for this process's ledger */
    bool hit_guardrail; /* exceeded max_heapprofd_memory_kb or max_heapprofd_cpu_secs */
    bool attached;      /* the profiler attached to it */
    enum attach_moment attach_moment;
    bool is_complete;   /* attached to before any code of the program had run */
    bool others_wanted; /* heaps other than malloc's are wanted; an attached client does not see
                           them */
    uint64_t attach_stopped_us, detach_stopped_us;
    unsigned calls_cut; /* system calls that failed with EINTR because of these stops */
    /* For a program that began during the session: how long after its start the profiler attached,
     * and how long it was known in all; 0: not such a program. Without start_was_reported these are
     * upper bounds. */
    uint64_t attach_missed_us, known_us;
    bool start_was_reported;   /* the kernel reported its exec */
    bool is_linked;            /* to the client, and attached to with the default heaps */
    bool may_join;             /* if heaps of its own are asked for */
    const char *attach_remark; /* problems of the attachment, as sentences; "": none */
    bool forked;               /* its profile began with a fork */
    bool running;              /* at the end of the session */
    bool interrupted;          /* a signal to us ended the session */
    const char *became;        /* name of the program that it became by exec; NULL: none */
    uint64_t became_after_ms;  /* since the profile began */
    bool became_target;        /* and that program is profiled */
    const char *became_hint;   /* else: the reason, or where it is written */
    const char *replaced;      /* name of the program that this one replaced by exec; NULL: none */
    bool replaced_kept;        /* and its profile is a heap of its own */
    uint64_t replaced_samples; /* else: number of its samples, which are not shown */
    uint64_t busy_bytes;       /* of records that were begun and never finished */
    uint64_t unknown_stacks, lost_frees;
    bool is_go;              /* a Go program: Go has a heap of its own */
    const char *code_remark; /* which names of generated code are missing, as sentences; may be NULL
                                or "" */
};

/* The remark for heaps other than malloc's in a process without the preload library. */
extern const char diagnosis_of_attached[];

/* Return why an attached client does not count CPython's objects, as a clause. */
const char *diagnosis_of_python(enum attach_python python);

/* Print all remarks, one sentence after the other; "" if nothing is wrong. */
void diagnosis_write(const struct diagnosis_facts *facts, char *text, size_t size);

#endif
