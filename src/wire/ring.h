/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a profiled process and the daemon share: layout and rules.
 *
 * Each process has one memfd, which the daemon makes and seals and both map:
 *
 *   offset 0               struct ring_control       one page
 *   RING_HEAPS_OFFSET      struct ring_heaps         which heaps are profiled
 *   RING_THREADS_OFFSET    struct ring_thread[]      one cache line per thread
 *   RING_HEAP_LINES_OFFSET struct ring_thread[]      one cache line for each thread and
 *                                                    heap other than malloc's
 *   RING_PENDING_OFFSET    struct ring_pending[]     one cache line for each of these lines
 *   RING_DATA_OFFSET       records, data_bytes long  mapped twice in a row, so
 *                                                    that a record never wraps
 *
 * Producing is reserve, fill, commit, as in the kernel's BPF ring buffer:
 *   1. `reserved` is advanced by compare-and-swap. The order of reservations
 *      is the total order of events.
 *   2. At once the record's header is stored with type RECORD_BUSY, its thread and
 *      the true length, so that a reader can step over a record whose writer died.
 *   3. The body is filled, and the header is stored again with its true type
 *      (release).
 * The reader zeroes the records that it has consumed before it advances `consumed` (release). If a
 * header is 0, the record was reserved but its writer has not reached step 2, and nothing after it
 * can be read.
 *
 * docs/ring.md has each state, who may change it, and why the totals are right.
 *
 * The daemon trusts nothing here. It keeps its own copy of `consumed`, and checks each length
 * against the reserved bytes. The client trusts the daemon.
 */
#ifndef HEAPPROFD_WIRE_RING_H
#define HEAPPROFD_WIRE_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RING_MAGIC UINT32_C(0x48505244) /* "HPRD" */
#define RING_VERSION 14

#define RING_DATA_BYTES_MIN 8192u
#define RING_DATA_BYTES_MAX (512u << 20)
#define RING_DATA_BYTES_DEFAULT (8u << 20)

/* Slots are reused when their thread has ended. Threads beyond this number of simultaneous ones are
 * counted in RING_LOST_NO_THREAD_SLOT and not profiled. */
#define RING_THREADS_MAX 16384u
#define RING_HEAPS_OFFSET 4096u
/* To a multiple of 64 KiB, the largest page of aarch64: the data that follow are mapped by
 * themselves. */
#define RING_HEAPS_BYTES (65536u - RING_HEAPS_OFFSET)
#define RING_THREADS_OFFSET (RING_HEAPS_OFFSET + RING_HEAPS_BYTES)

/* A line is assigned when a thread first uses a heap, and belongs to the thread's slot and the heap
 * from then on. */
#define RING_HEAP_LINES_MAX 16384u
#define RING_HEAP_LINES_OFFSET (RING_THREADS_OFFSET + RING_THREADS_MAX * 64u)

/* First for the threads' lines, then for the heaps' lines. */
#define RING_PENDING_OFFSET (RING_HEAP_LINES_OFFSET + RING_HEAP_LINES_MAX * 64u)
#define RING_DATA_OFFSET (RING_PENDING_OFFSET + (RING_THREADS_MAX + RING_HEAP_LINES_MAX) * 64u)

/* Heap 0 is libc.malloc. Registered heaps count from 1. */
#define RING_HEAPS_MAX 256u
#define RING_HEAP_NAME_BYTES 64u /* including the terminating zero */
#define RING_UNSEEN_BYTES 24u

/* No thread has this id (the kernel's limit is 2^22). */
#define RING_THREAD_CLAIMED UINT32_C(0xffffffff)

/* What a thread does with the ring. If a longjmp leaves the ring's code, the state stays until the
 * thread uses the ring again. */
enum ring_writing {
    RING_AWAY = 0,
    RING_WRITES = 1, /* it has an open record: a nested signal handler must not wait */
    RING_WAITS = 2,  /* for space, with no record open */
};

