/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report as one JSON object with every callsite, unrounded. docs/report.md describes the
 * layout. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/report/report.h"
#include "cli/report/unnamed_frames.h"
#include "cli/report/unwind_gaps.h"
#include "export/view.h"
#include "profile/agreement.h"
#include "profile/partial.h"
#include "util/json_writer.h"

/* Write a figure with its 95 % limits, or null if the file does not contain it. */
static void print_figure(struct json_writer *json, const char *name, bool is_known, double value,
                         struct profile_interval interval)
{
    json_object(json, name);
    json_number(json, "estimate", is_known ? value : (double)NAN);
    json_number(json, "low95", is_known ? interval.low : (double)NAN);
    json_number(json, "high95", is_known ? interval.high : (double)NAN);
    json_end_object(json);
}

static void print_figures(struct json_writer *json, const struct rollup_values *values,
                          const struct profile_heap *heap, const struct profile_dump *dump,
                          bool peak_is_known, bool is_total)
{
    struct profile_interval (*interval_of)(
        const struct profile_estimate *, bool, const struct profile_heap *,
        const struct profile_dump *) = is_total ? estimate_total_interval : estimate_interval;
    static const struct {
        enum export_view view;
        const char *bytes, *count;
    } views[] = {{EXPORT_SPACE, "space", "objects"},
                 {EXPORT_ALLOC_SPACE, "alloc_space", "alloc_objects"},
                 {EXPORT_MAX, "max", "max_objects"}};
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        struct profile_estimate figure = estimate_of_view(values, views[i].view);
        if (views[i].view == EXPORT_MAX && !peak_is_known)
            continue;
        bool is_known = !export_view_is_unknown(heap, views[i].view);
        bool count_is_known = is_known && (heap->unknown & PROFILE_UNKNOWN_COUNTS) == 0;
        print_figure(json, views[i].bytes, is_known, figure.bytes,
                     interval_of(&figure, false, heap, dump));
        print_figure(json, views[i].count, count_is_known, figure.count,
                     interval_of(&figure, true, heap, dump));
    }
    bool is_known = (heap->unknown & PROFILE_UNKNOWN_TEMPORARY) == 0;
    const struct trace_figures *figures = &values->figures;
    json_unsigned(json, "samples", figures->samples);
    json_unsigned(json, "freed_samples", figures->freed_samples);
    json_number(json, "temporary_space", is_known ? figures->temporary_bytes : (double)NAN);
    json_number(json, "temporary_objects", is_known ? figures->temporary_count : (double)NAN);
}

/* --- frames: many stacks share a frame, so its text is cached --- */

/* Limit of the cache: many frames can share one long name. Other texts are made again each time. */
#define KEPT_BYTES_MAX ((size_t)32 << 20)

struct frame_texts {
    const struct profile *profile;
    char **texts; /* by frame; NULL: not cached */
    size_t *lengths;
    size_t kept_bytes;
    struct unwind_gap_finder gaps;
};

static bool frame_texts_begin(struct frame_texts *frames, const struct profile *profile)
{
    frames->profile = profile;
    frames->texts = calloc(profile->frame_count + 1, sizeof(*frames->texts));
    frames->lengths = calloc(profile->frame_count + 1, sizeof(*frames->lengths));
    return frames->texts != NULL && frames->lengths != NULL;
}

static void frame_texts_end(struct frame_texts *frames)
{
    for (size_t i = 0; frames->texts != NULL && i < frames->profile->frame_count; i++)
        free(frames->texts[i]);
    free(frames->texts);
    free(frames->lengths);
    unwind_gap_finder_clear(&frames->gaps);
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
    if (*kind != '\0')
        json_string(json, "kind", kind);
    if (frame->source_file[0] != '\0') {
        json_string(json, "file", frame->source_file);
        json_unsigned(json, "line", frame->line);
    }
    json_end_object(json);
}

