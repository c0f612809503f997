/* SPDX-License-Identifier: Apache-2.0 */
/* The slow half of the thread table: give entries to threads and take them back. */
#include "client/thread_table.h"

#include <errno.h>
#include <stdbool.h>

#include "client/attached.h"
#include "client/client.h"
#include "client/system.h"

struct attached_thread *thread_table;

static struct attached_thread *threads; /* wiped on fork */

/* The entry of each slot; wiped on fork. */
static struct attached_thread **owners;

int thread_table_init(void)
{
    threads = system_map_wiped((THREAD_TABLE_SIZE + THREAD_TABLE_PROBES) * sizeof(*threads));
    owners = system_map_wiped(RING_THREADS_MAX * sizeof(owners[0]));
    if (threads == NULL || owners == NULL)
        return -ENOMEM;
    heapprofd_attach_params.threads = (uintptr_t)owners;
    return 0;
}

void thread_table_open(void)
{
    store_release(&thread_table, threads);
}

/* Return a free place, or the place of a thread whose slot was taken over. */
static struct attached_thread *thread_table_take_place(uint64_t key)
{
    struct attached_thread *thread = &threads[thread_table_place(key)];
    for (unsigned i = 0; i < THREAD_TABLE_PROBES; i++, thread++) {
        uint64_t found = load_relaxed(&thread->key);
        if (found == key)
            return thread;
        if ((found == 0 || load_relaxed(&thread->slot) == NULL) &&
            cas_acq_rel(&thread->key, &found, key))
            return thread;
    }
    return NULL;
}

bool thread_table_enter(struct ring_thread *slot)
{
    struct attached_thread *thread = thread_table_take_place(thread_table_own_key());
    if (thread == NULL)
        return false;
    store_relaxed(&owners[slot - client.threads], thread);
    thread->passing = 0;
    /* Perhaps the last owner's. */
    store_relaxed(&thread->python, NULL);
    store_relaxed(&thread->hook_caller, NULL);
    store_relaxed(&thread->slot, slot);
    store_release(&thread->cell, slot);
    return true;
}

void thread_table_leave(struct ring_thread *slot)
{
    struct attached_thread *thread = load_relaxed(&owners[slot - client.threads]);
    if (thread == NULL || load_relaxed(&thread->slot) != slot)
        return;
    store_relaxed(&thread->cell, NULL);
    store_relaxed(&thread->python, NULL);
    store_relaxed(&thread->slot, NULL);
}

struct ring_thread *thread_table_slot(void)
{
    struct attached_thread *thread = thread_table_own();
    return thread != NULL ? load_relaxed(&thread->slot) : NULL;
}
