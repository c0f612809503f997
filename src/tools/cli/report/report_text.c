/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the text report: a header of facts, then tables. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/agreement.h"
#include "profile/compare/first_view.h"
#include "profile/partial.h"
#include "profile/process_memory.h"
#include "tools/cli/options/profile_options.h"
#include "tools/cli/report/report_sections.h"
#include "tools/cli/report/report_tables.h"
#include "tools/cli/report/report_unseen.h"
#include "tools/cli/report/unnamed_frames.h"
#include "tools/cli/report/unwind_gaps.h"
#include "tools/print/margin.h"
#include "tools/print/report_end.h"
#include "tools/print/summary.h"
#include "tools/print/widened.h"
#include "tools/print/wrap.h"
#include "util/xmalloc.h"
#include "wire/sampling.h"

#define BRIEF_LINES 5

#define SENTENCE_INDENT 2
/* Columns before the text of the notes at the report's end. */
#define NOTE_INDENT 6u

/* --- the header --- */

static void print_losses(const struct printer *printer)
{
    const struct trace_heap_dump *status = &printer->heap->status;
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++) {
        const struct trace_loss *loss = &trace_losses[id];
        uint64_t amount = trace_loss_amount(status, id);
        if (amount == 0 || loss->label == NULL)
            continue;
        fprintf(printer->out, "  %-13s ", loss->label);
        if (!trace_loss_is_flag(id))
            fprintf(printer->out, "%s ", format_loss(loss->unit, amount).bytes);
        fprintf(printer->out, "%s%s%s\n", loss->words, loss->remedy != NULL ? "; " : "",
                loss->remedy != NULL ? loss->remedy : "");
    }
}

/* Print a total and its margin. */
static void print_total(const struct printer *printer, enum export_view view, bool counts)
{
    const struct estimate_shown total = estimate_total(printer->heap, printer->dump, view, counts);
    struct formatted amount = format_amount(total.value, counts);
    bool one = strcmp(amount.bytes, "1") == 0;
    fprintf(printer->out, "%s%s %s", amount.bytes,
            !counts ? ""
            : one   ? " allocation"
                    : " allocations",
            margin_of_total(&total, view, counts, printer->heap, printer->dump).bytes);
}

/* Print a total in bytes and in allocations, as far as the file has them. */
static void print_bytes_and_calls(const struct printer *printer, enum export_view bytes,
                                  enum export_view calls)
{
    bool has_bytes = !export_view_is_unknown(printer->heap, bytes);
    bool has_calls = !export_view_is_unknown(printer->heap, calls);
    if (has_bytes)
        print_total(printer, bytes, false);
    if (has_bytes && has_calls)
        fputs(" in ", printer->out);
    if (has_calls)
        print_total(printer, calls, true);
    if (!has_bytes)
        fputs(has_calls ? "; their bytes are not in the file" : "not in the file", printer->out);
}

/* Print the allocated total: exact, unless the program sampled by itself. */
static void print_allocated(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_dump *dump = printer->dump;
    FILE *out = printer->out;
    fputs("  allocated     ", out);
    if (profile_has_totals(heap, dump)) {
        fprintf(out, "%s in %s call%s, %s\n", format_bytes((double)dump->exact_bytes).bytes,
                format_count((double)dump->exact_calls).bytes, dump->exact_calls == 1 ? "" : "s",
                profile_totals_why_partial(heap, dump) == NULL ? "exact" : "partial");
        return;
    }
    if (export_view_is_unknown(heap, EXPORT_ALLOC_SPACE)) {
        print_bytes_and_calls(printer, EXPORT_ALLOC_SPACE, EXPORT_ALLOC_OBJECTS);
        fputc('\n', out);
        return;
    }
    const struct profile_estimate all = estimate_of_dump(dump, EXPORT_ALLOC_SPACE);
    print_total(printer, EXPORT_ALLOC_SPACE, false);
    if (!export_view_is_unknown(heap, EXPORT_ALLOC_OBJECTS))
        fprintf(out, " in %s allocations\n", format_count(all.count).bytes);
    else if (heap->is_perfettos)
        fprintf(out, " by %s samples; the trace counts samples, not allocations\n",
                format_count((double)dump->total.samples).bytes);
    else
        fputc('\n', out);
}

