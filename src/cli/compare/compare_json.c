/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a difference as one JSON object; docs/diff.md describes its keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/compare/compare.h"
#include "cli/compare/compare_format.h"
#include "util/json.h"

static void print_key(FILE *out, const char *key)
{
    fprintf(out, ",\"%s\":", key);
}

static void print_value(FILE *out, const char *key, double value)
{
    print_key(out, key);
    json_print_number(out, value);
}

static void print_views(FILE *out, const struct diff_pair *pair, const struct diff_row *row)
{
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        const struct change *change = &row->changes[view];
        const struct profile_estimate *before = &row->before[diff_figure_of(view)];
        const struct profile_estimate *after = &row->after[diff_figure_of(view)];
        bool bytes = export_view_words[view].counts_bytes;
        if (view == EXPORT_MAX && row->peak_is_unknown)
            continue;
        fprintf(out, "%s\"%s\":{\"change\":", view > 0 ? "," : "", export_view_words[view].name);
        if (diff_is_unknown(pair, view)) {
            fputs("null,\"low95\":null,\"high95\":null,\"probability\":null,\"before\":null,"
                  "\"after\":null,\"beyond_chance\":null}",
                  out);
            continue;
        }
        json_print_number(out, change->value);
        if (change->uncertain) {
            fputs(",\"low95\":null,\"high95\":null,\"probability\":null", out);
        } else {
            print_value(out, "low95", change->interval.low);
            print_value(out, "high95", change->interval.high);
            print_value(out, "probability", change->probability);
        }
        print_value(out, "before", bytes ? before->bytes : before->count);
        print_value(out, "after", bytes ? after->bytes : after->count);
        fprintf(out, ",\"beyond_chance\":%s}", row->marks[view] ? "true" : "false");
    }
}

static void print_frame(FILE *out, const struct profile *profile, uint32_t index)
{
    const struct profile_frame *frame = &profile->frames[index];
    fputs("{\"name\":", out);
    json_print_string(out, frame->name);
    print_key(out, "mapping");
    json_print_string(out,
                      frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path);
    fprintf(out, ",\"rel_pc\":%" PRIu64, frame->rel_pc);
    if (*frame->source_file != '\0') {
        print_key(out, "file");
        json_print_string(out, frame->source_file);
        fprintf(out, ",\"line\":%u", frame->line);
    }
    fputc('}', out);
}

static void print_row(FILE *out, const struct diff_pair *pair, const struct diff_row *row,
                      enum diff_by by)
{
    fputc('{', out);
    print_views(out, pair, row);
    if (by == DIFF_CALLSITE) {
        fputs(",\"frames\":[", out);
        const struct profile_callsite *callsites = row->profile->callsites;
        for (uint32_t at = row->callsite; at != PROFILE_NONE; at = callsites[at].parent) {
            if (at != row->callsite)
                fputc(',', out);
            print_frame(out, row->profile, callsites[at].frame);
        }
        fputc(']', out);
    } else if (by == DIFF_FUNCTION) {
        print_key(out, "function");
        print_frame(out, row->profile, row->frame);
    } else if (by == DIFF_MODULE) {
        uint32_t mapping = row->profile->frames[row->frame].mapping;
        print_key(out, "module");
        json_print_string(out, mapping == PROFILE_NONE ? "" : row->profile->mappings[mapping].path);
    } else {
        print_key(out, compare_by_names[by]);
        json_print_string(out, row->label);
        if (row->tid != 0)
            fprintf(out, ",\"tid\":%d", row->tid);
    }
    fputc('}', out);
}

static void print_dumps(FILE *out, const struct profile *profile, const struct export_dump *dumps,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct profile_heap *heap = dumps[i].heap;
        const struct profile_process *process = &profile->processes[heap->process];
        fprintf(out, "%s{\"pid\":%d,\"name\":", i > 0 ? "," : "", process->pid);
        json_print_string(out, process->name);
        print_key(out, "heap");
        json_print_string(out, heap->name);
        fprintf(out, ",\"dump\":%zu,\"dumps\":%zu,\"interval_bytes\":%" PRIu64 "}",
                (size_t)(dumps[i].dump - heap->dumps) + 1, heap->dump_count, heap->interval_bytes);
    }
}

void compare_print_unknown(FILE *out, const struct diff_pair *pair)
{
    bool first = true;
    fputs("\"untold\":[", out);
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        if (!diff_is_unknown(pair, view))
            continue;
        fprintf(out, "%s\"%s\"", first ? "" : ",", export_view_words[view].name);
        first = false;
    }
    fputc(']', out);
}

void compare_print_left_out(FILE *out, const char *filter, const struct diff_pair *pair)
{
    if (*filter == '\0')
        return;
    for (int side = 0; side < 2; side++) {
        fputs(side == 0 ? ",\"left_out\":{\"before\":{" : "},\"after\":{", out);
        for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
            double part, whole;
            compare_left_out(side == 0 ? pair->before : pair->after,
                             side == 0 ? pair->before_count : pair->after_count, view, &part,
                             &whole);
            fprintf(out, "%s\"%s\":", view > 0 ? "," : "", export_view_words[view].name);
            json_print_number(out, part);
        }
    }
    fputs("}}", out);
}

static int print_pair(FILE *out, const struct diff_pair *pair,
                      const struct compare_source sources[2], const struct compare_options *options)
{
    size_t count = 0, written = 0;
    const struct diff_row **rows = diff_rank(pair, options->view, &count);
    if (rows == NULL)
        return -ENOMEM;
    fputs("{\"before\":[", out);
    print_dumps(out, sources[0].profile, pair->before, pair->before_count);
    fputs("],\"after\":[", out);
    print_dumps(out, sources[1].profile, pair->after, pair->after_count);
    fputs("],", out);
    compare_print_unknown(out, pair);
    compare_print_left_out(out, sources[1].profile->filter, pair);
    fprintf(out, ",\"same_process\":%s,\"exact\":%s,\"total\":{",
            pair->same_process ? "true" : "false", pair->exact ? "true" : "false");
    print_views(out, pair, &pair->total);
    fputs("},\"rows\":[", out);
    for (size_t i = 0; i < count && (options->top == 0 || i < options->top); i++) {
        fputs(written++ > 0 ? ",\n" : "\n", out);
        print_row(out, pair, rows[i], options->diff.by);
    }
    fprintf(out, "],\"rows_in_all\":%zu}", count);
    free(rows);
    return 0;
}

int compare_print_json(const struct diff *diff, const struct compare_source sources[2],
                       const struct compare_options *options, FILE *out)
{
    int code = 0;
    fprintf(out, "{\"version\":1,\"by\":\"%s\",\"view\":\"%s\",\"filter\":",
            compare_by_names[options->diff.by], export_view_words[options->view].name);
    json_print_string(out, sources[1].profile->filter);
    fputs(",\"heaps\":[", out);
    for (size_t i = 0; i < diff->pair_count && code == 0; i++) {
        if (i > 0)
            fputc(',', out);
        code = print_pair(out, &diff->pairs[i], sources, options);
    }
    fputs("]}\n", out);
    return code;
}
