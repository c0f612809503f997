/* SPDX-License-Identifier: Apache-2.0 */
/* Groups processes without figures by their name and reason, and prints a line for each group. */
#include "tools/cli/report/report_unseen.h"

#include <stdlib.h>
#include <string.h>

#include "profile/process_memory.h"
#include "tools/print/wrap.h"
#include "trace/intern.h"
#include "util/xmalloc.h"

#define UNPROFILED_NAMES 20u /* printed for each reason */
#define UNPROFILED_LINES 10u /* of a trace without a profile */

static bool was_never_joined(const struct profile_heap *heap)
{
    return heap->status.timestamp_ns == heap->status.start_timestamp_ns;
}

/* Unseen processes with the same name and reason, except for numbers in it (of processes, of
 * milliseconds). */
struct unseen_group {
    size_t first, count; /* sections */
    uint64_t rss_bytes;  /* the largest */
};

/* Copy a reason with each number replaced by 0. Return the end. */
static char *put_reason(char *to, const char *reason)
{
    static const char digits[] = "0123456789";
    while (*reason != '\0') {
        size_t number = strspn(reason, digits);
        *to++ = number > 0 ? '0' : *reason;
        reason += number > 0 ? number : 1;
    }
    return to;
}

/* Return the id of the group, from 1. */
static uint32_t group_of(struct intern_table *table, const char *name,
                         const struct profile_heap *heap)
{
    const char *reason = profile_heap_why_unseen(heap);
    size_t name_length = strlen(name) + 1;
    char *key = xmalloc(1 + name_length + strlen(reason));
    key[0] = was_never_joined(heap) ? 'n' : 'j';
    memcpy(key + 1, name, name_length);
    const char *end = put_reason(key + 1 + name_length, reason);
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(table, key, (size_t)(end - key), &added));
    free(key);
    return (uint32_t)id;
}

void report_unseen_make(struct report_unseen *groups, const struct profile *profile,
                        const struct report_sections *sections)
{
    struct intern_table table = {0};
    groups->items = xcalloc(sections->count + 1, sizeof(*groups->items));
    groups->ids = xcalloc(sections->count + 1, sizeof(*groups->ids));
    for (size_t i = 0; i < sections->count; i++) {
        const struct profile_heap *heap = sections->items[i].heap;
        const struct profile_process *process = &profile->processes[heap->process];
        if (!sections->items[i].unseen)
            continue;
        groups->ids[i] = group_of(&table, process->name, heap);
        struct unseen_group *group = &groups->items[groups->ids[i] - 1];
        uint64_t peak = process_memory_peak(process).bytes;
        group->first = group->count++ == 0 ? i : group->first;
        group->rss_bytes = peak > group->rss_bytes ? peak : group->rss_bytes;
    }
    intern_free(&table);
}

void report_unseen_clear(struct report_unseen *groups)
{
    free(groups->items);
    free(groups->ids);
}

/* Print a heap without figures; zeros would look like figures. Its line also stands for the other
 * processes of its group. */
static void print_unseen(const struct printer *printer, const struct unseen_group *group)
{
    const struct profile_process *process = &printer->profile->processes[printer->heap->process];
    size_t count = group->count;
    struct wrap wrap;
    printer_title(printer, report_process_title(process));
    FILE *out = wrap_begin(&wrap, printer->out, printer->options->columns);
    if (count > 1)
        fprintf(out, "  processes     %d and %s more of this name, not profiled", process->pid,
                format_count((double)(count - 1)).bytes);
    else
        fprintf(out, "  process       %d, not profiled", process->pid);
    if (!was_never_joined(printer->heap))
        fprintf(out, ": no call of %s allocator was seen, what %s allocated is unknown",
                count > 1 ? "their" : "its", count > 1 ? "they" : "it");
    if (group->rss_bytes > 0)
        fprintf(out, "; resident memory reached at least %s%s",
                format_bytes((double)group->rss_bytes).bytes, count > 1 ? " each" : "");
    fputs("\n  note          ", out);
    format_print(out, profile_heap_why_unseen(printer->heap), FORMAT_REASON_WIDTH);
    fputc('\n', out);
    wrap_end(&wrap, PRINTER_FACT_INDENT);
}

bool report_unseen_print(const struct report_unseen *groups, size_t section,
                         const struct printer *printer)
{
    if (groups->ids[section] == 0)
        return false;
    const struct unseen_group *group = &groups->items[groups->ids[section] - 1];
    if (group->first == section)
        print_unseen(printer, group);
    return true;
}

/* Print the names of processes that share one reason. Return the first index after them. */
static size_t print_names(const struct profile *profile, size_t first, FILE *out)
{
    const struct profile_unprofiled *processes = profile->unprofiled;
    size_t i = first;
    fputs("  ", out);
    for (; i < profile->unprofiled_count && i - first < UNPROFILED_NAMES &&
           strcmp(processes[i].reason, processes[first].reason) == 0;
         i++) {
        fputs(i > first ? ", " : "", out);
        format_print(out, processes[i].name, FORMAT_WORD_WIDTH);
        if (processes[i].count > 1)
            fprintf(out, " (%s processes)", format_count((double)processes[i].count).bytes);
    }
    size_t after = i;
    while (after < profile->unprofiled_count &&
           strcmp(processes[after].reason, processes[first].reason) == 0)
        after++;
    if (after > i)
        fprintf(out, ", and %zu more names: report --json lists them", after - i);
    return after;
}

void report_unprofiled_print(const struct profile *profile, FILE *out)
{
    for (size_t i = 0, next; i < profile->unprofiled_count; i = next) {
        if (i == 0)
            fputs("\nNot profiled\n", out);
        next = print_names(profile, i, out);
        fputs("\n      ", out);
        format_print(out, profile->unprofiled[i].reason, FORMAT_REASON_WIDTH);
        fputc('\n', out);
    }
}

void report_print_unprofiled(const struct profile *profile, FILE *out)
{
    for (size_t i = 0; i < profile->unprofiled_count && i < UNPROFILED_LINES; i++) {
        fputs("  not profiled: ", out);
        format_print(out, profile->unprofiled[i].name, FORMAT_WORD_WIDTH);
        fputs(": ", out);
        format_print(out, profile->unprofiled[i].reason, FORMAT_REASON_WIDTH);
        fputc('\n', out);
    }
}
