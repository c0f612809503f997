/* SPDX-License-Identifier: Apache-2.0 */
/* Print a death: facts, one a line after its label, then two tables for each heap. */
#include <time.h>

#include "tools/cli/compare/growth_table.h"
#include "tools/cli/oom/oom.h"

static void print_when(const struct oom_death *death, FILE *out)
{
    int64_t realtime_ns = oom_death_realtime_ns(death);
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm utc;
    char text[32];
    if (realtime_ns != 0 && gmtime_r(&seconds, &utc) != NULL &&
        strftime(text, sizeof(text), "%F %T UTC", &utc) > 0)
        fprintf(out, ", at %s", text);
}

static void print_size(FILE *out, const char *words, uint64_t bytes)
{
    if (bytes > 0)
        fprintf(out, "%s %s", words, format_bytes((double)bytes).bytes);
}

static void print_facts(const struct oom_death *death, FILE *out)
{
    const struct process_end *end = &death->process->end;
    char words[PROCESS_END_WORDS];
    fprintf(out, "  process       %d, in ", death->process->pid);
    format_print(out, death->path, FORMAT_LINE_WIDTH);
    fprintf(out, "\n  ended         %s", process_end_words(end, words));
    print_when(death, out);
    fputs("\n  memory        ", out);
    print_size(out, "resident", end->rss_bytes);
    fputs(end->rss_bytes > 0 ? " at the last look" : "resident size unknown", out);
    print_size(out, ", and the profiler's own", end->profiler_rss_bytes);
    print_size(out, "; limit of its cgroup", end->limit_bytes);
    print_size(out, ", seen in use", end->limit_bytes > 0 ? end->used_bytes : 0);
    print_size(out, ", its highest use", end->limit_bytes > 0 ? end->peak_bytes : 0);
    if (end->limit_bytes == 0)
        fputs("; no limit of its cgroup is known", out);
    fputc('\n', out);
    if (end->cgroup != NULL) {
        fputs("  cgroup        ", out);
        format_print(out, end->cgroup, FORMAT_LINE_WIDTH);
        fputc('\n', out);
    }
}

static void print_list(const struct oom_death *death, const struct diff *diff,
                       const struct growth_list *list, bool grown,
                       const struct oom_options *options, FILE *out)
{
    const struct growth_table table = {
        .stacks = &death->stacks,
        .pair = &diff->pairs[0],
        .top = options->top,
        .is_growth = grown,
        .marks_bytes = grown && !diff->pairs[0].exact,
        .whole = options->stacks,
    };
    growth_table_print(&table, list, out);
}

static void print_total(const struct diff *diff, bool grown, FILE *out)
{
    const struct change *total = &diff->pairs[0].total.changes[EXPORT_SPACE];
    struct formatted margin = compare_margin(&diff->pairs[0], total, false);
    struct formatted value =
        grown ? format_signed(total->value, false) : format_bytes(total->value);
    fprintf(out, "%s %s", value.bytes, margin.bytes);
}

static void print_heap(const struct oom_death *death, const struct oom_heap *heap,
                       const struct oom_options *options, FILE *out)
{
    char cause[DUMP_CAUSE_WORDS];
    if (heap->held_diff->pair_count == 0)
        return;
    fputs("\nHeld at the last dump by the heap ", out);
    format_print(out, heap->heap->name, FORMAT_WORD_WIDTH);
    fputs(": ", out);
    print_total(heap->held_diff, false, out);
    if (heap->heap->unfinished)
        fputs(" (not its end: the profiler was killed, too)", out);
    if (heap->last->incomplete)
        fputs(" (samples of the dump are missing from the trace)", out);
    fputc('\n', out);
    print_list(death, heap->held_diff, &heap->held, false, options, out);
    if (heap->before == NULL || heap->grown_diff->pair_count == 0) {
        fputs("  There is no dump before, so what grew is unknown.\n", out);
        return;
    }
    double seconds = (double)(heap->last->boottime_ns - heap->before->boottime_ns) / 1e9;
    dump_cause_words(heap->before->cause, heap->before->cause_used_bytes,
                     heap->before->cause_limit_bytes, cause);
    fputs("Grown since the dump before, ", out);
    fprintf(out, "%s earlier%s%s%s: ", format_time(seconds).bytes,
            cause[0] != '\0' ? " (because " : "", cause, cause[0] != '\0' ? ")" : "");
    print_total(heap->grown_diff, true, out);
    fputc('\n', out);
    print_list(death, heap->grown_diff, &heap->grown, true, options, out);
}

void oom_print_text(const struct oom_death *death, const struct oom_options *options, FILE *out)
{
    const struct profile_process *process = death->process;
    fputs(options->colours ? "\033[1m" : "", out);
    format_print(out, *process->command != '\0' ? process->command : process->name,
                 FORMAT_LINE_WIDTH);
    fputs(options->colours ? "\033[0m\n" : "\n", out);
    print_facts(death, out);
    if (death->heap_count == 0)
        fputs("  The trace has no live memory of it: heap_profile report says why.\n", out);
    for (size_t i = 0; i < death->heap_count; i++)
        print_heap(death, &death->heaps[i], options, out);
}
