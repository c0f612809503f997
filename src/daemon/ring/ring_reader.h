/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consuming side of the ring (wire/ring.h).
 *
 * Makes the memory, hands its descriptor to the client, and turns what the
 * client writes into checked copies for a visitor. The client may write
 * anything at any time: nothing in shared memory is believed twice, and every
 * word that decides something is read once. A ring that breaks its rules gives
 * -EBADMSG, and never more harm than that.
 */
#ifndef HEAPPROFD_DAEMON_RING_RING_READER_H
#define HEAPPROFD_DAEMON_RING_RING_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/ring/event.h"
#include "wire/ring.h"

/* No record is longer: a stack of 1024 frames takes 8 KiB, a module 4.2. */
#define RING_RECORD_BYTES_MAX 65536u

/* Events are handed over by up to this many, so that whoever takes them can
 * fetch what they touch before it needs it. */
#define RING_EVENTS_BATCH 32

/* Each returns 0 or a negative errno, which ends the drain and is returned from
 * it. What is pointed to is private, checked and valid during the call. */
struct ring_visitor {
    int (*events)(void *context, const struct heap_event *events, size_t count);
    int (*stack)(void *context, const struct record_stack *stack);
    int (*module)(void *context, const struct record_module *module);
    int (*modules_reset)(void *context);
    int (*thread)(void *context, uint16_t slot, uint32_t tid, const char *name);
    int (*heap)(void *context, uint8_t heap, uint64_t interval_bytes, const char *name);
    int (*interval)(void *context, uint32_t index, uint64_t interval_bytes);
    int (*name)(void *context, const struct record_name *name);
    int (*context)(void *context, const struct record_context *scopes);
    int (*unmap)(void *context, uint8_t heap, uint16_t slot, const struct record_unmap *unmap);
    /* *answer: what the client is to know of the module, RING_UNWINDING_UNKNOWN if nothing. */
    int (*walk)(void *context, uint16_t slot, const struct record_walk *walk,
                enum ring_unwinding *answer);
    /* The hash of the stack that a WALK of this slot came to; 0: there was none. */
    uint64_t (*walked)(void *context, uint16_t slot, uint64_t token);
};

/* The name of a ring's file in /proc, or its beginning (ATTACHED_RING_NAME). */
#define RING_MEMFD_NAME "heapprofd-ring"

struct ring_cut;

struct ring_reader {
    struct ring_control *control;
    struct ring_thread *threads;
    struct ring_thread *heap_lines;
    struct ring_pending *pending; /* of threads, then of heaps' lines */
    struct ring_cut *cut;         /* NULL: none */
    /* By slot: ordinal of the last sample of malloc that was taken; 0: none. */
    uint32_t *taken;
    size_t taken_count;
    uint8_t *data; /* mapped twice in a row */
    uint64_t data_bytes;
    uint64_t consumed;   /* our own; the shared word is only written */
    uint64_t busy_bytes; /* reserved and never committed */
    uint64_t records;
    uint64_t stuck_at; /* what `consumed` was when an unfinished record was first met there */
    uint64_t stuck_since_ms;
    uint64_t stuck_ticks; /* processor time that the record's thread had used by then */
    uint32_t generation;  /* of modules, as the client counts them; 0: the first */
    pid_t process; /* whose threads they are, by our numbers; 0: not known, or by other numbers */
};

/* Sums over a process's threads, which are exact at any interval. They leave out a call whose
 * sample is not in the ring yet: the call has not returned. */
struct ring_totals {
    uint64_t calls, bytes, samples;
    uint64_t blocked_us;
    uint64_t lost[RING_LOSS_COUNT];
    enum ring_client_state client_state;
    bool restricted;  /* the process restricted its system calls meanwhile */
    bool bound_apart; /* it opened libraries whose calls of malloc the client does not see */
    /* Forked children of an attached process that allocate and are not profiled, and the last one's
     * pid in its own namespace. */
    uint32_t silent_children, silent_child_pid;
};

/* The same of one heap other than malloc's. */
struct ring_heap_totals {
    uint64_t calls, bytes;
};

/* Makes the ring and its sealed memfd, for the caller to send and close. 0 or a
 * negative errno. data_bytes is a power of two within RING_DATA_BYTES_MIN and _MAX. */
int ring_reader_open(struct ring_reader *reader, const char *name, uint64_t data_bytes, int *memfd);
void ring_reader_close(struct ring_reader *reader);

/* Says which heaps are wanted; to be called before the memfd is sent. */
void ring_reader_want(struct ring_reader *reader, const struct ring_heaps *heaps);

/*
 * Consumes what is there now, at most one ring full. `dead`: no producer is left
 * that could finish its record; unfinished ones are stepped over. The number of
 * bytes consumed, -EBADMSG for a ring that breaks the rules, or what the visitor
 * returned.
 */
ssize_t ring_reader_drain(struct ring_reader *reader, bool dead, const struct ring_visitor *visitor,
                          void *context);

/*
 * An unfinished record that stands in the way this long was abandoned:
 * if every thread that there ever was waits for space, none is left to finish it;
 * if some wait, longer than a scheduler keeps a thread from running (a cgroup's
 * quota: 100 ms); else, if no thread says that it is writing, long enough. That of a thread which
 * has ended (reader->process) needs no waiting. One that has not run since is in the middle of it:
 * it would write into space that is another's by then.
 */
#define RING_ABANDONED_ALL_WAIT_MS 20
#define RING_ABANDONED_SOME_WAIT_MS 200
#define RING_ABANDONED_MS 1000
#define RING_UNSCHEDULED_MS 10000

/* Whether the client has not taken up the ring. */
bool ring_reader_is_awaited(const struct ring_reader *reader);

/* Whether everything reserved up to the cut has been taken. */
bool ring_reader_is_empty(const struct ring_reader *reader);

/*
 * Steps over a record that its writer will not finish though the process lives: a
 * signal handler left it by longjmp, or the thread was cancelled in the middle of it.
 * Otherwise writers would wait for space for ever. True if there is more to drain.
 * A writer that was only slow spoils records of its own process, no more.
 */
bool ring_reader_unstick(struct ring_reader *reader, uint64_t monotonic_ms);

/* Tells the client that the daemon lives. */
void ring_reader_beat(struct ring_reader *reader, uint64_t monotonic_ms);

/* Tells an attached client that its process has restricted its system calls. */
void ring_reader_restrict(struct ring_reader *reader);

/* Tells the client to produce no more, and wakes those who wait for space. */
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

/* For the drain: return where it must stop; note an allocation that it has taken. */
uint64_t ring_reader_end(const struct ring_reader *reader);
void ring_reader_note(struct ring_reader *reader, const struct heap_event *event);

void ring_reader_totals(const struct ring_reader *reader, struct ring_totals *totals);

/* By the index of the heap; malloc's, which is above, stays 0. */
void ring_reader_heap_totals(const struct ring_reader *reader,
                             struct ring_heap_totals totals[RING_HEAPS_MAX]);

#endif
