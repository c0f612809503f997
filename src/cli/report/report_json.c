/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for scripts: one JSON object with every callsite, unrounded. The
 * layout is documented in docs/report.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/report/report.h"
#include "cli/report/report_gaps.h"
#include "cli/report/unnamed_frames.h"
#include "export/view.h"
#include "profile/agreement.h"
#include "profile/partial.h"
#include "util/json.h"

static void print_figure(FILE *out, const char *name, bool is_unknown, double value,
                         struct profile_interval interval)
{
    if (is_unknown) {
        fprintf(out, "\"%s\":{\"estimate\":null,\"low95\":null,\"high95\":null}", name);
        return;
    }
    fprintf(out, "\"%s\":{\"estimate\":", name);
    json_print_number(out, value);
    fputs(",\"low95\":", out);
    json_print_number(out, interval.low);
    fputs(",\"high95\":", out);
    json_print_number(out, interval.high);
    fputc('}', out);
}

static void print_or_null(FILE *out, bool is_unknown, double value)
{
    if (is_unknown)
        fputs("null", out);
    else
        json_print_number(out, value);
}

static void print_figures(FILE *out, const struct rollup_values *values,
                          const struct profile_heap *heap, const struct profile_dump *dump,
                          bool peak_is_known, bool is_total)
{
    struct profile_interval (*interval_of)(
        const struct report_figure *, bool, const struct profile_heap *,
        const struct profile_dump *) = is_total ? report_total_interval_of : report_interval_of;
    static const struct {
        enum report_view view;
        const char *bytes, *count;
    } views[] = {{REPORT_SPACE, "space", "objects"},
                 {REPORT_ALLOC_SPACE, "alloc_space", "alloc_objects"},
                 {REPORT_MAX, "max", "max_objects"}};
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        struct report_figure figure = report_figure_of(values, views[i].view);
        if (views[i].view == REPORT_MAX && !peak_is_known)
            continue;
        if (i > 0)
            fputc(',', out);
        bool is_unknown = report_is_unknown(heap, views[i].view);
        print_figure(out, views[i].bytes, is_unknown, figure.bytes,
                     interval_of(&figure, false, heap, dump));
        fputc(',', out);
        print_figure(out, views[i].count,
                     is_unknown || (heap->unknown & PROFILE_UNKNOWN_COUNTS) != 0, figure.count,
                     interval_of(&figure, true, heap, dump));
    }
    fprintf(out, ",\"samples\":%" PRIu64 ",\"freed_samples\":%" PRIu64, values->figures.samples,
            values->figures.freed_samples);
    bool is_unknown = (heap->unknown & PROFILE_UNKNOWN_TEMPORARY) != 0;
    fputs(",\"temporary_space\":", out);
    print_or_null(out, is_unknown, values->figures.temporary_bytes);
    fputs(",\"temporary_objects\":", out);
    print_or_null(out, is_unknown, values->figures.temporary_count);
}

/* --- frames: a frame stands in many stacks; its text is kept --- */

/* Many frames can have one long name. Texts beyond this are made again each time. */
#define KEPT_BYTES_MAX ((size_t)32 << 20)

struct frame_texts {
    const struct profile *profile;
    char **texts; /* by frame; NULL: not kept */
    size_t *lengths;
    size_t kept_bytes;
    struct report_gap_finder gaps;
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
    report_gap_finder_clear(&frames->gaps);
}

static void print_frame(FILE *out, const struct profile *profile, const struct profile_frame *frame)
{
    fputs("{\"name\":", out);
    json_print_string(out, frame->name);
    fputs(",\"linkage_name\":", out);
    json_print_string(out, frame->linkage_name);
    if (*frame->obfuscated_name != '\0') {
        fputs(",\"obfuscated_name\":", out);
        json_print_string(out, frame->obfuscated_name);
    }
    fputs(",\"mapping\":", out);
    json_print_string(out,
                      frame->mapping != PROFILE_NONE ? profile->mappings[frame->mapping].path : "");
    fprintf(out, ",\"rel_pc\":%" PRIu64, frame->rel_pc);
    const char *kind = profile_frame_kind(frame);
    if (*kind != '\0')
        fprintf(out, ",\"kind\":\"%s\"", kind);
    if (frame->source_file[0] != '\0') {
        fputs(",\"file\":", out);
        json_print_string(out, frame->source_file);
        fprintf(out, ",\"line\":%u", frame->line);
    }
    fputc('}', out);
}

