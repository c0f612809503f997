/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's state, and the hot path of an allocation, which reads a few words of it.
 *
 * Hot path: the thread's cell (initial-exec TLS) leads to its
 * ring_thread. An allocation that fits bytes_left costs one subtraction and one
 * increment there, then calls the real function. Everything else takes the slow
 * path: no slot yet, a sample or a tick is due, size 0.
 *
 * The cells are in memory that a forked child finds zeroed (MADV_WIPEONFORK):
 * its first allocation reads a null slot, takes the slow path, and learns there
 * that it is a child, before it could write to its parent's counters.
 */
#ifndef HEAPPROFD_CLIENT_CLIENT_H
#define HEAPPROFD_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/arch/counter.h"
#include "client/arch/thread_block.h"
#include "wire/barrier.h"
#include "wire/ring.h"

#ifdef HEAPPROFD_ATTACHED
#include "client/thread_table.h"
#endif

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT __attribute__((visibility("default")))
/* A hook that programs call millions of times a second. Aligned, so that its placement in the
 * library does not change its cost. */
#define EXPORT_HOT __attribute__((visibility("default"), aligned(64)))

enum client_state {
    CLIENT_NEW = 0,        /* nothing done yet; a forked child reads this, too */
    CLIENT_CONNECTING = 1, /* one thread is in the handshake */
    CLIENT_DORMANT = 2,    /* no session */
    CLIENT_ACTIVE = 3,
    CLIENT_ENDED = 4,    /* the session is over; its memory stays mapped */
    CLIENT_LISTENED = 5, /* no session, but samples for a tracer (client/probes.h) */
};

/* What the profile costs (client/sample/overhead.h). Threads write it at every sixteenth sample, so
 * it shares no cache line with what each of them reads. */
struct client_overhead {
    uint32_t max_percent; /* of the program's processor time; 0: the session's interval is given */
    /* Of which the last look at the balance knows nothing. */
    uint32_t samples __attribute__((aligned(64)));
    uint32_t savable;  /* samples of blocks below the next wider interval */
    uint64_t spent_ns; /* in this process */
    /* At the last look. */
    uint64_t checked_ns;
    uint64_t processor_ns; /* of the process */
    bool by_clock;         /* or elapsed time */
    uint64_t reserved;     /* position in the ring */
    uint64_t samples_ever;
    int64_t live;       /* live samples */
    int64_t balance_ns; /* unspent budget */
    /* Since the process has watched for room. */
    uint64_t calm_ns, calm_calls, calm_samples, calm_cost_ns;
    int64_t calm_budget_ns;
};

/* State that a forked child does not inherit: it is in memory that is wiped on fork, as soon as
 * such memory is mapped. */
struct client_process {
    uint32_t state;                /* enum client_state */
    uint32_t announced_generation; /* module_generation() that the daemon knows */
    uint32_t modules_check_ms;    /* time of the next module_check_unloaded() */
    uint32_t slot_to_check;       /* next slot to check for a thread that has ended */
    uint32_t threads_numbered;    /* slots that a thread has, or had */
    uint32_t passes_without_slot; /* calls that pass before one looks for a slot (thread_slot.h) */
    uint32_t interval_index;      /* of the sampling interval in force (client/sample/adaptive.h) */
    uint32_t lengthened_ms;       /* time of the last doubling */
    uint32_t served_doublings;    /* the last value of asked_doublings that was taken */
    uint32_t unanswered_samples;  /* since the last doubling, under the first request */
    uint64_t ring_populated;      /* position at which pages of the ring are next mapped */
    uint32_t newcomers;           /* threads in the client that had no slot when they entered */
    uint32_t has_remote_barrier;  /* 1: system_barrier_of_threads() serves this process */
    uint32_t families_busy;       /* 1: a thread looks for families (hooks/families.c) */
    uint32_t families_may_look;   /* 1: it is not a forked child */
    uint32_t families_due;        /* looks that are due since libraries were opened */
    uint32_t heaps_callbacks_due; /* 1: callbacks of the program are due (client/heaps/heaps.h) */
    uint32_t heap_states[RING_HEAPS_MAX]; /* enum heap_state */
    uint32_t heap_begun[RING_HEAPS_MAX];  /* not 0: the session's rule was applied */
    struct client_overhead overhead;
};

struct client {
    struct client_process *process;
    struct ring_control *control; /* of the session, or of a private arena when dormant */
    struct ring_thread *threads;
    struct ring_thread *heap_lines;
    struct ring_pending *pending; /* by slot, then, from RING_THREADS_MAX on, by heap line */
    const struct ring_heaps *wanted_heaps;
    uint8_t *data; /* of the ring, mapped twice; NULL when dormant */
    uint64_t data_mask;
    uint64_t start_ms;
    uint64_t block_timeout_us;
    uint64_t seed;
    uint64_t adaptive_threshold_bytes; /* free bytes of the ring; 0: not adaptive */
    uint64_t adaptive_max_interval_bytes;
    uint64_t wide_interval_bytes; /* as in struct handshake_reply */
    uint32_t flags;               /* enum handshake_flag */
    int32_t pid;
    int32_t daemon_pid; /* 0: in another namespace */
};

