/* SPDX-License-Identifier: Apache-2.0 */
/* Pass the records of a ring, which the reader has checked, to a ledger. */
#include "daemon/ledger/ledger_state.h"

#include <string.h>

static int visit_events(void *context, const struct heap_event *events, size_t count)
{
    return ledger_events(context, events, count);
}

static int visit_unmap(void *context, uint8_t heap, uint16_t slot, const struct record_unmap *unmap)
{
    return ledger_unmap(context, heap, slot, unmap);
}

static int visit_stack(void *context, const struct record_stack *stack)
{
    struct ledger *ledger = context;
    return callsite_tree_add_stack(&ledger->callsites, stack);
}

static int visit_module(void *context, const struct record_module *module)
{
    struct ledger *ledger = context;
    return callsite_tree_add_module(&ledger->callsites, module);
}

static int visit_modules_reset(void *context)
{
    struct ledger *ledger = context;
    callsite_tree_forget(&ledger->callsites);
    memset(ledger->figures_cache, 0, ledger->figures_cached * sizeof(*ledger->figures_cache));
    return 0;
}

static int visit_thread(void *context, uint16_t slot, uint32_t tid, const char *name)
{
    return ledger_thread(context, slot, tid, name);
}

static int visit_heap(void *context, uint8_t heap, uint64_t interval_bytes, const char *name)
{
    return ledger_heap(context, heap, interval_bytes, name);
}

static int visit_interval(void *context, uint32_t index, uint64_t interval_bytes)
{
    return ledger_interval(context, index, interval_bytes);
}

static int visit_name(void *context, const struct record_name *name)
{
    return ledger_name(context, name);
}

static int visit_context(void *context, const struct record_context *scopes)
{
    return ledger_context(context, scopes);
}

static int visit_walk(void *context, uint16_t slot, const struct record_walk *walk,
                      enum ring_unwinding *answer)
{
    return ledger_walk(context, slot, walk, answer);
}

static uint64_t visit_walked(void *context, uint16_t slot, uint64_t token)
{
    return ledger_walked(context, slot, token);
}

const struct ring_visitor ledger_visitor = {
    .events = visit_events,
    .unmap = visit_unmap,
    .walk = visit_walk,
    .walked = visit_walked,
    .stack = visit_stack,
    .module = visit_module,
    .modules_reset = visit_modules_reset,
    .thread = visit_thread,
    .heap = visit_heap,
    .interval = visit_interval,
    .name = visit_name,
    .context = visit_context,
};