static void print_frame_once(FILE *out, struct frame_texts *frames, uint32_t index)
{
    const struct profile *profile = frames->profile;
    if (frames->texts[index] == NULL && frames->kept_bytes < KEPT_BYTES_MAX) {
        FILE *text = open_memstream(&frames->texts[index], &frames->lengths[index]);
        if (text != NULL) {
            print_frame(text, profile, &profile->frames[index]);
            fclose(text);
            frames->kept_bytes += frames->lengths[index];
        }
    }
    if (frames->texts[index] != NULL)
        fwrite(frames->texts[index], 1, frames->lengths[index], out);
    else
        print_frame(out, profile, &profile->frames[index]);
}

static void print_stack(FILE *out, struct frame_texts *frames, uint32_t callsite)
{
    fputs("\"frames\":[", out);
    for (bool first = true; callsite != PROFILE_NONE; first = false) {
        const struct profile_callsite *node = &frames->profile->callsites[callsite];
        if (!first)
            fputc(',', out);
        print_frame_once(out, frames, node->frame);
        callsite = node->parent;
    }
    fputc(']', out);
}

static void print_threads(FILE *out, const struct profile *profile, const struct profile_heap *heap,
                          const struct profile_dump *dump)
{
    struct rollup *rollup = rollup_new(NULL, dump, ROLLUP_THREAD);
    fputs(",\"threads\":[", out);
    for (size_t i = 0; rollup != NULL && i < rollup->row_count; i++) {
        const struct rollup_row *row = &rollup->rows[i];
        fprintf(out, "%s{\"tid\":%d,\"name\":", i > 0 ? "," : "", row->tid);
        json_print_string(
            out, profile_thread_name(profile, profile->processes[heap->process].pid, row->tid));
        fputc(',', out);
        print_figures(out, &row->self, heap, dump, false, false);
        fputc('}', out);
    }
    fputc(']', out);
    rollup_free(rollup);
}

static void print_group(FILE *out, struct frame_texts *frames, const struct profile_heap *heap,
                        const struct profile_dump *dump, const struct grouping_row *row,
                        enum grouping_key key)
{
    fputs("\n{", out);
    if (key == GROUPING_BACKTRACE) {
        print_stack(out, frames, row->callsite);
    } else {
        fprintf(out, "\"%s\":", report_group_key_name(key));
        json_print_string(out, row->label);
    }
    fputc(',', out);
    print_figures(out, &row->values, heap, dump, true, false);
}

static void print_groups(FILE *out, struct frame_texts *frames, const struct profile_heap *heap,
                         const struct profile_dump *dump, const enum grouping_key by[2])
{
    struct grouping *grouping = grouping_new(dump, by[0], by[1]);
    fputs(",\"groups\":[", out);
    for (size_t i = 0; grouping != NULL && i < grouping->outer_count; i++) {
        const struct grouping_row *outer = &grouping->outer[i];
        if (i > 0)
            fputc(',', out);
        print_group(out, frames, heap, dump, outer, by[0]);
        fputs(outer->count > 0 ? ",\"groups\":[" : "", out);
        for (size_t j = 0; j < outer->count; j++) {
            if (j > 0)
                fputc(',', out);
            print_group(out, frames, heap, dump, &grouping->inner[outer->first + j], by[1]);
            fputc('}', out);
        }
        fputs(outer->count > 0 ? "]}" : "}", out);
    }
    fputc(']', out);
    grouping_free(grouping);
}

static void print_lost(FILE *out, const struct trace_heap_dump *status)
{
    fputs(",\"lost\":{", out);
    for (enum trace_loss_id id = 0; id <= TRACE_LOST_LAST; id++)
        fprintf(out, "%s\"%s\":%" PRIu64, id > 0 ? "," : "", trace_losses[id].name,
                trace_loss_amount(status, id));
    fputc('}', out);
}

/* Print why it ended early, or has nothing. The codes of client_error are one number. */
static void print_flags(FILE *out, const struct trace_heap_dump *status)
{
    for (enum trace_loss_id id = TRACE_LOSS_FIRST_FLAG; id < TRACE_LOSS_IDS; id++)
        if (trace_losses[id].unit == TRACE_LOSS_FLAG)
            fprintf(out, ",\"%s\":%s", trace_losses[id].name,
                    trace_loss_amount(status, id) != 0 ? "true" : "false");
    fprintf(out, ",\"client_error\":%u", status->client_error);
}

