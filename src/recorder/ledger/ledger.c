/* SPDX-License-Identifier: Apache-2.0 */
/* Apply events: weigh samples, and add them to figures and heaps. */
#include "recorder/ledger/ledger_state.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "wire/barrier.h"
#include "wire/sampling.h"

/* From these numbers on, live samples (16 to 70 bytes) and figures (four lines) do not fit in a
 * processor's second cache. */
#define LIVE_LARGE 8192u
#define FIGURES_LARGE 4096u

struct ledger *ledger_open(uint64_t interval_bytes)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (ledger == NULL)
        return NULL;
    live_table_init(&ledger->live);
    ledger->intervals[0] = interval_bytes;
    ledger->intervals[LEDGER_INTERVAL_NONE] = 1;
    strcpy(ledger->heaps[0].name, "libc.malloc");
    ledger->heaps[0].interval_bytes = interval_bytes;
    ledger->heaps[0].known = interval_bytes > 0;
    ledger->heap_count = 1;
    ledger->threads = calloc(8, sizeof(*ledger->threads));
    ledger->thread_capacity = 8;
    ledger->figures_cache = calloc(FIGURES_CACHED_MIN, sizeof(*ledger->figures_cache));
    ledger->figures_cached = FIGURES_CACHED_MIN;
    if (ledger->threads == NULL || ledger->figures_cache == NULL ||
        figures_table_init(&ledger->figures) < 0 || callsite_tree_init(&ledger->callsites) < 0 ||
        tags_init(&ledger->tags) < 0) {
        ledger_close(ledger);
        return NULL;
    }
    strcpy(ledger->threads[LEDGER_THREAD_OTHERS].name, "(others)");
    ledger->thread_count = 1;
    return ledger;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL)
        return;
    live_table_clear(&ledger->live);
    for (size_t i = 0; i < LEDGER_HEAPS_MAX; i++) {
        if (ledger->other_live[i] != NULL)
            live_table_clear(ledger->other_live[i]);
        free(ledger->other_live[i]);
        if (ledger->ranges[i] != NULL)
            ranges_clear(ledger->ranges[i]);
        free(ledger->ranges[i]);
        calibration_clear(&ledger->heaps[i].calibration);
    }
    tags_clear(&ledger->tags);
    callsite_tree_clear(&ledger->callsites);
    figures_table_clear(&ledger->figures);
    free(ledger->figures_cache);
    ledger_walks_close(ledger);
    free(ledger->slots);
    free(ledger->threads);
    free(ledger);
}

/* --- the estimator --- */

static struct weight weigh(uint64_t size, uint64_t interval_bytes)
{
    struct weight weight = {.count = 1, .half_count = 1};
    if (size >= sampling_certain_bytes(interval_bytes))
        return weight;
    /* With x = s/T: 1/p = 1 + 1/(e^x - 1), and (1-p)/p^2 = 1/p (1/p - 1). expm1 keeps all digits if
     * x is small, and then p is small, too. */
    double expected = (double)(size > 0 ? size : 1) / (double)interval_bytes;
    double excess = 1 / expm1(expected);
    weight.count = 1 + excess;
    weight.count_variance = weight.count * excess;
    /* Half of the points fall to each half. With a for the probability at twice the interval,
     * p = a (2 - a), and both halves have a sample with a^2. */
    weight.half_count = 1 + 1 / expm1(expected / 2);
    weight.both = 1 / (2 * weight.half_count - 1);
    return weight;
}

const struct weight *ledger_weigh(struct ledger *ledger, uint64_t size, uint16_t interval)
{
    struct weight *cached =
        &ledger->weights[(size ^ size >> 10 ^ (uint64_t)interval << 5) % WEIGHTS_CACHED];
    if (likely(cached->size == size && cached->interval == interval && cached->known))
        return cached;
    *cached = weigh(size, ledger->intervals[interval]);
    cached->size = size;
    cached->interval = interval;
    cached->known = 1;
    return cached;
}

