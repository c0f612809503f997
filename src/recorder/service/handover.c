/* SPDX-License-Identifier: Apache-2.0 */
/* Pass claims to the session that has the process. Messages that find no room are lost: a borrower
 * waits for a bounded time, and continuous mode looks at lent processes itself after a while. */
#include "recorder/service/handover.h"

#include <stdio.h>
#include <sys/stat.h>

static bool is_open(const struct supervised *session)
{
    return session->is_continuous && session->socket >= 0 && !session->leaving;
}

static bool lists(const struct supervised *session, pid_t pid)
{
    const Heapprofd__ControlSession *state = session->state;
    for (size_t i = 0; state != NULL && i < state->n_processes; i++) {
        if (state->processes[i]->pid == pid)
            return true;
    }
    return false;
}

/* Return the session of continuous mode that has the process, by its last figures; else the first
 * one: it may have it since. NULL: there is no such session. */
static struct supervised *find_holder(const struct supervisor *supervisor, pid_t pid)
{
    struct supervised *first = NULL;
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *session = supervisor->sessions[i];
        if (!is_open(session))
            continue;
        if (lists(session, pid))
            return session;
        first = first != NULL ? first : session;
    }
    return first;
}

bool handover_has_lender(const struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        if (is_open(supervisor->sessions[i]))
            return true;
    }
    return false;
}

/* Return whether the borrower's owner may profile the process, as far as the supervisor can tell.
 * /proc/PID belongs to root if the process's user may not trace it. */
static bool may_have(const struct supervised *borrower, pid_t pid)
{
    char path[32];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return borrower->owner.may_all || borrower->owner.uid == 0 ||
           (stat(path, &status) == 0 && status.st_uid == borrower->owner.uid);
}

static void handover_answer(struct supervised *borrower, pid_t pid)
{
    session_wire_send_number(borrower->socket, SESSION_WIRE_CLAIM_ANSWERED, (uint32_t)pid, false);
}

void handover_claim(struct supervisor *supervisor, struct supervised *borrower, pid_t pid)
{
    struct supervised *holder = find_holder(supervisor, pid);
    struct session_wire_lend lend = {
        .type = SESSION_WIRE_LEND, .pid = pid, .borrower = borrower->order};
    if (holder != NULL && !borrower->is_continuous && pid > 0 && may_have(borrower, pid)) {
        supervisor_name(borrower, holder, lend.whose);
        if (session_wire_send(holder->socket, &lend, sizeof(lend), NULL, 0, -1, false) == 0)
            return;
    }
    handover_answer(borrower, pid);
}

void handover_lent(struct supervisor *supervisor, const struct session_wire_lend *lend)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        struct supervised *borrower = supervisor->sessions[i];
        if (borrower->order == lend->borrower && borrower->socket >= 0)
            handover_answer(borrower, lend->pid);
    }
}

void handover_end(struct supervisor *supervisor, const struct supervised *borrower)
{
    const struct session_wire_lend ended = {.type = SESSION_WIRE_TAKE_BACK,
                                            .borrower = borrower->order};
    for (size_t i = 0; i < supervisor->count; i++) {
        if (is_open(supervisor->sessions[i]))
            session_wire_send(supervisor->sessions[i]->socket, &ended, sizeof(ended), NULL, 0, -1,
                              false);
    }
}
