/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a profiled process and the daemon share: layout and rules.
 *
 * One memfd per process, made and sealed by the daemon, mapped by both:
 *
 *   offset 0               struct ring_control       one page
 *   RING_HEAPS_OFFSET      struct ring_heaps         which heaps are wanted
 *   RING_THREADS_OFFSET    struct ring_thread[]      one cache line a thread
 *   RING_HEAP_LINES_OFFSET struct ring_thread[]      one cache line for each thread and
 *                                                    heap other than malloc's
 *   RING_PENDING_OFFSET    struct ring_pending[]     one cache line for each of these lines
 *   RING_DATA_OFFSET       records, data_bytes long  mapped twice in a row, so
 *                                                    that a record never wraps
 *
 * Producing is reserve, fill, commit, as in the kernel's BPF ring buffer:
 *   1. `reserved` is advanced by compare-and-swap; the order of reservations
 *      is the total order of events.
 *   2. At once the record's header is stored with type RECORD_BUSY, its thread and
 *      the true length, so that a reader can step over a record whose writer died.
 *   3. The body is filled, and the header stored again with its true type
 *      (release).
 * The reader zeroes what it has consumed before it advances `consumed`
 * (release): a header that reads 0 was reserved, but its writer has not yet
 * come to step 2 and nothing behind it can be read.
 *
 * The daemon trusts nothing here. It keeps its own copy of `consumed`, and
 * checks each length against what is reserved. The client trusts the daemon.
 */
#ifndef HEAPPROFD_WIRE_RING_H
#define HEAPPROFD_WIRE_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RING_MAGIC UINT32_C(0x48505244) /* "HPRD" */
#define RING_VERSION 8

#define RING_DATA_BYTES_MIN 8192u
#define RING_DATA_BYTES_MAX (512u << 20)
#define RING_DATA_BYTES_DEFAULT (8u << 20)

/* Slots are reused once their thread is gone; one more thread at once than
 * this is counted in RING_LOST_NO_THREAD_SLOT and not profiled. */
#define RING_THREADS_MAX 16384u
#define RING_HEAPS_OFFSET 4096u
#define RING_HEAPS_BYTES 20480u
#define RING_THREADS_OFFSET (RING_HEAPS_OFFSET + RING_HEAPS_BYTES)

/* Lines are given out as threads come to a heap, and stay with the thread's slot and the heap. */
#define RING_HEAP_LINES_MAX 16384u
#define RING_HEAP_LINES_OFFSET (RING_THREADS_OFFSET + RING_THREADS_MAX * 64u)

/* Of the threads' lines, then of the heaps' lines. */
#define RING_PENDING_OFFSET (RING_HEAP_LINES_OFFSET + RING_HEAP_LINES_MAX * 64u)
#define RING_DATA_OFFSET (RING_PENDING_OFFSET + (RING_THREADS_MAX + RING_HEAP_LINES_MAX) * 64u)

/* Heap 0 is libc.malloc; those that programs register count from 1. */
#define RING_HEAPS_MAX 256u
#define RING_HEAP_NAME_BYTES 64u /* with its end */

/* No thread has this id (the kernel's limit is 2^22). */
#define RING_THREAD_CLAIMED UINT32_C(0xffffffff)

/* What a thread does with the ring. One that left it by a jump has the word until it comes back. */
enum ring_writing {
    RING_AWAY = 0,
    RING_WRITES = 1, /* a record of its is open: a nested signal handler must not wait */
    RING_WAITS = 2,  /* for space, with no record open */
};

/* How the client's side of the session stands. */
enum ring_client_state {
    RING_CLIENT_AWAITED = 0, /* has not taken up the ring; perhaps the answer came too late */
    RING_CLIENT_RUNNING = 1,
    RING_CLIENT_OVERRAN = 2,     /* ring full and not allowed to wait */
    RING_CLIENT_TIMED_OUT = 3,   /* waited block_client_timeout_us in vain */
    RING_CLIENT_DAEMON_GONE = 4, /* waited, and the daemon's heartbeat stood still */
    RING_CLIENT_EXITED = 5,      /* ran its destructor: a normal exit */
};

/* What the daemon knows of unwinding through a module's code for which the client has no CFI. */
enum ring_unwinding {
    RING_UNWINDING_UNKNOWN = 0, /* it has not looked yet */
    RING_UNWINDING_FOUND = 1,   /* it has data: a WALK is worth its copy */
    RING_UNWINDING_NONE = 2,    /* nobody has: frame pointers must do */
};

/* Modules with a higher number stay unknown. */
#define RING_MODULES_MAX 4096u
#define RING_UNWINDING_PER_WORD 16u /* two bits each */

/* Why a sample, or part of one, is missing. Indexes ring_control.lost. */
enum ring_loss {
    RING_LOST_OVERRUN,        /* samples after the ring overran */
    RING_LOST_REENTRANT,      /* ring full while the same thread was inside it */
    RING_LOST_NO_SCRATCH,     /* all stack buffers in use */
    RING_LOST_NO_THREAD_SLOT, /* calls of threads beyond RING_THREADS_MAX */
    RING_LOST_LIVE_SET,       /* live set could not grow: the sample's free will not be seen */
    RING_LOST_UNWIND,    /* stacks that ended in an error, or found no room (the sample is kept) */
    RING_LOST_ABANDONED, /* records whose writer was left by a jump, or came too late */
    RING_LOST_FREE,      /* frees while the ring was full and the same thread was inside it:
                            told of when the address is next freed or sampled */
    /* Allocations, and their bytes, that are in the exact totals and whose sample was drawn and did
     * not come to the ring, whatever the reason: those above, or a jump that left the writer. */
    RING_LOST_CALLS,
    RING_LOST_BYTES,
    RING_LOSSES_USED,
    RING_LOSS_COUNT = 16, /* places */
};

