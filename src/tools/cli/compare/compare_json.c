/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a difference as one JSON object; docs/diff.md describes its keys. */
#include <math.h>
#include <stdlib.h>

#include "tools/cli/compare/compare.h"
#include "tools/cli/compare/compare_format.h"
#include "tools/print/widened.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

void compare_json_change(struct json_writer *json, const struct diff_pair *pair,
                         enum export_view view, const struct diff_row *row,
                         const char *const names[3])
{
    const struct change *change = &row->changes[view];
    bool is_unknown = diff_is_unknown(pair, view),
         has_limits = !is_unknown && !change->uncertain && !change->partial;
    json_number(json, names[0], is_unknown ? (double)NAN : change->value);
    json_number(json, names[1], has_limits ? change->interval.low : (double)NAN);
    json_number(json, names[2], has_limits ? change->interval.high : (double)NAN);
}

void compare_json_stack(struct json_writer *json, const struct profile *profile, uint32_t callsite)
{
    char buffer[PROFILE_LABEL_BYTES];
    json_array(json, "stackframes");
    for (uint32_t at = callsite; at != PROFILE_NONE; at = profile->callsites[at].parent) {
        const struct profile_frame *frame = &profile->frames[profile->callsites[at].frame];
        json_string(json, NULL, profile_frame_label(profile, frame, buffer));
    }
    json_end_array(json);
}

static void print_views(struct json_writer *json, const struct diff_pair *pair,
                        const struct diff_row *row)
{
    static const char *const names[] = {"change", "low95", "high95"};
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        const struct change *change = &row->changes[view];
        const struct profile_estimate *before = &row->before[diff_figure_of(view)];
        const struct profile_estimate *after = &row->after[diff_figure_of(view)];
        bool bytes = export_view_info[view].counts_bytes;
        bool is_unknown = diff_is_unknown(pair, view),
             has_limits = !is_unknown && !change->uncertain && !change->partial;
        if (view == EXPORT_MAX && row->peak_is_unknown)
            continue;
        json_object(json, export_view_info[view].name);
        compare_json_change(json, pair, view, row, names);
        json_number(json, "probability", has_limits ? change->probability : (double)NAN);
        if (is_unknown) {
            json_null(json, "before");
            json_null(json, "after");
            json_null(json, "beyond_chance");
        } else {
            json_number(json, "before", bytes ? before->bytes : before->count);
            json_number(json, "after", bytes ? after->bytes : after->count);
            json_bool(json, "beyond_chance", row->marks[view]);
        }
        json_end_object(json);
    }
}

static void print_frame(struct json_writer *json, const char *key, const struct profile *profile,
                        uint32_t index)
{
    const struct profile_frame *frame = &profile->frames[index];
    json_object(json, key);
    json_string(json, "name", frame->name);
    json_string(json, "mapping",
                frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path);
    json_unsigned(json, "rel_pc", frame->rel_pc);
    if (*frame->name == '\0' && frame->function_start != frame->rel_pc)
        json_unsigned(json, "function_start", frame->function_start);
    if (*frame->source_file != '\0') {
        json_string(json, "file", frame->source_file);
        json_unsigned(json, "line", frame->line);
    }
    json_end_object(json);
}

static void print_row(struct json_writer *json, const struct diff_pair *pair,
                      const struct diff_row *row, enum dimension by)
{
    json_line(json);
    json_object(json, NULL);
    print_views(json, pair, row);
    if (by == DIMENSION_CALLSITE) {
        const struct profile_callsite *callsites = row->profile->callsites;
        json_array(json, "frames");
        for (uint32_t at = row->callsite; at != PROFILE_NONE; at = callsites[at].parent)
            print_frame(json, NULL, row->profile, callsites[at].frame);
        json_end_array(json);
    } else if (by == DIMENSION_FUNCTION) {
        print_frame(json, "function", row->profile, row->frame);
    } else if (by == DIMENSION_MODULE) {
        uint32_t mapping = row->profile->frames[row->frame].mapping;
        json_string(json, "module",
                    mapping == PROFILE_NONE ? "" : row->profile->mappings[mapping].path);
    } else {
        json_string(json, dimension_names[by], row->label);
        if (row->tid != 0)
            json_signed(json, "tid", row->tid);
    }
    json_end_object(json);
}

static void print_dumps(struct json_writer *json, const char *key, const struct profile *profile,
                        const struct export_dump *dumps, size_t count)
{
    json_array(json, key);
    for (size_t i = 0; i < count; i++) {
        const struct profile_heap *heap = dumps[i].heap;
        const struct profile_process *process = &profile->processes[heap->process];
        json_object(json, NULL);
        json_pid(json, "pid", profile_shown_pid(process));
        json_string(json, "name", process->name);
        json_string(json, "heap", heap->name);
        json_unsigned(json, "dump", (size_t)(dumps[i].dump - heap->dumps) + 1);
        json_unsigned(json, "dumps", heap->dump_count);
        json_unsigned(json, "interval_bytes", heap->interval_bytes);
        json_string(json, "widened", widened_text(heap).text);
        json_end_object(json);
    }
    json_end_array(json);
}

void compare_print_unknown(struct json_writer *json, const struct diff_pair *pair)
{
    json_array(json, "untold");
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        if (diff_is_unknown(pair, view))
            json_string(json, NULL, export_view_info[view].name);
    json_end_array(json);
}

void compare_print_left_out(struct json_writer *json, const char *filter,
                            const struct diff_pair *pair)
{
    if (*filter == '\0')
        return;
    json_object(json, "left_out");
    for (int side = 0; side < 2; side++) {
        json_object(json, side == 0 ? "before" : "after");
        for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
            double part, whole;
            compare_left_out(side == 0 ? pair->before : pair->after,
                             side == 0 ? pair->before_count : pair->after_count, view, &part,
                             &whole);
            json_number(json, export_view_info[view].name, part);
        }
        json_end_object(json);
    }
    json_end_object(json);
}

static void print_pair(struct json_writer *json, const struct diff_pair *pair,
                       const struct compare_source sources[2],
                       const struct compare_options *options)
{
    size_t count = 0;
    const struct diff_row **rows = xmalloc_made(diff_rank(pair, options->view, &count));
    json_object(json, NULL);
    print_dumps(json, "before", sources[0].profile, pair->before, pair->before_count);
    print_dumps(json, "after", sources[1].profile, pair->after, pair->after_count);
    compare_print_unknown(json, pair);
    compare_print_left_out(json, sources[1].profile->filter, pair);
    json_bool(json, "same_process", pair->same_process);
    json_bool(json, "exact", pair->exact);
    json_object(json, "total");
    print_views(json, pair, &pair->total);
    json_end_object(json);
    json_array(json, "rows");
    for (size_t i = 0; i < count && (options->top == 0 || i < options->top); i++)
        print_row(json, pair, rows[i], options->diff.by);
    json_end_array(json);
    json_unsigned(json, "rows_in_all", count);
    json_end_object(json);
    free(rows);
}

void compare_print_json(const struct diff *diff, const struct compare_source sources[2],
                        const struct compare_options *options, FILE *out)
{
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "version", 1);
    json_string(&json, "by", dimension_names[options->diff.by]);
    json_string(&json, "view", export_view_info[options->view].name);
    json_string(&json, "filter", sources[1].profile->filter);
    json_array(&json, "heaps");
    for (size_t i = 0; i < diff->pair_count; i++)
        print_pair(&json, &diff->pairs[i], sources, options);
    json_end_array(&json);
    json_end_object(&json);
    fputc('\n', out);
}
