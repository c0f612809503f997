/* See thread_slot.h. */
#include "client/thread_slot.h"

#include <errno.h>
#include <stddef.h>

#include "client/adaptive.h"
#include "client/client.h"
#include "client/sampler.h"
#include "client/session.h"
#include "client/system.h"

/* Slots that a newcomer looks at for a thread that is gone: one is given back
 * for each that is taken, and one more catches up. */
#define SLOTS_CHECKED 2

static struct unwind_stack_bounds *bounds; /* wiped on fork */

/* How a thread comes by its slot. */
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

static void leave_slot(struct ring_thread *thread)
{
    thread_table_leave(thread);
}

#else

static struct ring_thread **cells; /* wiped on fork */

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
    store_relaxed(&cells[index], thread);
    client_cell_distance = (uintptr_t)&cells[index] - (uintptr_t)&client_no_slot;
    return true;
}

void thread_slot_forget(void)
{
    system_wipe(cells, RING_THREADS_MAX * sizeof(*cells));
    system_wipe(bounds, RING_THREADS_MAX * sizeof(*bounds));
}

/* Its thread is gone, and its cell with it. */
static void leave_slot(struct ring_thread *thread)
{
    (void)thread;
}

#endif

int thread_slot_init(void)
{
    bounds = system_map_wiped(RING_THREADS_MAX * sizeof(*bounds));
    return bounds != NULL ? table_init() : -ENOMEM;
}

bool thread_slot_none_inside(void)
{
    const struct ring_thread *own = own_slot();
    uint32_t used = load_acquire(&client.control->threads_used);
    for (uint32_t index = 0; index < used && index < RING_THREADS_MAX; index++) {
        const struct ring_thread *thread = &client.threads[index];
        if (thread != own && load_ordered(&thread->inside) != 0 && load_relaxed(&thread->tid) != 0)
            return false;
    }
    return load_ordered(&client.live->newcomers) == (own == NULL);
}

struct unwind_stack_bounds *thread_slot_bounds(const struct ring_thread *thread)
{
    return &bounds[thread - client.threads];
}

/* Adds a gone thread's totals to the process's. */
static void retire_totals(struct ring_thread *thread)
{
    uint64_t bytes = thread->bytes_before + thread->bytes_loaded - thread->bytes_left;
    add_relaxed(&client.control->retired_bytes, bytes);
    add_relaxed(&client.control->retired_calls, thread->calls);
    thread->bytes_before = thread->bytes_loaded = thread->bytes_left = thread->calls = 0;
}

/* Takes over the slot if its thread is gone. */
static bool claim_if_gone(struct ring_thread *thread, uint32_t own_tid)
{
    uint32_t tid = load_relaxed(&thread->tid);
    if (tid == 0 || tid == RING_THREAD_CLAIMED)
        return false;
    if (tid != own_tid && system_call(SYS_tgkill, client.pid, tid, 0) != -ESRCH)
        return false;
    if (!cas_acq_rel(&thread->tid, &tid, RING_THREAD_CLAIMED))
        return false;
    leave_slot(thread);
    retire_totals(thread);
    return true;
}

static struct ring_thread *find_slot(uint32_t own_tid)
{
    struct ring_control *control = client.control;
    uint32_t used = load_relaxed(&control->threads_used);
    for (int i = 0; used > 0 && i < SLOTS_CHECKED; i++) {
        uint32_t index = add_relaxed(&client.live->threads_hand, 1) % used;
        if (index < RING_THREADS_MAX && claim_if_gone(&client.threads[index], own_tid))
            return &client.threads[index];
    }
    while (used < RING_THREADS_MAX)
        if (cas_relaxed(&control->threads_used, &used, used + 1))
            return &client.threads[used];
    for (uint32_t index = 0; index < RING_THREADS_MAX; index++)
        if (claim_if_gone(&client.threads[index], own_tid))
            return &client.threads[index];
    return NULL;
}

/* Begins the thread's account in a slot that it has claimed. */
static void open_account(struct ring_thread *thread, uint32_t tid)
{
    bounds[thread - client.threads] = (struct unwind_stack_bounds){0};
    thread->samples = 0;
    thread->in_ring = 0;
    thread->rule = (uint16_t)adaptive_index();
    uint64_t seed = client.seed ^ ((uint64_t)tid << 32);
    if (client_state() == CLIENT_ACTIVE)
        sampler_start(thread, sampler_random(&seed), adaptive_rule(thread->rule));
    else
        sampler_idle(thread);
    store_release(&thread->tid, tid);
}

struct ring_thread *thread_slot_get(void)
{
    struct ring_thread *thread = own_slot();
    if (likely(thread != NULL))
        return thread;

    long own_tid = system_call(SYS_gettid);
    uint32_t tid = (uint32_t)own_tid;
    thread = own_tid > 0 ? find_slot(tid) : NULL;
    if (thread != NULL) {
        open_account(thread, tid);
        if (enter_slot(thread))
            return thread;
        store_release(&thread->tid, 0);
    }
    add_relaxed(&client.control->lost[RING_LOST_NO_THREAD_SLOT], 1);
    return NULL;
}

#ifdef HEAPPROFD_ATTACHED
void thread_slot_check(struct ring_thread *thread)
{
    uint32_t own = (uint32_t)system_call(SYS_gettid), tid = load_relaxed(&thread->tid);
    if (likely(tid == own) || tid == RING_THREAD_CLAIMED)
        return;
    /* A child of vfork counts for the thread that waits for it. */
    if (system_call(SYS_getpid) != client.pid || !claim_if_gone(thread, own))
        return;
    open_account(thread, own);
    enter_slot(thread);
}
#endif
