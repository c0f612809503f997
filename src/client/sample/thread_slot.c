/* SPDX-License-Identifier: Apache-2.0 */
/* Take slots, take them over from dead threads, and count the threads that are inside. */
#include "client/sample/thread_slot.h"

#include <errno.h>
#include <stddef.h>

#include "client/client.h"
#include "client/sample/abandoned_frame.h"
#include "client/sample/adaptive.h"
#include "client/sample/sample.h"
#include "client/sample/sampler.h"
#include "client/system.h"

/* Slots that a newcomer checks for a thread that has ended: one balances its own
 * slot, one more catches up. */
#define SLOTS_CHECKED 2
/* The same once each slot has had a thread, and how many calls of threads without a slot pass
 * before one checks again. A check takes about a third of a microsecond. */
#define SLOTS_CHECKED_OF_ALL 16
#define PASSES_WITHOUT_SLOT 512

static struct unwind_stack_bounds *bounds; /* wiped on fork */

/*
 * Thread ids by slot number; wiped on fork. A thread keeps its number for life, across sessions,
 * because its cell is found by the number.
 */
static uint32_t *owners;

/* How a thread finds its slot. */
#ifdef HEAPPROFD_ATTACHED

static int table_init(void)
{
    return thread_table_init();
}

static struct ring_thread *own_slot(void)
{
    return thread_table_slot();
}

static bool enter_slot(struct ring_thread *thread)
{
    return thread_table_enter(thread);
}

static uint32_t number_before(void)
{
    return RING_THREADS_MAX;
}

static void leave_slot(struct ring_thread *thread)
{
    thread_table_leave(thread);
}

#else

static struct client_cell *cells; /* wiped on fork */

static int table_init(void)
{
    cells = system_map_wiped(RING_THREADS_MAX * sizeof(*cells));
    return cells != NULL ? 0 : -ENOMEM;
}

static struct ring_thread *own_slot(void)
{
    return load_relaxed(client_cell());
}

static bool enter_slot(struct ring_thread *thread)
{
    size_t index = (size_t)(thread - client.threads);
    store_relaxed(&cells[index].next_is_python, 0); /* perhaps the last owner's */
    store_relaxed(&cells[index].family, 0);
    store_relaxed(&cells[index].thread, thread);
    client_thread.cell_distance = (uintptr_t)&cells[index] - (uintptr_t)&client_no_slot;
    return true;
}

/* Return this thread's number in an earlier session; RING_THREADS_MAX: none. */
static uint32_t number_before(void)
{
    if (client_thread.cell_distance == 0)
        return RING_THREADS_MAX;
    return (uint32_t)(client_own_cell() - cells);
}

void thread_slot_forget(void)
{
    system_wipe(cells, RING_THREADS_MAX * sizeof(*cells));
    system_wipe(bounds, RING_THREADS_MAX * sizeof(*bounds));
}

/* The thread has ended, and its cell with it. */
static void leave_slot(struct ring_thread *thread)
{
    (void)thread;
}

#endif

int thread_slot_init(void)
{
    bounds = system_map_wiped(RING_THREADS_MAX * sizeof(*bounds));
    owners = system_map_wiped(RING_THREADS_MAX * sizeof(*owners));
    return bounds != NULL && owners != NULL ? table_init() : -ENOMEM;
}

static bool is_gone(uint32_t tid)
{
    return system_call(CALL_FIND_THREAD, client.pid, tid) == -ESRCH;
}

uint32_t thread_slot_living(uint32_t number)
{
    uint32_t tid = load_acquire(&owners[number]);
    return tid == RING_THREAD_CLAIMED || tid == 0 || is_gone(tid) ? 0 : tid;
}

static bool is_inside(const struct ring_thread *thread)
{
    uint32_t tid = load_relaxed(&thread->tid);
    return load_ordered(&thread->inside) != 0 && tid != 0 && !is_gone(tid);
}