static void print_partial(FILE *out, const struct profile_heap *heap,
                          const struct profile_dump *dump)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    size_t count = profile_partial_reasons(heap, dump, reasons);
    fputs(",\"partial\":[", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s\"%s\"", i > 0 ? "," : "", reasons[i].name);
    fprintf(out, "],\"totals_partial\":%s",
            profile_totals_why_partial(heap) != NULL ? "true" : "false");
}

static void print_gap(FILE *out, const char *what, const struct profile_gap *gap)
{
    fprintf(out, ",\"missing_%s\":", what);
    json_print_number(out, gap->missing);
    fprintf(out, ",\"chance_%s\":", what);
    json_print_number(out, gap->chance);
}

/* Print whether samples and exact totals differ by more than chance explains; null without totals.
 */
static void print_agreement(FILE *out, const struct profile_heap *heap,
                            const struct profile_dump *dump)
{
    struct profile_agreement agreement = profile_agreement_of(heap, dump);
    if (!agreement.known) {
        fputs(",\"agreement\":null", out);
        return;
    }
    fprintf(out, ",\"agreement\":{\"agrees\":%s", profile_disagrees(heap, dump) ? "false" : "true");
    print_gap(out, "bytes", &agreement.bytes);
    print_gap(out, "calls", &agreement.calls);
    fputc('}', out);
}

/* The views that the file does not tell: their figures mean nothing. */
static void print_unknown(FILE *out, const struct profile_heap *heap)
{
    bool first = true;
    fputs(",\"untold\":[", out);
    for (enum report_view view = 0; view < REPORT_VIEWS; view++) {
        if (report_is_unknown(heap, view)) {
            fprintf(out, "%s\"%s\"", first ? "" : ",", report_view_names[view]);
            first = false;
        }
    }
    fputc(']', out);
}

/* null: unknown. */
static void print_totals(FILE *out, const struct profile_heap *heap,
                         const struct profile_dump *dump)
{
    if (heap->unseen)
        fputs(",\"exact_bytes\":null,\"exact_calls\":null", out);
    else
        fprintf(out, ",\"exact_bytes\":%" PRIu64 ",\"exact_calls\":%" PRIu64, dump->exact_bytes,
                dump->exact_calls);
    fprintf(out, ",\"unseen\":%s,\"unseen_allocator\":", heap->unseen ? "true" : "false");
    json_print_string(out,
                      heap->status.unseen_allocator != NULL ? heap->status.unseen_allocator : "");
}

static void print_heap(FILE *out, struct frame_texts *frames, const struct profile_heap *heap,
                       const struct profile_dump *dump, const struct report_options *options)
{
    const struct profile *profile = frames->profile;
    const struct profile_process *process = &profile->processes[heap->process];
    const struct trace_heap_dump *status = &heap->status;
    fprintf(out, "{\"pid\":%d,\"name\":", process->pid);
    json_print_string(out, process->name);
    fputs(",\"command\":", out);
    json_print_string(out, process->command);
    fputs(",\"heap\":", out);
    json_print_string(out, heap->name);
    fprintf(out,
            ",\"interval_bytes\":%" PRIu64 ",\"floor_bytes\":%.17g,\"duration_ns\":%" PRIu64
            ",\"dump\":%zu,\"dumps\":%zu,\"heap_samples\":%" PRIu64 ",\"unwinding_errors\":%" PRIu64
            ",\"peak_rss_bytes\":",
            heap->interval_bytes, profile_floor_bytes(heap->interval_bytes),
            dump->boottime_ns - heap->start_boottime_ns, (size_t)(dump - heap->dumps) + 1,
            heap->dump_count, status->heap_samples, status->unwinding_errors);
    print_or_null(out, report_peak_rss(process) == 0, (double)report_peak_rss(process));
    fprintf(out, ",\"blocked_us\":%" PRIu64 ",\"peak_live_bytes\":", status->blocked_us);
    print_or_null(out, report_is_unknown(heap, REPORT_MAX), report_peak_bytes(heap, dump));
    fprintf(out, ",\"unfinished\":%s,\"incomplete\":%s", heap->unfinished ? "true" : "false",
            dump->incomplete ? "true" : "false");
    print_flags(out, status);
    print_partial(out, heap, dump);
    fputs(",\"remark\":", out);
    json_print_string(out, status->remark != NULL ? status->remark : "");
    print_totals(out, heap, dump);
    print_unknown(out, heap);
    print_lost(out, status);
    print_agreement(out, heap, dump);
    report_gaps_print_json(&frames->gaps, profile, dump, out);
    fprintf(out,
            ",\"weighed_samples\":%" PRIu64 ",\"other_types\":%" PRIu64
            ",\"other_contexts\":%" PRIu64,
            status->weighed_samples, status->other_types, status->other_contexts);
    struct rollup_values left = rollup_values_of(&dump->left_out.sum);
    struct rollup_values total = rollup_total_of(dump);
    fputs(",\"total\":{", out);
    print_figures(out, &total, heap, dump, true, true);
    fputc('}', out);
    if (*profile->filter != '\0') {
        fprintf(out, ",\"left_out\":{\"callsites\":%zu,", dump->left_out.callsites);
        print_figures(out, &left, heap, dump, true, false);
        fputc('}', out);
    }
    print_threads(out, profile, heap, dump);
    if (options->by[0] != GROUPING_NONE)
        print_groups(out, frames, heap, dump, options->by);
    fputs(",\"callsites\":[", out);
    for (size_t i = 0; i < dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(dump->samples[i]);
        fputs(i > 0 ? ",\n{" : "\n{", out);
        print_figures(out, &values, heap, dump, true, false);
        fputc(',', out);
        print_stack(out, frames, dump->samples[i]->callsite);
        fputc('}', out);
    }
    fputs("]}", out);
}

