/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report as one JSON object with every callsite, unrounded. docs/report.md describes the
 * layout. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "profile/agreement.h"
#include "profile/compare/rss.h"
#include "profile/partial.h"
#include "profile/process_memory.h"
#include "profile/profile.h"
#include "profile/view.h"
#include "tools/cli/report/report.h"
#include "tools/cli/report/unnamed_frames.h"
#include "tools/cli/report/unwind_gaps.h"
#include "tools/print/report_end.h"
#include "tools/print/turnover_text.h"
#include "tools/print/widened.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

/*
 * Stacks in the report's JSON. Version 1 repeats the frames in each callsite. The compact form,
 * version 2, has each frame and each stack once, in lists at the end; a callsite has its number.
 */

/* Items of the profile in the order of their first use. */
struct json_numbers {
    uint32_t *number; /* by item, plus one; 0: not used yet */
    uint32_t *order;
    size_t count;
};

struct json_stacks {
    const struct profile *profile;
    bool compact;
    /* Many stacks share a frame, so its text is cached. */
    char **texts; /* by frame; NULL: not cached */
    size_t *lengths;
    size_t kept_bytes;
    struct json_numbers frames, nodes; /* compact; a node is a frame and its callers */
};

/* Limit of the cache: many frames can share one long name. Other texts are made again each time. */
#define KEPT_BYTES_MAX ((size_t)32 << 20)

static void begin_numbers(struct json_numbers *numbers, size_t items)
{
    numbers->number = xcalloc(items + 1, sizeof(*numbers->number));
    numbers->order = xcalloc(items + 1, sizeof(*numbers->order));
}

static void end_numbers(struct json_numbers *numbers)
{
    free(numbers->number);
    free(numbers->order);
}

/* Return the item's number, from 0. */
static uint32_t report_json_number_of(struct json_numbers *numbers, uint32_t item)
{
    if (numbers->number[item] == 0) {
        numbers->order[numbers->count++] = item;
        numbers->number[item] = (uint32_t)numbers->count;
    }
    return numbers->number[item] - 1;
}

static void json_stacks_begin(struct json_stacks *stacks, const struct profile *profile,
                              bool compact)
{
    *stacks = (struct json_stacks){.profile = profile, .compact = compact};
    if (compact) {
        begin_numbers(&stacks->frames, profile->frame_count);
        begin_numbers(&stacks->nodes, profile->callsite_count);
        return;
    }
    stacks->texts = xcalloc(profile->frame_count + 1, sizeof(*stacks->texts));
    stacks->lengths = xcalloc(profile->frame_count + 1, sizeof(*stacks->lengths));
}

static void json_stacks_end(struct json_stacks *stacks)
{
    for (size_t i = 0; stacks->texts != NULL && i < stacks->profile->frame_count; i++)
        free(stacks->texts[i]);
    free(stacks->texts);
    free(stacks->lengths);
    end_numbers(&stacks->frames);
    end_numbers(&stacks->nodes);
}

static void print_frame(struct json_writer *json, const struct profile *profile,
                        const struct profile_frame *frame)
{
    const char *kind = profile_frame_kind(frame);
    json_object(json, NULL);
    json_string(json, "name", frame->name);
    json_string(json, "linkage_name", frame->linkage_name);
    if (*frame->obfuscated_name != '\0')
        json_string(json, "obfuscated_name", frame->obfuscated_name);
    json_string(json, "mapping",
                frame->mapping != PROFILE_NONE ? profile->mappings[frame->mapping].path : "");
    json_unsigned(json, "rel_pc", frame->rel_pc);
    if (*frame->name == '\0' && frame->function_start != frame->rel_pc)
        json_unsigned(json, "function_start", frame->function_start);
    if (*kind != '\0')
        json_string(json, "kind", kind);
    if (frame->source_file[0] != '\0') {
        json_string(json, "file", frame->source_file);
        json_unsigned(json, "line", frame->line);
    }
    json_end_object(json);
}

static void print_frame_once(struct json_writer *json, struct json_stacks *stacks, uint32_t index)
{
    const struct profile *profile = stacks->profile;
    if (stacks->texts[index] == NULL && stacks->kept_bytes < KEPT_BYTES_MAX) {
        FILE *text = xopen_memstream(&stacks->texts[index], &stacks->lengths[index]);
        struct json_writer one = json_begin(text);
        print_frame(&one, profile, &profile->frames[index]);
        xclose_memstream(text);
        stacks->kept_bytes += stacks->lengths[index];
    }
    if (stacks->texts[index] != NULL)
        json_raw(json, NULL, stacks->texts[index], stacks->lengths[index]);
    else
        print_frame(json, profile, &profile->frames[index]);
}

