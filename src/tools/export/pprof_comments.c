/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for values without a field in pprof files. The import reads the first three back. */
#include "tools/export/pprof_comments.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "profile/partial.h"
#include "profile/rollup.h"

struct writer {
    pprof_comment_function *write;
    void *context;
};

static void pprof_comments_put(const struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void pprof_comments_put(const struct writer *writer, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    writer->write(writer->context, text);
}

static void put_loss(const struct writer *writer, enum trace_loss_id id, uint64_t amount)
{
    const struct trace_loss *loss = &trace_losses[id];
    if (amount == 0 || loss->label == NULL)
        return;
    if (trace_loss_is_flag(id))
        pprof_comments_put(writer, "%s: %s", loss->label, loss->words);
    else
        pprof_comments_put(writer, "%s: %" PRIu64 "%s %s", loss->label, amount,
                           trace_loss_unit_name(loss->unit), loss->words);
}

/* Write why the dump is partial, beside the losses that have comments of their own. */
static void put_partial(const struct writer *writer, const struct profile_heap *heap,
                        const struct profile_dump *dump)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    size_t count = profile_partial_reasons(heap, dump, reasons);
    for (size_t i = 0; i < count; i++)
        if (reasons[i].of_dump && strcmp(reasons[i].name, "unseen_allocator") != 0 &&
            strcmp(reasons[i].name, "unexplained_memory") != 0)
            pprof_comments_put(writer, "partial: %s", reasons[i].words);
}

static void put_unseen_allocator(const struct writer *writer, const struct profile_heap *heap)
{
    if (heap->status.unseen_allocator != NULL)
        pprof_comments_put(writer, "missing: what another allocator gave (%s)",
                           heap->status.unseen_allocator);
}

static void put_unexplained(const struct writer *writer, const struct profile_dump *dump)
{
    if (profile_is_unexplained(dump))
        pprof_comments_put(writer,
                           "missing: %" PRIu64 " of %" PRIu64
                           " bytes of anonymous memory, which are in no heap",
                           dump->unexplained.bytes, dump->unexplained.of_bytes);
}

static void put_losses(const struct writer *writer, const struct profile_heap *heap,
                       const struct profile_dump *dump)
{
    const struct trace_heap_dump *status = &heap->status;
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++) {
        uint64_t amount = trace_loss_amount(status, id);
        /* Perfetto's recorder counts such stacks among its statistics. */
        if (id == TRACE_LOST_UNWIND && heap->is_perfettos)
            amount = status->unwinding_errors;
        put_loss(writer, id, amount);
    }
    put_partial(writer, heap, dump);
    if (heap->unfinished && dump->order == heap->dumps[heap->dump_count - 1].order)
        pprof_comments_put(writer, "unfinished: the profiler was killed, or still ran");
}

/* Write the exact totals of the dump's time. */
static void put_totals(const struct writer *writer, const struct profile_heap *heap,
                       const struct profile_dump *dump)
{
    const char *why_partial = profile_totals_why_partial(heap, dump);
    bool is_known = profile_has_totals(heap, dump);
    if (is_known && why_partial == NULL)
        pprof_comments_put(writer, "exact: %" PRIu64 " bytes in %" PRIu64 " calls",
                           dump->exact_bytes, dump->exact_calls);
    else if (is_known)
        pprof_comments_put(writer, "counted: %" PRIu64 " bytes in %" PRIu64 " calls, not all: %s",
                           dump->exact_bytes, dump->exact_calls, why_partial);
}

bool pprof_has_intervals(const struct profile_heap *heap)
{
    bool several =
        heap->first_interval_bytes != 0 && heap->first_interval_bytes != heap->interval_bytes;
    for (size_t i = 0; i < heap->dump_count && !several; i++)
        several = heap->dumps[i].interval_bytes != 0 &&
                  heap->dumps[i].interval_bytes != heap->interval_bytes;
    return several;
}

/* Write what the file is about: a heap of a process, or a sum over the heaps of several, with the
 * interval of its samples. first_bytes: the first of several intervals; 0: there is one. */