/* What stands in the trace event by event, summed up. */
static void print_streams(FILE *out, const struct profile *profile,
                          const struct report_options *options)
{
    bool first = true;
    fputs("],\"streams\":[", out);
    for (size_t i = 0; i < profile->stream_count; i++) {
        const struct profile_stream *stream = &profile->streams[i];
        int32_t pid = report_pid_of_stream(profile, stream);
        if (options->choice.pid != 0 && options->choice.pid != pid)
            continue;
        fprintf(out, "%s{\"pid\":%d,\"heap_id\":%u,\"allocations\":%" PRIu64, first ? "" : ",", pid,
                stream->heap_id, stream->allocations);
        fputs(",\"alloc_space\":", out);
        json_print_number(out, stream->allocated_bytes);
        fputs(",\"alloc_objects\":", out);
        json_print_number(out, stream->allocated_count);
        fprintf(out, ",\"frees\":%" PRIu64 ",\"undone_frees\":%" PRIu64 "}", stream->frees,
                stream->undone_frees);
        first = false;
    }
}

static void print_unnamed(FILE *out, const struct profile *profile,
                          const struct report_options *options)
{
    struct unnamed_modules unnamed = {0};
    fputs(",\"unnamed\":", out);
    unnamed_collect(&unnamed, profile, options, NULL);
    unnamed_print_json(out, &unnamed);
    unnamed_clear(&unnamed);
}

int report_print_json(const struct profile *profile, const struct report_options *options,
                      FILE *out)
{
    struct frame_texts frames = {0};
    int found = 0;
    if (!frame_texts_begin(&frames, profile)) {
        frame_texts_end(&frames);
        return -ENOMEM;
    }
    fputs("{\"version\":1,\"warning\":", out);
    json_print_string(out, profile->warning);
    fputs(",\"filter\":", out);
    json_print_string(out, profile->filter);
    fputs(",\"heaps\":[", out);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_dump *dump = report_dump_of(profile, &profile->heaps[i], options);
        if (dump == NULL)
            continue;
        if (found++ > 0)
            fputc(',', out);
        print_heap(out, &frames, &profile->heaps[i], dump, options);
    }
    fputs("],\"unprofiled\":[", out);
    for (size_t i = 0; i < profile->unprofiled_count; i++) {
        const struct profile_unprofiled *process = &profile->unprofiled[i];
        fprintf(out, "%s{\"pid\":%d,\"parent_pid\":%d,\"name\":", i > 0 ? "," : "", process->pid,
                process->parent_pid);
        json_print_string(out, process->name);
        fprintf(out, ",\"count\":%" PRIu64 ",\"kind\":", process->count);
        json_print_string(out, process->kind);
        fputs(",\"reason\":", out);
        json_print_string(out, process->reason);
        fputc('}', out);
    }
    print_streams(out, profile, options);
    fputs("]", out);
    print_unnamed(out, profile, options);
    fputs("}\n", out);
    frame_texts_end(&frames);
    return found > 0 ? 0 : -ENOENT;
}
