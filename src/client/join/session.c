/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State changes of the client. One thread at a time changes the state; meanwhile (CONNECTING) the
 * allocations of all others pass through uncounted.
 *
 * In a running process, no thread may be recording a sample when the ring and the tables change.
 * Threads mark that in their slots (`inside`). A thread that finds another one inside leaves the
 * change to a later tick.
 */
#include "client/session.h"

#include <stddef.h>

#include "client/arena.h"
#include "client/client.h"
#include "client/clock.h"
#include "client/elf_lookup.h"
#include "client/heaps/heaps.h"
#include "client/invitation.h"
#include "client/join/handshake.h"
#include "client/libc/libc.h"
#include "client/libc/musl.h"
#include "client/probes.h"
#include "client/real_allocator.h"
#include "client/sample/adaptive.h"
#include "client/sample/context.h"
#include "client/sample/live_set.h"
#include "client/sample/overhead.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sample.h"
#include "client/sample/stack_cache.h"
#include "client/sample/thread_slot.h"
#include "client/system.h"
#include "client/unwind/unwind.h"
#include "wire/sampling.h"

/* Until wiped memory is mapped. Nobody changes its state, because a forked child would inherit it:
 * the fork may come from another thread while one joins. */
static struct client_process process_at_start;
struct client client = {.process = &process_at_start};

struct client_cell client_no_slot;
__thread struct client_thread client_thread;

static bool is_set_up;        /* stays true in a forked child */
static uint32_t has_deepbind; /* as in struct ring_control; a forked child inherits the libraries */
static bool cannot_be_listened;    /* there was no memory */
static const char *session_socket; /* of the daemon of this process's present or last session */

static struct unwind_process unwinding_facts(void)
{
    struct unwind_process facts = {.stack_end = libc_stack_end()};
    if (libc_is_musl()) {
        facts.follows_code = true;
        facts.exit = (uintptr_t)elf_lookup_next("exit", 1).address;
        facts.pthread_exit = (uintptr_t)elf_lookup_next("pthread_exit", 1).address;
    }
    return facts;
}

/* Map the memory and tables that a program needs once. */
static int set_up(void)
{
#ifndef HEAPPROFD_NO_HOOKS
    real_resolve();
    if (musl_is_too_old())
        return -ENOTSUP;
#endif
    const struct unwind_process facts = unwinding_facts();
    if (thread_slot_init() != 0 || stack_cache_init() != 0 || sample_init() != 0 ||
        unwind_init(&facts) != 0)
        return -ENOMEM;
    clock_init();
    handshake_init();
    invitation_init();
    probes_init();
    is_set_up = true;
    return 0;
}

/* Ask the daemon at this socket. Return 0 if the session is joined. */
static int shake_hands(const char *socket_path, enum handshake_origin origin)
{
    struct handshake_reply reply;
    int ring_fd;
    int32_t daemon_pid;
    int result = handshake_ask(socket_path, origin, &reply, &ring_fd, &daemon_pid);
    /* If several daemons refuse, any of them may ask for hellos of forked children. */
    client.flags = reply.flags | (client.flags & HANDSHAKE_HELLO_AFTER_FORK);
    if (result < 0)
        return result;
    if (reply.flags & HANDSHAKE_MAY_COPY)
        system_permit_copying();
    if (reply.interval_bytes == 0)
        reply.interval_bytes = SAMPLING_NEVER_BYTES;
    result = arena_enter_ring(ring_fd, reply.data_bytes);
    system_call(CALL_CLOSE, ring_fd);
    if (result == 0)
        result = live_set_init_for_malloc(&sample_live_set, reply.interval_bytes);
    if (result < 0)
        return result;
    client.wide_interval_bytes = reply.wide_interval_bytes;
    if (adaptive_is_limited())
        live_set_may_become_sparse(&sample_live_set);
    ring_writer_begin();
    adaptive_begin(sampler_rule_of(reply.interval_bytes, 0));
    session_socket = socket_path;
    client.start_ms = reply.start_ms;
    client.block_timeout_us = reply.block_client_timeout_us;
    client.adaptive_threshold_bytes = reply.adaptive_threshold_bytes;
    client.adaptive_max_interval_bytes = reply.adaptive_max_interval_bytes;
    overhead_begin(reply.max_overhead_percent);
    client.daemon_pid = daemon_pid;
    store_release(&client.control->client_state, RING_CLIENT_RUNNING);
    return 0;
}

