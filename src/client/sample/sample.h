/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a sampled allocation and of its free: stack, records, live set.
 */
#ifndef HEAPPROFD_CLIENT_SAMPLE_SAMPLE_H
#define HEAPPROFD_CLIENT_SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "client/sample/live_set.h"
#include "client/unwind/unwind.h"

extern struct live_set sample_live_set __attribute__((visibility("hidden")));

/* Maps the buffers that stacks are written to; 0 or -ENOMEM. */
int sample_init(void);

/* Forgets what a daemon was told, while nobody is inside. */
void sample_forget(void);

/* A sample that was drawn. */
struct sample {
    uint64_t address; /* or whatever the program calls it by */
    uint64_t size;
    uint32_t interval; /* number of the one by which it was drawn */
    uint32_t flags;    /* enum record_alloc_flag */
    uint32_t ordinal;  /* of the thread's calls in this heap */
    uint8_t heap;
    struct live_set *live;        /* the heap's; NULL: of a range, whose UNMAPs are sent unasked */
    const char *type;             /* NULL: of none */
    struct ring_pending *pending; /* where it was counted as pending; NULL: drawn by the program */
};

/* Record the sample with its stack, and settle it. The thread is inside. Return false if the sample
 * is lost, after counting it as lost. */
bool sample_record(struct ring_thread *thread, const struct sample *sample,
                   const struct unwind_registers *caller);

/* Count pending samples as lost, except the one of that size which the thread has just begun: the
 * others were left by a jump. For a thread that is gone, pass UINT64_MAX: all are lost. */
void sample_lose_left(struct ring_pending *pending, uint64_t size);

/* When a record is sent: milliseconds since the session's start. */
uint32_t sample_time_ms(void);

/* Sees to it that the daemon knows which thread a record is of. */
void sample_introduce(struct ring_thread *thread);

/* A live sample that was taken out of its heap's set, because it is free. */
struct sample_freed {
    uint64_t address;
    uint32_t ordinal; /* of the thread's calls in this heap */
    uint8_t heap;
    struct live_set *live;
};

/* Records that. False: it could not be said; the address is in the set again. */
bool sample_record_free(struct ring_thread *thread, const struct sample_freed *freed);

/* Counts what a full ring keeps from being said; not what comes after the session's end. */
void sample_lose(enum ring_loss loss);

/*
 * The slow path of every allocation, after the real function returned memory:
 * joins the session if that is still to be done, accounts the allocation, and
 * records it if it is sampled. NULL memory is no allocation.
 */
void sample_allocation(const void *memory, size_t size, const struct unwind_registers *caller);

/* The slow path of every free, before the real function gets the memory back. */
void sample_free(const void *memory);

/* The same, whether a FREE was sent; a failed realloc then takes it back. */
int sample_free_for_realloc(const void *memory);
void sample_unfree(const void *memory);

#endif