/*
 * The slot says that the thread is inside already. Either we run in a signal handler that
 * interrupted the function that said so, or a jump has left that function:
 *
 *     high addresses
 *     ├─ frame: it still runs if it lies here, further out than we do
 *     ├─ here
 *     ├─ frame: it was left if it lies here, where our own callees will be
 *     low addresses
 */
uint32_t thread_still_inside(const struct ring_thread *thread, uintptr_t here)
{
    /* `inside` has the low half of an address on this stack, which is smaller than 2 GiB. */
    uint32_t was = thread->inside;
    int32_t further_out = (int32_t)((was & ~1u) - (uint32_t)here);
    uintptr_t frame = here + (uintptr_t)(intptr_t)further_out;
    return abandoned_frame(thread_slot_bounds(thread), frame, here) ? 0 : was;
}

void thread_enter_as_newcomer(struct thread_passage *passage, uintptr_t here)
{
    passage->signals = system_hold_signals();
    add_ordered(&passage->process->newcomers, 1);
    thread_settle(passage, here);
}

void thread_enter_anew(struct thread_passage *passage, uintptr_t here)
{
    store_release(&passage->thread->inside, passage->was);
    passage->thread = NULL;
    thread_enter_as_newcomer(passage, here);
}

void thread_leave_as_newcomer(const struct thread_passage *passage)
{
    add_ordered(&passage->process->newcomers, -1);
    system_release_signals(&passage->signals);
}

static struct ring_thread *take_slot(void);

void thread_settle(struct thread_passage *passage, uintptr_t here)
{
    uint32_t state = client_state();
    bool has_slots = state != CLIENT_NEW && state != CLIENT_CONNECTING;
    struct ring_thread *thread = has_slots ? take_slot() : NULL;
    if (passage->thread != NULL || thread == NULL)
        return;
    passage->was = 0;
    store_ordered(&thread->inside, (uint32_t)here | 1);
    passage->thread = thread;
    thread_leave_as_newcomer(passage);
}

bool thread_slot_none_inside(void)
{
    const struct ring_thread *own = own_slot();
    /* Pairs with thread_mark_inside(). */
    if (load_relaxed(&client.process->has_remote_barrier) != 0 && !system_barrier_of_threads())
        return false;
    uint32_t used = load_acquire(&client.control->threads_used);
    /* A newcomer that gets its slot meanwhile was counted as a newcomer before. Threads that enter
     * later see that the session changes. */
    if (load_ordered(&client.process->newcomers) != (own == NULL))
        return false;
    for (uint32_t index = 0; index < used && index < RING_THREADS_MAX; index++) {
        const struct ring_thread *thread = &client.threads[index];
        if (thread != own && is_inside(thread))
            return false;
    }
    return load_ordered(&client.process->newcomers) == (own == NULL);
}

struct unwind_stack_bounds *thread_slot_bounds(const struct ring_thread *thread)
{
    return &bounds[thread - client.threads];
}

/* Take the number over if its thread has ended. */
static bool claim_if_gone(uint32_t number, uint32_t own_tid)
{
    uint32_t tid = load_relaxed(&owners[number]);
    if (tid == 0 || tid == RING_THREAD_CLAIMED)
        return false;
    if (tid != own_tid && !is_gone(tid))
        return false;
    if (!cas_acq_rel(&owners[number], &tid, RING_THREAD_CLAIMED))
        return false;
    struct ring_thread *thread = &client.threads[number];
    store_relaxed(&thread->tid, RING_THREAD_CLAIMED);
    leave_slot(thread);
    struct ring_pending *pending = &client.pending[number];
    sampler_inherit(thread, pending);
    sample_lose_abandoned(pending, UINT64_MAX);
    return true;
}

/* Take a number that no thread has had. */
static bool claim_fresh(uint32_t number)
{
    uint32_t free = 0;
    return cas_acq_rel(&owners[number], &free, RING_THREAD_CLAIMED);
}