/* Whether to sample without a session. */
static bool wants_to_be_listened(void)
{
    return probes_want_samples() && !cannot_be_listened;
}

/* Choose the state in the private arena: if a tracer listens to the probes, sample for it. This
 * keeps the arena, because tracers may come and go faster than a preempted thread leaves the hot
 * path, on which it may still write to its slot. */
static enum client_state rest(void)
{
    if (!wants_to_be_listened())
        return CLIENT_DORMANT;
    const struct sampler_rule *rule = probes_rule();
    cannot_be_listened = live_set_init_for_malloc(&sample_live_set, rule->interval_bytes) != 0;
    adaptive_begin(*rule);
    return cannot_be_listened ? CLIENT_DORMANT : CLIENT_LISTENED;
}

/* Leave the ring of a session, or of a forked child's parent, for a private arena. */
static enum client_state become_dormant(void)
{
    return arena_enter_dormant() == 0 ? rest() : CLIENT_CONNECTING;
}

/* Choose the state at the first allocation of a program or of a forked child. */
static enum client_state session_begin(bool forked)
{
    enum handshake_origin origin = forked ? HANDSHAKE_FORK : HANDSHAKE_STARTUP;
    /* The parent may have forbidden system calls: only the child of a profiled process asks. */
    if (forked && (client.flags & HANDSHAKE_HELLO_AFTER_FORK) == 0)
        return become_dormant();
    const char *const sockets[] = {session_socket, handshake_socket_of_command(),
                                   invitation_at_startup()};
    for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
        bool asked = i > 0 && sockets[i] == session_socket;
        if (sockets[i] != NULL && !asked && shake_hands(sockets[i], origin) == 0)
            return CLIENT_ACTIVE;
    }
    return become_dormant();
}

/* Report has_deepbind to the daemon, unless the ring is that of a forked child's parent. */
static void report_deepbind(void)
{
    if (load_ordered(&client.process->state) == CLIENT_ACTIVE && load_relaxed(&has_deepbind) != 0)
        store_relaxed(&client.control->has_deepbind, 1);
}

void session_note_deepbind(void)
{
    store_ordered(&has_deepbind, 1);
    report_deepbind();
}

/* As in struct ring_control. */
static union {
    char name[RING_UNSEEN_BYTES];
    uint64_t words[RING_UNSEEN_BYTES / 8];
} unseen_family;

static void report_unseen_family(void)
{
    if (load_ordered(&client.process->state) != CLIENT_ACTIVE ||
        client.wanted_heaps->families_interval_bytes == 0)
        return;
    for (unsigned i = 0; i < RING_UNSEEN_BYTES / 8; i++)
        store_relaxed(&client.control->unseen_family[i], load_relaxed(&unseen_family.words[i]));
}

void session_note_unseen_family(const char *name)
{
    union {
        char name[RING_UNSEEN_BYTES];
        uint64_t words[RING_UNSEEN_BYTES / 8];
    } noted = {0};
    for (unsigned i = 0; i + 1 < RING_UNSEEN_BYTES && name[i] != 0; i++)
        noted.name[i] = name[i];
    for (unsigned i = 0; i < RING_UNSEEN_BYTES / 8; i++)
        store_ordered(&unseen_family.words[i], noted.words[i]);
    report_unseen_family();
}

/* Ordered before reading the heaps and has_deepbind: a thread that registers a heap or opens a
 * library at this moment reads the state afterwards. */
static void publish(enum client_state state)
{
    store_relaxed(&context_is_recorded,
                  state == CLIENT_ACTIVE && (client.flags & HANDSHAKE_SCOPES) != 0);
    store_ordered(&client.process->state, (uint32_t)state);
    if (state == CLIENT_ACTIVE) {
        heaps_begin();
        report_deepbind();
        report_unseen_family();
    }
}

/* The preloaded client begins before the program has threads, so preparing takes no time. */
static void prepare_barrier(void)
{
#ifndef HEAPPROFD_NO_HOOKS
    store_relaxed(&client.process->has_remote_barrier, system_prepare_barrier());
#endif
}