/* --- figures --- */

static struct cached_figures *cached_figures(const struct ledger *ledger, uint64_t stack,
                                             uint32_t thread, uint32_t tag)
{
    uint64_t hash = stack ^ (thread | (uint64_t)tag << 16) * UINT64_C(0x9E3779B97F4A7C15);
    return &ledger->figures_cache[(hash ^ hash >> 32) & (ledger->figures_cached - 1)];
}

/* Double the cache. Without memory it keeps its size. */
static void grow_figures_cache(struct ledger *ledger)
{
    size_t old_size = ledger->figures_cached;
    struct cached_figures *old = ledger->figures_cache;
    struct cached_figures *grown = calloc(old_size * 2, sizeof(*grown));
    if (grown == NULL)
        return;
    ledger->figures_cache = grown;
    ledger->figures_cached = old_size * 2;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].known)
            *cached_figures(ledger, old[i].stack, old[i].thread, old[i].tag) = old[i];
    }
    free(old);
}

/* Return the interval that weighs the event. apply_alloc() has checked it against
 * LEDGER_INTERVALS_MAX. */
static uint16_t interval_of(const struct heap_event *event)
{
    return event->flags & RECORD_ALLOC_WEIGHED ? LEDGER_INTERVAL_NONE : (uint16_t)event->interval;
}

/* Set *tag to the event's tag. Return 0 or -ENOMEM. */
static int tag_of(struct ledger *ledger, const struct heap_event *event, uint32_t *tag)
{
    *tag = TAG_NONE;
    if (likely((event->type_hash | event->context_hash) == 0))
        return 0;
    return tags_intern(&ledger->tags, event->type_hash, event->context_hash, tag);
}

static bool is_cached(const struct cached_figures *cached, const struct heap_event *event,
                      uint32_t thread, uint32_t tag)
{
    return cached->stack == event->stack && cached->thread == thread && cached->tag == tag &&
           cached->heap == event->heap && cached->interval == interval_of(event) && cached->known;
}

static struct figures_key figures_key(const struct ledger *ledger, const struct heap_event *event,
                                      uint32_t thread, uint32_t tag)
{
    uint32_t node = callsite_tree_find(&ledger->callsites, event->stack);
    if (node == CALLSITE_ROOT)
        node = ledger->callsites.unknown;
    return (struct figures_key){.node = node,
                                .thread = thread,
                                .tag = tag,
                                .interval = interval_of(event),
                                .heap = event->heap};
}

static void cache_figures(struct ledger *ledger, uint64_t stack, struct figures_key key,
                          uint32_t figures)
{
    /* Do not cache an unknown stack: it may still be sent. */
    if (key.node == ledger->callsites.unknown)
        return;
    *cached_figures(ledger, stack, key.thread, key.tag) =
        (struct cached_figures){.stack = stack,
                                .tag = key.tag,
                                .thread = (uint16_t)key.thread,
                                .heap = key.heap,
                                .interval = key.interval,
                                .known = 1,
                                .figures = figures};
}

/* Return the figures of an ALLOC. Make them if there are none. */
static uint32_t figures_of(struct ledger *ledger, const struct heap_event *event, uint32_t thread)
{
    uint32_t tag;
    if (tag_of(ledger, event, &tag) < 0)
        return FIGURES_NONE;
    struct figures_key key = figures_key(ledger, event, thread, tag);
    /* New figures had nothing live at any peak so far. */
    uint32_t figures =
        figures_table_intern(&ledger->figures, key, ledger->heaps[event->heap].epoch);
    if (figures == FIGURES_NONE)
        return FIGURES_NONE;
    uint64_t *longest = &ledger->heaps[event->heap].longest_interval_bytes;
    if (ledger->intervals[key.interval] > *longest)
        *longest = ledger->intervals[key.interval];
    if (ledger->figures.count * 2 > ledger->figures_cached &&
        ledger->figures_cached < FIGURES_CACHED_MAX)
        grow_figures_cache(ledger);
    cache_figures(ledger, event->stack, key, figures);
    return figures;
}