/* Write the member "frames", or compactly "stack", of an object. */
static void json_stacks_print(struct json_stacks *stacks, struct json_writer *json,
                              uint32_t callsite)
{
    if (stacks->compact && callsite == PROFILE_NONE) {
        json_null(json, "stack");
        return;
    }
    if (stacks->compact) {
        json_unsigned(json, "stack", report_json_number_of(&stacks->nodes, callsite));
        return;
    }
    json_array(json, "frames");
    while (callsite != PROFILE_NONE) {
        const struct profile_callsite *node = &stacks->profile->callsites[callsite];
        print_frame_once(json, stacks, node->frame);
        callsite = node->parent;
    }
    json_end_array(json);
}

/* Write the compact form's lists "stacks" and "frames". */
static void json_stacks_print_lists(struct json_stacks *stacks, struct json_writer *json)
{
    const struct profile *profile = stacks->profile;
    json_array(json, "stacks");
    /* Callers get their numbers here, so the list grows meanwhile. Each node is in it once. */
    for (size_t i = 0; i < stacks->nodes.count; i++) {
        const struct profile_callsite *node = &profile->callsites[stacks->nodes.order[i]];
        json_array(json, NULL);
        json_unsigned(json, NULL, report_json_number_of(&stacks->frames, node->frame));
        if (node->parent != PROFILE_NONE)
            json_unsigned(json, NULL, report_json_number_of(&stacks->nodes, node->parent));
        json_end_array(json);
    }
    json_end_array(json);
    json_array(json, "frames");
    for (size_t i = 0; i < stacks->frames.count; i++) {
        json_line(json);
        print_frame(json, profile, &profile->frames[stacks->frames.order[i]]);
    }
    json_end_array(json);
}

/* What all sections of the report need. */
struct printing {
    struct json_stacks stacks;
    struct unwind_gap_finder gaps;
    const struct report_options *options;
};

/* Write a figure as a number if it is exact, else as [estimate, low95, high95]. */
static void print_compact_figure(struct json_writer *json, const char *name, double value,
                                 struct profile_interval interval)
{
    if (isnan(value) || (interval.low == value && interval.high == value)) {
        json_number(json, name, value);
        return;
    }
    json_array(json, name);
    json_number(json, NULL, value);
    json_number(json, NULL, interval.low);
    json_number(json, NULL, interval.high);
    json_end_array(json);
}

/* Write a figure with its 95 % limits, or null if the file does not contain it. */
static void print_figure(struct json_writer *json, const char *name, bool is_known,
                         const struct estimate_shown *shown, bool compact)
{
    if (compact) {
        print_compact_figure(json, name, is_known ? shown->value : (double)NAN, shown->interval);
        return;
    }
    json_object(json, name);
    json_number(json, "estimate", is_known ? shown->value : (double)NAN);
    json_number(json, "low95", is_known ? shown->interval.low : (double)NAN);
    json_number(json, "high95", is_known ? shown->interval.high : (double)NAN);
    json_end_object(json);
}

static void print_figures(struct json_writer *json, bool compact,
                          const struct rollup_values *values, const struct profile_heap *heap,
                          const struct profile_dump *dump, bool peak_is_known, bool is_total)
{
    static const struct {
        enum export_view view;
        const char *bytes, *count;
        uint32_t unknown; /* if the file does not contain the view */
    } views[] = {{EXPORT_SPACE, "space", "objects", PROFILE_UNKNOWN_LIVE},
                 {EXPORT_ALLOC_SPACE, "alloc_space", "alloc_objects", PROFILE_UNKNOWN_ALLOCATED},
                 {EXPORT_MAX, "max", "max_objects", PROFILE_UNKNOWN_PEAK}};
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        struct profile_estimate figure = estimate_of_view(values, views[i].view);
        if (views[i].view == EXPORT_MAX && !peak_is_known)
            continue;
        bool is_known = !export_view_is_unknown(heap, views[i].view);
        bool count_is_known = (heap->unknown & (views[i].unknown | PROFILE_UNKNOWN_COUNTS)) == 0;
        for (int counts = 0; counts < 2; counts++) {
            const struct estimate_shown shown =
                is_total ? estimate_total(heap, dump, views[i].view, counts != 0)
                         : (struct estimate_shown){
                               counts ? figure.count : figure.bytes,
                               estimate_interval(&figure, counts != 0, heap, dump),
                           };
            print_figure(json, counts ? views[i].count : views[i].bytes,
                         counts ? count_is_known : is_known, &shown, compact);
        }
    }
    bool is_known = (heap->unknown & PROFILE_UNKNOWN_TEMPORARY) == 0;
    const struct trace_figures *figures = &values->figures;
    json_unsigned(json, "samples", figures->samples);
    /* In a file of one period the freed ones are unknown if memory of before is live. */
    if ((int64_t)figures->freed_samples < 0)
        json_null(json, "freed_samples");
    else
        json_unsigned(json, "freed_samples", figures->freed_samples);
    json_number(json, "temporary_space", is_known ? figures->temporary_bytes : (double)NAN);
    json_number(json, "temporary_objects", is_known ? figures->temporary_count : (double)NAN);
}

