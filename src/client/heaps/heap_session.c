/* SPDX-License-Identifier: Apache-2.0 */
/* A heap in a session: its rule, its interval's numbers, its state, and the threads' lines. */
#include <stddef.h>
#include <string.h>

#include "client/heaps/heaps.h"
#include "client/sample/ring_writer.h"
#include "client/sample/thread_slot.h"
#include "client/system.h"
#include "wire/record.h"
#include "wire/sampling.h"

/* Intervals of custom heaps have numbers from here on; malloc's are below
 * (client/sample/adaptive.h). */
#define HEAP_INTERVALS_FIRST 64u
#define HEAP_INTERVALS_MAX 192u

HIDDEN struct AHeapInfo heaps[HEAPS_MAX];
#ifndef HEAPPROFD_ATTACHED
HIDDEN __thread uint32_t *heap_line_numbers;
#endif

/* Line numbers of all threads, by slot number, which a thread keeps for life. */
static uint32_t (*line_numbers)[HEAPS_MAX];

/* The intervals by number, in all sessions. */
static uint64_t intervals[HEAP_INTERVALS_MAX];
static uint32_t interval_count;

/* --- lines --- */

int heaps_init(void)
{
    if (line_numbers != NULL)
        return 0;
    void *numbers = system_map_wiped(RING_THREADS_MAX * sizeof(*line_numbers));
    if (numbers == NULL)
        return -ENOMEM;
    store_release(&line_numbers, numbers);
    return 0;
}

void heap_lines_forget(void)
{
    if (line_numbers != NULL)
        system_wipe(line_numbers, RING_THREADS_MAX * sizeof(*line_numbers));
}

/* Take a line for the slot in the heap, and keep its number. Return NULL if none is free. */
static struct ring_thread *heap_session_take_line(uint32_t slot, uint32_t id, uint32_t *number)
{
    uint32_t used = load_relaxed(&client.control->heap_lines_used);
    do {
        if (used >= RING_HEAP_LINES_MAX) {
            add_relaxed(&client.control->lost[RING_LOST_NO_THREAD_SLOT], 1);
            return NULL;
        }
    } while (!cas_relaxed(&client.control->heap_lines_used, &used, used + 1));
    struct ring_thread *line = &client.heap_lines[used];
    uint64_t seed = client.seed ^ (uint64_t)id << 48 ^ (uint64_t)slot << 32 ^ used;
    sampler_start(line, heap_pending(line), sampler_random(&seed), &heaps[id].rule);
    line->samples = slot;
    store_release(&line->tid, id);
    *number = used + 1;
    return line;
}

struct ring_thread *heap_line_get(struct ring_thread *thread, uint32_t id)
{
    uint32_t slot = (uint32_t)(thread - client.threads);
    uint32_t *number = &line_numbers[slot][id];
#ifndef HEAPPROFD_ATTACHED
    heap_line_numbers = line_numbers[slot];
#endif
    struct ring_thread *line = likely(*number != 0) ? &client.heap_lines[*number - 1]
                                                    : heap_session_take_line(slot, id, number);
    if (heaps[id].is_python)
        store_relaxed(&client_own_cell()->python, line);
    return line;
}

#ifdef HEAPPROFD_ATTACHED
struct ring_thread *heap_line_find(uint32_t id)
{
    const struct ring_thread *slot = load_relaxed(&client_own_cell()->slot);
    uint32_t number =
        slot != NULL && line_numbers != NULL ? line_numbers[slot - client.threads][id] : 0;
    return number != 0 ? &client.heap_lines[number - 1] : NULL;
}
#endif

/* --- the session's choice --- */

const struct ring_heap_rule *heap_find_rule(const char *name)
{
    const struct ring_heaps *wanted = client.wanted_heaps;
    uint32_t count = wanted->count < RING_HEAPS_MAX ? wanted->count : RING_HEAPS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(wanted->rules[i].name, name, RING_HEAP_NAME_BYTES) == 0)
            return &wanted->rules[i];
    }
    return NULL;
}

static uint64_t wanted_interval(const struct AHeapInfo *heap)
{
    const struct ring_heap_rule *rule = heap_find_rule(heap->name);
    if (heap->of_ranges) /* every call or none, and only if its name is listed */
        return rule != NULL && rule->interval_bytes != 0 ? 1 : 0;
    if (rule != NULL)
        return rule->interval_bytes;
    return heap->is_family ? client.wanted_heaps->families_interval_bytes
                           : client.wanted_heaps->other_interval_bytes;
}

bool heaps_want(const struct AHeapInfo *heap)
{
    return client_state() == CLIENT_ACTIVE && wanted_interval(heap) != 0;
}

/* Return the number of an interval; HEAP_INTERVALS_MAX: there are too many. */
static uint32_t number_interval(uint64_t interval_bytes)
{
    uint32_t count = load_acquire(&interval_count);
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            if (load_relaxed(&intervals[i]) == interval_bytes)
                return i;
        }
        if (count == HEAP_INTERVALS_MAX)
            return count;
        uint64_t free_place = 0;
        if (cas_acq_rel(&intervals[count], &free_place, interval_bytes) ||
            free_place == interval_bytes) {
            uint32_t seen = count;
            cas_acq_rel(&interval_count, &seen, count + 1);
            return count;
        }
        count++;
    }
}

