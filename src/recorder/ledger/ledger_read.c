/* SPDX-License-Identifier: Apache-2.0 */
/* Return figures, counts and live samples, of now or of a snapshot, calibrated by exact totals. */
#include "recorder/ledger/ledger_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of the same samples in another order differ by less than this part. */
#define HELD_ROUNDING 1e-9

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

/* --- calibration --- */

static double corrected(double sum, double ratio, double open)
{
    return sum + (ratio - 1) * open;
}

void ledger_close_figures(struct ledger_figures *figures, const struct ledger_heap *heap)
{
    const struct ledger_amount ratio = heap->calibration.periods[figures->period].ratio;
    const struct figures_open *open = &figures->open;
    struct trace_figures *sums = &figures->sums;
    double freed_count = sums->freed_count;
    sums->allocated_bytes = corrected(sums->allocated_bytes, ratio.bytes, open->allocated.bytes);
    sums->allocated_count = corrected(sums->allocated_count, ratio.count, open->allocated.count);
    sums->freed_bytes = corrected(sums->freed_bytes, ratio.bytes, open->freed.bytes);
    sums->freed_count = corrected(sums->freed_count, ratio.count, open->freed.count);
    sums->temporary_bytes = corrected(sums->temporary_bytes, ratio.bytes, open->temporary.bytes);
    sums->temporary_count = corrected(sums->temporary_count, ratio.count, open->temporary.count);
    /* The mean lifetime stays. */
    if (freed_count > 0)
        sums->lifetime_ms_sum *= sums->freed_count / freed_count;
    figures->peak.bytes = corrected(figures->peak.bytes, ratio.bytes, figures->open_peak.bytes);
    figures->peak.count = corrected(figures->peak.count, ratio.count, figures->open_peak.count);
    figures->missed_peak_bytes =
        corrected(figures->missed_peak_bytes, ratio.bytes, figures->open_peak.bytes);
    figures->missed_live_bytes = corrected(figures->missed_live_bytes, ratio.bytes,
                                           open->allocated.bytes - open->freed.bytes);
    figures->open = (struct figures_open){0};
    figures->open_peak = (struct ledger_amount){0};
    figures->period = heap->calibration.closed;
}

/* Ratios change what is live by more than the peak, which may be of an earlier period. */
static void raise_peak(struct ledger_heap *heap)
{
    heap->peak_bytes = heap->live_bytes;
    heap->peak_count = heap->live_count;
    heap->peak_missed = heap->live_missed;
    heap->peak_open = heap->live_open;
    heap->peak_time_ms = heap->calibration.now_ms;
    heap->at_peak = true;
}

static void calibrate(struct ledger_heap *heap, struct ledger_amount exact, bool may_wait)
{
    const struct ledger_amount missed = {exact.bytes - heap->seen_bytes,
                                         exact.count - (double)heap->samples};
    const struct ledger_amount ratio =
        calibration_close(&heap->calibration, missed, exact.bytes, may_wait);
    heap->live_bytes = corrected(heap->live_bytes, ratio.bytes, heap->live_open.bytes);
    heap->live_count = corrected(heap->live_count, ratio.count, heap->live_open.count);
    heap->live_missed.bytes =
        corrected(heap->live_missed.bytes, ratio.bytes, heap->live_open.bytes);
    heap->live_missed.count =
        corrected(heap->live_missed.count, ratio.count, heap->live_open.count);
    heap->peak_bytes = corrected(heap->peak_bytes, ratio.bytes, heap->peak_open.bytes);
    heap->peak_count = corrected(heap->peak_count, ratio.count, heap->peak_open.count);
    heap->peak_missed.bytes =
        corrected(heap->peak_missed.bytes, ratio.bytes, heap->peak_open.bytes);
    heap->peak_missed.count =
        corrected(heap->peak_missed.count, ratio.count, heap->peak_open.count);
    heap->live_open = heap->peak_open = (struct ledger_amount){0};
    if (heap->live_bytes > heap->peak_bytes)
        raise_peak(heap);
}

void ledger_calibrate(struct ledger *ledger, const struct ring_totals *malloc_totals,
                      const struct ring_heap_totals *totals, bool may_wait)
{
    /* Streamed changes keep 1/p, and the figures are their sums. */
    if (ledger->observer != NULL)
        return;
    for (size_t i = 0; i < ledger->heap_count; i++) {
        struct ledger_heap *heap = &ledger->heaps[i];
        struct ledger_amount exact = {(double)malloc_totals->bytes, (double)malloc_totals->calls};
        if (i > 0)
            exact = (struct ledger_amount){(double)totals[i].bytes, (double)totals[i].calls};
        if (heap->calibration.missed.count > 0 && heap->weighed_samples == 0 && exact.count > 0)
            calibrate(heap, exact, may_wait);
    }
}

/* --- peaks --- */

/* Return the factor of the missed part of the peak of figures that have changed since. What other
 * figures hold is live, and no part of the bias. A heap's peak is not below what it holds now. */