static void print_threads(struct json_writer *json, const struct printing *printing,
                          const struct profile_heap *heap, const struct profile_dump *dump)
{
    const struct profile *profile = printing->stacks.profile;
    const enum dimension by = DIMENSION_THREAD;
    struct sums *sums = xmalloc_made(sums_by_parts(dump, &by, 1, NULL));
    int32_t pid = profile->processes[heap->process].pid;
    json_array(json, "threads");
    for (size_t i = 0; i < sums->row_count; i++) {
        const struct sums_row *row = &sums->rows[i];
        json_object(json, NULL);
        json_signed(json, "tid", row->tid);
        json_string(json, "name", profile_thread_name(profile, pid, row->tid));
        print_figures(json, printing->options->compact, &row->values, heap, dump, false, false);
        json_end_object(json);
    }
    json_end_array(json);
    sums_free(sums);
}

/* Begin the object of a group, which the caller ends. */
static void print_group(struct json_writer *json, struct printing *printing,
                        const struct profile_heap *heap, const struct profile_dump *dump,
                        const struct sums_row *row, enum dimension key)
{
    json_line(json);
    json_object(json, NULL);
    if (key == DIMENSION_CALLSITE)
        json_stacks_print(&printing->stacks, json, row->callsite);
    else
        json_string(json, report_group_key_name(key), row->label);
    print_figures(json, printing->options->compact, &row->values, heap, dump, true, false);
}

static void print_groups(struct json_writer *json, struct printing *printing,
                         const struct profile_heap *heap, const struct profile_dump *dump,
                         const struct report_groups *groups)
{
    struct sums *sums = xmalloc_made(sums_by_parts(dump, groups->by, groups->depth, NULL));
    json_array(json, "groups");
    for (size_t i = 0; i < sums->row_count; i++) {
        const struct sums_row *outer = &sums->rows[i];
        print_group(json, printing, heap, dump, outer, groups->by[0]);
        if (outer->count > 0)
            json_array(json, "groups");
        for (size_t j = 0; j < outer->count; j++) {
            print_group(json, printing, heap, dump, &sums->inner[outer->first + j], groups->by[1]);
            json_end_object(json);
        }
        if (outer->count > 0)
            json_end_array(json);
        json_end_object(json);
    }
    json_end_array(json);
    sums_free(sums);
}

static void print_lost(struct json_writer *json, const struct trace_heap_dump *status)
{
    json_object(json, "lost");
    for (enum trace_loss_id id = 0; id <= TRACE_LOST_LAST; id++)
        json_unsigned(json, trace_losses[id].name, trace_loss_amount(status, id));
    json_end_object(json);
}

/* Print why the profile ended early or is empty. All codes of client_error are one number. */
static void print_flags(struct json_writer *json, const struct trace_heap_dump *status)
{
    for (enum trace_loss_id id = TRACE_LOSS_FIRST_FLAG; id < TRACE_LOSS_IDS; id++)
        if (trace_losses[id].unit == TRACE_LOSS_FLAG)
            json_bool(json, trace_losses[id].name, trace_loss_amount(status, id) != 0);
    json_unsigned(json, "client_error", status->client_error);
}