void ledger_observe(struct ledger *ledger, ledger_observer *observer, void *context)
{
    ledger->observer = observer;
    ledger->observer_context = context;
}

void ledger_observe_scopes(struct ledger *ledger, ledger_scope_observer *observer, void *context)
{
    ledger->scope_observer = observer;
    ledger->scope_context = context;
}

/* Return the live samples of a heap; NULL: it has had none. */
static struct live_table *live_of(struct ledger *ledger, uint8_t heap)
{
    return likely(heap == 0) ? &ledger->live : ledger->other_live[heap];
}

static void heap_grew(struct ledger_heap *heap, double bytes, double count, uint64_t time_ms)
{
    heap->live_bytes += bytes;
    heap->live_count += count;
    if (heap->live_bytes > heap->peak_bytes) {
        heap->peak_bytes = heap->live_bytes;
        heap->peak_count = heap->live_count;
        heap->peak_missed = heap->live_missed;
        heap->peak_open = heap->live_open;
        heap->peak_time_ms = time_ms;
        heap->at_peak = true;
    }
}

/* Add a sample that becomes live (times 1), or subtract it (-1), to what a heap with samples of
 * p < 1 has beside its sums. Call this before they change. */
static void heap_change_sampled(struct ledger_heap *heap, const struct worth *worth,
                                const struct weight *weight, double size, unsigned halves,
                                double times)
{
    if (!heap->split.begun)
        split_peak_begin(&heap->split, (struct ledger_amount){heap->live_bytes, heap->live_count},
                         (struct ledger_amount){heap->peak_bytes, heap->peak_count});
    split_peak_change(&heap->split, weight, size, halves, times);
    ledger_amount_add(&heap->live_missed, times, worth->missed);
    if (worth->is_open)
        ledger_amount_add(&heap->live_open, times, worth->missed);
}

/* Return what a sample of the heap stands for. time_ms: of the event. */
static struct worth worth_of(struct ledger_heap *heap, const struct weight *weight, double size,
                             uint64_t time_ms, uint64_t allocated_ms)
{
    if (weight->count_variance == 0)
        return (struct worth){.all = {size, 1}};
    calibration_note_time(&heap->calibration, time_ms);
    return calibration_worth(&heap->calibration, weight, size, allocated_ms);
}

/* Count a sample as freed, with the weight that it was allocated with. With sign -1, undo this. */
static void figures_add_freed(struct ledger *ledger, uint64_t address,
                              const struct live_sample *sample, uint64_t size, uint64_t time_ms,
                              bool temporary, double sign)
{
    struct ledger_figures *figures = figures_table_change(&ledger->figures, sample->figures);
    struct ledger_heap *heap = &ledger->heaps[figures->heap];
    const struct weight *weight = ledger_weight(ledger, size, figures->interval);
    uint64_t allocated_ms = live_sample_time(sample);
    struct worth worth = worth_of(heap, weight, (double)size, time_ms, allocated_ms);
    double count = sign * worth.all.count, bytes = sign * worth.all.bytes;
    ledger_settle_figures(figures, heap);
    ledger_keep_peak(figures, heap, -bytes);

    struct trace_figures *sums = &figures->sums;
    sums->freed_bytes += bytes;
    sums->freed_count += count;
    if (weight->count_variance != 0) {
        double count_variance = sign * weight->count_variance;
        sums->freed_bytes_variance += count_variance * (double)size * (double)size;
        sums->freed_count_variance += count_variance;
        figures->missed_live_bytes -= sign * worth.missed.bytes;
        if (worth.is_open) {
            ledger_amount_add(&figures->open.freed, sign, worth.missed);
            if (temporary)
                ledger_amount_add(&figures->open.temporary, sign, worth.missed);
        }
    }
    if (heap->split.begun)
        heap_change_sampled(heap, &worth, weight, (double)size,
                            split_peak_halves(weight, address, sample->ordinal), -sign);
    sums->freed_samples += sign > 0 ? 1 : UINT64_MAX; /* or subtract 1 */
    /* Two threads may have read their clocks in the opposite order of their records. */
    if (time_ms > allocated_ms)
        sums->lifetime_ms_sum += count * (double)(time_ms - allocated_ms);
    if (temporary) {
        sums->temporary_bytes += bytes;
        sums->temporary_count += count;
    }
    if (sign > 0) {
        heap->live_bytes -= bytes;
        heap->live_count -= count;
    } else {
        heap_grew(heap, -bytes, -count, time_ms);
    }
    /* Streamed events have no period that could be calibrated. */
    ledger_notify(ledger, sign > 0 ? LEDGER_FREED : LEDGER_UNFREED, figures->heap, address, size,
                  weight->count, time_ms);
}

