/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the leaks as JSON; docs/leaks.md describes the keys. */
#include <math.h>
#include <stdlib.h>

#include "tools/cli/compare/compare.h"
#include "tools/cli/compare/compare_format.h"
#include "tools/cli/compare/leaks.h"
#include "tools/print/turnover_text.h"
#include "util/json_writer.h"

static void print_types(struct json_writer *json, const char *key, const struct diff_pair *pair,
                        const struct diff_row *row, bool sizes)
{
    json_object(json, key);
    for (size_t i = 0; i < row->type_count; i++) {
        const struct diff_type *type = &pair->types[row->type_first + i];
        double value = sizes ? growth_type_size(type) : growth_type_count(type);
        if (value != 0)
            json_named_number(json, type->type, value);
    }
    json_end_object(json);
}

void leaks_print_list(const struct leaks_heap *heap, FILE *out)
{
    struct json_writer json = json_begin(out);
    json_array(&json, NULL);
    for (size_t i = 0; i < heap->rows.grown.count; i++) {
        const struct growth_entry *entry = &heap->rows.grown.entries[i];
        json_line(&json);
        json_object(&json, NULL);
        json_number(&json, "count", entry->count);
        json_number(&json, "size", entry->size);
        print_types(&json, "count_by_type", heap->pair, entry->row, false);
        compare_json_stack(&json, entry->row->profile, entry->row->callsite);
        json_end_object(&json);
    }
    json_line(&json);
    json_end_array(&json);
    fputc('\n', out);
}

static void print_change(struct json_writer *json, const struct diff_pair *pair, const char *name,
                         enum export_view view, const struct diff_row *row)
{
    char low[64], high[64];
    snprintf(low, sizeof(low), "%s_low95", name);
    snprintf(high, sizeof(high), "%s_high95", name);
    compare_json_change(json, pair, view, row, (const char *[]){name, low, high});
}

static void print_entry(struct json_writer *json, const struct leaks *leaks,
                        const struct leaks_heap *heap, const struct diff_row *row)
{
    json_line(json);
    json_object(json, NULL);
    print_change(json, heap->pair, "size", EXPORT_SPACE, row);
    print_change(json, heap->pair, "count", EXPORT_OBJECTS, row);
    if (leaks->before != NULL) {
        json_bool(json, "size_beyond_chance", row->marks[EXPORT_SPACE]);
        json_bool(json, "count_beyond_chance", row->marks[EXPORT_OBJECTS]);
    }
    print_types(json, "count_by_type", heap->pair, row, false);
    print_types(json, "size_by_type", heap->pair, row, true);
    turnover_print_json(json, leak_rows_turnover(&heap->rows, row));
    struct compare_row_stacks stacks =
        compare_row_stacks_of(&leaks->stacks, heap->pair, row, EXPORT_SPACE);
    json_unsigned(json, "stacks", stacks.count);
    if (stacks.count > 0)
        compare_json_stack(json, stacks.profile, stacks.items[0].callsite);
    else
        compare_json_stack(json, row->profile, row->callsite);
    free(stacks.items);
    json_end_object(json);
}

static void print_list(struct json_writer *json, const struct leaks *leaks,
                       const struct leaks_heap *heap, const char *name, const char *name_of_count,
                       const struct growth_list *list)
{
    uint64_t top = leaks->options->top;
    json_array(json, name);
    for (size_t i = 0; i < list->count && (top == 0 || i < top); i++)
        print_entry(json, leaks, heap, list->entries[i].row);
    json_end_array(json);
    json_unsigned(json, name_of_count, list->count);
}

static void print_process(struct json_writer *json, const struct leaks_heap *heap)
{
    json_signed(json, "pid", heap->process->pid);
    json_unsigned(json, "process_count", heap->process_count);
    json_string(json, "name", heap->process->name);
    json_string(json, "labels", heap->process->command);
}

/* Print when the later dump was taken, since the start of the heap. */
static void print_moment(struct json_writer *json, const struct diff_pair *pair)
{
    const struct export_dump *after = pair->after;
    if (pair->after_count == 1 && profile_has_duration(after->heap, after->dump))
        json_unsigned(json, "at_ns", after->dump->boottime_ns - after->heap->start_boottime_ns);
    else
        json_null(json, "at_ns");
}

static bool is_too_short(const struct leaks_heap *heap)
{
    const struct diff_pair *pair = heap->pair;
    return pair->before_count == 0 && pair->after_count == 1 &&
           turnover_lacks_ms(heap->profile, pair->after) > 0;
}

static void print_heap(struct json_writer *json, const struct leaks *leaks,
                       const struct leaks_heap *heap)
{
    json_line(json);
    json_object(json, NULL);
    json_string(json, "heap", heap->name);
    json_bool(json, "exact", heap->pair->exact);
    json_bool(json, "same_process", heap->pair->same_process);
    print_moment(json, heap->pair);
    json_bool(json, "too_short", is_too_short(heap));
    json_string(json, "widened", compare_widened(heap->pair->after, heap->pair->after_count).text);
    print_change(json, heap->pair, "total_size", EXPORT_SPACE, &heap->pair->total);
    print_change(json, heap->pair, "total_count", EXPORT_OBJECTS, &heap->pair->total);
    compare_print_unknown(json, heap->pair);
    compare_print_left_out(json, leaks->after->profile->filter, heap->pair);
    json_unsigned(json, "potential_leaks", heap->rows.leak_count);
    print_list(json, leaks, heap, "leaks", "leaks_in_all", &heap->rows.grown);
    if (leaks->options->shrunk)
        print_list(json, leaks, heap, "shrunk", "shrunk_in_all", &heap->rows.shrunk);
    json_end_object(json);
}

static void print_unpaired(struct json_writer *json, const struct leaks *leaks)
{
    json_array(json, "unpaired");
    for (size_t i = 0; i < leaks->unpaired_count; i++) {
        const struct leaks_heap *heap = &leaks->unpaired[i];
        json_object(json, NULL);
        print_process(json, heap);
        json_string(json, "heap", heap->name);
        json_string(json, "in", heap->pair->before_count == 0 ? "after" : "before");
        json_end_object(json);
    }
    json_end_array(json);
}

static void end_process(struct json_writer *json)
{
    json_end_array(json);
    json_end_object(json);
}

void leaks_print_json(const struct leaks *leaks, FILE *out)
{
    const struct growth_options *growth = &leaks->options->growth;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "version", 1);
    json_string(&json, "before", leaks->before != NULL ? leaks->before->argument : NULL);
    json_string(&json, "after", leaks->after->argument);
    json_string(&json, "filter", leaks->after->profile->filter);
    json_number(&json, "threshold",
                growth->has_count_threshold ? growth->count_threshold : (double)NAN);
    json_number(&json, "size_threshold", growth->size_threshold);
    json_array(&json, "processes");
    for (size_t i = 0; i < leaks->heap_count; i++) {
        if (leaks_is_first_of_process(leaks, i)) {
            if (i > 0)
                end_process(&json);
            json_line(&json);
            json_object(&json, NULL);
            print_process(&json, &leaks->heaps[i]);
            json_array(&json, "heaps");
        }
        print_heap(&json, leaks, &leaks->heaps[i]);
    }
    if (leaks->heap_count > 0)
        end_process(&json);
    json_end_array(&json);
    print_unpaired(&json, leaks);
    json_end_object(&json);
    fputc('\n', out);
}