static void print_frame_once(struct json_writer *json, struct frame_texts *frames, uint32_t index)
{
    const struct profile *profile = frames->profile;
    if (frames->texts[index] == NULL && frames->kept_bytes < KEPT_BYTES_MAX) {
        FILE *text = open_memstream(&frames->texts[index], &frames->lengths[index]);
        if (text != NULL) {
            struct json_writer one = json_begin(text);
            print_frame(&one, profile, &profile->frames[index]);
            fclose(text);
            frames->kept_bytes += frames->lengths[index];
        }
    }
    if (frames->texts[index] != NULL)
        json_raw(json, NULL, frames->texts[index], frames->lengths[index]);
    else
        print_frame(json, profile, &profile->frames[index]);
}

static void print_stack(struct json_writer *json, struct frame_texts *frames, uint32_t callsite)
{
    json_array(json, "frames");
    while (callsite != PROFILE_NONE) {
        const struct profile_callsite *node = &frames->profile->callsites[callsite];
        print_frame_once(json, frames, node->frame);
        callsite = node->parent;
    }
    json_end_array(json);
}

static void print_threads(struct json_writer *json, const struct profile *profile,
                          const struct profile_heap *heap, const struct profile_dump *dump)
{
    struct rollup *rollup = rollup_new(NULL, dump, ROLLUP_THREAD);
    int32_t pid = profile->processes[heap->process].pid;
    json_array(json, "threads");
    for (size_t i = 0; rollup != NULL && i < rollup->row_count; i++) {
        const struct rollup_row *row = &rollup->rows[i];
        json_object(json, NULL);
        json_signed(json, "tid", row->tid);
        json_string(json, "name", profile_thread_name(profile, pid, row->tid));
        print_figures(json, &row->self, heap, dump, false, false);
        json_end_object(json);
    }
    json_end_array(json);
    rollup_free(rollup);
}

/* Begin the object of a group, which the caller ends. */
static void print_group(struct json_writer *json, struct frame_texts *frames,
                        const struct profile_heap *heap, const struct profile_dump *dump,
                        const struct grouping_row *row, enum grouping_key key)
{
    json_line(json);
    json_object(json, NULL);
    if (key == GROUPING_BACKTRACE)
        print_stack(json, frames, row->callsite);
    else
        json_string(json, report_group_key_name(key), row->label);
    print_figures(json, &row->values, heap, dump, true, false);
}

static void print_groups(struct json_writer *json, struct frame_texts *frames,
                         const struct profile_heap *heap, const struct profile_dump *dump,
                         const enum grouping_key by[2])
{
    struct grouping *grouping = grouping_new(dump, by[0], by[1]);
    json_array(json, "groups");
    for (size_t i = 0; grouping != NULL && i < grouping->outer_count; i++) {
        const struct grouping_row *outer = &grouping->outer[i];
        print_group(json, frames, heap, dump, outer, by[0]);
        if (outer->count > 0)
            json_array(json, "groups");
        for (size_t j = 0; j < outer->count; j++) {
            print_group(json, frames, heap, dump, &grouping->inner[outer->first + j], by[1]);
            json_end_object(json);
        }
        if (outer->count > 0)
            json_end_array(json);
        json_end_object(json);
    }
    json_end_array(json);
    grouping_free(grouping);
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
    json_bool(json, "totals_partial", profile_totals_why_partial(heap) != NULL);
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
    if (heap->unseen) {
        json_null(json, "exact_bytes");
        json_null(json, "exact_calls");
    } else {
        json_unsigned(json, "exact_bytes", dump->exact_bytes);
        json_unsigned(json, "exact_calls", dump->exact_calls);
    }
    json_bool(json, "unseen", heap->unseen);
    json_string(json, "unseen_allocator", unseen != NULL ? unseen : "");
}

