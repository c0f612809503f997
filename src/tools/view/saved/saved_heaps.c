/* SPDX-License-Identifier: Apache-2.0 */
/* Writes heaps, dumps and pairs of heaps. */
#include "tools/view/saved/saved_heaps.h"

#include <stdlib.h>
#include <string.h>

#include "profile/compare/diff_pairs.h"
#include "profile/compare/estimates.h"
#include "profile/compare/matching.h"
#include "profile/partial.h"
#include "tools/view/answers/answers.h"
#include "tools/view/model/dimension.h"
#include "tools/view/model/limits.h"
#include "util/xmalloc.h"

#define FIGURES 15u

/* Return one of the figures of a sample: bytes, count, their variances and samples of what was
 * allocated, of what was freed, and of what was live at the peak. */
static double saved_heaps_figure_of(const struct trace_figures *figures,
                                    const struct trace_peak_figures *peak, unsigned which)
{
    const double all[FIGURES] = {
        figures->allocated_bytes,
        figures->allocated_count,
        figures->allocated_bytes_variance,
        figures->allocated_count_variance,
        (double)figures->samples,
        figures->freed_bytes,
        figures->freed_count,
        figures->freed_bytes_variance,
        figures->freed_count_variance,
        (double)(int64_t)figures->freed_samples,
        peak->bytes,
        peak->count,
        peak->bytes_variance,
        peak->count_variance,
        peak->samples,
    };
    return all[which];
}

/* --- a dump --- */

static void write_figure(struct json_writer *json, const struct export_dump *at,
                         enum export_view view, bool counts)
{
    const struct estimate_shown total = view_total(at, view, counts);
    json_object(json, counts ? "count" : "bytes");
    json_number(json, "value", total.value);
    json_number(json, "low", total.interval.low);
    json_number(json, "high", total.interval.high);
    json_end_object(json);
}

/* Write the exact totals and the sampled part of them, from which the limits of changes follow. */
static void write_counted(struct json_writer *json, const struct export_dump *at)
{
    const struct unseen_counted counted = unseen_counted_of(at->heap, at->dump);
    const struct profile_estimate *sampled = &counted.sampled;
    const double values[] = {counted.bytes,   counted.calls,           sampled->bytes,
                             sampled->count,  sampled->bytes_variance, sampled->count_variance,
                             sampled->samples};
    json_array(json, "counted");
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        json_number(json, NULL, values[i]);
    json_end_array(json);
}

void saved_dump_write(struct saved_heaps *heaps, const struct saved_heap *heap, size_t dump,
                      const uint32_t *numbers)
{
    const struct profile_heap *of = &heap->of->profile->heaps[heap->heap];
    const struct export_dump at = {of, &of->dumps[dump]};
    const struct profile_sample *left = &at.dump->left_out.sum;
    struct saved_block block;
    char name[80];
    snprintf(name, sizeof(name), "dump %s.%zu", heap->id, dump);
    saved_block_begin(&block);
    json_unsigned(&block.json, "time", at.dump->boottime_ns);
    json_bool(&block.json, "exact", profile_dump_is_exact(of, at.dump));
    json_bool(&block.json, "partial",
              profile_dump_is_partial(of, at.dump) || profile_lacks_frees(of));
    json_bool(&block.json, "totals_partial", profile_totals_why_partial(of, at.dump) != NULL);
    json_array(&block.json, "most");
    json_number(&block.json, NULL, rollup_most(of, at.dump, false));
    json_number(&block.json, NULL, rollup_most(of, at.dump, true));
    json_end_array(&block.json);
    const struct profile_calibration calibration = rollup_calibration_of(of, at.dump);
    view_write_calibration(&block.json, "calibration", &calibration);
    write_counted(&block.json, &at);
    json_array(&block.json, "left_out");
    for (unsigned i = 0; i < FIGURES; i++)
        json_number(&block.json, NULL, saved_heaps_figure_of(&left->figures, &left->peak, i));
    json_end_array(&block.json);
    json_object(&block.json, "whole");
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        json_object(&block.json, export_view_info[view].name);
        write_figure(&block.json, &at, view, false);
        write_figure(&block.json, &at, view, true);
        json_end_object(&block.json);
    }
    json_end_object(&block.json);
    summary_write(heaps->profiles, heap->of, &at, &block.json, "sentences");
    saved_block_numbers(&block, "samples", numbers, at.dump->sample_count);
    saved_block_end(&block, heaps->blocks, name);
}