extern HIDDEN struct client client;

/* Return whether the loader has relocated this library. Before that, an IFUNC resolver of a library
 * that it relocates earlier may call the hooks. They only pass its calls on: no pointer that the
 * linker has filled in can be used yet, nor any function of another library. */
static inline bool client_is_relocated(void)
{
#if defined(HEAPPROFD_ATTACHED) || defined(HEAPPROFD_NO_HOOKS)
    return true; /* nothing is called earlier */
#else
    /* Its own address, from the loader's relocation. */
    extern HIDDEN const void *volatile client_own_address;
    return likely(client_own_address == &client_own_address);
#endif
}

/* pymalloc's SMALL_REQUEST_THRESHOLD. */
#define PYMALLOC_BYTES_MAX 512u

#ifdef HEAPPROFD_ATTACHED

/* The entry of a thread without a slot: its cell is always NULL. */
extern HIDDEN struct attached_thread client_no_slot;

/* There is no thread-local storage: the cell is in a table, by thread pointer. */
static inline struct attached_thread *client_own_cell(void)
{
    struct attached_thread *thread = thread_table_own();
    return thread != NULL ? thread : &client_no_slot;
}

static inline struct ring_thread **client_cell(void)
{
    return &client_own_cell()->cell;
}

static inline bool client_is_python(size_t size)
{
    (void)size;
    return false;
}

#else

/* What leads a thread to its counters. */
struct client_cell {
    struct ring_thread *thread;
    struct ring_thread *python; /* of the heap python.object; NULL: not known yet */
    uint64_t next_is_python; /* 1: malloc's next small request is one that python.object counts */
    uintptr_t family; /* stack pointer of the call of a family (hooks/families_call.c) that the
                         thread is in; 0: none */
};

/* The cell of a thread without a slot: always NULL. */
extern HIDDEN struct client_cell client_no_slot;

/*
 * This thread's cell, as its distance from client_no_slot. A thread without a cell has distance 0,
 * which needs no relocation: an IFUNC resolver may allocate before the loader has copied initial
 * values. Before the loader has relocated this library, the variable's offset reads 0, so the
 * member that is read is a word of the thread's control block: one that is 0.
 *
 * Initial-exec TLS costs one %fs-relative load and never allocates.
 */
struct client_thread {
    uintptr_t unused[ARCH_THREAD_BLOCK_ZERO_WORD];
    uintptr_t cell_distance;
};
extern HIDDEN __thread struct client_thread client_thread
    __attribute__((tls_model("initial-exec")));

static inline struct client_cell *client_own_cell(void)
{
    return (struct client_cell *)((uintptr_t)&client_no_slot + client_thread.cell_distance);
}

static inline struct ring_thread **client_cell(void)
{
    return &client_own_cell()->thread;
}

/* Return whether malloc must not count this request, because the heap python.object does. */
static inline bool client_is_python(size_t size)
{
    uint64_t *next_is_python = &client_own_cell()->next_is_python;
    if (likely(load_relaxed(next_is_python) == 0))
        return false;
    store_relaxed(next_is_python, 0);
    return size <= PYMALLOC_BYTES_MAX;
}

#endif

/* Ordered after the thread's own mark that it is inside (client/sample/thread_slot.h). */
static inline uint32_t client_state(void)
{
    return load_ordered(&client.process->state);
}

/* Take `size` bytes from the bytes left, and return whether there were enough. One comparison
 * covers size 0 (it wraps around), a due sample and a missing tick. */
static inline bool client_take(struct ring_thread *thread, size_t size)
{
    if (unlikely(size - 1 >= load_relaxed(&thread->bytes_left)))
        return false;
    /* A signal handler may have taken them after the comparison. */
    if (unlikely(counter_subtract_own(&thread->bytes_left, size))) {
        counter_add_own(&thread->bytes_left, size);
        return false;
    }
    counter_add_own(&thread->calls, 1);
    return true;
}

/* Count an allocation on the hot path. Return true if nothing else is due: the caller goes on to
 * the real function. */
static inline bool client_count(size_t size)
{
    struct ring_thread *thread = load_relaxed(client_cell());
    return likely(thread != NULL) && client_take(thread, size);
}

/* Larger alignments are rare: no page of any size is larger. */
#define CLIENT_PLAIN_ALIGNMENT_MAX (UINT64_C(1) << 30)

/* Return whether no allocator refuses this alignment. The hot path counts a call before it is made,
 * so a call that its arguments could make fail takes the slow path, which counts it afterwards. */
static inline bool client_is_plain_alignment(size_t alignment)
{
    return (alignment & (alignment - 1)) == 0 &&
           alignment - sizeof(void *) < CLIENT_PLAIN_ALIGNMENT_MAX;
}

#endif
