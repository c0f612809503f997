/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of walks that the client could not finish. Each is kept until its ALLOC. */
#include "recorder/ledger/ledger_state.h"

#include <stdlib.h>
#include <string.h>

#include "recorder/walk/finish_walk.h"
#include "util/array.h"

/* Number of walks of a thread that can wait for their ALLOC: signal handlers nest. */
#define WAITING_MAX 4u

struct ledger_walks {
    struct waiting_walks {
        struct {
            uint64_t token, hash;
        } walks[WAITING_MAX];
        uint32_t next;
    } * slots;
    size_t slot_count, slot_capacity;
};

void ledger_walks_close(struct ledger *ledger)
{
    if (ledger->walks == NULL)
        return;
    free(ledger->walks->slots);
    free(ledger->walks);
}

/* Return the waiting walks of a slot. NULL: no memory. */
static struct waiting_walks *waiting_of(struct ledger *ledger, uint16_t slot)
{
    if (ledger->walks == NULL && (ledger->walks = calloc(1, sizeof(*ledger->walks))) == NULL)
        return NULL;
    struct ledger_walks *walks = ledger->walks;
    if (slot >= walks->slot_count) {
        size_t more = slot + 1 - walks->slot_count;
        if (ARRAY_RESERVE(&walks->slots, &walks->slot_capacity, walks->slot_count, more) < 0)
            return NULL;
        memset(&walks->slots[walks->slot_count], 0, more * sizeof(*walks->slots));
        walks->slot_count += more;
    }
    return &walks->slots[slot];
}

void ledger_finish_walks(struct ledger *ledger, struct walk_finisher *finisher)
{
    ledger->finisher = finisher;
}

int ledger_take_walk(void *context, uint16_t slot, const struct record_walk *walk,
                     enum ring_unwinding *answer)
{
    struct ledger *ledger = context;
    if (ledger->finisher == NULL)
        return 0;
    struct waiting_walks *waiting = waiting_of(ledger, slot);
    if (waiting == NULL)
        return -ENOMEM;
    const struct record_stack *stack =
        walk_finish(ledger->finisher, &ledger->callsites, walk, answer);
    int code = callsite_tree_add_stack(&ledger->callsites, stack);
    if (code < 0)
        return code;
    ledger->counts.walks++;
    ledger->counts.walks_failed += stack->error != 0;
    waiting->walks[waiting->next % WAITING_MAX].token = walk->token;
    waiting->walks[waiting->next % WAITING_MAX].hash = stack->hash;
    waiting->next++;
    return 0;
}

uint64_t ledger_walked(void *context, uint16_t slot, uint64_t token)
{
    const struct ledger *ledger = context;
    if (ledger->walks == NULL || slot >= ledger->walks->slot_count)
        return 0;
    const struct waiting_walks *waiting = &ledger->walks->slots[slot];
    /* Search from the latest one: a token may be reused. */
    for (uint32_t i = 1; i <= WAITING_MAX; i++) {
        uint32_t at = (waiting->next - i) % WAITING_MAX;
        if (waiting->walks[at].token == token)
            return waiting->walks[at].hash;
    }
    return 0;
}