static double peak_factor(double peak, double missed, double share, double live)
{
    double corrected_peak = fmax(peak * share, fmin(live, peak));
    return missed > 0 ? fmax(1 - (peak - corrected_peak) / missed, 0) : 1;
}

struct ledger_peak ledger_peak_of(const struct ledger_heap *heap, struct ledger_amount held)
{
    const struct ledger_amount share = split_peak_share(&heap->split);
    const struct ledger_amount missed = {heap->peak_missed.bytes - held.bytes,
                                         heap->peak_missed.count - held.count};
    struct ledger_peak peak = {
        .factor = {peak_factor(heap->peak_bytes, missed.bytes, share.bytes, heap->live_bytes),
                   peak_factor(heap->peak_count, missed.count, share.count, heap->live_count)},
        .highest = {heap->peak_bytes, heap->peak_count},
    };
    peak.bytes = corrected(heap->peak_bytes, peak.factor.bytes, fmax(missed.bytes, 0));
    peak.count = corrected(heap->peak_count, peak.factor.count, fmax(missed.count, 0));
    return peak;
}

bool ledger_holds_peak(const struct ledger_figures *figures)
{
    const struct trace_figures *sums = &figures->sums;
    double live = sums->allocated_bytes - sums->freed_bytes;
    return figures->peak.samples == (double)(sums->samples - sums->freed_samples) &&
           fabs(figures->peak.bytes - live) <= HELD_ROUNDING * live;
}

struct ledger_amount ledger_peak_missed(const struct ledger_figures *figures)
{
    return (struct ledger_amount){figures->missed_peak_bytes,
                                  fmax(figures->peak.count - figures->peak.samples, 0)};
}

void ledger_correct_peak(struct ledger_figures *figures, struct ledger_amount factor)
{
    struct trace_peak_figures *peak = &figures->peak;
    const struct ledger_amount missed = ledger_peak_missed(figures);
    if (ledger_holds_peak(figures))
        return;
    peak->bytes = fmax(corrected(peak->bytes, factor.bytes, missed.bytes), 0);
    peak->count = corrected(peak->count, factor.count, missed.count);
    /* As if each sample stood for fewer missed ones. */
    peak->bytes_variance *= factor.bytes * factor.bytes;
    peak->count_variance *= factor.count * factor.count;
}

/* --- figures --- */

/* Return figures for readers: with values at the current peak, and without rounding errors. */
static struct ledger_figures settle(struct ledger_figures figures, const struct ledger_heap *heap)
{
    struct trace_figures *sums = &figures.sums;
    ledger_settle_figures(&figures, heap);
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

/* --- live samples --- */

struct visit {
    const struct live_table *table;
    ledger_live_visitor *visitor;
    void *context;
};

static void visit_sample(void *context, uint64_t key, const struct live_sample *sample)
{
    const struct visit *visit = context;
    const struct ledger_live_sample found = {
        .address = key,
        .size = live_table_size(visit->table, sample->size),
        .time_ms = live_sample_time(sample),
        .figures = sample->figures,
    };
    visit->visitor(visit->context, &found);
}

static const struct live_table *live_of(const struct ledger *ledger, size_t heap)
{
    return heap == 0 ? &ledger->live : ledger->other_live[heap];
}

double ledger_live_visit(const struct ledger *ledger, size_t heap, size_t most,
                         ledger_live_visitor *visitor, void *context)
{
    struct visit visit = {live_of(ledger, heap), visitor, context};
    size_t visited = 0;
    if (visit.table == NULL || ledger->ranges[heap] != NULL)
        return 0;
    /* A hash of the address chooses the segment, so the first segments are a random part. */
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++) {
        visited += live_table_visit(visit.table, i, visit_sample, &visit);
        if (visited > most)
            return (double)(i + 1) / LIVE_TABLE_SEGMENTS;
    }
    return 1;
}

struct ledger_live_worth ledger_live_worth(struct ledger *ledger, const struct ledger_heap *heap,
                                           const struct ledger_live_sample *sample)
{
    uint16_t interval = ledger->figures.items[sample->figures].interval;
    const struct weight *weight = ledger_weight(ledger, sample->size, interval);
    struct worth worth =
        calibration_worth(&heap->calibration, weight, (double)sample->size, sample->time_ms);
    return (struct ledger_live_worth){worth.all.bytes, worth.all.count, weight->count_variance};
}

void ledger_regions_visit(const struct ledger *ledger, size_t heap, size_t most,
                          ledger_region_visitor *visitor, void *context)
{
    const struct live_table *table = live_of(ledger, heap);
    if (table != NULL)
        live_table_visit_regions(table, most, visitor, context);
}

size_t ledger_pieces(const struct ledger *ledger)
{
    size_t count = 0;
    for (size_t i = 0; i < ledger->heap_count; i++)
        count += ledger->ranges[i] != NULL ? ledger->ranges[i]->live_pieces : 0;
    return count;
}

void ledger_pieces_visit(const struct ledger *ledger, ledger_piece_visitor *visitor, void *context)
{
    for (size_t i = 0; i < ledger->heap_count; i++)
        if (ledger->ranges[i] != NULL)
            ranges_visit(ledger->ranges[i], visitor, context);
}
