/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the sentences that matter, and prints them with the figures of the tables below. */
#include "cli/report/report_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/first_view.h"
#include "compare/rss.h"
#include "print/wrap.h"
#include "profile/partial.h"
#include "profile/process_memory.h"

#define SENTENCE_INDENT 2

/* A peak that is higher than the live memory by less is no news. */
#define PEAK_NEWS 1.02
/* Churn: a program allocates 20 times its peak, in 100,000 calls. Below either, nothing is said. */
#define CHURN_TIMES 20
#define CHURN_CALLS 100000
/* Memory that the heaps do not explain: more than this, and more than a third of the RSS. */
#define REST_OF_RSS_BYTES (16 << 20)

/* --- who --- */

/* The functions that the largest shares of a view are charged to. */
#define HOLDERS 2
/* The second is named if it has so much of the first one's share. */
#define SECOND_PART 0.5

struct holder {
    uint32_t frame; /* PROFILE_NONE: none */
    double share;   /* 0 to 1 */
};

/* Return the frame to name for a stack: the function that it is charged to, or if that has no name,
 * the first of its callers that has one. */
static uint32_t named_frame(const struct printer *printer, uint32_t callsite)
{
    const struct profile *profile = printer->profile;
    uint32_t head = folding_head(printer->stacks.folding, profile, callsite), at = head;
    while (at != PROFILE_NONE && profile->frames[profile->callsites[at].frame].name[0] == '\0')
        at = folding_caller(printer->stacks.folding, profile, at);
    return profile->callsites[at != PROFILE_NONE ? at : head].frame;
}

static void find_holders(const struct printer *printer, enum export_view view,
                         struct holder holders[HOLDERS])
{
    const struct profile_dump *dump = printer->dump;
    const struct profile_estimate total = estimate_of_dump(dump, view);
    size_t count;
    const uint32_t *functions = rollup_functions(printer->tables, &count);
    struct holder *all = functions != NULL ? calloc(count, sizeof(*all)) : NULL;
    for (size_t i = 0; i < HOLDERS; i++)
        holders[i] = (struct holder){PROFILE_NONE, 0};
    for (size_t i = 0; all != NULL && i < dump->sample_count; i++) {
        const struct rollup_values values = rollup_values_of(dump->samples[i]);
        const struct profile_estimate figure = estimate_of_view(&values, view);
        uint32_t frame = named_frame(printer, dump->samples[i]->callsite);
        all[functions[frame]].frame = frame;
        all[functions[frame]].share += estimate_rank(&figure, view) / estimate_rank(&total, view);
    }
    for (size_t i = 0; all != NULL && i < count; i++) {
        if (all[i].share > holders[0].share) {
            holders[1] = holders[0];
            holders[0] = all[i];
        } else if (all[i].share > holders[1].share) {
            holders[1] = all[i];
        }
    }
    free(all);
}

static void print_function(const struct printer *printer, const struct holder *holder)
{
    stack_format_print_frame(&printer->stacks, holder->frame, 0, false, true, printer->out);
}

/* Print who did it to how much of a view: ": parse held 45.2 % of it, load 31.0 %". */
static void print_holders(const struct printer *printer, enum export_view view, const char *verb,
                          const char *object)
{
    struct holder holders[HOLDERS];
    if (printer->stacks.folding == NULL)
        return;
    find_holders(printer, view, holders);
    if (!(holders[0].share > 0))
        return;
    fputs(": ", printer->out);
    print_function(printer, &holders[0]);
    if (holders[0].share > 0.995) {
        fprintf(printer->out, " %s nearly all of %s", verb, object);
        return;
    }
    fprintf(printer->out, " %s %s of %s", verb, format_share(100 * holders[0].share).bytes, object);
    if (holders[1].share < SECOND_PART * holders[0].share)
        return;
    fputs(", ", printer->out);
    print_function(printer, &holders[1]);
    fprintf(printer->out, " %s", format_share(100 * holders[1].share).bytes);
}

/* --- the sentences --- */

