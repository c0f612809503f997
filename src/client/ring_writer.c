/* See ring_writer.h. */
#include "client/ring_writer.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/system.h"
#include "wire/handshake.h"

/* A waiting thread looks up this often whether the daemon still lives. */
#define WAIT_SLICE_US 50000u

/* The daemon looks at each ring at least ten times a second while it runs at
 * all. Where its pid cannot be seen, a heartbeat this old means that it is gone. */
#define HEARTBEAT_LOST_MS 5000u

uint32_t ring_writer_length_max(void)
{
    return (uint32_t)((client.data_mask + 1) / 4);
}

/* The daemon has ended it: nothing is to be said of why. */
static void leave_session(void)
{
    uint32_t active = CLIENT_ACTIVE;
    cas_relaxed(&client.live->state, &active, CLIENT_ENDED);
}

void ring_writer_end_session(enum ring_client_state reason)
{
    uint32_t running = RING_CLIENT_RUNNING;
    cas_relaxed(&client.control->client_state, &running, (uint32_t)reason);
    leave_session();
}

static bool daemon_is_gone(void)
{
    if (client.daemon_pid > 0 && system_call(SYS_kill, client.daemon_pid, 0) == -ESRCH)
        return true;
    uint64_t beat = load_relaxed(&client.control->heartbeat_ms);
    uint64_t now = clock_now_ms();
    return now > beat && now - beat > HEARTBEAT_LOST_MS;
}

static bool has_space(uint64_t reserved, uint32_t length)
{
    /* Acquire: the daemon zeroed the memory before it gave it back. */
    uint64_t consumed = load_acquire(&client.control->consumed);
    return reserved + length - consumed <= client.data_mask + 1;
}

/* Waits until there is space. False: there is none to wait for, the session has ended. */
static bool wait_for_space(struct ring_thread *thread, uint32_t length)
{
    struct ring_control *control = client.control;
    if (!(client.flags & HANDSHAKE_BLOCK_CLIENT)) {
        ring_writer_end_session(RING_CLIENT_OVERRAN);
        return false;
    }
    if (load_relaxed(&thread->in_ring) != 0)
        return false;

    bool fits = false;
    uint64_t began_us = clock_now_us(), waited_us = 0;
    add_ordered(&control->waiters, 1);
    while (client_state() == CLIENT_ACTIVE) {
        uint32_t seen = load_ordered(&control->space_futex);
        if ((fits = has_space(load_relaxed(&control->reserved), length)))
            break;
        uint64_t slice_us = WAIT_SLICE_US;
        if (client.block_timeout_us > 0) {
            if (waited_us >= client.block_timeout_us) {
                ring_writer_end_session(RING_CLIENT_TIMED_OUT);
                break;
            }
            if (client.block_timeout_us - waited_us < slice_us)
                slice_us = client.block_timeout_us - waited_us;
        }
        struct timespec slice = {.tv_nsec = (long)slice_us * 1000};
        system_call(SYS_futex, &control->space_futex, FUTEX_WAIT, seen, &slice);
        waited_us = clock_now_us() - began_us;
        if (load_relaxed(&control->stopping) != 0) {
            leave_session();
            break;
        }
        if (daemon_is_gone()) {
            ring_writer_end_session(RING_CLIENT_DAEMON_GONE);
            break;
        }
    }
    sub_relaxed(&control->waiters, 1);
    add_relaxed(&control->blocked_us, waited_us);
    return fits;
}

void *ring_writer_reserve(struct ring_thread *thread, uint32_t length)
{
    struct ring_control *control = client.control;
    length = (length + 7) & ~7u;
    uint64_t reserved = load_relaxed(&control->reserved);
    for (;;) {
        if (client_state() != CLIENT_ACTIVE)
            return NULL;
        if (unlikely(load_relaxed(&control->stopping) != 0)) {
            leave_session();
            return NULL;
        }
        if (unlikely(!has_space(reserved, length))) {
            if (!wait_for_space(thread, length))
                return NULL;
            reserved = load_relaxed(&control->reserved);
            continue;
        }
        store_relaxed(&thread->in_ring, 1);
        barrier_signal();
        if (likely(cas_relaxed(&control->reserved, &reserved, reserved + length))) {
            union record_header *header = (void *)(client.data + (reserved & client.data_mask));
            union record_header busy = {.length = length, .type = RECORD_BUSY};
            /* Release is not needed: a reader that sees 0 here waits, and one that
             * sees this reads nothing behind it. */
            store_relaxed(&header->word, busy.word);
            return header;
        }
        store_relaxed(&thread->in_ring, 0);
    }
}

void ring_writer_commit(struct ring_thread *thread, void *record, enum record_type type)
{
    union record_header *header = record;
    union record_header ready = {.word = load_relaxed(&header->word)};
    ready.type = type;
    ready.thread = (uint16_t)(thread - client.threads);
    /* The body before the type: the daemon loads the header with acquire. */
    store_release(&header->word, ready.word);
    barrier_signal();
    store_relaxed(&thread->in_ring, 0);

    /* One wake-up as the ring passes half full; whoever polls needs none. */
    struct ring_control *control = client.control;
    uint64_t offset = (uintptr_t)record - (uintptr_t)client.data;
    uint64_t half = (client.data_mask + 1) / 2;
    if (unlikely(((offset + ready.length) & half) != (offset & half)) &&
        load_relaxed(&control->reserved) - load_relaxed(&control->consumed) >= half) {
        add_ordered(&control->wake_futex, 1);
        system_call(SYS_futex, &control->wake_futex, FUTEX_WAKE, 1);
    }
}
