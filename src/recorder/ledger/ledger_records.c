/* SPDX-License-Identifier: Apache-2.0 */
/* Take in the records of a ring that are no events. The ring's reader has checked them. */
#include "recorder/ledger/ledger_state.h"

#include <errno.h>
#include <string.h>

#include "util/array.h"

static int take_stack(void *context, const struct record_stack *stack)
{
    struct ledger *ledger = context;
    return callsite_tree_add_stack(&ledger->callsites, stack);
}

static int take_module(void *context, const struct record_module *module)
{
    struct ledger *ledger = context;
    return callsite_tree_add_module(&ledger->callsites, module);
}

static int forget_modules(void *context)
{
    struct ledger *ledger = context;
    callsite_tree_forget(&ledger->callsites);
    memset(ledger->figures_cache, 0, ledger->figures_cached * sizeof(*ledger->figures_cache));
    return 0;
}

static int take_thread(void *context, uint16_t slot_index, uint32_t tid, const char *name)
{
    struct ledger *ledger = context;
    struct ledger_slot *slot = ledger_slot_at(ledger, slot_index);
    if (slot == NULL)
        return -ENOMEM;
    if (slot->thread == LEDGER_THREAD_OTHERS || ledger->threads[slot->thread].tid != tid) {
        slot->has_freed = false;
        slot->thread = LEDGER_THREAD_OTHERS;
        if (ledger->thread_count >= LEDGER_THREADS_MAX)
            return 0;
        if (ARRAY_RESERVE(&ledger->threads, &ledger->thread_capacity, ledger->thread_count, 1) < 0)
            return -ENOMEM;
        slot->thread = (uint32_t)ledger->thread_count++;
        ledger->threads[slot->thread].tid = tid;
    }
    char *copy = ledger->threads[slot->thread].name;
    strncpy(copy, name, sizeof(ledger->threads->name) - 1);
    copy[sizeof(ledger->threads->name) - 1] = 0;
    return 0;
}

static int take_heap(void *context, uint8_t heap, uint64_t interval_bytes, const char *name)
{
    struct ledger *ledger = context;
    struct ledger_heap *known = &ledger->heaps[heap];
    /* Samples that one interval weighed must not be subtracted with another. */
    if (known->samples == 0 && interval_bytes > 0)
        known->interval_bytes = interval_bytes;
    known->known = true;
    if (name[0] != 0) {
        strncpy(known->name, name, sizeof(known->name) - 1);
        known->name[sizeof(known->name) - 1] = 0;
    }
    if (heap >= ledger->heap_count)
        ledger->heap_count = (size_t)heap + 1;
    return 0;
}

/* From its announcement on, an interval may leave allocations without a sample. */
static int take_interval(void *context, uint8_t heap, uint32_t index, uint64_t interval_bytes)
{
    struct ledger *ledger = context;
    struct ledger_heap *known = &ledger->heaps[heap];
    if (index >= LEDGER_INTERVALS_MAX || interval_bytes == 0 ||
        (ledger->intervals[index] != 0 && ledger->intervals[index] != interval_bytes))
        return -EBADMSG;
    ledger->intervals[index] = interval_bytes;
    if (index < LEDGER_INTERVALS_OF_MALLOC)
        ledger->interval_now = index;
    bool is_profiled = heap != 0 || ledger->intervals[0] != 0;
    if (is_profiled && interval_bytes > known->longest_interval_bytes)
        known->longest_interval_bytes = interval_bytes;
    return 0;
}

static int take_name(void *context, const struct record_name *name)
{
    struct ledger *ledger = context;
    return tags_add_name(&ledger->tags, name);
}

static int take_context(void *context, const struct record_context *scopes)
{
    struct ledger *ledger = context;
    return tags_add_context(&ledger->tags, scopes);
}

static int take_scope(void *context, uint16_t slot_index, const struct record_scope *record)
{
    struct ledger *ledger = context;
    struct ledger_slot *slot = ledger_slot_at(ledger, slot_index);
    if (slot == NULL)
        return -ENOMEM;
    const struct ledger_scope scope = {
        .record = record,
        .slot = slot_index,
        .thread = &ledger->threads[slot->thread],
        .name = tags_name_of(&ledger->tags, record->name),
    };
    if (ledger->scope_observer != NULL)
        ledger->scope_observer(ledger->scope_context, &scope);
    return 0;
}

static int take_code(void *context, const struct record_code *code)
{
    struct ledger *ledger = context;
    return code_table_add(&ledger->callsites.code, code);
}

const struct ring_visitor ledger_visitor = {
    .events = ledger_take_events,
    .unmap = ledger_take_unmap,
    .walk = ledger_take_walk,
    .walked = ledger_walked,
    .stack = take_stack,
    .module = take_module,
    .modules_reset = forget_modules,
    .thread = take_thread,
    .heap = take_heap,
    .interval = take_interval,
    .name = take_name,
    .context = take_context,
    .scope = take_scope,
    .code = take_code,
};