static void print_live(const struct printer *printer)
{
    fputs("  live          ", printer->out);
    print_bytes_and_calls(printer, EXPORT_SPACE, EXPORT_OBJECTS);
    fputc('\n', printer->out);
}

static void print_peak(const struct printer *printer)
{
    if (export_view_is_unknown(printer->heap, EXPORT_MAX)) {
        fputs("  peak          not in the file", printer->out);
        return;
    }
    fputs("  peak          ", printer->out);
    print_total(printer, EXPORT_MAX, false);
}

static void print_resident(const struct profile_process *process, FILE *out)
{
    const struct process_peak peak = process_memory_peak(process);
    if (peak.bytes == 0)
        return;
    fprintf(out, "; resident memory reached %s%s", peak.is_at_least ? "at least " : "",
            format_bytes((double)peak.bytes).bytes);
    if (peak.profiler_bytes == PROFILE_UNKNOWN_BYTES)
        fputs(", the profiler's included", out);
    else
        fprintf(out, ", and the profiler's own %s",
                format_bytes((double)peak.profiler_bytes).bytes);
}

/* Print one line of figures that disagree; `amount` formats them. */
static void print_gap(const struct printer *printer, const struct profile_gap *gap, double exact,
                      const struct profile_estimate *estimate, bool counts)
{
    struct formatted (*amount)(double) = counts ? format_count : format_bytes;
    if (!profile_gap_is_real(gap))
        return;
    const char *unit = counts ? " calls" : "";
    fprintf(printer->out, "  figures       disagree: exact %s%s, estimate %s", amount(exact).bytes,
            unit, amount(counts ? estimate->count : estimate->bytes).bytes);
    if (printer->heap->interval_bytes > 1)
        fprintf(printer->out, " %s",
                margin_of_figure(estimate, counts, printer->heap, printer->dump).bytes);
    fprintf(printer->out, ": %s%s are %s\n", amount(fabs(gap->missing)).bytes, unit,
            gap->missing > 0 ? "in no sample" : "in samples and not in the exact total");
}

/* Warn if chance does not explain the difference: samples are missing, so stacks lack memory. */
static void print_disagreement(const struct printer *printer)
{
    const struct profile_dump *dump = printer->dump;
    struct profile_agreement agreement = profile_agreement_of(printer->heap, dump);
    if (dump->disagrees)
        fputs("  figures       disagree, as the file says: the exact totals and the samples\n",
              printer->out);
    if (!agreement.known || dump->disagrees)
        return;
    const struct profile_estimate all = estimate_of_dump(dump, EXPORT_ALLOC_SPACE);
    print_gap(printer, &agreement.bytes, (double)dump->exact_bytes, &all, false);
    print_gap(printer, &agreement.calls, (double)dump->exact_calls, &all, true);
}

/* Print what the filter left out. The figures above it are the whole heap's. */
static void print_filter(const struct printer *printer)
{
    enum export_view view = printer->options->view;
    if (*printer->profile->filter == '\0')
        return;
    struct rollup_values left = rollup_values_of(&printer->dump->left_out.sum);
    const struct profile_estimate part = estimate_of_view(&left, view);
    const struct profile_estimate whole = estimate_of_dump(printer->dump, view);
    bool counts = export_view_counts_calls(view);
    fputs("  filter        ", printer->out);
    format_print(printer->out, printer->profile->filter, FORMAT_LINE_WIDTH);
    fprintf(printer->out, " leaves out %s\n",
            profile_options_share(estimate_rank(&part, view), estimate_rank(&whole, view), counts)
                .bytes);
}