/* --- events --- */

struct ledger_slot *ledger_add_slot(struct ledger *ledger, uint16_t slot)
{
    if (ARRAY_RESERVE(&ledger->slots, &ledger->slot_capacity, ledger->slot_count,
                      slot + 1 - ledger->slot_count) < 0)
        return NULL;
    memset(&ledger->slots[ledger->slot_count], 0,
           (slot + 1 - ledger->slot_count) * sizeof(*ledger->slots));
    ledger->slot_count = (size_t)slot + 1;
    return &ledger->slots[slot];
}

/* Make the live samples of a heap other than malloc's. NULL: no memory. */
static struct live_table *begin_heap(struct ledger *ledger, uint8_t heap)
{
    struct live_table *live = malloc(sizeof(*live));
    if (live == NULL)
        return NULL;
    live_table_init(live);
    ledger->other_live[heap] = live;
    if (heap >= ledger->heap_count)
        ledger->heap_count = (size_t)heap + 1;
    return live;
}

/* Count a sample whose type or context is beyond the bound on their number. */
static void count_others(struct ledger *ledger, uint32_t tag)
{
    const struct tag *pair = &ledger->tags.items[tag];
    ledger->counts.other_types += pair->type == TAG_OTHERS;
    ledger->counts.other_contexts += pair->context == TAG_OTHERS;
}

/* Inlined into both callers, since one of them is hot. */
static inline __attribute__((always_inline)) void
add_allocated(struct ledger *ledger, const struct heap_event *event, uint32_t index)
{
    struct ledger_figures *figures = figures_table_change(&ledger->figures, index);
    struct ledger_heap *heap = &ledger->heaps[figures->heap];
    const struct weight *weight = ledger_weight(ledger, event->size, figures->interval);
    double size = (double)event->size;
    struct worth worth = worth_of(heap, weight, size, event->time_ms, event->time_ms);
    ledger_settle_figures(figures, heap);
    ledger_keep_peak(figures, heap, worth.all.bytes);
    figures->sums.allocated_bytes += worth.all.bytes;
    figures->sums.allocated_count += worth.all.count;
    if (weight->count_variance != 0) {
        figures->sums.allocated_bytes_variance += weight->count_variance * size * size;
        figures->sums.allocated_count_variance += weight->count_variance;
        figures->missed_live_bytes += worth.missed.bytes;
        if (worth.is_open)
            ledger_amount_add(&figures->open.allocated, 1, worth.missed);
        calibration_add(&heap->calibration, &worth, weight, size);
    }
    if (heap->split.begun || weight->count_variance != 0)
        heap_change_sampled(heap, &worth, weight, size,
                            split_peak_halves(weight, event->address, event->ordinal), 1);
    figures->sums.samples++;
    heap->seen_bytes += size;
    ledger->counts.unknown_stacks += figures->node == ledger->callsites.unknown;
    ledger->counts.allocs++;
    heap->samples++;
    heap->known = true;
    if (unlikely(figures->interval == LEDGER_INTERVAL_NONE))
        heap->weighed_samples++;
    if (unlikely(figures->tag != TAG_NONE))
        count_others(ledger, figures->tag);
    heap_grew(heap, worth.all.bytes, worth.all.count, event->time_ms);
    ledger_notify(ledger, LEDGER_ALLOCATED, event->heap, event->address, event->size, weight->count,
                  event->time_ms);
}

