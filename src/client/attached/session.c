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
#include "client/client.h"
#include "client/clock.h"
#include "client/sample/adaptive.h"
#include "client/sample/live_set.h"
#include "client/sample/sample.h"
#include "client/sample/stack_cache.h"
#include "client/sample/thread_slot.h"
#include "client/system.h"
#include "client/thread_table.h"
#include "client/unwind/unwind.h"

static struct client_process process_at_start; /* until wiped memory is mapped */
struct client client = {.process = &process_at_start};

struct ring_thread *client_no_slot;

/* The end of the initial stack, for the unwinder. */
HIDDEN void *__libc_stack_end;

static bool is_set_up; /* stays true in a forked child */

static int set_up(const struct attached_params *params)
{
    struct client_process *process = system_map_wiped(sizeof(*process));
    if (process == NULL)
        return -ENOMEM;
    if (thread_slot_init() != 0 || stack_cache_init() != 0 || sample_init() != 0 ||
        unwind_init() != 0 || live_set_init(&sample_live_set, params->interval_bytes) != 0)
        return -ENOMEM;
    clock_init();
    __libc_stack_end = (void *)params->stack_end;
    process->state = CLIENT_CONNECTING;
    client.process = process;
    is_set_up = true;
    return 0;
}

static void start_session(const struct attached_params *params)
{
    adaptive_begin((struct sampler_rule){params->interval_bytes, params->certain_bytes});
    client.control = (struct ring_control *)params->ring;
    client.threads = (struct ring_thread *)(params->ring + RING_THREADS_OFFSET);
    client.pending = (struct ring_pending *)(params->ring + RING_PENDING_OFFSET);
    client.data = (uint8_t *)(params->ring + RING_DATA_OFFSET);
    client.data_mask = params->data_bytes - 1;
    client.start_ms = params->start_ms;
    client.block_timeout_us = params->block_client_timeout_us;
    client.seed = params->seed;
    client.flags = params->flags;
    client.daemon_pid = params->daemon_pid;
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
    system_call(SYS_munmap, params->ring, params->ring_bytes);
    params->ring = params->ring_bytes =
        0; /* other memory may be mapped there: do not unmap it later */
    client.data = NULL;
    void *arena = system_map_wiped(RING_DATA_OFFSET);
    if (arena == NULL)
        return CLIENT_CONNECTING; /* every allocation passes through */
    client.control = arena;
    client.threads = (void *)((char *)arena + RING_THREADS_OFFSET);
    client.pending = (void *)((char *)arena + RING_PENDING_OFFSET);
    return CLIENT_DORMANT;
}

void session_join(void)
{
    struct attached_params *params = &heapprofd_attach_params;
    uint32_t state = CLIENT_NEW;
    if (!cas_acq_rel(&client.process->state, &state, CLIENT_CONNECTING))
        return;
    bool is_child = is_set_up || load_relaxed((const uint32_t *)params->marker) == 0;
    enum client_state next = CLIENT_ACTIVE;
    client.pid = (int32_t)system_call(SYS_getpid);
    if (params->avoid_copying != 0)
        system_avoid_copying();
    if (!is_set_up && set_up(params) != 0)
        return; /* stays CONNECTING: every allocation passes through */
    if (is_child)
        next = leave_parents_session(params);
    else
        start_session(params);
    thread_table_open();
    store_release(&client.process->state, next);
}

/* An attached client has no control page to check. */
void session_tick(void) {}