/* --- a heap --- */

/* A part of a sample as the file has it. Its figures are written only if they are not simply those
 * of the sample. */
struct part {
    const struct profile_part *of;
    bool has_figures;
};

struct columns {
    const struct saved_heap *heap;
    struct saved_block block;
    struct part *parts;
    size_t part_count, figure_count; /* of all; of those with figures */
    uint32_t *numbers;               /* room for a column */
    double *values;
};

static bool needs_figures(const struct profile_sample *sample)
{
    return sample->tagged || sample->part_count > 1 ||
           (sample->part_count == 1 &&
            memcmp(&sample->parts[0].figures, &sample->figures, sizeof(sample->figures)) != 0);
}

static void list_parts(struct columns *columns)
{
    const struct saved_heap *heap = columns->heap;
    size_t count = 0;
    for (size_t i = 0; i < heap->sample_count; i++)
        count += heap->samples[i]->part_count;
    size_t most = count > heap->sample_count ? count : heap->sample_count;
    columns->parts = xcalloc(count + 1, sizeof(*columns->parts));
    columns->numbers = xcalloc(most + 1, sizeof(*columns->numbers));
    columns->values = xcalloc(most + 1, sizeof(*columns->values));
    for (size_t i = 0; i < heap->sample_count; i++) {
        const struct profile_sample *sample = heap->samples[i];
        bool has_figures = needs_figures(sample);
        for (uint32_t j = 0; j < sample->part_count; j++)
            columns->parts[columns->part_count++] = (struct part){&sample->parts[j], has_figures};
        columns->figure_count += has_figures ? sample->part_count : 0;
    }
}

/* Number the types or contexts of the parts, and write them to the header. */
static void write_labels(struct columns *columns, const char *key, size_t member, uint32_t *numbers)
{
    struct intern_table ids = {0};
    json_array(&columns->block.json, key);
    for (size_t i = 0; i < columns->part_count; i++) {
        bool added;
        const char *text = *(const char *const *)((const char *)columns->parts[i].of + member);
        uint64_t id = xmalloc_id(intern_bytes(&ids, text, strlen(text), &added));
        numbers[i] = (uint32_t)(id - 1);
        if (added)
            json_string(&columns->block.json, NULL, text);
    }
    json_end_array(&columns->block.json);
    intern_free(&ids);
}

static void write_threads(struct columns *columns, uint32_t *numbers)
{
    const struct profile *profile = columns->heap->of->profile;
    int32_t pid = profile->processes[profile->heaps[columns->heap->heap].process].pid;
    struct json_writer *json = &columns->block.json;
    struct intern_table ids = {0};
    json_array(json, "threads");
    for (size_t i = 0; i < columns->part_count; i++) {
        bool added;
        int32_t tid = columns->parts[i].of->tid;
        uint64_t id = xmalloc_id(intern_bytes(&ids, &tid, sizeof(tid), &added));
        numbers[i] = (uint32_t)(id - 1);
        if (!added)
            continue;
        json_object(json, NULL);
        json_signed(json, "tid", tid);
        json_string(json, "name", profile_thread_name(profile, pid, tid));
        json_end_object(json);
    }
    json_end_array(json);
    intern_free(&ids);
}