/* Return `found`, or else the figures of an ALLOC. FIGURES_NONE: no memory. */
static uint32_t figures_at(struct ledger *ledger, const struct heap_event *event, uint32_t found)
{
    const struct ledger_slot *slot =
        found == FIGURES_NONE ? ledger_slot_at(ledger, event->thread) : NULL;
    return slot != NULL ? figures_of(ledger, event, slot->thread) : found;
}

static int apply_range(struct ledger *ledger, const struct heap_event *event, uint32_t found)
{
    uint32_t index = figures_at(ledger, event, found);
    int code = index != FIGURES_NONE ? ledger_range_add(ledger, event, index) : -ENOMEM;
    if (code == 0)
        add_allocated(ledger, event, index);
    return code;
}

/* Apply an ALLOC. `index`: its figures, or FIGURES_NONE if they were not found yet. */
static int apply_alloc(struct ledger *ledger, const struct heap_event *event, uint32_t index)
{
    uint64_t key = event->address;
    /* malloc never returns address 0; other heaps may use any number. */
    if ((event->heap == 0 && key == 0) || event->interval >= LEDGER_INTERVALS_MAX)
        return -EBADMSG;
    if (unlikely(ledger->intervals[interval_of(event)] == 0))
        /* If malloc is not profiled, its client draws with a huge interval. Ignore the rare sample.
         */
        return event->heap == 0 && ledger->intervals[0] == 0 ? 0 : -EBADMSG;
    if (unlikely(event->flags & RECORD_ALLOC_RANGE))
        return apply_range(ledger, event, index);
    struct live_table *live = live_of(ledger, event->heap);
    if (unlikely(live == NULL) && (live = begin_heap(ledger, event->heap)) == NULL)
        return -ENOMEM;
    struct ledger_slot *slot = ledger_slot_at(ledger, event->thread);
    if (slot == NULL)
        return -ENOMEM;
    if (index == FIGURES_NONE && (index = figures_of(ledger, event, slot->thread)) == FIGURES_NONE)
        return -ENOMEM;

    bool lost_free = event->flags & RECORD_ALLOC_LOST_FREE, added;
    struct live_sample old, *sample = NULL;
    if (lost_free) {
        added = !live_table_remove(live, key, &old);
    } else {
        sample = live_table_put(live, key, &added);
        if (sample == NULL)
            return -ENOMEM;
        if (!added)
            old = *sample;
    }
    /* The address still had a live sample: its FREE is missing. */
    if (!added) {
        uint64_t size = live_table_size(live, old.size);
        live_table_size_release(live, old.size);
        figures_add_freed(ledger, key, &old, size, event->time_ms, false, 1);
        ledger->counts.implicit_frees++;
    }
    if (sample != NULL) {
        live_sample_set(sample, index, event->time_ms, event->ordinal);
        int code = live_table_size_pack(live, event->size, &sample->size);
        if (code < 0)
            return code;
    }

    add_allocated(ledger, event, index);
    if (lost_free) {
        /* The client cannot send a FREE for this sample. Count it as freed: better to miss a leak
         * than to report many false ones. */
        live_sample_set(&old, index, event->time_ms, event->ordinal);
        figures_add_freed(ledger, key, &old, event->size, event->time_ms, false, 1);
        ledger->counts.lost_frees++;
    }
    return 0;
}

