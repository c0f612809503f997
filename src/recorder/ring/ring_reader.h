/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consuming side of the ring (wire/ring.h).
 *
 * It makes the memory, hands its descriptor to the client, and turns the client's records into
 * checked copies for a visitor. The client may write anything at any time. So each word that a
 * decision depends on is read once, and nothing in shared memory is trusted a second time. A ring
 * that breaks its rules gives -EBADMSG, and does no other harm.
 */
#ifndef HEAPPROFD_RECORDER_RING_RING_READER_H
#define HEAPPROFD_RECORDER_RING_RING_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/ring/event.h"
#include "wire/barrier.h"
#include "wire/ring.h"

/* Bound of a record's size. The largest are a stack of 1024 frames, with 8 KiB, and a module, with
 * 4.2 KiB. */
#define RING_RECORD_BYTES_MAX 65536u

/* Events are passed to the visitor in batches of at most this many, so that it can prefetch what
 * they touch. */
#define RING_EVENTS_BATCH 32

/* Takes in records. Each function returns 0, or a negative errno, which ends the drain and becomes
 * its result. Data behind the pointers is private, checked, and valid only during the call. */
struct ring_visitor {
    int (*events)(void *context, const struct heap_event *events, size_t count);
    int (*stack)(void *context, const struct record_stack *stack);
    int (*module)(void *context, const struct record_module *module);
    int (*modules_reset)(void *context);
    int (*thread)(void *context, uint16_t slot, uint32_t tid, const char *name);
    int (*heap)(void *context, uint8_t heap, uint64_t interval_bytes, const char *name);
    int (*interval)(void *context, uint8_t heap, uint32_t index, uint64_t interval_bytes);
    int (*name)(void *context, const struct record_name *name);
    int (*context)(void *context, const struct record_context *scopes);
    int (*code)(void *context, const struct record_code *code);
    int (*unmap)(void *context, uint8_t heap, uint16_t slot, const struct record_unmap *unmap,
                 uint64_t time_ms);
    /* *answer: what to report to the client about the module, or RING_UNWINDING_UNKNOWN. */
    int (*walk)(void *context, uint16_t slot, const struct record_walk *walk,
                enum ring_unwinding *answer);
    /* Return the hash of the stack that a WALK of this slot produced, or 0. */
    uint64_t (*walked)(void *context, uint16_t slot, uint64_t token);
    /* NULL: SCOPEs are skipped. */
    int (*scope)(void *context, uint16_t slot, const struct record_scope *scope);
};

/* The name of a ring's file in /proc, or the beginning of that name (ATTACHED_RING_NAME). */
#define RING_MEMFD_NAME "heapprofd-ring"

struct ring_cut;

struct ring_reader {
    struct ring_control *control;
    struct ring_thread *threads;
    struct ring_thread *heap_lines;
    struct ring_pending *pending; /* those of threads, then those of heap lines */
    struct ring_cut *cut;         /* NULL: none */
    /* By slot: ordinal of the last malloc sample that was taken; 0: none. */
    uint32_t *taken;
    size_t taken_count;
    uint8_t *data; /* mapped twice in a row */
    uint64_t data_bytes;
    uint64_t consumed;  /* our private position; the shared word is only written */
    uint64_t populated; /* position at which pages of the data are next mapped */
    /* The last allocation that was taken, for a FREE_LAST, and the end of its record. */
    struct ring_last_alloc {
        uint64_t end, address;
        uint64_t time_ms;
        uint32_t ordinal;
        uint16_t thread;
        uint8_t heap;
    } last;
    uint64_t opened_ms;  /* CLOCK_MONOTONIC_COARSE */
    uint64_t age_ms;     /* when the last drain began */
    uint64_t busy_bytes; /* bytes that were reserved and never committed */
    /* Bytes that waited when the last drain began, and the most that any drain has found. */
    uint64_t used_bytes, most_used_bytes;
    uint64_t stuck_at; /* value of `consumed` when an unfinished record was first seen there */
    uint64_t stuck_since_ms;
    uint64_t stuck_ticks;  /* processor time that the record's thread had used by then */
    uint64_t waiting_ms;   /* as the control page had it last */
    uint64_t waited_ms;    /* time for which threads have waited since, while the process ran */
    uint64_t left_ms;      /* waited_ms when the record seemed to be left; UINT64_MAX: it did not */
    uint32_t generation;   /* of modules, as the client counts; 0: the first */
    uint32_t asked;        /* the last value of asked_doublings */
    uint64_t consuming_ns; /* processor time spent on this ring, as far as it was noted */
    pid_t process;         /* in our pid namespace; 0: unknown, or in another one */
};

/* Sums over a process's threads, exact at any interval. They exclude calls whose sample is not in
 * the ring yet: those calls have not returned. */