static void print_head(struct json_writer *json, const struct profile *profile,
                       const struct profile_heap *heap, const struct profile_dump *dump)
{
    const struct profile_process *process = &profile->processes[heap->process];
    const struct trace_heap_dump *status = &heap->status;
    uint64_t peak_rss = report_peak_rss(process);
    json_signed(json, "pid", process->pid);
    json_string(json, "name", process->name);
    json_string(json, "command", process->command);
    json_string(json, "heap", heap->name);
    json_unsigned(json, "interval_bytes", heap->interval_bytes);
    json_number(json, "floor_bytes", profile_floor_bytes(heap->interval_bytes));
    json_unsigned(json, "duration_ns", dump->boottime_ns - heap->start_boottime_ns);
    json_unsigned(json, "dump", (size_t)(dump - heap->dumps) + 1);
    json_unsigned(json, "dumps", heap->dump_count);
    json_unsigned(json, "heap_samples", status->heap_samples);
    json_unsigned(json, "unwinding_errors", status->unwinding_errors);
    json_number(json, "peak_rss_bytes", peak_rss == 0 ? (double)NAN : (double)peak_rss);
    json_unsigned(json, "blocked_us", status->blocked_us);
    json_number(json, "peak_live_bytes",
                export_view_is_unknown(heap, EXPORT_MAX) ? (double)NAN
                                                         : estimate_peak_bytes(heap, dump));
    json_bool(json, "unfinished", heap->unfinished);
    json_bool(json, "incomplete", dump->incomplete);
}

static void print_callsites(struct json_writer *json, struct frame_texts *frames,
                            const struct profile_heap *heap, const struct profile_dump *dump)
{
    json_array(json, "callsites");
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        json_line(json);
        json_object(json, NULL);
        print_figures(json, &values, heap, dump, true, false);
        print_stack(json, frames, dump->samples[i]->callsite);
        json_end_object(json);
    }
    json_end_array(json);
}

static void print_heap(struct json_writer *json, struct frame_texts *frames,
                       const struct profile_heap *heap, const struct profile_dump *dump,
                       const struct report_options *options)
{
    const struct profile *profile = frames->profile;
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
    unwind_gaps_print_json(&frames->gaps, profile, dump, json);
    json_unsigned(json, "weighed_samples", status->weighed_samples);
    json_unsigned(json, "other_types", status->other_types);
    json_unsigned(json, "other_contexts", status->other_contexts);
    struct rollup_values total = rollup_total_of(dump);
    json_object(json, "total");
    print_figures(json, &total, heap, dump, true, true);
    json_end_object(json);
    if (*profile->filter != '\0') {
        struct rollup_values left = rollup_values_of(&dump->left_out.sum);
        json_object(json, "left_out");
        json_unsigned(json, "callsites", dump->left_out.callsites);
        print_figures(json, &left, heap, dump, true, false);
        json_end_object(json);
    }
    print_threads(json, profile, heap, dump);
    if (options->by[0] != GROUPING_NONE)
        print_groups(json, frames, heap, dump, options->by);
    print_callsites(json, frames, heap, dump);
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
    struct frame_texts frames = {0};
    struct json_writer json = json_begin(out);
    bool found = false;
    if (!frame_texts_begin(&frames, profile)) {
        frame_texts_end(&frames);
        return -ENOMEM;
    }
    json_object(&json, NULL);
    json_unsigned(&json, "version", 1);
    json_string(&json, "warning", profile->warning);
    json_string(&json, "filter", profile->filter);
    json_array(&json, "heaps");
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_dump *dump =
            dump_choice_of(&options->choice, profile, &profile->heaps[i]);
        if (dump == NULL)
            continue;
        found = true;
        print_heap(&json, &frames, &profile->heaps[i], dump, options);
    }
    json_end_array(&json);
    print_unprofiled(&json, profile);
    print_streams(&json, profile, options);
    print_unnamed(&json, profile, options);
    json_end_object(&json);
    fputc('\n', out);
    frame_texts_end(&frames);
    return found ? 0 : -ENOENT;
}