static int apply_free(struct ledger *ledger, const struct heap_event *event)
{
    struct ledger_slot *slot = ledger_slot_at(ledger, event->thread);
    if (slot == NULL)
        return -ENOMEM;
    ledger->counts.frees++;
    struct live_sample *sample = &slot->freed;
    struct live_table *live = live_of(ledger, event->heap);
    slot->has_freed = live != NULL && live_table_remove(live, event->address, sample);
    if (!slot->has_freed) {
        ledger->counts.unknown_frees++;
        return 0;
    }
    slot->freed_heap = event->heap;
    slot->freed_address = event->address;
    slot->freed_size = live_table_size(live, sample->size);
    live_table_size_release(live, sample->size);
    slot->freed_time_ms = event->time_ms;
    const struct ledger_figures *figures = &ledger->figures.items[sample->figures];
    /* Samples that the program drew itself have no ordinals. */
    slot->freed_temporary =
        sample->ordinal == event->ordinal && slot->thread != LEDGER_THREAD_OTHERS &&
        figures->thread == slot->thread && figures->interval != LEDGER_INTERVAL_NONE;
    figures_add_freed(ledger, event->address, sample, slot->freed_size, slot->freed_time_ms,
                      slot->freed_temporary, 1);
    return 0;
}

/* Undo the last FREE of the slot: its realloc failed. */
static int apply_unfree(struct ledger *ledger, const struct heap_event *event)
{
    if (event->thread >= ledger->slot_count)
        return 0;
    struct ledger_slot *slot = &ledger->slots[event->thread];
    if (!slot->has_freed || slot->freed_address != event->address ||
        slot->freed_heap != event->heap)
        return 0;
    struct live_table *live = live_of(ledger, event->heap);
    bool added;
    struct live_sample *sample = live_table_put(live, event->address, &added);
    if (sample == NULL)
        return -ENOMEM;
    if (added) {
        *sample = slot->freed;
        int code = live_table_size_pack(live, slot->freed_size, &sample->size);
        if (code < 0)
            return code;
        figures_add_freed(ledger, event->address, &slot->freed, slot->freed_size,
                          slot->freed_time_ms, slot->freed_temporary, -1);
        ledger->counts.frees--;
    }
    slot->has_freed = false;
    return 0;
}

/* The allocations of a batch whose figures are not in the cache. */
struct missed {
    struct figures_key keys[RING_EVENTS_BATCH];
    uint8_t events[RING_EVENTS_BATCH];
    size_t count;
};

static void find_cached(struct ledger *ledger, const struct heap_event *events, size_t count,
                        uint32_t found[RING_EVENTS_BATCH], struct missed *missed)
{
    missed->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct heap_event *event = &events[i];
        found[i] = FIGURES_NONE;
        uint32_t tag;
        if (event->type != RECORD_ALLOC || event->thread >= ledger->slot_count ||
            tag_of(ledger, event, &tag) < 0)
            continue;
        uint32_t thread = ledger->slots[event->thread].thread;
        const struct cached_figures *cached = cached_figures(ledger, event->stack, thread, tag);
        if (is_cached(cached, event, thread, tag)) {
            found[i] = cached->figures;
        } else {
            callsite_tree_prefetch(&ledger->callsites, event->stack);
            missed->keys[missed->count].tag = tag; /* find_missed() sets the other fields */
            missed->events[missed->count++] = (uint8_t)i;
        }
    }
}