static int init_live_set(struct AHeapInfo *heap, uint64_t interval)
{
    int result = heap->is_python || heap->is_family ? live_set_init(&heap->live, interval)
                                                    : live_set_init_small(&heap->live, interval);
    if (result == 0 && adaptive_is_limited())
        live_set_may_become_sparse(&heap->live);
    return result;
}

/* Report a heap of the program that a session with the default heaps does not profile, unless it
 * excludes it by name: its user may not know of it. */
static void report_unmentioned(const struct AHeapInfo *heap)
{
    uint64_t words[RING_HEAP_NAME_BYTES / 8];
    if (heap->of_ranges || heap->is_python || heap->is_family || heap_find_rule(heap->name) != NULL)
        return;
    if (client.wanted_heaps->families_interval_bytes == 0) /* the session names its heaps */
        return;
    memcpy(words, heap->name, sizeof(words));
    bool is_first = add_relaxed(&client.control->unmentioned_claims, 1) == 0;
    for (unsigned i = 0; is_first && i < RING_HEAP_NAME_BYTES / 8; i++)
        store_relaxed(&client.control->unmentioned_heap[i], words[i]);
    add_ordered(&client.control->unmentioned_heaps, 1);
}

void heap_begin(uint32_t id)
{
    struct AHeapInfo *heap = &heaps[id];
    if (add_ordered(&client.process->heap_begun[id], 1) != 0)
        return;
    uint64_t interval = wanted_interval(heap);
    if (interval == 0)
        report_unmentioned(heap);
    uint32_t number = interval != 0 ? number_interval(interval) : HEAP_INTERVALS_MAX;
    heap->rule = (struct sampler_rule){0};
    if (number == HEAP_INTERVALS_MAX || (!heap->of_ranges && init_live_set(heap, interval) != 0))
        return;
    heap->rule = sampler_rule_of(interval, 0);
    memset(heap->interval_numbers, 0, sizeof(heap->interval_numbers));
    heap->interval_numbers[0] = HEAP_INTERVALS_FIRST + number;
    store_release(&client.process->heap_states[id], HEAP_CHANGED);
    store_release(&client.process->heaps_callbacks_due, 1);
}

static bool announce_interval(struct ring_thread *thread, uint32_t id, uint64_t interval_bytes,
                              uint32_t number)
{
    struct record_interval *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return false;
    record->interval_bytes = interval_bytes;
    record->index = number;
    return ring_writer_commit_of_heap(thread, record, RECORD_INTERVAL, (uint8_t)id);
}

uint32_t heap_doublings(struct ring_thread *thread, uint32_t id, uint32_t drawn_by)
{
    struct AHeapInfo *heap = &heaps[id];
    uint32_t doublings = adaptive_index();
    if (likely(doublings == drawn_by) || heap->of_ranges ||
        (heap->rule.interval_bytes == 1 && !adaptive_is_limited()))
        return drawn_by;
    if (adaptive_is_limited())
        live_set_expect_few(&heap->live, doublings > 0);
    if (load_acquire(&heap->interval_numbers[doublings]) != 0)
        return doublings;
    uint64_t interval_bytes = adaptive_interval(heap->rule.interval_bytes, doublings);
    uint32_t number = number_interval(interval_bytes);
    if (number == HEAP_INTERVALS_MAX ||
        !announce_interval(thread, id, interval_bytes, HEAP_INTERVALS_FIRST + number))
        return drawn_by;
    store_release(&heap->interval_numbers[doublings], HEAP_INTERVALS_FIRST + number);
    return doublings;
}

/* Send the heap's records that precede its first sample. */
static bool announce_heap(struct ring_thread *thread, uint32_t id)
{
    const struct AHeapInfo *heap = &heaps[id];
    if (!announce_interval(thread, id, heap->rule.interval_bytes, heap->interval_numbers[0]))
        return false;
    struct record_heap *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return false;
    record->interval_bytes = heap->rule.interval_bytes;
    record->interval = heap->interval_numbers[0];
    memcpy(record->name, heap->name, sizeof(record->name));
    return ring_writer_commit_of_heap(thread, record, RECORD_HEAP, (uint8_t)id);
}

bool heap_apply_state(struct ring_thread *thread, uint32_t id)
{
    uint32_t *state = &client.process->heap_states[id], found = load_acquire(state);
    uint32_t session = client_state();
    if (found == HEAP_COUNTS)
        return session == CLIENT_ACTIVE;
    if (found != HEAP_CHANGED)
        return false;
    /* Several threads may announce it at once; then all of them count. */
    if (session == CLIENT_ACTIVE)
        return announce_heap(thread, id) &&
               (cas_acq_rel(state, &found, HEAP_COUNTS) || found == HEAP_COUNTS);
    if (session == CLIENT_DORMANT || session == CLIENT_ENDED || session == CLIENT_LISTENED)
        cas_acq_rel(state, &found, HEAP_IDLE);
    return false;
}
