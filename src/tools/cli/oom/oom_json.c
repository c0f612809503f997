/* SPDX-License-Identifier: Apache-2.0 */
/* Print a death as JSON; docs/last-profile.md describes the keys. */
#include "tools/cli/compare/compare.h"
#include "tools/cli/oom/oom.h"
#include "tools/print/report_end.h"

static void print_figures(struct json_writer *json, const struct diff_pair *pair,
                          const struct diff_row *row)
{
    static const char *const names[] = {"estimate", "low95", "high95"};
    json_object(json, "space");
    compare_json_change(json, pair, EXPORT_SPACE, row, names);
    json_end_object(json);
    json_object(json, "objects");
    compare_json_change(json, pair, EXPORT_OBJECTS, row, names);
    json_end_object(json);
}

static void print_list(struct json_writer *json, const struct diff *diff,
                       const struct growth_list *list, bool grown, uint64_t top)
{
    if (diff->pair_count > 0)
        print_figures(json, &diff->pairs[0], &diff->pairs[0].total);
    json_array(json, "callsites");
    for (size_t i = 0; i < list->count && (top == 0 || i < top); i++) {
        const struct diff_row *row = list->entries[i].row;
        json_line(json);
        json_object(json, NULL);
        print_figures(json, &diff->pairs[0], row);
        if (grown)
            json_bool(json, "beyond_chance", row->marks[EXPORT_SPACE]);
        compare_json_stack(json, row->profile, row->callsite);
        json_end_object(json);
    }
    json_end_array(json);
    json_unsigned(json, "callsites_in_all", list->count);
}

static void print_heap(struct json_writer *json, const struct oom_heap *heap, uint64_t top)
{
    json_line(json);
    json_object(json, NULL);
    json_string(json, "heap", heap->heap->name);
    json_unsigned(json, "dumps", heap->heap->dump_count);
    json_bool(json, "unfinished", heap->heap->unfinished);
    json_bool(json, "incomplete", heap->last->incomplete);
    json_object(json, "held");
    print_list(json, heap->held_diff, &heap->held, false, top);
    json_end_object(json);
    if (heap->before == NULL) {
        json_null(json, "grown");
    } else {
        json_object(json, "grown");
        json_number(json, "seconds",
                    (double)(heap->last->boottime_ns - heap->before->boottime_ns) / 1e9);
        report_cause_print_json(heap->before, json);
        print_list(json, heap->grown_diff, &heap->grown, true, top);
        json_end_object(json);
    }
    json_end_object(json);
}

void oom_print_json(const struct oom_death *death, const struct oom_options *options,
                    struct json_writer *json)
{
    int64_t realtime_ns = oom_death_realtime_ns(death);
    json_line(json);
    json_object(json, NULL);
    json_string(json, "trace", death->path);
    json_signed(json, "pid", death->process->pid);
    json_string(json, "name", death->process->name);
    json_string(json, "command", death->process->command);
    if (realtime_ns == 0)
        json_null(json, "time_ns");
    else
        json_signed(json, "time_ns", realtime_ns);
    report_end_print_json(death->process, json);
    json_array(json, "heaps");
    for (size_t i = 0; i < death->heap_count; i++)
        print_heap(json, &death->heaps[i], options->top);
    json_end_array(json);
    json_end_object(json);
}
