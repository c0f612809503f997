/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the leaks as JSON; docs/leaks.md describes the keys. */
#include "cli/compare/compare.h"
#include "cli/compare/leaks.h"
#include "util/json.h"

void leaks_print_types(FILE *out, const struct diff_pair *pair, const struct diff_row *row,
                       double sign, bool sizes)
{
    size_t written = 0;
    fputc('{', out);
    for (size_t i = 0; i < row->type_count; i++) {
        const struct diff_type *type = &pair->types[row->type_first + i];
        double value = sign * (sizes ? growth_type_size(type) : growth_type_count(type));
        if (value == 0)
            continue;
        fputs(written++ > 0 ? "," : "", out);
        json_print_string(out, type->type);
        fputc(':', out);
        json_print_number(out, value);
    }
    fputc('}', out);
}

void leaks_print_stack(FILE *out, const struct diff_row *row)
{
    const struct profile *profile = row->profile;
    char buffer[EXPORT_LABEL_BYTES];
    fputc('[', out);
    for (uint32_t at = row->callsite; at != PROFILE_NONE; at = profile->callsites[at].parent) {
        if (at != row->callsite)
            fputc(',', out);
        const struct profile_frame *frame = &profile->frames[profile->callsites[at].frame];
        json_print_string(out, export_frame_label(profile, frame, buffer));
    }
    fputc(']', out);
}

void leaks_print_list(const struct leaks_heap *heap, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < heap->grown.count; i++) {
        const struct growth_entry *entry = &heap->grown.entries[i];
        fputs(i > 0 ? ",\n{\"count\":" : "\n{\"count\":", out);
        json_print_number(out, entry->count);
        fputs(",\"size\":", out);
        json_print_number(out, entry->size);
        fputs(",\"count_by_type\":", out);
        leaks_print_types(out, heap->pair, entry->row, 1, false);
        fputs(",\"stackframes\":", out);
        leaks_print_stack(out, entry->row);
        fputc('}', out);
    }
    fputs("\n]\n", out);
}

static void print_limits(FILE *out, const char *name, const struct change *change)
{
    fprintf(out, ",\"%s_low95\":", name);
    if (change->uncertain)
        fputs("null", out);
    else
        json_print_number(out, change->interval.low);
    fprintf(out, ",\"%s_high95\":", name);
    if (change->uncertain)
        fputs("null", out);
    else
        json_print_number(out, change->interval.high);
}

static void print_entry(FILE *out, const struct leaks *leaks, const struct leaks_heap *heap,
                        const struct diff_row *row)
{
    const struct change *size = &row->changes[EXPORT_SPACE], *count = &row->changes[EXPORT_OBJECTS];
    fputs("\n{\"size\":", out);
    json_print_number(out, size->value);
    print_limits(out, "size", size);
    fputs(",\"count\":", out);
    json_print_number(out, count->value);
    print_limits(out, "count", count);
    if (leaks->before != NULL)
        fprintf(out, ",\"size_beyond_chance\":%s,\"count_beyond_chance\":%s",
                row->marks[EXPORT_SPACE] ? "true" : "false",
                row->marks[EXPORT_OBJECTS] ? "true" : "false");
    fputs(",\"count_by_type\":", out);
    leaks_print_types(out, heap->pair, row, 1, false);
    fputs(",\"size_by_type\":", out);
    leaks_print_types(out, heap->pair, row, 1, true);
    fputs(",\"stackframes\":", out);
    leaks_print_stack(out, row);
    fputc('}', out);
}

static void print_list(FILE *out, const struct leaks *leaks, const struct leaks_heap *heap,
                       const char *name, const struct growth_list *list)
{
    uint64_t top = leaks->options->top;
    fprintf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < list->count && (top == 0 || i < top); i++) {
        fputs(i > 0 ? "," : "", out);
        print_entry(out, leaks, heap, list->entries[i].row);
    }
    fprintf(out, "],\"%s_in_all\":%zu", name, list->count);
}

static void print_process(FILE *out, const struct leaks_heap *heap)
{
    fprintf(out, "{\"pid\":%d,\"process_count\":%zu,\"name\":", heap->process->pid,
            heap->process_count);
    json_print_string(out, heap->process->name);
    fputs(",\"labels\":", out);
    json_print_string(out, heap->process->command);
}

static void print_heap(FILE *out, const struct leaks *leaks, const struct leaks_heap *heap)
{
    const struct diff_row *total = &heap->pair->total;
    fputs("{\"heap\":", out);
    json_print_string(out, heap->name);
    fprintf(out, ",\"exact\":%s,\"same_process\":%s,\"total_size\":",
            heap->pair->exact ? "true" : "false", heap->pair->same_process ? "true" : "false");
    json_print_number(out, total->changes[EXPORT_SPACE].value);
    print_limits(out, "total_size", &total->changes[EXPORT_SPACE]);
    fputs(",\"total_count\":", out);
    json_print_number(out, total->changes[EXPORT_OBJECTS].value);
    print_limits(out, "total_count", &total->changes[EXPORT_OBJECTS]);
    fputc(',', out);
    compare_print_unknown(out, heap->pair);
    compare_print_left_out(out, leaks->after->profile->filter, heap->pair);
    print_list(out, leaks, heap, "leaks", &heap->grown);
    if (leaks->options->shrunk)
        print_list(out, leaks, heap, "shrunk", &heap->shrunk);
    fputc('}', out);
}

static void print_unpaired(FILE *out, const struct leaks *leaks)
{
    fputs("],\"unpaired\":[", out);
    for (size_t i = 0; i < leaks->unpaired_count; i++) {
        const struct leaks_heap *heap = &leaks->unpaired[i];
        fputs(i > 0 ? "," : "", out);
        print_process(out, heap);
        fputs(",\"heap\":", out);
        json_print_string(out, heap->name);
        fprintf(out, ",\"in\":\"%s\"}", heap->pair->before_count == 0 ? "after" : "before");
    }
    fputs("]}\n", out);
}

void leaks_print_json(const struct leaks *leaks, FILE *out)
{
    const struct growth_options *growth = &leaks->options->growth;
    fputs("{\"version\":1,\"before\":", out);
    if (leaks->before != NULL)
        json_print_string(out, leaks->before->argument);
    else
        fputs("null", out);
    fputs(",\"after\":", out);
    json_print_string(out, leaks->after->argument);
    fputs(",\"filter\":", out);
    json_print_string(out, leaks->after->profile->filter);
    fputs(",\"threshold\":", out);
    if (growth->has_count_threshold)
        json_print_number(out, growth->count_threshold);
    else
        fputs("null", out);
    fputs(",\"size_threshold\":", out);
    json_print_number(out, growth->size_threshold);
    fputs(",\"processes\":[", out);
    for (size_t i = 0; i < leaks->heap_count; i++) {
        if (leaks_is_first_of_process(leaks, i)) {
            fputs(i > 0 ? "]},\n" : "\n", out);
            print_process(out, &leaks->heaps[i]);
            fputs(",\"heaps\":[\n", out);
        } else {
            fputs(",\n", out);
        }
        print_heap(out, leaks, &leaks->heaps[i]);
    }
    fputs(leaks->heap_count > 0 ? "]}" : "", out);
    print_unpaired(out, leaks);
}