struct ring_totals {
    uint64_t calls, bytes, samples;
    uint64_t blocked_us;
    uint64_t lost[RING_LOSS_COUNT];
    enum ring_client_state client_state;
    bool restricted;   /* the process restricted its system calls since */
    bool has_deepbind; /* it opened libraries whose malloc calls bypass the client */
    char unseen_family[RING_UNSEEN_BYTES]; /* an allocator of a library that the client does not
                                              see; "": none */
    /* Number of the program's heaps that the session leaves out by default, and the name of one. */
    uint32_t unmentioned_heaps;
    char unmentioned_heap[RING_HEAP_NAME_BYTES];
    /* Number of forked children of an attached process that allocate and are not profiled, and the
     * pid of the last one in its own namespace. */
    uint32_t silent_children, silent_child_pid;
};

/* The totals of a heap other than malloc's. */
struct ring_heap_totals {
    uint64_t calls, bytes;
};

/* Make the ring and its sealed memfd, which the caller sends and closes. data_bytes is a power of
 * two from RING_DATA_BYTES_MIN to _MAX. Return 0 or a negative errno. */
int ring_reader_open(struct ring_reader *reader, const char *name, uint64_t data_bytes, int *memfd);
void ring_reader_close(struct ring_reader *reader);

/* Set which heaps are wanted. Call it before the memfd is sent. */
void ring_reader_set_heaps(struct ring_reader *reader, const struct ring_heaps *heaps);

/*
 * Consume what the ring holds now, at most one ring full. `dead`: no producer is left that could
 * finish its record, so unfinished records are skipped. Return the number of bytes consumed,
 * -EBADMSG for a ring that breaks the rules, or the visitor's error.
 */
ssize_t ring_reader_drain(struct ring_reader *reader, bool dead, const struct ring_visitor *visitor,
                          void *context);

/*
 * How long the drain waits for an unfinished record at the head of the ring before it skips it.
 *
 *   ALL_WAIT     if all threads that ever existed wait for space: none is left to finish it
 *   SOME_WAIT    if some threads wait: longer than a scheduler keeps a thread from running (a
 *                cgroup's quota: 100 ms). This is time in which they did run (ring_control)
 *   ABANDONED    if no thread waits, and none claims to be writing; if one does, there is no limit
 *
 * A record whose thread has ended (reader->process) is skipped at once. A record whose thread has
 * not run since is never skipped: the thread is still in the middle of it, and would later write
 * into space that belongs to another record by then. If others wait for it for UNSCHEDULED, the
 * session ends for this process.
 */
#define RING_ABANDONED_ALL_WAIT_MS 20
#define RING_ABANDONED_SOME_WAIT_MS 200
#define RING_ABANDONED_MS 1000
#define RING_UNSCHEDULED_MS 10000

/* Return whether the client has not yet accepted the ring. */
bool ring_reader_is_awaited(const struct ring_reader *reader);

/* Return whether everything reserved up to the cut has been taken. */
bool ring_reader_is_empty(const struct ring_reader *reader);

/*
 * Skip a record that its writer will not finish although the process lives: a signal handler left
 * it by longjmp, or the thread was cancelled in the middle of it. Otherwise writers would wait for
 * space forever. Return whether there is more to drain. If the writer was only slow, it damages
 * only records of its own process.
 */
bool ring_reader_unstick(struct ring_reader *reader, uint64_t monotonic_ms);

/* Signal to the client that the daemon is alive. During long work heartbeat_send() does so in all
 * open rings of the process. */
void ring_reader_beat(struct ring_reader *reader, uint64_t monotonic_ms);

/* Notify an attached client that its process has restricted its system calls. */
void ring_reader_restrict(struct ring_reader *reader);

/* Ask the client to double its first interval of malloc so many times. */
void ring_reader_ask_doublings(struct ring_reader *reader, uint32_t doublings);

/* Publish more processor time that the caller has spent on consuming this ring. */
void ring_reader_note_cost(struct ring_reader *reader, uint64_t processor_ns);

/* Ask the client to produce no more, and wake those who wait for space. */
void ring_reader_stop(struct ring_reader *reader);

/*
 * Begin a cut: totals and samples of one moment, while the process goes on. The cut reads the
 * totals and notes how far the ring is reserved. Until the cut ends, drains stop there. Once the
 * ring is empty up to the cut, ring_reader_totals() returns the totals that match the samples
 * taken. Without a cut it returns the present totals, which match the samples only if the process
 * is dead. Return 0, or -ENOMEM without a cut.
 */
int ring_reader_cut(struct ring_reader *reader);
void ring_reader_end_cut(struct ring_reader *reader);

/* Used by the drain: return where it must stop; note an allocation that it has taken. */
uint64_t ring_reader_end(const struct ring_reader *reader);
void ring_reader_note_slow(struct ring_reader *reader, const struct heap_event *event);

static inline void ring_reader_note(struct ring_reader *reader, const struct heap_event *event)
{
    if (likely(reader->cut == NULL && event->heap == 0 && event->thread < reader->taken_count))
        reader->taken[event->thread] = event->ordinal;
    else
        ring_reader_note_slow(reader, event);
}

void ring_reader_totals(const struct ring_reader *reader, struct ring_totals *totals);

/* Indexed by heap. Entry 0 (malloc's) stays 0: ring_reader_totals() has it. */
void ring_reader_heap_totals(const struct ring_reader *reader,
                             struct ring_heap_totals totals[RING_HEAPS_MAX]);

#endif