/* Every word is naturally aligned and accessed with the wrappers of barrier.h. */
struct ring_control {
    uint32_t magic;      /* RING_MAGIC, set by the daemon before the fd is sent */
    uint32_t version;    /* RING_VERSION */
    uint64_t data_bytes; /* a power of two */
    uint8_t pad0[48];

    /* Written by producers. */
    uint64_t reserved; /* bytes ever reserved; offset in data is & (data_bytes - 1) */
    uint8_t pad1[56];

    /* Written by the daemon, read by producers. */
    uint64_t consumed;     /* bytes ever consumed */
    uint32_t space_futex;  /* bumped after `consumed`; producers that wait sleep on it */
    uint32_t stopping;     /* 1: session is over, produce no more */
    uint64_t heartbeat_ms; /* CLOCK_MONOTONIC at the daemon's last look at this ring */
    uint8_t pad2[40];

    /* Written by producers, seldom. */
    uint32_t waiters;               /* threads asleep on space_futex, or more */
    uint32_t client_state;          /* enum ring_client_state */
    uint32_t threads_used;          /* slots [0, threads_used) may hold a thread */
    uint32_t wake_futex;            /* bumped when the ring passes half full */
    uint64_t blocked_us;            /* time that threads spent waiting for space */
    uint64_t lost[RING_LOSS_COUNT]; /* indexed by enum ring_loss */
    uint32_t heap_lines_used;       /* lines [0, heap_lines_used) may be in use */
    uint32_t
        restricted; /* 1: the process has a filter of system calls, and the client makes none */

    /* Written by the daemon: enum ring_unwinding by the client's numbers of modules. */
    uint32_t unwinding[RING_MODULES_MAX / RING_UNWINDING_PER_WORD];

    /* Written by forked children of an attached process, each once, at its first allocation: they
     * are not profiled, and cannot say hello. Their number, and the pid of the last, in its own
     * namespace. */
    uint32_t silent_children, silent_child_pid;

    /* Written by a preloaded client. 1: the process opened a library with RTLD_DEEPBIND, whose
     * calls of malloc go to libc's without coming to the client. */
    uint32_t bound_apart;
};

/*
 * One thread's sampler, written by that thread alone, read by the daemon at
 * any time: so the exact totals of a process survive its death by any means.
 *
 *   bytes requested so far = bytes_before + (bytes_loaded - bytes_left)
 *
 * bytes and calls count requests (malloc, calloc, each realloc, ...). They are those of all threads
 * that had the slot: a thread adds to what it finds. So no sum changes when a slot changes hands,
 * and an ordinal stands for one call.
 */
struct ring_thread {
    uint64_t bytes_left;   /* until the next slow tick; an allocation larger than this takes it */
    uint64_t bytes_loaded; /* all that bytes_left was ever loaded with, mod 2^64 */
    uint64_t bytes_before; /* bytes that were not taken from bytes_left */
    uint64_t calls;
    uint64_t gap_rest; /* of the drawn gap, what did not fit bytes_left */
    uint64_t random;   /* state of the thread's generator */
    uint32_t tid;      /* 0: slot free; RING_THREAD_CLAIMED: between two threads */
    uint32_t samples;
    uint16_t rule;    /* number of the interval by which the gap was drawn */
    uint16_t in_ring; /* enum ring_writing */
    uint32_t inside;  /* 1 while the thread accounts a sample: nothing may change under it */
};

/*
 * Samples of one line that are counted there and not yet in the ring, written by its thread alone.
 * They grow before the line does, and shrink after the record's commit: what the line has less this
 * is what the samples in the ring are of, even where the process dies in the middle of one.
 *
 * A line's words change one after the other. Meanwhile `counting` is the line's next `calls`, and
 * settled_bytes and settled_calls are the line's totals before, less the pending ones: readers take
 * them in place of the words. A jump may leave `counting` set, so it holds as long as `calls` has
 * not gone beyond it (ring_is_counting()).
 */
struct ring_pending {
    uint64_t samples; /* ring_pending_word(): both figures change in one instruction */
    uint64_t settled_bytes, settled_calls;
    uint64_t counting;
    uint64_t pad[4];
};

#define RING_PENDING_BYTES_BITS 48u
#define RING_PENDING_BYTES_MAX (UINT64_C(1) << 47) /* no object of a process is larger */

/* What one sample adds to `samples`. */
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
 * Which heaps the session wants, written by the daemon before the fd is sent. A heap that is named
 * here has that interval; any other one has other_interval_bytes. 0: it is not profiled. The line
 * of a heap is a struct ring_thread whose `tid` is the heap's index, and whose `samples` is the
 * slot.
 */
struct ring_heaps {
    uint64_t other_interval_bytes;
    uint32_t count;
    uint32_t pad;
    struct ring_heap_rule {
        uint64_t interval_bytes;
        char name[RING_HEAP_NAME_BYTES]; /* terminated */
    } rules[RING_HEAPS_MAX];
};

_Static_assert(sizeof(struct ring_control) <= RING_HEAPS_OFFSET, "control fits its page");
_Static_assert(sizeof(struct ring_heaps) <= RING_HEAPS_BYTES, "the heaps fit their pages");
_Static_assert(sizeof(struct ring_thread) == 64, "one cache line a thread");
_Static_assert(sizeof(struct ring_pending) == 64, "one cache line a thread");

#endif