/* Print the interval, or the range of those by which samples were drawn. */
static void print_sampling(FILE *out, const struct profile_heap *heap, uint64_t samples)
{
    if (sampling_is_off(heap->interval_bytes)) {
        fprintf(out,
                "\n  samples       %s, and none for a time: the program allocated more than its "
                "budget allows to sample. Callsites of then are unknown; ± is 95 %%\n",
                format_count((double)samples).bytes);
        return;
    }
    fprintf(out, "\n  samples       %s, one in ", format_count((double)samples).bytes);
    if (heap->first_interval_bytes != 0 && heap->first_interval_bytes < heap->interval_bytes)
        fprintf(out, "%s to ", format_count((double)heap->first_interval_bytes).bytes);
    fprintf(out, "%s B on average; ± is 95 %%, a callsite below %s may go unseen\n",
            format_count((double)heap->interval_bytes).bytes,
            format_bytes(profile_floor_bytes(heap->interval_bytes)).bytes);
}

static void print_samples(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_dump *dump = printer->dump;
    FILE *out = printer->out;
    if (heap->status.weighed_samples > 0 &&
        heap->status.weighed_samples == heap->status.heap_samples)
        fprintf(out,
                "\n  samples       %s, drawn by the program: each represents its reported size\n",
                format_count((double)dump->total.samples).bytes);
    else if (heap->interval_bytes == 1 && heap->status.weighed_samples > 0)
        fprintf(out,
                "\n  samples       %s, every allocation; %s drawn by the program represent more\n",
                format_count((double)dump->total.samples).bytes,
                format_count((double)heap->status.weighed_samples).bytes);
    else if (printer->heap->interval_bytes == 1) {
        fputs("\n  samples       ", out);
        if ((heap->unknown & PROFILE_UNKNOWN_COUNTS) == 0)
            fprintf(out, "%s, ", format_count((double)dump->total.samples).bytes);
        fprintf(out, "every allocation%s\n",
                printer_is_exact(printer)     ? ": all figures are exact"
                : printer_is_partial(printer) ? " that was not lost"
                                              : "");
    } else if (heap->interval_bytes == 0)
        fputs("\n  samples       at an unknown interval: no ± can be computed\n", out);
    else
        print_sampling(out, heap, dump->total.samples);
    widened_print(out, "  note          ", heap);
}

static void print_unexplained(const struct printer *printer, FILE *out)
{
    const struct memory_unexplained *unexplained = &printer->dump->unexplained;
    fprintf(out, "  partial       %s of ", format_bytes((double)unexplained->bytes).bytes);
    fprintf(out,
            "%s of anonymous memory is in no heap: the program mapped it, or an allocator that the "
            "profiler does not know. Of malloc nothing is missing.%s What comes by the program's "
            "own system calls, only its run time's profiler sees\n",
            format_bytes((double)unexplained->of_bytes).bytes,
            printer->profile->wants_mmap ? ""
                                         : " --heaps libc.malloc,libc.mmap records who maps memory "
                                           "through the C library.");
}

static void print_partial(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_dump *dump = printer->dump;
    FILE *out = printer->out;
    if (dump->incomplete)
        fputs("  partial       samples of this dump are missing from the trace: all but the exact "
              "totals are too low\n",
              out);
    else if (heap->status.unseen_allocator != NULL) {
        fputs("  partial       another allocator of the process (", out);
        format_print(out, heap->status.unseen_allocator, FORMAT_WORD_WIDTH);
        fputs(") was not profiled: its memory is missing from all figures\n", out);
    } else if (profile_is_unexplained(dump))
        print_unexplained(printer, out);
    else if (profile_totals_why_partial(heap, dump) != NULL)
        fputs("  partial       all figures leave out what was lost, the totals too\n", out);
    else if (printer_is_partial(printer))
        fputs("  partial       all but the exact totals leave out what was lost\n", out);
    if (profile_lacks_frees(heap))
        fputs("  partial       frees were lost: live memory may be less\n", out);
}