static void write_sample_columns(struct columns *columns, const struct saved_heaps *heaps)
{
    const struct saved_heap *heap = columns->heap;
    static const char *const names[] = {"node", "callsite", "parts", "tagged", "detailed"};
    for (size_t which = 0; which < sizeof(names) / sizeof(names[0]); which++) {
        for (size_t i = 0; i < heap->sample_count; i++) {
            const struct profile_sample *sample = heap->samples[i];
            const uint32_t values[] = {heaps->nodes[heap->of->of_callsites[sample->callsite]],
                                       sample->callsite, sample->part_count, sample->tagged,
                                       needs_figures(sample)};
            columns->numbers[i] = values[which];
        }
        saved_block_numbers(&columns->block, names[which], columns->numbers, heap->sample_count);
    }
    for (unsigned which = 0; which < FIGURES; which++) {
        char name[24];
        snprintf(name, sizeof(name), "figure %u", which);
        for (size_t i = 0; i < heap->sample_count; i++)
            columns->values[i] =
                saved_heaps_figure_of(&heap->samples[i]->figures, &heap->samples[i]->peak, which);
        saved_block_doubles(&columns->block, name, columns->values, heap->sample_count);
    }
}

static void write_part_columns(struct columns *columns)
{
    for (unsigned which = 0; which < FIGURES; which++) {
        size_t used = 0;
        char name[24];
        snprintf(name, sizeof(name), "part figure %u", which);
        for (size_t i = 0; i < columns->part_count; i++)
            if (columns->parts[i].has_figures)
                columns->values[used++] = saved_heaps_figure_of(&columns->parts[i].of->figures,
                                                                &columns->parts[i].of->peak, which);
        saved_block_doubles(&columns->block, name, columns->values, columns->figure_count);
    }
}

/* Write the header and the columns. */
static void write_columns(struct columns *columns, const struct saved_heaps *heaps)
{
    const struct profile_heap *heap = &columns->heap->of->profile->heaps[columns->heap->heap];
    struct json_writer *json = &columns->block.json;
    uint32_t *of_parts = xcalloc(3 * columns->part_count + 1, sizeof(*of_parts));
    uint32_t *threads = of_parts, *types = of_parts + columns->part_count,
             *contexts = types + columns->part_count;
    json_unsigned(json, "interval_bytes", view_limits_interval(heap));
    json_number(json, "floor_bytes",
                unseen_is_as_reported(heap) ? 0 : profile_floor_bytes(heap->interval_bytes));
    json_bool(json, "as_reported", unseen_is_as_reported(heap));
    json_bool(json, "dumps_at_peak", heap->status.dump_at_max);
    json_string(json, "why_no_threads", view_dimension_why_unknown(heap, VIEW_THREAD));
    json_array(json, "unknown");
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        if (export_view_is_unknown(heap, view))
            json_string(json, NULL, export_view_info[view].name);
    json_end_array(json);
    write_threads(columns, threads);
    write_labels(columns, "types", offsetof(struct profile_part, type), types);
    write_labels(columns, "contexts", offsetof(struct profile_part, context), contexts);
    write_sample_columns(columns, heaps);
    saved_block_numbers(&columns->block, "thread", threads, columns->part_count);
    saved_block_numbers(&columns->block, "type", types, columns->part_count);
    saved_block_numbers(&columns->block, "context", contexts, columns->part_count);
    write_part_columns(columns);
    free(of_parts);
}

void saved_heap_write(struct saved_heaps *heaps, const struct saved_heap *heap)
{
    struct columns columns = {.heap = heap};
    char name[64];
    saved_block_begin(&columns.block);
    list_parts(&columns);
    write_columns(&columns, heaps);
    snprintf(name, sizeof(name), "heap %s", heap->id);
    saved_block_end(&columns.block, heaps->blocks, name);
    free(columns.parts);
    free(columns.numbers);
    free(columns.values);
}

/* --- pairs --- */

/* Limit of pairs: a file of hundreds of processes against another would have too many. */
#define PAIRS_MAX 64u

/* How the callsites of two profiles match; most pairs of heaps share it. */
struct matched {
    const struct profile *sides[2];
    const char *programs[2];
    bool addresses;
    struct matching *matching;
};

static const struct profile_heap *heap_of(const struct saved_heap *heap)
{
    return &heap->of->profile->heaps[heap->heap];
}