/* State of the client's side of the session. */
enum ring_client_state {
    RING_CLIENT_AWAITED = 0, /* has not taken the ring; perhaps the reply came too late */
    RING_CLIENT_RUNNING = 1,
    RING_CLIENT_OVERRAN = 2,     /* the ring was full and the client must not wait */
    RING_CLIENT_TIMED_OUT = 3,   /* waited block_client_timeout_us, and the ring was still full */
    RING_CLIENT_DAEMON_GONE = 4, /* waited, and the daemon's heartbeat did not change */
    RING_CLIENT_EXITED = 5,      /* ran its destructor: a normal exit */
    RING_CLIENT_HELD = 6, /* set by the daemon: a thread was kept from running inside a record */
};

/* Whether the daemon can unwind through a module's code for which the client has no CFI. */
enum ring_unwinding {
    RING_UNWINDING_UNKNOWN = 0, /* it has not checked yet */
    RING_UNWINDING_FOUND = 1,   /* it has data: a WALK is worth the cost of its copy */
    RING_UNWINDING_NONE = 2,    /* nobody has data: only frame pointers are left */
};

/* 2^39 times any interval exceeds every memory. */
#define RING_DOUBLINGS_MAX 39u

/* Modules with a higher number, which are learned after as many others, stay
 * RING_UNWINDING_UNKNOWN: a WALK of each sample is sent. */
#define RING_MODULES_MAX 4096u
#define RING_UNWINDING_PER_WORD 16u /* two bits each */

/* Why a sample, or a part of one, is missing: indexes of ring_control.lost. */
enum ring_loss {
    RING_LOST_OVERRUN,        /* samples after the ring overran */
    RING_LOST_REENTRANT,      /* ring full while the same thread was inside it */
    RING_LOST_NO_SCRATCH,     /* all stack buffers in use */
    RING_LOST_NO_THREAD_SLOT, /* calls of threads beyond RING_THREADS_MAX */
    RING_LOST_LIVE_SET,       /* the live set could not grow: the sample's free will be missing */
    RING_LOST_UNWIND,    /* stacks that ended in an error, or found no room, and scopes that may not
                          * be read (the sample is kept) */
    RING_LOST_ABANDONED, /* records that their writer left by longjmp, or that came too late */
    RING_LOST_FREE, /* frees while the ring was full and the same thread was inside it: reported
                       when the address is next freed or sampled */
    /* Allocations, and their bytes, that are in the exact totals and were sampled, but whose sample
     * did not reach the ring for any reason: those above, or a longjmp out of the writer. */
    RING_LOST_CALLS,
    RING_LOST_BYTES,
    RING_LOST_SCOPES, /* begins and ends of scopes */
    /* Stacks through an interpreter without its language's frames: the thread's state was in doubt,
     * or the interpreter is a version or build that the client does not know. */
    RING_LOST_INTERPRETER_STATE,
    RING_LOST_INTERPRETER_UNKNOWN,
    RING_LOST_MODULES, /* frames of stacks, in libraries for which the client has no room */
    RING_LOSSES_USED,
    RING_LOSS_COUNT = 16, /* entries of `lost` */
};

/* Every word is naturally aligned and accessed with the wrappers of barrier.h. */
struct ring_control {
    uint32_t magic;      /* RING_MAGIC, set by the daemon before the fd is sent */
    uint32_t version;    /* RING_VERSION */
    uint64_t data_bytes; /* a power of two */
    uint8_t pad0[48];

    /* Written by producers. */
    uint64_t reserved; /* bytes ever reserved; the offset in the data is & (data_bytes - 1) */
    uint8_t pad1[56];

    /* Written by the daemon, read by producers. */
    uint64_t consumed;     /* bytes ever consumed */
    uint32_t space_futex;  /* incremented after `consumed`; waiting producers sleep on it */
    uint32_t stopping;     /* 1: the session is over, produce no more */
    uint64_t heartbeat_ms; /* CLOCK_MONOTONIC when the daemon last reported that it lives */
    uint8_t pad2[40];

