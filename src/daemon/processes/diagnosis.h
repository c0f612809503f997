/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a profile is empty or partial, in words for the person who asked for it:
 * what happened, and what to do about it. Looks at the facts that the session
 * has gathered and, where the library never spoke, at the program's ELF file.
 */
#ifndef HEAPPROFD_DAEMON_PROCESSES_DIAGNOSIS_H
#define HEAPPROFD_DAEMON_PROCESSES_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/ring/ring_reader.h"

#define DIAGNOSIS_BYTES_MAX 1024

struct diagnosis_facts {
    const char *name;       /* of the program */
    const char *executable; /* path of its file; NULL or "": unknown */
    bool said_hello;        /* the library ran in it */
    const char *library;    /* path of the preload library; NULL: not looked at */
    const char *refused;    /* why its hello could not be answered with a ring; NULL: it was */
    uint64_t interval_bytes;
    const char *allocator; /* file name of the object with the malloc that is profiled; NULL, "" */
    const char *unseen_reason; /* why the program's own allocator is not seen; NULL, "" */
    unsigned heaps_heard;      /* other than malloc's, whose interval is 0 if it is not profiled */
    const char *unheard; /* as in "a, b": heaps asked for by name, never heard of; NULL: none */
    bool unheard_mmap;   /* libc.mmap is one, and not in that list */
    uint64_t samples;
    struct ring_totals totals;
    bool corrupted;
    bool out_of_memory; /* the daemon was, for this process's books */
    bool hit_guardrail; /* max_heapprofd_memory_kb or max_heapprofd_cpu_secs was passed */
    bool attached;      /* the client came into it while it ran */
    bool beside_client; /* and it said hello then: it has an allocator of its own */
    bool others_wanted; /* heaps other than malloc's, which such a client does not see */
    uint64_t attach_stopped_us, detach_stopped_us;
    /* Of a program that began during the session: how long after that it was attached to, and how
     * long it was known in all; 0: not such a one. Not told of its start: at the most. */
    uint64_t attach_missed_us, known_us;
    bool told_of_start;
    const char *attach_remark; /* what did not go as it should, in sentences; "": nothing */
    bool forked;               /* its profile began with a fork */
    bool running;              /* when the session ended */
    bool interrupted;          /* the session was ended by a signal to us */
    const char *became;        /* name of what it became by exec; NULL: nothing */
    uint64_t became_after_ms;  /* since the profile began */
    bool became_target;        /* and that is profiled */
    const char *became_hint;   /* else: why it is not, or where that is said */
    const char *replaced;      /* name of the image that this one replaced by exec; NULL */
    bool replaced_kept;        /* and its profile stands in a heap of its own */
    uint64_t replaced_samples; /* else: what is thereby not shown */
    uint64_t busy_bytes;       /* of records that were begun and never finished */
    uint64_t unknown_stacks, lost_frees;
    bool is_go;              /* a Go program: Go keeps a heap of its own */
    const char *code_remark; /* what names of generated code are missing, in sentences; NULL, "" */
};

/* Of heaps other than malloc's, in a process without the preload library. */
extern const char diagnosis_of_attached[];

/* Writes all that is to be said, sentence by sentence; "" if all is well. */
void diagnosis_write(const struct diagnosis_facts *facts, char *text, size_t size);

#endif