static void print_figure(const struct printer *printer, enum export_view view)
{
    const struct estimate_shown total =
        estimate_total(printer->heap, printer->dump, view, export_view_counts_calls(view));
    const struct formatted margin = printer_total_margin(printer, &total, view, false);
    fputs(format_bytes(total.value).bytes, printer->out);
    if (strcmp(margin.bytes, "exact") != 0)
        fprintf(printer->out, " %s", margin.bytes);
}

static double bytes_in(const struct printer *printer, enum export_view view)
{
    if (export_view_is_unknown(printer->heap, view))
        return 0;
    return estimate_total(printer->heap, printer->dump, view, false).value;
}

/* Return whether the program holds much at the dump, compared with what it held. */
static bool holds_much(const struct printer *printer)
{
    return first_view(printer->profile, printer->stacks.folding, printer->heap, printer->dump) ==
           EXPORT_SPACE;
}

/* Return whether the process exited, and the dump is its last. */
static bool has_exited(const struct printer *printer)
{
    return printer->dump->final && printer->heap->status.exit_status >= 0;
}

/* Print what the program had not freed at its end, beside what its run time keeps. What no sample
 * shows may be live, too, and so may what was allocated before the profile. */
static void print_rest(const struct printer *printer)
{
    if (export_view_is_unknown(printer->heap, EXPORT_SPACE))
        return;
    const struct estimate_shown total =
        estimate_total(printer->heap, printer->dump, EXPORT_SPACE, false);
    double pools = first_view_pools(printer->profile, printer->stacks.folding, printer->dump);
    double own = fmax(total.value - pools, 0), most = total.interval.high - pools;
    bool has_rest = own >= 0.5;
    if (isnan(most))
        return;
    fputs(has_exited(printer) ? "It had freed " : "When the profile ended, it had freed ",
          printer->out);
    if (has_rest)
        fprintf(printer->out, "all but %s", format_bytes(own).bytes);
    else
        fputs(most >= 0.5 ? "nearly everything" : "everything", printer->out);
    if (!printer->heap->status.from_startup)
        fputs(has_rest ? " of what it allocated since the profile began"
                       : " that it allocated since the profile began",
              printer->out);
    fputs(has_exited(printer) ? " at its end" : "", printer->out);
    if (pools >= 0.5)
        fprintf(printer->out, ", %s %s that the run time's libraries keep for themselves",
                has_rest ? "and" : "but", format_bytes(pools).bytes);
    if (most >= own + 0.5)
        fprintf(printer->out, "; up to %s may be live", format_bytes(most).bytes);
    fputs(".\n", printer->out);
}

static void print_live(const struct printer *printer)
{
    const struct profile_process *process = &printer->profile->processes[printer->heap->process];
    bool exited = has_exited(printer);
    /* Other profilers' files have one moment, and no end. */
    bool has_end = printer->dump->final && process->timeline_count > 0;
    if (bytes_in(printer, EXPORT_SPACE) < 0.5)
        return;
    print_figure(printer, EXPORT_SPACE);
    fputs(exited    ? " was never freed"
          : has_end ? " was live when the profile ended"
                    : " is live",
          printer->out);
    print_holders(printer, EXPORT_SPACE, exited ? "allocated" : has_end ? "held" : "holds", "it");
    fputs(".\n", printer->out);
}

/* Print when the peak was, if the dump is the one that knows. */
static void print_peak_time(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct trace_heap_dump *status = &heap->status;
    const struct profile_dump *dump = printer->dump;
    if (dump != &heap->dumps[heap->dump_count - 1] || status->peak_timestamp_ns == 0 ||
        status->peak_timestamp_ns > status->timestamp_ns)
        return;
    uint64_t before_ns = status->timestamp_ns - status->peak_timestamp_ns;
    uint64_t whole_ns = dump->boottime_ns - heap->start_boottime_ns;
    if (dump->boottime_ns < heap->start_boottime_ns || before_ns > whole_ns)
        return;
    fprintf(printer->out, ", %s after %s", format_time((double)(whole_ns - before_ns) / 1e9).bytes,
            status->from_startup ? "the start" : "the profile began");
}