static uint32_t find_number(uint32_t own_tid)
{
    uint32_t before = number_before();
    if (before < RING_THREADS_MAX && load_relaxed(&owners[before]) == own_tid)
        return before;
    uint32_t used = load_relaxed(&client.process->threads_numbered);
    int checked = used < RING_THREADS_MAX ? SLOTS_CHECKED : SLOTS_CHECKED_OF_ALL;
    for (int i = 0; used > 0 && i < checked; i++) {
        uint32_t number = add_relaxed(&client.process->slot_to_check, 1) % used;
        if (claim_fresh(number) || claim_if_gone(number, own_tid))
            return number;
    }
    while (used < RING_THREADS_MAX) {
        if (!cas_relaxed(&client.process->threads_numbered, &used, used + 1))
            continue;
        if (claim_fresh(used))
            return used;
        used++;
    }
    store_relaxed(&client.process->passes_without_slot, PASSES_WITHOUT_SLOT);
    return RING_THREADS_MAX;
}

/* Make the daemon read slots up to this one. */
static void show_slot(uint32_t number)
{
    uint32_t used = load_relaxed(&client.control->threads_used);
    while (used <= number && !cas_relaxed(&client.control->threads_used, &used, number + 1))
        ;
}

/* Begin the thread's account in its slot. */
static void open_account(struct ring_thread *thread, uint32_t tid)
{
    uint32_t number = (uint32_t)(thread - client.threads);
    bounds[number] = (struct unwind_stack_bounds){0};
    thread->samples = 0;
    thread->in_ring = 0;
    thread->inside = 0;
    uint64_t seed = client.seed ^ ((uint64_t)tid << 32);
    uint32_t state = client_state();
    if (state == CLIENT_ACTIVE || state == CLIENT_LISTENED)
        sampler_start(thread, &client.pending[number], sampler_random(&seed),
                      adaptive_rule(adaptive_index()));
    else
        sampler_idle(thread, &client.pending[number], 0, 0);
    store_release(&owners[number], tid);
    store_release(&thread->tid, tid);
    show_slot(number);
}

/* Return this thread's slot; take one if it has none. Return NULL if none is free. */
static struct ring_thread *take_slot(void)
{
    struct ring_thread *thread = own_slot();
    if (likely(thread != NULL))
        return thread;
    if (thread_slot_is_not_due())
        return NULL;

    long own_tid = system_call(CALL_OWN_THREAD);
    uint32_t tid = (uint32_t)own_tid, number = RING_THREADS_MAX;
    /* A vfork child shares its parent's memory: its number would stay in the parent's thread and
     * soon be taken over. */
    if (own_tid > 0 && system_call(CALL_OWN_PROCESS) == client.pid)
        number = find_number(tid);
    if (number < RING_THREADS_MAX) {
        thread = &client.threads[number];
        open_account(thread, tid);
        if (enter_slot(thread))
            return thread;
        store_release(&thread->tid, 0);
        store_release(&owners[number], 0);
        store_relaxed(&client.process->passes_without_slot, PASSES_WITHOUT_SLOT);
    }
    return NULL;
}

struct ring_thread *thread_slot_find(void)
{
    struct ring_thread *thread = take_slot();
    if (unlikely(thread == NULL))
        thread_slot_lose_call();
    return thread;
}

#ifdef HEAPPROFD_ATTACHED
void thread_slot_check(struct ring_thread *thread)
{
    uint32_t own = (uint32_t)system_call(CALL_OWN_THREAD), tid = load_relaxed(&thread->tid);
    if (likely(tid == own) || tid == RING_THREAD_CLAIMED)
        return;
    /* A vfork child counts for the thread that waits for it. */
    uint32_t number = (uint32_t)(thread - client.threads);
    if (system_call(CALL_OWN_PROCESS) != client.pid || !claim_if_gone(number, own))
        return;
    open_account(thread, own);
    enter_slot(thread);
}
#endif
