/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of an attached client. There is no handshake: the attacher has chosen the session and
 * mapped its ring. The first thread on the slow path sets up everything else.
 *
 * A forked child inherits the patched code. It finds that the session is not its own, unmaps the
 * parent's ring, and continues unprofiled, with its counters in a private arena.
 */
#include "client/session.h"

#include <errno.h>

#include "client/attached.h"
#include "client/attached/families.h"
#include "client/attached/python.h"
#include "client/client.h"
#include "client/clock.h"
#include "client/sample/adaptive.h"
#include "client/sample/live_set.h"
#include "client/sample/overhead.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sample.h"
#include "client/sample/stack_cache.h"
#include "client/sample/thread_slot.h"
#include "client/system.h"
#include "client/thread_table.h"
#include "client/unwind/unwind.h"

static struct client_process process_at_start; /* until wiped memory is mapped */
struct client client = {.process = &process_at_start};

struct attached_thread client_no_slot;

static bool is_set_up; /* stays true in a forked child */

/* Threads in join(), one of which works. Others give way to it at most JOIN_YIELDS times. */
static uint32_t joining;
#define JOIN_YIELDS 10000u

/* A thread has waited in vain. In a forked child, the thread that worked is missing. */
static bool waited_in_vain;

static int set_up(const struct attached_params *params)
{
    struct client_process *process = system_map_wiped(sizeof(*process));
    if (process == NULL)
        return -ENOMEM;
    /* Old versions of glibc lack _dl_find_object, too, but have CFI for all of their code. */
    const struct unwind_process facts = {
        .stack_end = params->stack_end,
        .follows_code = params->dl_find_object == 0,
        .exit = params->exit,
        .pthread_exit = params->pthread_exit,
        .own_start = params->image,
        .own_bytes = params->image_bytes,
    };
    if (thread_slot_init() != 0 || stack_cache_init() != 0 || sample_init() != 0 ||
        unwind_init(&facts) != 0 ||
        live_set_init_for_malloc(&sample_live_set, params->interval_bytes) != 0)
        return -ENOMEM;
    clock_init();
    process->state = CLIENT_CONNECTING;
    client.process = process;
    is_set_up = true;
    return 0;
}

static void start_session(const struct attached_params *params)
{
    adaptive_begin((struct sampler_rule){params->interval_bytes, params->certain_bytes, 0});
    client.control = (struct ring_control *)params->ring;
    client.threads = (struct ring_thread *)(params->ring + RING_THREADS_OFFSET);
    client.heap_lines = (struct ring_thread *)(params->ring + RING_HEAP_LINES_OFFSET);
    client.pending = (struct ring_pending *)(params->ring + RING_PENDING_OFFSET);
    client.wanted_heaps = (const struct ring_heaps *)(params->ring + RING_HEAPS_OFFSET);
    client.data = (uint8_t *)(params->ring + RING_DATA_OFFSET);
    client.data_mask = params->data_bytes - 1;
    ring_writer_begin();
    client.start_ms = params->start_ms;
    client.block_timeout_us = params->block_client_timeout_us;
    client.adaptive_threshold_bytes = params->adaptive_threshold_bytes;
    client.adaptive_max_interval_bytes = params->adaptive_max_interval_bytes;
    client.seed = params->seed;
    client.flags = params->flags;
    client.daemon_pid = params->daemon_pid;
    client.wide_interval_bytes = params->wide_interval_bytes;
    if (adaptive_is_limited())
        live_set_may_become_sparse(&sample_live_set);
    overhead_begin((uint32_t)params->max_overhead_percent);
    attached_python_begin();
    attached_families_begin();
    store_release(&client.control->client_state, RING_CLIENT_RUNNING);
}

/* Report a child to the parent's daemon, which cannot notice it otherwise. A grandchild has no ring
 * to report in. */
static void tell_parents_daemon(const struct attached_params *params)
{
    struct ring_control *control = (struct ring_control *)params->ring;
    if (control == NULL)
        return;
    store_relaxed(&control->silent_child_pid, (uint32_t)client.pid);
    add_relaxed(&control->silent_children, 1);
}

/* In a child: replace the parent's ring with a private arena. */
static enum client_state leave_parents_session(struct attached_params *params)
{
    tell_parents_daemon(params);
    /* The child inherits the parent's seccomp filter. */
    if (system_calls_are_forbidden())
        return CLIENT_CONNECTING;
    client.control = NULL; /* it is in the ring */
    system_call(CALL_UNMAP, params->ring, params->ring_bytes);
    params->ring = params->ring_bytes =
        0; /* other memory may be mapped there: do not unmap it later */
    client.data = NULL;
    void *arena = system_map_wiped(RING_DATA_OFFSET);
    if (arena == NULL)
        return CLIENT_CONNECTING; /* every allocation passes through */
    client.control = arena;
    client.threads = (void *)((char *)arena + RING_THREADS_OFFSET);
    client.heap_lines = (void *)((char *)arena + RING_HEAP_LINES_OFFSET);
    client.pending = (void *)((char *)arena + RING_PENDING_OFFSET);
    return CLIENT_DORMANT;
}

/* Return whether this thread has a thread pointer, by which its slot is found. A program that was
 * attached to at its first instruction sets it up soon after. */
static bool has_thread_pointer(const struct attached_params *params)
{
#ifdef __x86_64__
    uint64_t base = 0;
    return params->at_entry == 0 || system_call(CALL_THREAD_POINTER, &base) < 0 || base != 0;
#else
    return params->at_entry == 0 || thread_table_own_key() != 0;
#endif
}

static void join(struct attached_params *params)
{
    uint32_t state = CLIENT_NEW;
    if (!cas_acq_rel(&client.process->state, &state, CLIENT_CONNECTING))
        return;
    bool is_child = is_set_up || load_relaxed((const uint32_t *)params->marker) == 0;
    enum client_state next = CLIENT_ACTIVE;
    client.pid = (int32_t)system_call(CALL_OWN_PROCESS);
    if (params->avoid_copying != 0)
        system_avoid_copying();
    if (params->avoid_unlocking != 0)
        system_avoid_unlocking();
    if (is_set_up || set_up(params) == 0) {
        if (is_child)
            next = leave_parents_session(params);
        else
            start_session(params);
        thread_table_open();
        store_release(&client.process->state, next);
    } /* else it stays CONNECTING: every allocation passes through */
}

/* Wait for the thread that sets the client up, so that this one's allocation is counted, too. */
static void wait_for_join(void)
{
    for (unsigned i = 0; load_ordered(&joining) != 0 && !load_relaxed(&waited_in_vain); i++) {
        if (i == JOIN_YIELDS)
            store_relaxed(&waited_in_vain, true);
        system_call(CALL_YIELD);
    }
}

void session_join(void)
{
    struct attached_params *params = &heapprofd_attach_params;
    if (client_state() == CLIENT_CONNECTING) {
        wait_for_join();
        return;
    }
    if (!has_thread_pointer(params)) {
        struct ring_control *control = (struct ring_control *)params->ring;
        if (control != NULL)
            add_relaxed(&control->lost[RING_LOST_NO_THREAD_SLOT], 1);
        return;
    }
    /* A handler would wait for the thread that it interrupted. */
    struct system_signals signals = system_hold_signals();
    add_ordered(&joining, 1);
    join(params);
    add_ordered(&joining, -1);
    system_release_signals(&signals);
    wait_for_join();
}

/* An attached client has no control page to check. */
void session_tick(void) {}

void session_join_or_tick(void)
{
    if (client_state() == CLIENT_NEW || client_state() == CLIENT_CONNECTING)
        session_join();
}