/* Print the process, the time and the heap. Files of other profilers may have only the last. */
static void print_subject(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_process *process = &printer->profile->processes[heap->process];
    FILE *out = printer->out;
    bool is_known = true;
    if (process->mean_processes > 0)
        fprintf(out, "  processes     %.1f on average, ", process->mean_processes);
    else if (process->pid != 0)
        fprintf(out, "  process       %d, ", process->pid);
    else
        is_known = false;
    if (!is_known)
        fputs("  heap          ", out);
    if (profile_has_duration(heap, printer->dump))
        fprintf(out, "%.2f s, ",
                (double)(printer->dump->boottime_ns - heap->start_boottime_ns) / 1e9);
    if (is_known)
        fputs("heap ", out);
    format_print(out, heap->name, FORMAT_WORD_WIDTH);
}

/* Print the facts about a heap, one a line after its label. */
static void print_facts(const struct printer *printer)
{
    const struct profile_heap *heap = printer->heap;
    const struct profile_dump *dump = printer->dump;
    const struct profile_process *process = &printer->profile->processes[heap->process];
    FILE *out = printer->out;

    print_subject(printer);
    if (heap->status.allocator != NULL && heap->status.allocator[0] != '\0') {
        fputs(" (", out);
        format_print(out, heap->status.allocator, FORMAT_WORD_WIDTH);
        fputc(')', out);
    }
    if (heap->dump_count > 1)
        fprintf(out, ", dump %zu of %zu", (size_t)(dump - heap->dumps) + 1, heap->dump_count);
    fputc('\n', out);
    report_end_print_text(process, dump, out);
    print_allocated(printer);
    print_live(printer);
    print_peak(printer);
    print_resident(process, out);
    print_samples(printer);
    print_filter(printer);
    print_losses(printer);
    print_disagreement(printer);
    unwind_gaps_print_text(printer->gaps, printer->profile, dump, out);
    print_partial(printer);
    if (heap->unfinished && dump == &heap->dumps[heap->dump_count - 1])
        fprintf(out,
                "  unfinished    the profiler was killed, or still runs: what the process did "
                "after %.2f s is unknown\n",
                (double)(dump->boottime_ns - heap->start_boottime_ns) / 1e9);
    if (heap->status.remark != NULL && heap->status.remark[0] != '\0') {
        fputs("  note          ", out);
        format_print(out, heap->status.remark, FORMAT_REASON_WIDTH);
        fputc('\n', out);
    }
}

/* Print the first answer in sentences, which the tables below give reasons for. */
static void print_summary(const struct printer *printer, bool has_process)
{
    struct wrap wrap;
    struct summary summary;
    struct summary_subject subject = {
        .profile = printer->profile,
        .heap = printer->heap,
        .dump = printer->dump,
        .folding = printer->stacks.folding,
        .simple_names = printer->stacks.simple,
        .has_process = has_process,
    };
    subject.of_frames = sums_functions(printer->tables, &subject.function_count);
    if (subject.of_frames == NULL)
        xmalloc_fail(0);
    FILE *page = wrap_begin(&wrap, printer->out, printer->options->columns);
    summary_make(&summary, &subject);
    for (size_t i = 0; i < summary.count; i++) {
        fprintf(page, "%*s", SENTENCE_INDENT, "");
        for (size_t j = 0; j < summary.items[i].count; j++)
            fputs(summary.items[i].parts[j], page);
        fputc('\n', page);
    }
    fputs(summary.count > 0 ? "\n" : "", page);
    wrap_end(&wrap, SENTENCE_INDENT);
    summary_clear(&summary);
}

static void print_head(const struct printer *printer, bool has_process)
{
    const struct profile *profile = printer->profile;
    struct printer facts = *printer;
    struct wrap wrap;
    printer_title(printer, report_process_title(&profile->processes[printer->heap->process]));
    print_summary(printer, has_process);
    facts.out = wrap_begin(&wrap, printer->out, printer->options->columns);
    print_facts(&facts);
    wrap_end(&wrap, PRINTER_FACT_INDENT);
}

/* --- the report --- */

/* Return the title of the live memory. What a process held at its end was never freed; while it
 * runs, that is unknown. */
static const char *title_of_rest(const struct trace_heap_dump *status)
{
    return status->exit_status >= 0 ? "Never freed: still live at the end"
                                    : "Still live at the end";
}

