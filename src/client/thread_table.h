/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a thread's slot without thread-local storage: a hash table of thread pointers, in memory
 * that is wiped on fork.
 *
 * The hot path only looks up its own thread's key, and a key does not move while its thread lives.
 * A new thread may have the thread pointer of one that has ended. It then counts in that thread's
 * slot until its first slow path (thread_slot_get() checks the owner).
 */
#ifndef HEAPPROFD_CLIENT_THREAD_TABLE_H
#define HEAPPROFD_CLIENT_THREAD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attached_params.h"
#include "wire/barrier.h"

/* Twice as many places as there can be slots. */
#define THREAD_TABLE_SIZE (2u * RING_THREADS_MAX)

/* Longest distance of a key from its first place. */
#define THREAD_TABLE_PROBES 16u

/* NULL until the client is set up. One word, so that a thread which sees the table sees all of it.
 */
extern __attribute__((visibility("hidden"))) struct attached_thread *thread_table;

#if defined(__x86_64__)
static inline uint64_t thread_table_own_key(void)
{
    uint64_t key;
    __asm__("mov %%fs:0, %0" : "=r"(key));
    return key;
}
#else
static inline uint64_t thread_table_own_key(void)
{
    return (uint64_t)__builtin_thread_pointer();
}
#endif

/* Return the index of a key's first place. */
static inline uint64_t thread_table_place(uint64_t key)
{
    /* Multiplicative hashing; control blocks are aligned to 64. */
    return ((key >> 6) * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (THREAD_TABLE_SIZE - 1);
}

/* Return this thread's entry; NULL: it has none. */
static inline struct attached_thread *thread_table_own(void)
{
    struct attached_thread *thread = load_acquire(&thread_table);
    if (unlikely(thread == NULL))
        return NULL;
    uint64_t key = thread_table_own_key();
    thread += thread_table_place(key);
    for (unsigned i = 0; i < THREAD_TABLE_PROBES; i++, thread++) {
        uint64_t found = load_relaxed(&thread->key);
        if (likely(found == key))
            return thread;
        if (found == 0)
            break;
    }
    return NULL;
}

/* Map the table. Return 0 or -ENOMEM. */
int thread_table_init(void);

/* Publish the table. Call it after everything else is set up. */
void thread_table_open(void);

/* Enter this thread with its slot. Return false if no place is left. */
bool thread_table_enter(struct ring_thread *slot);

/* Remove the slot from the entry of its thread, which has ended. */
void thread_table_leave(struct ring_thread *slot);

/* Return this thread's slot, or NULL. */
struct ring_thread *thread_table_slot(void);

#endif
