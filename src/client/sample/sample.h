/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record a sampled allocation and its free: walk the stack, write the records, update the live set.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_SAMPLE_H
#define HEAPPROFD_CLIENT_SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "client/sample/live_set.h"

struct unwind_registers;

extern struct live_set sample_live_set __attribute__((visibility("hidden")));

/* Map the buffers for stacks. Return 0 or -ENOMEM. */
int sample_init(void);

/* Forget which stacks and modules a daemon knows. No thread may be in the client. */
void sample_forget(void);

/* A sample that was drawn. */
struct sample {
    uint64_t address; /* of a custom heap: the id that the program reports */
    uint64_t size;
    uint32_t interval; /* number of the interval that drew it (adaptive.h) */
    uint32_t flags;    /* enum record_alloc_flag */
    uint32_t ordinal;  /* of the thread's calls in this heap */
    uint8_t heap;
    struct live_set *live;        /* of the heap; NULL: a mapped range, whose UNMAPs are all sent */
    const char *type;             /* NULL: none */
    struct ring_pending *pending; /* where it was counted as pending; NULL: drawn by the program */
};

/* Record the sample with its stack, and settle it. The thread is inside. Return false if the sample
 * is lost, after counting it as lost. */
bool sample_record(struct ring_thread *thread, const struct sample *sample,
                   const struct unwind_registers *caller);

/* Count pending samples as lost that a jump (longjmp, an exception) has abandoned: all except the
 * one of `size` bytes that the thread has just begun. For a thread that has ended, pass UINT64_MAX:
 * all are lost. */
void sample_lose_abandoned(struct ring_pending *pending, uint64_t size);

/* Return the time for a record: milliseconds since the session's start. */
uint32_t sample_time_ms(void);

/* Send the thread's id and name if the daemon does not know them. */
void sample_introduce(struct ring_thread *thread);

/* A freed sample, already removed from its heap's live set. */
struct sample_freed {
    uint64_t address;
    uint32_t ordinal; /* of the thread's calls in this heap */
    uint8_t heap;
    struct live_set *live;
};

/* Return a number of this free that differs between frees: neither a block that is allocated again
 * and again nor many frees without an allocation repeat it. */
static inline uint32_t sample_free_number(const struct sample_freed *freed)
{
    return (uint32_t)(freed->address >> 4) + freed->ordinal * UINT32_C(0x85EBCA6B);
}

/* Record the free. Return false if that failed; the address is then in the set again. */
bool sample_record_free(struct ring_thread *thread, const struct sample_freed *freed);

/* Take back the free, of an allocation that a failed realloc has left in place. */
void sample_record_unfree(struct ring_thread *thread, const struct sample_freed *freed);

/* Count a record that found no room in the ring. After the session's end nothing is lost. */
void sample_lose(enum ring_loss loss);

/*
 * The slow path of an allocation, called after the real function returned `memory`: join the
 * session if the process has not done so, count the allocation, and record it if it is sampled.
 * Nothing is counted if `memory` is NULL.
 */
void sample_allocation(const void *memory, size_t size, const struct unwind_registers *caller);

/* The slow path of a free, called before the real function gets the memory back. */
void sample_free(const void *memory);

/* The same where live_set_has_near() is true. */
void sample_free_near(const void *memory);

/* The same for all blocks in [start, end), which die without a call of free. */
void sample_free_range(uintptr_t start, uintptr_t end);

/* The hot path of a free. */
static inline void sample_check_free(const void *memory)
{
    if (unlikely(live_set_has_near(&sample_live_set, (uintptr_t)memory)))
        sample_free_near(memory);
}

/* The same for realloc. Return whether a FREE was sent; if realloc fails, sample_unfree() takes it
 * back. */
int sample_free_for_realloc(const void *memory);
void sample_unfree(const void *memory);

#endif