/* Return a view that the file has; EXPORT_VIEWS: none. */
static enum export_view known_view(const struct profile_heap *heap)
{
    static const enum export_view views[] = {EXPORT_MAX, EXPORT_SPACE, EXPORT_ALLOC_SPACE,
                                             EXPORT_OBJECTS, EXPORT_ALLOC_OBJECTS};
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        if (!export_view_is_unknown(heap, views[i]))
            return views[i];
    return EXPORT_VIEWS;
}

static void print_body(const struct printer *printer)
{
    const struct report_options *options = printer->options;
    if (export_view_is_unknown(printer->heap, options->view)) {
        enum export_view instead = known_view(printer->heap);
        printer_title(printer, printer_view_title(options->view));
        fputs("  not in the file\n", printer->out);
        if (instead < EXPORT_VIEWS)
            printer_callsites(printer, instead, options->top, printer_view_title(instead), true);
        return;
    }
    if (options->tree)
        printer_tree(printer);
    if (options->cumulative)
        printer_functions(printer);
    if (options->thread)
        printer_threads(printer);
    if (options->groups.depth > 0)
        printer_groups(printer);
    if (options->tree || options->cumulative || options->thread || options->groups.depth > 0)
        return;
    printer_callsites(printer, options->view, options->top, printer_view_title(options->view),
                      true);
    if (options->view != EXPORT_SPACE && printer->dump->final)
        printer_callsites(printer, EXPORT_SPACE, PRINTER_SECTION_LINES,
                          title_of_rest(&printer->heap->status), false);
    printer_temporary(printer);
}

static const char *title_of_peak_at_end(const struct trace_heap_dump *status)
{
    return status->exit_status >= 0 ? "Never freed: still live at the end, which is the peak"
                                    : "Still live at the end, which is the peak";
}

/* Return whether live memory equals that at the peak, callsite by callsite. */
static bool is_peak(const struct printer *printer)
{
    for (size_t i = 0; i < printer->dump->sample_count; i++) {
        struct rollup_values values = rollup_values_of(printer->dump->samples[i]);
        struct profile_estimate live = estimate_of_view(&values, EXPORT_SPACE);
        struct profile_estimate peak = estimate_of_view(&values, EXPORT_MAX);
        if (fabs(live.bytes - peak.bytes) >= 0.5 || fabs(live.count - peak.count) >= 0.5)
            return false;
    }
    return true;
}

static void print_brief(const struct printer *printer)
{
    struct profile_estimate live = estimate_of_dump(printer->dump, EXPORT_SPACE);
    struct profile_estimate all = estimate_of_dump(printer->dump, EXPORT_ALLOC_SPACE);
    if (all.bytes < 0.5)
        return;
    bool peak_is_end = is_peak(printer);
    printer_callsites(printer, EXPORT_MAX, BRIEF_LINES,
                      peak_is_end ? title_of_peak_at_end(&printer->heap->status)
                                  : printer_view_title(EXPORT_MAX),
                      false);
    if (live.bytes >= 0.5 && !peak_is_end)
        printer_callsites(printer, EXPORT_SPACE, BRIEF_LINES, title_of_rest(&printer->heap->status),
                          false);
}

/* Print the sums of samples that the trace contains one by one (stream_allocations). */
static void print_streams(const struct profile *profile, const struct report_options *options,
                          FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < profile->stream_count; i++) {
        const struct profile_stream *stream = &profile->streams[i];
        int32_t pid = report_pid_of_stream(profile, stream);
        if (options->choice.pid != 0 && options->choice.pid != pid)
            continue;
        fprintf(out, "%s  process %d, heap %u: %s allocations, which represent %s",
                any ? "" : "\nStreamed one by one\n", pid, stream->heap_id,
                format_count((double)stream->allocations).bytes,
                format_bytes(stream->allocated_bytes).bytes);
        fprintf(out, " in %s; %s frees", format_count(stream->allocated_count).bytes,
                format_count((double)stream->frees).bytes);
        if (stream->undone_frees > 0)
            fprintf(out, "; %s of these did not happen",
                    format_count((double)stream->undone_frees).bytes);
        if (stream->missing > 0)
            fprintf(out, "; the trace has lost %s events of the process",
                    format_count((double)stream->missing).bytes);
        fputc('\n', out);
        any = true;
    }
}