static void print_partial(struct json_writer *json, const struct profile_heap *heap,
                          const struct profile_dump *dump)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    size_t count = profile_partial_reasons(heap, dump, reasons);
    json_array(json, "partial");
    for (size_t i = 0; i < count; i++)
        json_string(json, NULL, reasons[i].name);
    json_end_array(json);
    if (dump->unexplained.of_bytes > 0) {
        json_unsigned(json, "unexplained_bytes", dump->unexplained.bytes);
        json_unsigned(json, "anonymous_bytes", dump->unexplained.of_bytes);
    } else {
        json_null(json, "unexplained_bytes");
        json_null(json, "anonymous_bytes");
    }
    json_bool(json, "totals_partial", profile_totals_why_partial(heap, dump) != NULL);
}

/* Print whether samples and exact totals differ by more than chance explains; null without totals.
 */
static void print_agreement(struct json_writer *json, const struct profile_heap *heap,
                            const struct profile_dump *dump)
{
    struct profile_agreement agreement = profile_agreement_of(heap, dump);
    if (!agreement.known) {
        json_null(json, "agreement");
        return;
    }
    json_object(json, "agreement");
    json_bool(json, "agrees", !profile_disagrees(heap, dump));
    json_number(json, "missing_bytes", agreement.bytes.missing);
    json_number(json, "chance_bytes", agreement.bytes.chance);
    json_number(json, "missing_calls", agreement.calls.missing);
    json_number(json, "chance_calls", agreement.calls.chance);
    json_end_object(json);
}

/* Print the views that the file does not contain. Their figures are null. */
static void print_unknown(struct json_writer *json, const struct profile_heap *heap)
{
    json_array(json, "untold");
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        if (export_view_is_unknown(heap, view))
            json_string(json, NULL, export_view_info[view].name);
    json_end_array(json);
}

/* Print the totals; null: unknown. */
static void print_totals(struct json_writer *json, const struct profile_heap *heap,
                         const struct profile_dump *dump)
{
    const char *unseen = heap->status.unseen_allocator;
    if (!profile_has_totals(heap, dump)) {
        json_null(json, "exact_bytes");
        json_null(json, "exact_calls");
    } else {
        json_unsigned(json, "exact_bytes", dump->exact_bytes);
        json_unsigned(json, "exact_calls", dump->exact_calls);
    }
    json_bool(json, "unseen", heap->unseen);
    json_string(json, "unseen_allocator", unseen != NULL ? unseen : "");
}