    /* Written by producers, rarely. */
    uint32_t waiters;               /* number of threads that sleep on space_futex, or more */
    uint32_t client_state;          /* enum ring_client_state */
    uint32_t threads_used;          /* slots [0, threads_used) may hold a thread */
    uint32_t wake_futex;            /* incremented when the ring becomes more than half full */
    uint64_t blocked_us;            /* time that threads spent waiting for space */
    uint64_t lost[RING_LOSS_COUNT]; /* indexed by enum ring_loss */
    uint32_t heap_lines_used;       /* lines [0, heap_lines_used) may be in use */
    uint32_t
        restricted; /* 1: the process has a filter of system calls, and the client makes none */

    /* Written by the daemon: enum ring_unwinding, by the client's numbers of modules. */
    uint32_t unwinding[RING_MODULES_MAX / RING_UNWINDING_PER_WORD];

    /* The number of forked children of an attached process, and the pid of the last one in its own
     * namespace. Each child writes them once, at its first allocation: it is not profiled and
     * cannot send a hello. */
    uint32_t silent_children, silent_child_pid;

    /* Written by a preloaded client. 1: the process loaded a library with RTLD_DEEPBIND, whose
     * calls of malloc go to libc and bypass the client. */
    uint32_t has_deepbind;

    /* Written by the daemon: a request for another interval of malloc, from
     * ring_ask_doublings(); 0: none yet. The client reads it after a sample, and whenever a thread
     * has allocated some more (client/sample/sampler.c). */
    uint32_t asked_doublings;

    /* Written by a preloaded client: the name, terminated, of an allocator in a library whose calls
     * it does not see. "": there is none. */
    uint64_t unseen_family[RING_UNSEEN_BYTES / 8];

    /* Written by the daemon: the processor time that it has spent on consuming this ring; 0:
     * unknown. */
    uint64_t consuming_ns;

    /* Written by each producer that waits for space, several times a second: CLOCK_MONOTONIC. It
     * stands still while the whole process does. */
    uint64_t waiting_ms;

    /* Written by the client: the number of heaps that the program has registered and a session with
     * the default heaps leaves out, and the name, terminated, of one of them. The first heap to
     * increment unmentioned_claims writes the name. "": it is not written yet. */
    uint64_t unmentioned_heap[RING_HEAP_NAME_BYTES / 8];
    uint32_t unmentioned_claims, unmentioned_heaps;
};

/* Return a request to double the first interval so many times. `last` is the one before: each
 * differs from it, because the client may have changed its interval by itself since. */
static inline uint32_t ring_ask_doublings(uint32_t last, uint32_t doublings)
{
    return (last | 0xffu) + 1 + (doublings < RING_DOUBLINGS_MAX ? doublings : RING_DOUBLINGS_MAX);
}

/* Return whether a request is the session's first, with which a process begins. */
static inline bool ring_asked_first(uint32_t asked)
{
    return asked >> 8 == 1;
}

static inline uint32_t ring_asked_doublings(uint32_t asked)
{
    return asked & 0xffu;
}

/*
 * A thread's sampler. Only that thread writes it, and the daemon may read it at any time: so the
 * exact totals of a process survive any kind of death.
 *
 * bytes requested so far = bytes_before + (bytes_loaded - bytes_left)
 *
 * Bytes and calls count requests (malloc, calloc, each realloc, ...). They include all threads that
 * had the slot: a thread adds to the values that it finds. So no sum changes when a slot gets a new
 * thread, and an ordinal identifies one call.
 */