static void print_peak(const struct printer *printer)
{
    double live = bytes_in(printer, EXPORT_SPACE), peak = bytes_in(printer, EXPORT_MAX);
    if (peak < 0.5)
        return;
    if (live > 0.5 && peak <= PEAK_NEWS * live) {
        bool is_same = strcmp(format_bytes(live).bytes, format_bytes(peak).bytes) == 0;
        fprintf(printer->out, "That is %sits peak%s.\n", is_same ? "" : "nearly ",
                printer->dump->final ? "" : " until then");
        return;
    }
    fputs("The peak was ", printer->out);
    print_figure(printer, EXPORT_MAX);
    print_peak_time(printer);
    print_holders(printer, EXPORT_MAX, "held", "it");
    fputs(".\n", printer->out);
}

/* Print how the live memory changed since the heap's first dump. */
static void print_growth(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_dump *first = &heap->dumps[0], *dump = printer->dump;
    if (dump == first || bytes_in(printer, EXPORT_SPACE) < 0.5)
        return;
    const struct estimate_shown now = estimate_total(heap, dump, EXPORT_SPACE, false);
    const struct estimate_shown then = estimate_total(heap, first, EXPORT_SPACE, false);
    double change = now.value - then.value;
    double room = change > 0 ? hypot(now.value - now.interval.low, then.interval.high - then.value)
                             : hypot(now.interval.high - now.value, then.value - then.interval.low);
    if (!(fabs(change) > room) || fabs(change) < 0.5)
        return;
    fprintf(printer->out, "That is %s %s than at the first dump, %s before.\n",
            format_bytes(fabs(change)).bytes, change > 0 ? "more" : "less",
            format_time((double)(dump->boottime_ns - first->boottime_ns) / 1e9).bytes);
}

/* Print churn by the highest peak that the samples leave room for. */
static void print_churn(const struct printer *printer)
{
    const struct profile_dump *dump = printer->dump;
    if (export_view_is_unknown(printer->heap, EXPORT_MAX) || dump->exact_calls < CHURN_CALLS)
        return;
    const struct estimate_shown peak = estimate_total(printer->heap, dump, EXPORT_MAX, false);
    if (!(peak.interval.high >= 1) || (double)dump->exact_bytes < CHURN_TIMES * peak.interval.high)
        return;
    fprintf(printer->out, "It allocated %s in %s calls, %s%s times its peak",
            format_bytes((double)dump->exact_bytes).bytes,
            format_count((double)dump->exact_calls).bytes,
            peak.interval.high > peak.value ? "at least " : "",
            format_count((double)dump->exact_bytes / peak.interval.high).bytes);
    print_holders(printer, EXPORT_ALLOC_OBJECTS, "made", "the calls");
    fputs(" (--view alloc_objects).\n", printer->out);
}

/* Sum up the peaks of the process's heaps: the most of its memory that they explain. */
static double peaks_of(const struct profile *profile, uint32_t process, size_t *heaps)
{
    double sum = 0;
    *heaps = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->process != process || heap->dump_count == 0 || heap->unseen ||
            export_view_is_unknown(heap, EXPORT_MAX))
            continue;
        sum += estimate_total(heap, &heap->dumps[heap->dump_count - 1], EXPORT_MAX, false).value;
        ++*heaps;
    }
    return sum;
}

static bool has_much_absent(const struct rss_rest *rest)
{
    return rest->has_absent && rest->absent_bytes > REST_OF_RSS_BYTES &&
           rest->absent_bytes > rest->live_bytes / 3;
}

/* Print how much of the live memory is not resident. */
static void print_absent(const struct printer *printer, const struct rss_rest *rest)
{
    fprintf(printer->out,
            ". Of %s live in malloc's heap, %s was in pages that were never touched, or are "
            "swapped out",
            format_bytes(rest->live_bytes).bytes, format_bytes(rest->absent_bytes).bytes);
}