/* Find out what the two heaps' programs are called. Return whether they are of one process. */
static bool compare_processes(const struct saved_heap *const pair[2], const char *programs[2])
{
    struct export_dump dumps[2];
    struct diff_side sides[2];
    struct diff diff = {0};
    for (int i = 0; i < 2; i++) {
        const struct profile_heap *heap = heap_of(pair[i]);
        dumps[i] = (struct export_dump){heap, &heap->dumps[heap->dump_count - 1]};
        sides[i] = (struct diff_side){pair[i]->of->profile, &dumps[i], 1};
    }
    xmalloc_code(diff_pairs_make(&sides[0], &sides[1], DIFF_PAIR_NAMES, &diff));
    diff_pairs_programs(&sides[0], &sides[1], &diff, programs);
    bool is_same = diff.pair_count == 1 && diff.pairs[0].same_process;
    for (size_t i = 0; i < diff.pair_count; i++) {
        free(diff.pairs[i].before);
        free(diff.pairs[i].after);
    }
    free(diff.pairs);
    return is_same;
}

static void match(struct matched *known, const struct saved_heap *const pair[2],
                  const char *const programs[2], bool addresses)
{
    const struct profile *before = pair[0]->of->profile, *after = pair[1]->of->profile;
    if (known->matching != NULL && known->sides[0] == before && known->sides[1] == after &&
        known->programs[0] == programs[0] && known->programs[1] == programs[1] &&
        known->addresses == addresses)
        return;
    matching_free(known->matching);
    const struct matching_options options = {.addresses = addresses,
                                             .programs = {programs[0], programs[1]}};
    *known = (struct matched){{before, after},
                              {programs[0], programs[1]},
                              addresses,
                              xmalloc_made(matching_new(before, after, &options))};
}

/* Write a number for each sample of a heap. */
static void write_rows(struct saved_block *block, const char *name, const struct saved_heap *heap,
                       const uint64_t *of_callsites)
{
    uint32_t *numbers = xcalloc(heap->sample_count + 1, sizeof(*numbers));
    for (size_t i = 0; i < heap->sample_count; i++)
        numbers[i] = (uint32_t)of_callsites[heap->samples[i]->callsite];
    saved_block_numbers(block, name, numbers, heap->sample_count);
    free(numbers);
}

static void write_pair(struct saved_heaps *heaps, struct matched *known,
                       const struct saved_heap *const pair[2])
{
    static const char *const rows[] = {"before", "after"}, *const places[] = {"exact before",
                                                                              "exact after"};
    const char *programs[2];
    char name[112];
    struct saved_block block;
    bool is_same = compare_processes(pair, programs);
    match(known, pair, programs, is_same);
    saved_block_begin(&block);
    for (int side = 0; side < 2; side++) {
        const struct matching_side *matched = &known->matching->sides[side];
        write_rows(&block, rows[side], pair[side], matched->callsites);
        if (is_same)
            write_rows(&block, places[side], pair[side], matched->exact);
    }
    snprintf(name, sizeof(name), "pair %s %s", pair[0]->id, pair[1]->id);
    saved_block_end(&block, heaps->blocks, name);
}

static bool is_opened(const struct view_opening *opening, const struct saved_heap *one,
                      const struct saved_heap *other)
{
    if (opening == NULL || opening->base.dump == NULL)
        return false;
    const struct profile_heap *at = opening->at.heap, *base = opening->base.heap;
    return (heap_of(one) == at && heap_of(other) == base) ||
           (heap_of(one) == base && heap_of(other) == at);
}

void saved_pairs_write(struct saved_heaps *heaps, const struct view_opening *opening)
{
    struct matched known = {.matching = NULL};
    size_t written = 0;
    for (size_t i = 0; i < heaps->count; i++) {
        for (size_t j = i + 1; j < heaps->count; j++) {
            const struct saved_heap *const pair[] = {&heaps->items[i], &heaps->items[j]};
            bool is_offered = pair[0]->profile != pair[1]->profile && written < PAIRS_MAX &&
                              strcmp(heap_of(pair[0])->name, heap_of(pair[1])->name) == 0;
            if (!is_offered && !is_opened(opening, pair[0], pair[1]))
                continue;
            write_pair(heaps, &known, pair);
            written++;
        }
    }
    matching_free(known.matching);
}