/* Print frames without names. A brief report leaves this to its caller, which has more reasons. */
static void print_unnamed(const struct profile *profile, const struct report_options *options,
                          FILE *out)
{
    struct unnamed_modules unnamed;
    if (options->brief)
        return;
    unnamed_collect(&unnamed, profile, options, NULL);
    unnamed_print_text(out, &unnamed, options, options->top);
    unnamed_clear(&unnamed);
}

/* Print what concerns more than one heap. */
static void print_notes(const struct report_sections *sections, const struct profile *profile,
                        const struct report_options *options, FILE *out)
{
    struct wrap wrap;
    FILE *page = wrap_begin(&wrap, out, options->columns);
    report_sections_print_hidden(sections, options, page);
    print_streams(profile, options, page);
    report_unprofiled_print(profile, page);
    print_unnamed(profile, options, page);
    if (profile->warning[0] != '\0') {
        fputs("\nwarning: ", page);
        format_print(page, profile->warning, FORMAT_REASON_WIDTH);
        fputc('\n', page);
    }
    wrap_end(&wrap, NOTE_INDENT);
}

/* `has_process`: it is the first heap of its process. */
static void print_heap(const struct printer *printer, bool has_process)
{
    print_head(printer, has_process);
    if (printer->options->brief)
        print_brief(printer);
    else if (printer->dump->sample_count + printer->dump->left_out.callsites > 0)
        print_body(printer);
}

/* Return the view that answers first, for the largest heap of those that the options ask for. */
static enum export_view choose_view(const struct profile *profile, const struct folding *folding,
                                    const struct report_options *options)
{
    const struct profile_heap *largest = NULL;
    const struct profile_dump *its_dump = NULL;
    struct rollup_size most = {0};
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        const struct profile_dump *dump = dump_choice_of(&options->choice, profile, heap);
        if (dump == NULL || heap->unseen)
            continue;
        const struct rollup_size size = rollup_size_of(dump);
        if (largest != NULL && rollup_size_compare(&size, &most) >= 0)
            continue;
        most = size;
        largest = heap;
        its_dump = dump;
    }
    return largest == NULL ? EXPORT_SPACE : first_view(profile, folding, largest, its_dump);
}

int report_print_text(const struct profile *profile, const struct report_options *given, FILE *out)
{
    struct report_options chosen = *given;
    const struct report_options *options = &chosen;
    struct report_sections sections = {0};
    struct folding folding = {0};
    struct sums_tables tables = {.profile = profile};
    struct unwind_gap_finder gaps = {0};
    struct report_unseen unseen;
    xmalloc_code(folding_make(&folding, profile));
    if (given->chooses_view)
        chosen.view = choose_view(profile, &folding, given);
    report_sections_make(&sections, profile, options);
    if (sections.count == 0) {
        folding_clear(&folding);
        report_sections_clear(&sections);
        return -ENOENT;
    }
    report_unseen_make(&unseen, profile, &sections);
    report_sections_print_processes(&sections, profile, options, out);
    for (size_t i = 0; i < sections.count; i++) {
        struct printer printer = {
            .profile = profile,
            .tables = &tables,
            .gaps = &gaps,
            .options = options,
            .heap = sections.items[i].heap,
            .dump = sections.items[i].dump,
            .out = out,
        };
        printer_set_format(&printer, options->all_frames ? NULL : &folding);
        if (sections.items[i].hidden)
            continue;
        if (!report_unseen_print(&unseen, i, &printer))
            print_heap(&printer, i == 0 || sections.items[i].heap->process !=
                                               sections.items[i - 1].heap->process);
    }
    print_notes(&sections, profile, options, out);
    report_sections_clear(&sections);
    report_unseen_clear(&unseen);
    folding_clear(&folding);
    sums_tables_clear(&tables);
    unwind_gap_finder_clear(&gaps);
    return 0;
}