/* Map the memory of struct client_process, if nobody has. */
static void map_process(void)
{
    struct client_process *at_start = &process_at_start;
    if (load_acquire(&client.process) != at_start)
        return;
    struct client_process *process = system_map_wiped(sizeof(*process));
    if (process == NULL)
        process_at_start.state = CLIENT_CONNECTING; /* for good, also in children */
    else if (!cas_acq_rel(&client.process, &at_start, process))
        system_unmap(process, sizeof(*process));
}

static void join(void)
{
    map_process();
    uint32_t state = CLIENT_NEW;
    if (!cas_acq_rel(&client.process->state, &state, CLIENT_CONNECTING))
        return;
    /* Functions called below may set errno. */
    int saved_errno = errno;
    bool forked = client.pid != 0; /* the parent has joined, or another thread of it was about to */
    client.pid = (int32_t)system_call(CALL_OWN_PROCESS);
    if (system_call(CALL_RANDOM, &client.seed, sizeof(client.seed)) < 0)
        client.seed = clock_now_us() ^ ((uint64_t)client.pid << 40) ^ (uintptr_t)&saved_errno;
    /* After an error the state stays CONNECTING: every allocation passes through. */
    if (is_set_up)
        heaps_after_fork();
    if (is_set_up || set_up() == 0) {
        prepare_barrier();
        publish(session_begin(forked));
    }
    errno = saved_errno;
}

void session_join(void)
{
    struct system_signals signals = system_hold_signals();
    join();
    system_release_signals(&signals);
}

/* Forget the last session's samples. Its tables read as zeros afterwards. */
static void forget_session(void)
{
    thread_slot_forget();
    stack_cache_forget();
    sample_forget();
    live_set_forget(&sample_live_set);
    heaps_forget();
    store_relaxed(&client.process->announced_generation, 0);
    store_relaxed(&client.process->interval_index, 0);
    store_relaxed(&client.process->served_doublings, 0);
    store_relaxed(&client.process->unanswered_samples, 0);
    store_relaxed(&client.process->overhead.max_percent, 0);
    client.wide_interval_bytes = 0;
    store_relaxed(&client.process->modules_check_ms, 0);
    store_relaxed(&client.process->slot_to_check, 0);
}

/* Return whether the samples of this state are not, or no longer, wanted. */
static bool is_over(uint32_t state)
{
    return state == CLIENT_ENDED || (state == CLIENT_LISTENED) != wants_to_be_listened();
}

/* Leave a session that is over, or begin or end to sample for a tracer; and join the session at
 * this socket, if it is not NULL. */
static void move(uint32_t state, const char *socket_path)
{
    /* Ordered before reading who is inside. */
    if (!cas_ordered(&client.process->state, &state, CLIENT_CONNECTING))
        return;
    if (!thread_slot_none_inside()) {
        store_release(&client.process->state, state);
        return;
    }
    uint32_t next = state;
    if (is_over(state)) {
        forget_session();
        next = state == CLIENT_ENDED ? become_dormant() : rest();
    }
    if (socket_path != NULL && (next == CLIENT_DORMANT || next == CLIENT_LISTENED)) {
        forget_session();
        invitation_answered();
        if (shake_hands(socket_path, HANDSHAKE_RUNNING) == 0)
            next = CLIENT_ACTIVE;
        else
            next = client.data != NULL ? become_dormant() : rest();
    }
    publish(next);
}

void session_tick(void)
{
    uint32_t state = client_state();
    if (state != CLIENT_DORMANT && state != CLIENT_ENDED && state != CLIENT_LISTENED)
        return;
    if (system_calls_are_forbidden())
        return;
    const char *socket_path = invitation_find();
    if (socket_path == NULL && !is_over(state))
        return;
    int saved_errno = errno;
    struct system_signals signals = system_hold_signals();
    move(state, socket_path);
    system_release_signals(&signals);
    errno = saved_errno;
}

void session_join_or_tick(void)
{
    struct thread_passage passage;
    thread_enter(&passage);
    if (client_state() == CLIENT_NEW)
        session_join();
    else
        session_tick();
    thread_leave(&passage);
}