/* Print the parts that the closing sentence of the text names; null: no snapshot. */
static void print_rest_of_rss(struct json_writer *json, const struct profile *profile,
                              const struct profile_heap *heap, const struct profile_dump *dump)
{
    const struct rss_moment moment = rss_moment_of(profile, heap, dump, 0);
    struct rss_rest rest;
    if (!rss_rest_of(&rest, &moment)) {
        json_null(json, "rest_of_rss");
        return;
    }
    json_object(json, "rest_of_rss");
    json_unsigned(json, "rss_bytes", rest.rss_bytes);
    json_array(json, "parts");
    for (size_t i = 0; i < rest.count; i++) {
        json_object(json, NULL);
        json_string(json, "name", rest.parts[i].name);
        json_string(json, "words", rest.parts[i].words);
        json_number(json, "bytes", rest.parts[i].bytes);
        json_number(json, "margin_bytes", rest.parts[i].margin);
        json_string(json, "tool", rest.parts[i].tool);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void print_head(struct json_writer *json, const struct profile *profile,
                       const struct profile_heap *heap, const struct profile_dump *dump)
{
    const struct profile_process *process = &profile->processes[heap->process];
    const struct trace_heap_dump *status = &heap->status;
    const struct process_peak peak_rss = process_memory_peak(process);
    json_pid(json, "pid", profile_shown_pid(process));
    if (process->mean_processes > 0)
        json_number(json, "mean_processes", process->mean_processes);
    json_string(json, "name", process->name);
    json_string(json, "command", process->command);
    json_string(json, "heap", heap->name);
    json_unsigned(json, "interval_bytes", heap->interval_bytes);
    json_unsigned(json, "first_interval_bytes", heap->first_interval_bytes);
    json_number(json, "floor_bytes", profile_floor_bytes(heap->interval_bytes));
    json_string(json, "widened", widened_text(heap).text);
    if (profile_has_duration(heap, dump))
        json_unsigned(json, "duration_ns", dump->boottime_ns - heap->start_boottime_ns);
    else
        json_null(json, "duration_ns");
    json_unsigned(json, "dump", (size_t)(dump - heap->dumps) + 1);
    json_unsigned(json, "dumps", heap->dump_count);
    json_unsigned(json, "heap_samples", status->heap_samples);
    json_unsigned(json, "unwinding_errors", status->unwinding_errors);
    json_number(json, "peak_rss_bytes", peak_rss.bytes == 0 ? (double)NAN : (double)peak_rss.bytes);
    json_number(json, "peak_rss_profiler_bytes",
                peak_rss.profiler_bytes == PROFILE_UNKNOWN_BYTES ? (double)NAN
                                                                 : (double)peak_rss.profiler_bytes);
    if (peak_rss.bytes == 0)
        json_null(json, "peak_rss_at_least");
    else
        json_bool(json, "peak_rss_at_least", peak_rss.is_at_least);
    print_rest_of_rss(json, profile, heap, dump);
    for (enum trace_loss_id id = TRACE_LOST_LAST + 1; id < TRACE_LOSS_FIRST_FLAG; id++)
        json_unsigned(json, trace_losses[id].name, trace_loss_amount(status, id));
    json_number(json, "peak_live_bytes",
                export_view_is_unknown(heap, EXPORT_MAX)
                    ? (double)NAN
                    : estimate_total(heap, dump, EXPORT_MAX, false).value);
    json_bool(json, "unfinished", heap->unfinished);
    json_bool(json, "incomplete", dump->incomplete);
    report_end_print_json(process, json);
    report_cause_print_json(dump, json);
}

struct ranked {
    const struct profile_sample *sample;
    double rank;
    size_t order;
};

static int compare_ranks(const void *one, const void *other)
{
    const struct ranked *a = one, *b = other;
    return a->rank != b->rank ? (a->rank < b->rank) - (a->rank > b->rank)
                              : (a->order > b->order) - (a->order < b->order);
}

/* Return the dump's samples, with `top` only the largest of the view, in order; malloc'd. Set
 * *count. */
static struct ranked *choose_samples(const struct profile_dump *dump, enum export_view view,
                                     uint64_t top, size_t *count)
{
    struct ranked *chosen = xcalloc(dump->sample_count + 1, sizeof(*chosen));
    *count = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        struct profile_estimate figure = estimate_of_view(&values, view);
        chosen[(*count)++] =
            (struct ranked){dump->samples[i], top != 0 ? estimate_rank(&figure, view) : 0, i};
    }
    if (*count > 0 && top != 0)
        qsort(chosen, *count, sizeof(*chosen), compare_ranks);
    if (top != 0 && *count > top)
        *count = top;
    return chosen;
}

/* Return whether each sample of the dump grows or turns over; malloc'd. */
static struct turnover *report_json_judge(const struct profile *profile,
                                          const struct export_dump *dump)
{
    size_t count = dump->dump->sample_count;
    struct turnover *rows = xcalloc(count + 1, sizeof(*rows));
    for (size_t i = 0; i < count; i++) {
        struct turnover_facts facts = {0};
        turnover_facts_add(&facts, dump->dump->samples[i]);
        rows[i] = turnover_of(&facts, profile, dump, true);
    }
    xmalloc_code(turnover_judge(rows, count));
    return rows;
}

static void print_callsites(struct json_writer *json, struct printing *printing,
                            const struct profile_heap *heap, const struct profile_dump *dump)
{
    size_t count;
    struct ranked *chosen =
        choose_samples(dump, printing->options->view, printing->options->top, &count);
    const struct export_dump judged = {heap, dump};
    struct turnover *turnovers =
        printing->options->lifetimes ? report_json_judge(printing->stacks.profile, &judged) : NULL;
    json_array(json, "callsites");
    for (size_t i = 0; i < count; i++) {
        struct rollup_values values = rollup_values_of(chosen[i].sample);
        json_line(json);
        json_object(json, NULL);
        print_figures(json, printing->options->compact, &values, heap, dump, true, false);
        if (turnovers != NULL)
            turnover_print_json(json, &turnovers[chosen[i].order]);
        json_stacks_print(&printing->stacks, json, chosen[i].sample->callsite);
        json_end_object(json);
    }
    json_end_array(json);
    json_unsigned(json, "more_callsites", dump->sample_count - count);
    free(turnovers);
    free(chosen);
}

static void print_heap(struct json_writer *json, struct printing *printing,
                       const struct profile_heap *heap, const struct profile_dump *dump)
{
    const struct report_options *options = printing->options;
    const struct profile *profile = printing->stacks.profile;
    const struct trace_heap_dump *status = &heap->status;
    json_object(json, NULL);
    print_head(json, profile, heap, dump);
    print_flags(json, status);
    print_partial(json, heap, dump);
    json_string(json, "remark", status->remark != NULL ? status->remark : "");
    print_totals(json, heap, dump);
    print_unknown(json, heap);
    print_lost(json, status);
    print_agreement(json, heap, dump);
    unwind_gaps_print_json(&printing->gaps, profile, dump, json);
    json_unsigned(json, "weighed_samples", status->weighed_samples);
    struct rollup_values total = rollup_total_of(dump);
    json_object(json, "total");
    print_figures(json, printing->options->compact, &total, heap, dump, true, true);
    json_end_object(json);
    if (*profile->filter != '\0') {
        struct rollup_values left = rollup_values_of(&dump->left_out.sum);
        json_object(json, "left_out");
        json_unsigned(json, "callsites", dump->left_out.callsites);
        print_figures(json, printing->options->compact, &left, heap, dump, true, false);
        json_end_object(json);
    }
    print_threads(json, printing, heap, dump);
    if (options->groups.depth > 0)
        print_groups(json, printing, heap, dump, &options->groups);
    print_callsites(json, printing, heap, dump);
    json_end_object(json);
}

/* Print the sums of the events that the trace contains one by one. */
static void print_streams(struct json_writer *json, const struct profile *profile,
                          const struct report_options *options)
{
    json_array(json, "streams");
    for (size_t i = 0; i < profile->stream_count; i++) {
        const struct profile_stream *stream = &profile->streams[i];
        int32_t pid = report_pid_of_stream(profile, stream);
        if (options->choice.pid != 0 && options->choice.pid != pid)
            continue;
        json_object(json, NULL);
        json_signed(json, "pid", pid);
        json_unsigned(json, "heap_id", stream->heap_id);
        json_unsigned(json, "allocations", stream->allocations);
        json_number(json, "alloc_space", stream->allocated_bytes);
        json_number(json, "alloc_objects", stream->allocated_count);
        json_unsigned(json, "frees", stream->frees);
        json_unsigned(json, "undone_frees", stream->undone_frees);
        json_unsigned(json, "missing", stream->missing);
        json_end_object(json);
    }
    json_end_array(json);
}

static void print_unprofiled(struct json_writer *json, const struct profile *profile)
{
    json_array(json, "unprofiled");
    for (size_t i = 0; i < profile->unprofiled_count; i++) {
        const struct profile_unprofiled *process = &profile->unprofiled[i];
        json_object(json, NULL);
        json_signed(json, "pid", process->pid);
        json_signed(json, "parent_pid", process->parent_pid);
        json_string(json, "name", process->name);
        json_unsigned(json, "count", process->count);
        json_string(json, "kind", process->kind);
        json_string(json, "reason", process->reason);
        json_end_object(json);
    }
    json_end_array(json);
}

static void print_unnamed(struct json_writer *json, const struct profile *profile,
                          const struct report_options *options)
{
    struct unnamed_modules unnamed = {0};
    unnamed_collect(&unnamed, profile, options, NULL);
    unnamed_print_json(json, &unnamed);
    unnamed_clear(&unnamed);
}

int report_print_json(const struct profile *profile, const struct report_options *options,
                      FILE *out)
{
    struct printing printing = {.options = options};
    struct json_writer json = json_begin(out);
    bool found = false;
    json_stacks_begin(&printing.stacks, profile, options->compact);
    json_object(&json, NULL);
    json_unsigned(&json, "version", options->compact ? 2 : 1);
    json_string(&json, "warning", profile->warning);
    json_string(&json, "filter", profile->filter);
    json_array(&json, "heaps");
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_dump *dump =
            dump_choice_of(&options->choice, profile, &profile->heaps[i]);
        if (dump == NULL)
            continue;
        found = true;
        print_heap(&json, &printing, &profile->heaps[i], dump);
    }
    json_end_array(&json);
    print_unprofiled(&json, profile);
    print_streams(&json, profile, options);
    print_unnamed(&json, profile, options);
    if (options->compact)
        json_stacks_print_lists(&printing.stacks, &json);
    json_end_object(&json);
    fputc('\n', out);
    json_stacks_end(&printing.stacks);
    unwind_gap_finder_clear(&printing.gaps);
    return found ? 0 : -ENOENT;
}
