/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which slot a thread has, where there is no thread-local storage: a hash table of thread
 * pointers, in memory that a forked child finds zeroed.
 *
 * The hot path asks for the cell of its own thread only, so nothing but the thread's own key has
 * to be found, and a key stands still while its thread lives. A new thread may have the thread
 * pointer of one that is gone, and then counts in that one's slot until its first slow path
 * (thread_slot_get() looks whose it is).
 */
#ifndef HEAPPROFD_CLIENT_ATTACHED_THREAD_TABLE_H
#define HEAPPROFD_CLIENT_ATTACHED_THREAD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attached_params.h"
#include "wire/barrier.h"

/* Twice as many places as there can be slots. */
#define THREAD_TABLE_SIZE (2u * RING_THREADS_MAX)

/* A key stands at most this far behind its place. */
#define THREAD_TABLE_PROBES 16u

/* NULL until the client is set up: one word, so that whoever sees the table sees all of it. */
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

/* The number of the first place for a key. */
static inline uint64_t thread_table_place(uint64_t key)
{
    /* Multiplicative hashing; control blocks are aligned to 64. */
    return ((key >> 6) * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (THREAD_TABLE_SIZE - 1);
}

/* This thread's entry; NULL: it has none. */
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

/* Maps the table; 0 or -ENOMEM. */
int thread_table_init(void);

/* Lets threads find it, once all else is set up. */
void thread_table_open(void);

/* Leads this thread to a slot; false: no place is left for it. */
bool thread_table_enter(struct ring_thread *slot);

/* The slot's thread is gone: whoever comes by its key finds no slot. */
void thread_table_leave(struct ring_thread *slot);

/* This thread's slot, or NULL. */
struct ring_thread *thread_table_slot(void);

#endif