/* Print what else was resident, with the tool for it. */
static void print_parts(const struct printer *printer, const struct rss_rest *rest)
{
    fprintf(printer->out, ". Of %s that were read, ", format_bytes((double)rest->rss_bytes).bytes);
    for (size_t i = 0; i < rest->count; i++) {
        const struct rss_rest_part *part = &rest->parts[i];
        fprintf(printer->out, "%s%s", i > 0 ? ", " : "", format_bytes(part->bytes).bytes);
        if (part->margin >= 0.5)
            fprintf(printer->out, " ± %s", format_bytes(part->margin).bytes);
        fprintf(printer->out, "%s %s", i > 0 ? "" : " is", part->words);
        if (part->tool != NULL)
            fprintf(printer->out, " (%s)", part->tool);
    }
    fputs("; report --rss has all", printer->out);
}

/* Print what part of the resident memory the heaps are: if that is known by readings only, which
 * come a few times a second, at most so much. */
static void print_resident(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_process *process = &printer->profile->processes[heap->process];
    const struct process_peak resident = process_memory_peak(process);
    size_t heaps;
    double rss = (double)resident.bytes;
    double peaks = peaks_of(printer->profile, heap->process, &heaps);
    if (rss == 0 || peaks < 0.5 || printer->dump != &heap->dumps[heap->dump_count - 1])
        return;
    const struct rss_moment moment = rss_moment_of(printer->profile, heap, printer->dump, 0);
    struct rss_rest rest;
    bool has_rest = rss_rest_of(&rest, &moment), is_much;
    bool is_absent = has_rest && has_much_absent(&rest);
    const char *whose = heaps > 1 ? "sum of the heaps' peaks" : "heap's peak";
    /* A peak between readings says nothing of the resident memory then. */
    if (peaks > rss && resident.is_at_least && !is_absent)
        return;
    fputs("Resident memory ", printer->out);
    if (!heap->status.from_startup && rss > (double)resident.first_bytes)
        fprintf(printer->out, "grew by %s to ",
                format_bytes(rss - (double)resident.first_bytes).bytes);
    else
        fputs("reached ", printer->out);
    fprintf(printer->out, "%s%s, ", resident.is_at_least ? "at least " : "",
            format_bytes(rss).bytes);
    if (peaks > rss)
        fprintf(printer->out, "less than the %s, %s", whose, format_bytes(peaks).bytes);
    else
        fprintf(printer->out, "of which the %s%s is at most %s", whose,
                heap->status.from_startup ? "" : " since the profile began",
                format_share(100 * peaks / rss).bytes);
    is_much = (rss - peaks > REST_OF_RSS_BYTES && peaks < rss * 2 / 3) ||
              (rest.bytes > REST_OF_RSS_BYTES && rest.bytes > (double)rest.rss_bytes / 3);
    if (is_absent)
        print_absent(printer, &rest);
    if (is_much && has_rest && rest.count > 0)
        print_parts(printer, &rest);
    else if (is_much)
        fputs("; report --rss shows what the rest is for", printer->out);
    fputs(".\n", printer->out);
}

static void print_unseen(const struct printer *printer)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    if (profile_partial_reasons(printer->heap, printer->dump, reasons) > 0)
        fprintf(printer->out, "Not all was seen: %s.\n", reasons[0].words);
}

/* Print all sentences, one a line. */
static void print_sentences(const struct printer *printer, bool has_process)
{
    if (holds_much(printer)) {
        print_live(printer);
        print_growth(printer);
        print_peak(printer);
    } else {
        print_peak(printer);
        print_rest(printer);
    }
    print_churn(printer);
    if (has_process)
        print_resident(printer);
    print_unseen(printer);
}

void report_summary_print(const struct printer *printer, bool has_process)
{
    struct printer sentences = *printer;
    struct wrap wrap;
    char *text = NULL;
    size_t length = 0;
    sentences.out = open_memstream(&text, &length);
    sentences.stacks.columns = 0;
    if (sentences.out == NULL)
        return;
    print_sentences(&sentences, has_process);
    FILE *page = wrap_begin(&wrap, printer->out, printer->options->columns);
    if (fclose(sentences.out) == 0 && length > 0) {
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            fprintf(page, "%*s%s\n", SENTENCE_INDENT, "", line);
        fputc('\n', page);
    }
    wrap_end(&wrap, SENTENCE_INDENT);
    free(text);
}