static void put_subject(const struct writer *writer, const struct profile_process *process,
                        const struct profile_heap *heap, uint64_t first_bytes, uint64_t last_bytes)
{
    char subject[64], intervals[96];
    if (process->mean_processes > 0)
        snprintf(subject, sizeof(subject), "sum over %.2f processes on average",
                 process->mean_processes);
    else
        snprintf(subject, sizeof(subject), "process %d", process->pid);
    if (first_bytes > 0)
        snprintf(intervals, sizeof(intervals), "intervals from %" PRIu64 " to %" PRIu64,
                 first_bytes, last_bytes);
    else
        snprintf(intervals, sizeof(intervals), "interval %" PRIu64, last_bytes);
    pprof_comments_put(writer, "%s, heap %s, sampling %s bytes", subject, heap->name, intervals);
}

void pprof_comments(const struct profile *profile, const struct profile_heap *heap,
                    const struct profile_dump *dump, pprof_comment_function *write, void *context)
{
    const struct writer to = {write, context}, *writer = &to;
    const struct profile_process *process = &profile->processes[heap->process];
    const struct trace_heap_dump *status = &heap->status;
    if (*process->command != '\0')
        pprof_comments_put(writer, "command: %s", process->command);
    uint64_t first_bytes =
        heap->first_interval_bytes != 0 ? heap->first_interval_bytes : heap->interval_bytes;
    put_subject(writer, process, heap, pprof_has_intervals(heap) ? first_bytes : 0,
                heap->interval_bytes);
    put_totals(writer, heap, dump);
    put_unseen_allocator(writer, heap);
    put_unexplained(writer, dump);
    put_losses(writer, heap, dump);
    if (status->remark != NULL)
        pprof_comments_put(writer, "%s", status->remark);
    if (*profile->filter != '\0')
        pprof_comments_put(writer, "filter: %s", profile->filter);
    if (dump->left_out.callsites > 0)
        pprof_comments_put(
            writer, "left out: %.0f of %.0f bytes live, %.0f of %.0f bytes ever allocated",
            rollup_live_bytes(&dump->left_out.sum.figures), rollup_live_bytes(&dump->total),
            dump->left_out.sum.figures.allocated_bytes, dump->total.allocated_bytes);
    if (*profile->warning != '\0')
        pprof_comments_put(writer, "trace: %s", profile->warning);
}

/* Write what memory there was at the end of the process, in bytes; 0: unknown, or no limit. */
static void put_end(const struct writer *writer, const struct process_end *end)
{
    pprof_comments_put(writer,
                       "memory at its end: resident %" PRIu64 ", limit %" PRIu64 ", in use %" PRIu64
                       ", peak %" PRIu64 ", oom_kills %s, profiler %" PRIu64 ", cgroup %s",
                       end->rss_bytes, end->limit_bytes, end->used_bytes, end->peak_bytes,
                       process_end_oom_kills_name(end), end->profiler_rss_bytes,
                       end->cgroup != NULL ? end->cgroup : "");
}

void pprof_period_comments(const struct profile *profile, const struct profile_heap *heap,
                           const struct profile_dump *dump, const struct pprof_period *period,
                           pprof_comment_function *write, void *context)
{
    const struct writer to = {write, context}, *writer = &to;
    const struct profile_process *process = &profile->processes[heap->process];
    if (!period->for_others && *process->command != '\0')
        pprof_comments_put(writer, "command: %s", process->command);
    put_subject(writer, process, heap, 0, period->interval_bytes);
    if (!period->for_others)
        put_totals(writer, heap, dump);
    put_unseen_allocator(writer, heap);
    put_unexplained(writer, dump);
    if (period->end_reason != NULL && *period->end_reason != '\0')
        pprof_comments_put(writer, "end of the process: %s", period->end_reason);
    if (!period->for_others && process->has_end)
        put_end(writer, &process->end);
    for (uint32_t i = 0; i < dump->new_loss_count; i++) {
        const struct profile_new_loss *loss = &dump->new_losses[i];
        put_loss(writer, loss->id, loss->amount);
    }
    put_partial(writer, heap, dump);
    for (const char *const *comment = period->comments; comment != NULL && *comment != NULL;
         comment++)
        pprof_comments_put(writer, "%s", *comment);
}
