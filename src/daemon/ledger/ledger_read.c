/* SPDX-License-Identifier: Apache-2.0 */
/* Return figures, counts and live samples, of now or of a snapshot. */
#include "daemon/ledger/ledger_state.h"

#include <stdlib.h>
#include <string.h>

struct ledger_counts ledger_counts(const struct ledger *ledger)
{
    struct ledger_counts counts = ledger->counts;
    counts.live_samples = ledger->live.count;
    for (size_t i = 1; i < ledger->heap_count; i++) {
        counts.live_samples += ledger->other_live[i] != NULL ? ledger->other_live[i]->count : 0;
        counts.live_samples += ledger->ranges[i] != NULL ? ledger->ranges[i]->live_pieces : 0;
    }
    return counts;
}

double ledger_live_bytes(const struct ledger *ledger)
{
    double bytes = 0;
    for (size_t i = 0; i < ledger->heap_count; i++)
        bytes += ledger->heaps[i].live_bytes;
    return bytes > 0 ? bytes : 0;
}

const struct ledger_heap *ledger_heaps(const struct ledger *ledger, size_t *count)
{
    *count = ledger->heap_count;
    return ledger->heaps;
}

const struct ledger_thread *ledger_threads(const struct ledger *ledger, size_t *count)
{
    *count = ledger->thread_count;
    return ledger->threads;
}

const struct callsite_tree *ledger_callsites(const struct ledger *ledger)
{
    return &ledger->callsites;
}

const struct tags *ledger_tags(const struct ledger *ledger)
{
    return &ledger->tags;
}

uint64_t ledger_interval_bytes(const struct ledger *ledger)
{
    return ledger->intervals[ledger->interval_now];
}

size_t ledger_figures_count(const struct ledger *ledger)
{
    return ledger->figures.count;
}

/* Return figures for readers: with values at the current peak, and without rounding errors. */
static struct ledger_figures settle(struct ledger_figures figures, const struct ledger_heap *heap)
{
    struct trace_figures *sums = &figures.sums;
    if (sums->freed_samples == sums->samples) {
        /* The same numbers were summed in another order. */
        sums->freed_bytes = sums->allocated_bytes;
        sums->freed_count = sums->allocated_count;
        sums->freed_bytes_variance = sums->allocated_bytes_variance;
        sums->freed_count_variance = sums->allocated_count_variance;
    }
    if (heap->at_peak || figures.epoch != heap->epoch)
        ledger_note_peak(&figures, heap->epoch);
    return figures;
}

struct ledger_figures ledger_figures(const struct ledger *ledger, size_t index)
{
    const struct ledger_figures *figures = &ledger->figures.items[index];
    return settle(*figures, &ledger->heaps[figures->heap]);
}

/* --- snapshots --- */

struct ledger_snapshot *ledger_snapshot_take(struct ledger *ledger)
{
    struct ledger_snapshot *snapshot = malloc(sizeof(*snapshot));
    if (snapshot == NULL || figures_table_freeze(&ledger->figures) < 0) {
        free(snapshot);
        return NULL;
    }
    snapshot->figures_count = ledger->figures.count;
    snapshot->node_count = ledger->callsites.node_count;
    snapshot->module_count = ledger->callsites.module_count;
    snapshot->heap_count = ledger->heap_count;
    snapshot->interval_bytes = ledger_interval_bytes(ledger);
    snapshot->first_interval_bytes = ledger->intervals[0];
    memcpy(snapshot->heaps, ledger->heaps, sizeof(snapshot->heaps));
    return snapshot;
}

void ledger_snapshot_release(struct ledger *ledger, struct ledger_snapshot *snapshot)
{
    if (snapshot != NULL)
        figures_table_thaw(&ledger->figures);
    free(snapshot);
}

struct ledger_figures ledger_snapshot_figures(const struct ledger *ledger,
                                              const struct ledger_snapshot *snapshot, size_t index)
{
    const struct ledger_figures *figures = figures_table_frozen(&ledger->figures, index);
    return settle(*figures, &snapshot->heaps[figures->heap]);
}

/* --- live samples of malloc --- */

struct visit {
    struct ledger *ledger;
    ledger_live_visitor *visitor;
    void *context;
};

static void visit_sample(void *context, uint64_t key, const struct live_sample *sample)
{
    const struct visit *visit = context;
    uint64_t size = live_table_size(&visit->ledger->live, sample->size);
    uint16_t interval = visit->ledger->figures.items[sample->figures].interval;
    const struct weight *weight = ledger_weight(visit->ledger, size, interval);
    struct ledger_live_sample found = {key, size, weight->count, weight->count_variance};
    visit->visitor(visit->context, &found);
}

double ledger_live_visit(struct ledger *ledger, size_t most, ledger_live_visitor *visitor,
                         void *context)
{
    struct visit visit = {ledger, visitor, context};
    size_t visited = 0;
    /* A hash of the address chooses the segment, so the first segments are a random part. */
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++) {
        visited += live_table_visit(&ledger->live, i, visit_sample, &visit);
        if (visited > most)
            return (double)(i + 1) / LIVE_TABLE_SEGMENTS;
    }
    return 1;
}