struct ring_thread {
    uint64_t bytes_left;   /* until the next slow tick; a larger allocation causes it */
    uint64_t bytes_loaded; /* sum of all values that bytes_left was set to, mod 2^64 */
    uint64_t bytes_before; /* bytes that were not subtracted from bytes_left */
    uint64_t calls;
    uint64_t gap_rest; /* the part of the drawn gap that did not fit in bytes_left */
    uint64_t random;   /* state of the thread's generator */
    uint32_t tid;      /* 0: slot free; RING_THREAD_CLAIMED: between two threads */
    uint32_t samples;
    uint16_t rule;    /* number of the interval for which the gap was drawn */
    uint16_t in_ring; /* enum ring_writing */
    uint32_t inside;  /* not 0 while the thread is on the slow path: the low half of its frame's
                         address, odd. The session must not change meanwhile */
};

/*
 * Samples of one line that are counted in it but not in the ring yet. Only its thread writes them.
 * They grow before the line does, and shrink after the record's commit. So the line minus these is
 * exactly what the samples in the ring represent, even if the process dies in the middle of one.
 *
 * A line's words change one after the other. Meanwhile `counting` is the line's next `calls`, and
 * settled_bytes and settled_calls are the line's previous totals minus the pending ones: readers
 * use them instead of the words. A longjmp may leave `counting` set, so it is valid only until
 * `calls` has gone beyond it (ring_is_counting()).
 */
struct ring_pending {
    uint64_t samples; /* from ring_pending_word(): one instruction changes both figures */
    uint64_t settled_bytes, settled_calls;
    uint64_t counting;
    /* Only in threads' lines, and only for the thread: its last ALLOC. */
    uint64_t last_end;     /* position of the record's end; written last */
    uint64_t last_address; /* in heaps other than malloc's: any number */
    uint64_t last_heap;
    uint32_t last_ordinal, last_time_ms;
};

#define RING_PENDING_BYTES_BITS 48u
#define RING_PENDING_BYTES_MAX (UINT64_C(1) << 47) /* no object of a process is larger */

/* Return what one sample adds to `samples`. */
static inline uint64_t ring_pending_word(uint64_t bytes)
{
    return (UINT64_C(1) << RING_PENDING_BYTES_BITS) +
           (bytes < RING_PENDING_BYTES_MAX ? bytes : RING_PENDING_BYTES_MAX);
}

static inline uint64_t ring_pending_calls(uint64_t samples)
{
    return samples >> RING_PENDING_BYTES_BITS;
}

static inline uint64_t ring_pending_bytes(uint64_t samples)
{
    return samples & ((UINT64_C(1) << RING_PENDING_BYTES_BITS) - 1);
}

static inline bool ring_is_counting(uint64_t counting, uint64_t calls)
{
    return counting != 0 && (calls == counting || calls + 1 == counting);
}

/*
 * The heaps that the session profiles, written by the daemon before the fd is sent. A heap that is
 * listed here has that interval; every other heap has other_interval_bytes, and those of allocators
 * in libraries (client/hooks/families.h) families_interval_bytes. 0: it is not profiled.
 * The line of a heap is a struct ring_thread whose `tid` is the heap's index, and whose `samples`
 * is the slot.
 */
struct ring_heaps {
    uint64_t other_interval_bytes;
    uint64_t families_interval_bytes;
    uint32_t count;
    uint32_t pad;
    struct ring_heap_rule {
        uint64_t interval_bytes;
        char name[RING_HEAP_NAME_BYTES]; /* terminated */
    } rules[RING_HEAPS_MAX];
};

_Static_assert(sizeof(struct ring_control) <= RING_HEAPS_OFFSET, "control fits its page");
_Static_assert(sizeof(struct ring_heaps) <= RING_HEAPS_BYTES, "the heaps fit their pages");
_Static_assert(RING_DATA_OFFSET % 65536 == 0, "the data begin on a page of any size");
_Static_assert(sizeof(struct ring_thread) == 64, "one cache line a thread");
_Static_assert(sizeof(struct ring_pending) == 64, "one cache line a thread");

#endif
