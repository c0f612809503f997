/* SPDX-License-Identifier: Apache-2.0 */
/* One entry for each process that waits, with the session that is being asked. */
#include "recorder/service/hello_routing.h"

#include "recorder/service/session_wire.h"
#include "recorder/sockets/rendezvous.h"
#include "util/clock.h"

/* Time that one session has to answer if others can be asked, and time for all sessions together:
 * the process itself gives up later. */
#define ASK_MS 900
#define WHOLE_MS (HANDSHAKE_TIMEOUT_MS - 200)

/* Return whether the session let the last hello pass, and its event loop has sent nothing since. */
static bool is_silent(const struct supervised *session)
{
    return session->unanswered_ms > session->last_turn_ms;
}

/* Return whether the session may be asked, and its owner may be allowed to see the process. The
 * session then asks the kernel. */
static bool may_ask(const struct supervised *session, uid_t uid)
{
    return !session->leaving && session->socket >= 0 && !is_silent(session) &&
           (session->owner.uid == uid || session->owner.uid == 0 || session->owner.may_all);
}

/* Return the session with the next order after `after` that may be asked, or NULL. */
static struct supervised *next_session(const struct hello_routing *routing,
                                       const struct routed_hello *routed, uint64_t after)
{
    const struct supervisor *supervisor = routing->supervisor;
    struct supervised *next = NULL;
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        if (session->order > after && (next == NULL || session->order < next->order) &&
            may_ask(session, routed->uid))
            next = session;
    }
    return next;
}

static void fill_refusal(struct handshake_reply *reply, bool was_declined)
{
    *reply = (struct handshake_reply){
        .magic = HANDSHAKE_MAGIC,
        .version = HANDSHAKE_VERSION,
        .verdict = HANDSHAKE_NOT_A_TARGET,
        /* A forked child of an unwanted process may be wanted itself. */
        .flags = was_declined ? HANDSHAKE_HELLO_AFTER_FORK : 0,
    };
}

/* Ask the next session. Return false if all were asked. */
static bool ask_next(struct hello_routing *routing, struct routed_hello *routed, uint64_t now_ms)
{
    struct supervised *session;
    while ((session = next_session(routing, routed, routed->asked)) != NULL) {
        routed->asked = session->order;
        routed->sent_ms = now_ms;
        bool is_last = next_session(routing, routed, session->order) == NULL;
        routed->ask_ms = is_last ? routed->end_ms : clock_earlier(routed->end_ms, now_ms + ASK_MS);
        const struct session_wire_hello message = {
            .type = SESSION_WIRE_HELLO,
            .ticket = routed->ticket,
            .pid = routed->pid,
            .uid = routed->uid,
            .deadline_ms = routed->ask_ms,
            .hello = routed->hello,
        };
        if (now_ms < routed->end_ms && session_wire_send(session->socket, &message, sizeof(message),
                                                         NULL, 0, routed->fd, false) == 0)
            return true;
    }
    return false;
}

/* Forget a process. The last entry takes its place. */
static void drop(struct hello_routing *routing, struct routed_hello *routed)
{
    rendezvous_end_connection(routing->rendezvous, routed->fd);
    *routed = routing->hellos[--routing->count];
}

/* Continue with the next session. Return true if the process still waits, false if it has its
 * answer and is forgotten. */
static bool go_on(struct hello_routing *routing, struct routed_hello *routed, uint64_t now_ms)
{
    struct handshake_reply reply;
    if (ask_next(routing, routed, now_ms))
        return true;
    fill_refusal(&reply, routed->was_declined);
    rendezvous_reply(routed->fd, &reply, -1);
    drop(routing, routed);
    return false;
}

bool hello_routing_take(struct hello_routing *routing, int fd, pid_t pid, uid_t uid,
                        const struct handshake_hello *hello, struct handshake_reply *reply)
{
    size_t own = 0;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    fill_refusal(reply, false);
    for (size_t i = 0; i < routing->count; i++)
        own += routing->hellos[i].uid == uid;
    if (own >= HELLO_ROUTING_OF_A_USER_MAX || routing->count == HELLO_ROUTING_MAX)
        return false;
    struct routed_hello *routed = &routing->hellos[routing->count];
    *routed = (struct routed_hello){
        .ticket = ++routing->last_ticket,
        .fd = fd,
        .pid = pid,
        .uid = uid,
        .hello = *hello,
        .end_ms = now_ms + WHOLE_MS,
    };
    if (!ask_next(routing, routed, now_ms))
        return false;
    routing->count++;
    return true;
}

/* Report to later sessions which session has the process. */
static void send_claimed(const struct hello_routing *routing, const struct routed_hello *routed,
                         const struct supervised *owner)
{
    const struct supervised *session;
    struct session_wire_claimed message = {
        .type = SESSION_WIRE_CLAIMED, .pid = routed->pid, .origin = routed->hello.origin};
    for (uint64_t at = owner->order; (session = next_session(routing, routed, at)) != NULL;
         at = session->order) {
        supervisor_name(owner, session, message.whose);
        session_wire_send(session->socket, &message, sizeof(message), NULL, 0, -1, false);
    }
}

void hello_routing_answer(struct hello_routing *routing, const struct supervised *session,
                          uint32_t ticket, int verdict)
{
    for (size_t i = 0; i < routing->count; i++) {
        struct routed_hello *routed = &routing->hellos[i];
        if (routed->ticket != ticket || routed->asked != session->order)
            continue;
        if (verdict == 1) {
            send_claimed(routing, routed, session);
            drop(routing, routed);
        } else {
            routed->was_declined |= verdict == 0;
            go_on(routing, routed, clock_read_ms(CLOCK_MONOTONIC));
        }
        return;
    }
}

void hello_routing_skip_session(struct hello_routing *routing, const struct supervised *session)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    for (size_t i = 0; i < routing->count;) {
        if (routing->hellos[i].asked != session->order ||
            go_on(routing, &routing->hellos[i], now_ms))
            i++;
    }
}

/* Note that the session which is being asked has let the time pass. */
static void note_unanswered(const struct hello_routing *routing, const struct routed_hello *routed)
{
    const struct supervisor *supervisor = routing->supervisor;
    for (size_t i = 0; i < supervisor->count; i++) {
        if (supervisor->sessions[i]->order == routed->asked)
            supervisor->sessions[i]->unanswered_ms = routed->sent_ms;
    }
}

uint64_t hello_routing_do_due(struct hello_routing *routing, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < routing->count;) {
        struct routed_hello *routed = &routing->hellos[i];
        if (routed->ask_ms <= now_ms) {
            note_unanswered(routing, routed);
            if (!go_on(routing, routed, now_ms))
                continue;
        }
        next_ms = clock_earlier(next_ms, routed->ask_ms);
        i++;
    }
    return next_ms;
}

void hello_routing_close(struct hello_routing *routing)
{
    while (routing->count > 0)
        drop(routing, &routing->hellos[routing->count - 1]);
}