static void find_missed(struct ledger *ledger, const struct heap_event *events, unsigned lines,
                        uint32_t found[RING_EVENTS_BATCH], struct missed *missed)
{
    struct figures_key *keys = missed->keys;
    for (size_t i = 0; i < missed->count; i++) {
        const struct heap_event *event = &events[missed->events[i]];
        keys[i] = figures_key(ledger, event, ledger->slots[event->thread].thread, keys[i].tag);
        figures_table_prefetch_index(&ledger->figures, keys[i]);
    }
    for (size_t i = 0; i < missed->count; i++)
        figures_table_prefetch_found(&ledger->figures, keys[i], lines);
    for (size_t i = 0; i < missed->count; i++) {
        uint32_t figures = figures_table_find(&ledger->figures, keys[i]);
        if (figures != FIGURES_NONE)
            cache_figures(ledger, events[missed->events[i]].stack, keys[i], figures);
        found[missed->events[i]] = figures;
    }
}

/* Return whether tables are larger than the processor's caches near it. Otherwise prefetching takes
 * longer than it saves. */
static bool has_large_tables(const struct ledger *ledger)
{
    return ledger->live.count >= LIVE_LARGE || ledger->figures.count >= FIGURES_LARGE ||
           ledger->heap_count > 1;
}

PREFETCHING prefetch_live(struct ledger *ledger, const struct heap_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct live_table *live = live_of(ledger, events[i].heap);
        if (live != NULL)
            live_table_prefetch(live, events[i].address);
    }
}

/* Prefetch figures that frees change. */
PREFETCHING prefetch_freed(struct ledger *ledger, const struct heap_event *events, size_t count,
                           unsigned lines)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i].type != RECORD_FREE)
            continue;
        const struct live_table *live = live_of(ledger, events[i].heap);
        const struct live_sample *sample =
            live != NULL ? live_table_find(live, events[i].address) : NULL;
        if (sample != NULL)
            figures_table_prefetch_item(&ledger->figures, sample->figures, lines);
    }
}

/*
 * Find the figures of a batch's allocations (FIGURES_NONE if there are none yet), and prefetch all
 * that the batch will touch. Otherwise each event would wait for three or four cache lines in turn.
 * Here the waits of a batch overlap: each step runs for all events before the next step.
 */
static void prefetch_batch(struct ledger *ledger, const struct heap_event *events, size_t count,
                           uint32_t found[RING_EVENTS_BATCH])
{
    struct missed missed;
    bool large = has_large_tables(ledger);
    /* A heap that leaves peaks all the time stores figures at peaks all the time. */
    bool peaks = ledger->heaps[0].epoch != ledger->batch_epoch;
    unsigned changed = FIGURES_LINE_ALLOCATED |
                       (ledger->heaps[0].split.begun ? FIGURES_LINE_OPEN : 0) |
                       (peaks ? FIGURES_LINE_FREED | FIGURES_LINE_PEAK : 0);
    ledger->batch_epoch = ledger->heaps[0].epoch;
    if (large)
        prefetch_live(ledger, events, count);
    find_cached(ledger, events, count, found, &missed);
    for (size_t i = 0; large && i < count; i++)
        if (found[i] != FIGURES_NONE)
            figures_table_prefetch_item(&ledger->figures, found[i], changed);
    find_missed(ledger, events, changed, found, &missed);
    if (large)
        prefetch_freed(ledger, events, count, changed | FIGURES_LINE_FREED);
}

static int apply_batch(struct ledger *ledger, const struct heap_event *events, size_t count)
{
    uint32_t figures[RING_EVENTS_BATCH];
    prefetch_batch(ledger, events, count, figures);
    for (size_t i = 0; i < count; i++) {
        int code = events[i].type == RECORD_ALLOC  ? apply_alloc(ledger, &events[i], figures[i])
                   : events[i].type == RECORD_FREE ? apply_free(ledger, &events[i])
                                                   : apply_unfree(ledger, &events[i]);
        if (code < 0)
            return code;
    }
    return 0;
}

int ledger_take_events(void *ledger, const struct heap_event *events, size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i += RING_EVENTS_BATCH)
        code = apply_batch(ledger, events + i,
                           count - i < RING_EVENTS_BATCH ? count - i : RING_EVENTS_BATCH);
    return code;
}
