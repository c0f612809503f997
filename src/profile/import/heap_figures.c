/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the samples of one heap by callsite, and scales the figures of sampling profilers. */
#include "profile/import/heap_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

static int reserve_sample_of(struct heap_figures *heap, uint32_t callsite)
{
    if (callsite < heap->sample_of_size)
        return 0;
    size_t size = heap->builder->profile->callsite_count;
    size += size / 2 + 64;
    uint32_t *grown = reallocarray(heap->sample_of, size, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    memset(grown + heap->sample_of_size, 0, (size - heap->sample_of_size) * sizeof(*grown));
    heap->sample_of = grown;
    heap->sample_of_size = size;
    return 0;
}

struct profile_sample *heap_figures_sample(struct heap_figures *heap, uint32_t callsite)
{
    if (callsite == PROFILE_NONE || reserve_sample_of(heap, callsite) < 0 ||
        ARRAY_RESERVE(&heap->samples, &heap->sample_capacity, heap->sample_count, 1) < 0) {
        builder_fail(heap->builder);
        return NULL;
    }
    uint32_t *index = &heap->sample_of[callsite];
    if (*index == 0) {
        heap->samples[heap->sample_count++] = (struct profile_sample){.callsite = callsite};
        *index = (uint32_t)heap->sample_count;
    }
    return &heap->samples[*index - 1];
}

uint32_t heap_figures_marker(struct builder *builder, const char *name)
{
    uint32_t string = builder_string(builder, name, strlen(name));
    uint32_t frame = builder_frame(builder, PROFILE_NONE, 0, string, 0, 0);
    return frame == PROFILE_NONE ? PROFILE_NONE : builder_callsite(builder, PROFILE_NONE, frame);
}

int heap_figures_part(struct heap_figures *heap, const struct profile_sample *sample,
                      const struct profile_part *part)
{
    uint32_t index = (uint32_t)(sample - heap->samples);
    if (heap->part_count > 0) {
        struct heap_figures_part *last = &heap->parts[heap->part_count - 1];
        if (last->sample == index && last->part.tid == part->tid && last->part.type == part->type &&
            last->part.context == part->context) {
            trace_figures_add(&last->part.figures, &part->figures);
            return 0;
        }
    }
    if (ARRAY_RESERVE(&heap->parts, &heap->part_capacity, heap->part_count, 1) < 0)
        return builder_fail(heap->builder);
    heap->parts[heap->part_count++] = (struct heap_figures_part){index, *part};
    struct profile_sample *owner = &heap->samples[index];
    owner->part_count++;
    owner->tagged |= *part->type != '\0' || *part->context != '\0';
    return 0;
}

/* Sort the parts of all samples, so that those of a sample are adjacent. */
static int order_parts(struct heap_figures *heap)
{
    uint32_t first = 0;
    if (heap->part_count == 0)
        return 0;
    struct profile_part *parts = builder_memory(heap->builder, heap->part_count * sizeof(*parts));
    if (parts == NULL || heap->part_count > UINT32_MAX)
        return builder_fail(heap->builder);
    for (size_t i = 0; i < heap->sample_count; i++) {
        heap->samples[i].parts = parts + first;
        first += heap->samples[i].part_count;
        heap->samples[i].part_count = 0;
    }
    for (size_t i = 0; i < heap->part_count; i++) {
        struct profile_sample *sample = &heap->samples[heap->parts[i].sample];
        parts[sample->parts - parts + sample->part_count++] = heap->parts[i].part;
    }
    return 0;
}

static struct profile_heap *make_heap(struct heap_figures *heap)
{
    struct builder *builder = heap->builder;
    struct profile *profile = builder->profile;
    if (heap->is_made)
        return &profile->heaps[heap->made];
    if (ARRAY_RESERVE(&profile->heaps, &builder->heap_capacity, profile->heap_count, 1) < 0 ||
        ARRAY_RESERVE(&builder->dump_capacities, &builder->dump_capacity_capacity,
                      profile->heap_count, 1) < 0) {
        builder_fail(builder);
        return NULL;
    }
    heap->is_made = true;
    heap->made = (uint32_t)profile->heap_count;
    builder->dump_capacities[profile->heap_count] = 0;
    struct profile_heap *made = &profile->heaps[profile->heap_count++];
    *made = (struct profile_heap){0};
    return made;
}

static void set_process(struct profile_process *process, const struct heap_figures_head *head)
{
    if (head->name != NULL)
        process->name = head->name;
    if (head->command != NULL)
        process->command = head->command;
    process->mean_processes = head->mean_processes;
    if (!head->has_end)
        return;
    process->has_end = true;
    process->end = head->end;
    process->end.pid = head->pid;
    process->end.boottime_ns = head->boottime_ns;
}

static void set_status(struct trace_heap_dump *status, const struct heap_figures_head *head,
                       const char *name)
{
    *status = head->losses;
    status->pid = head->pid;
    status->heap_name = name;
    status->interval_bytes = head->interval_bytes;
    status->first_interval_bytes =
        head->first_interval_bytes != 0 ? head->first_interval_bytes : head->interval_bytes;
    status->start_timestamp_ns = head->start_boottime_ns;
    status->timestamp_ns = head->boottime_ns;
    status->final = !head->unfinished;
    status->exact_bytes = head->exact_bytes;
    status->exact_calls = head->exact_calls;
    status->has_exact_calls = head->has_exact;
    status->peak_live_bytes = head->peak_bytes;
    status->peak_live_count = head->peak_count;
    status->peak_timestamp_ns = head->peak_boottime_ns;
    status->exit_status = -1;
    status->remark = head->remark;
}

/* Make the process and the heap, unless they are there, and set what the head says of them. */
static struct profile_heap *set_heap(struct heap_figures *heap,
                                     const struct heap_figures_head *head)
{
    struct builder *builder = heap->builder;
    uint32_t process = builder_process(builder, head->pid);
    struct profile_heap *made = process == PROFILE_NONE ? NULL : make_heap(heap);
    if (made == NULL) {
        builder_fail(builder);
        return NULL;
    }
    set_process(&builder->profile->processes[process], head);
    made->process = process;
    made->name = head->heap != NULL ? head->heap : builder_text(builder, "libc.malloc", 11);
    made->start_boottime_ns = head->start_boottime_ns;
    made->unknown = head->unknown | (head->peak_bytes > 0 ? 0 : PROFILE_UNKNOWN_PEAK);
    made->unfinished = head->unfinished;
    set_status(&made->status, head, made->name);
    made->interval_bytes = made->status.interval_bytes;
    made->first_interval_bytes = made->status.first_interval_bytes;
    return made;
}

/* Move the samples to the dump. */
static int take_samples(struct heap_figures *heap, struct profile_dump *dump)
{
    struct builder *builder = heap->builder;
    for (size_t i = 0; i < heap->sample_count && builder->error == 0; i++) {
        struct profile_sample *kept = builder_sample(builder);
        if (kept == NULL)
            break;
        *kept = heap->samples[i];
        dump->samples[dump->sample_count++] = kept;
        trace_figures_add(&dump->total, &kept->figures);
        heap->sample_of[kept->callsite] = 0;
    }
    dump->part_count = heap->part_count;
    heap->sample_count = heap->part_count = 0;
    return builder->error;
}

int heap_figures_add_dump(struct heap_figures *heap, const struct heap_figures_head *head)
{
    struct builder *builder = heap->builder;
    struct profile_dump dump = {
        .boottime_ns = head->boottime_ns,
        .start_boottime_ns = head->start_boottime_ns,
        .final = !head->unfinished,
        .incomplete = head->incomplete,
        .disagrees = head->disagrees,
        .unexplained = head->unexplained,
        .exact_bytes = head->exact_bytes,
        .exact_calls = head->exact_calls,
        .sampled_bytes = head->sampled_bytes,
        .sampled_calls = head->sampled_calls,
        .earlier = head->earlier,
        .order = builder->dumps++,
    };
    struct profile_heap *made = builder->error < 0 ? NULL : set_heap(heap, head);
    if (made == NULL)
        return builder->error;
    if (made->dump_count > 0)
        made->dumps[made->dump_count - 1].final = false;
    if (ARRAY_RESERVE(&made->dumps, &builder->dump_capacities[heap->made], made->dump_count, 1) <
            0 ||
        order_parts(heap) < 0 ||
        (dump.samples =
             reallocarray(NULL, heap->sample_count + 1, sizeof(struct profile_sample *))) == NULL)
        return builder_fail(builder);
    int code = take_samples(heap, &dump);
    made->dumps[made->dump_count++] = dump;
    return code;
}

int heap_figures_finish(struct heap_figures *heap, const struct heap_figures_head *head)
{
    return heap_figures_add_dump(heap, head);
}

void heap_figures_free(struct heap_figures *heap)
{
    free(heap->samples);
    free(heap->sample_of);
    free(heap->parts);
}

/* --- estimates --- */

struct heap_estimate heap_estimate_of_samples(double bytes, double samples, uint64_t interval)
{
    struct heap_estimate estimate = {bytes, samples, 0, 0, 0};
    if (!(samples > 0) || !(bytes > 0))
        return estimate;
    estimate.samples = samples < 0x1p63 ? (uint64_t)samples : 0;
    if (interval <= 1)
        return estimate;
    double size = bytes / samples;
    double missed = exp(-size / (double)interval), seen = -expm1(-size / (double)interval);
    estimate.bytes = bytes / seen;
    estimate.count = samples / seen;
    estimate.count_variance = samples * missed / (seen * seen);
    estimate.bytes_variance = estimate.count_variance * size * size;
    return estimate;
}

struct heap_estimate heap_estimate_of_scaled(double bytes, double count, uint64_t interval)
{
    struct heap_estimate estimate = {bytes, count, 0, 0, 0};
    /* Without a count the sizes are unknown. A sample of s bytes stands for w = s/p bytes with a
     * variance of (1-p) w^2 = w s/(e^(s/T) - 1), at most w T, as for the smallest blocks. */
    if (!(count > 0) && bytes > 0 && interval > 1) {
        double samples = bytes / (double)interval;
        estimate.samples = samples < 1 ? 1 : samples < 0x1p63 ? (uint64_t)(samples + 0.5) : 0;
        estimate.bytes_variance = bytes * (double)interval;
    }
    if (!(count > 0) || !(bytes > 0))
        return estimate;
    double size = bytes / count, missed = 0, seen = 1;
    if (interval > 1) {
        missed = exp(-size / (double)interval);
        seen = -expm1(-size / (double)interval);
    }
    double samples = count * seen;
    estimate.samples = samples < 1 ? 1 : samples < 0x1p63 ? (uint64_t)(samples + 0.5) : 0;
    estimate.count_variance = count * missed / seen;
    estimate.bytes_variance = estimate.count_variance * size * size;
    return estimate;
}

struct trace_figures heap_figures_of(const struct heap_estimate *allocated,
                                     const struct heap_estimate *live)
{
    struct trace_figures figures = {
        .allocated_bytes = allocated->bytes,
        .freed_bytes = allocated->bytes - live->bytes,
        .allocated_count = allocated->count,
        .freed_count = allocated->count - live->count,
        .allocated_bytes_variance = allocated->bytes_variance,
        .freed_bytes_variance = fmax(0, allocated->bytes_variance - live->bytes_variance),
        .allocated_count_variance = allocated->count_variance,
        .freed_count_variance = fmax(0, allocated->count_variance - live->count_variance),
        .samples = allocated->samples,
        .freed_samples =
            allocated->samples > live->samples ? allocated->samples - live->samples : 0,
    };
    return figures;
}

struct trace_figures heap_figures_of_period(const struct heap_estimate *allocated,
                                            const struct heap_estimate *live)
{
    struct trace_figures figures = heap_figures_of(allocated, live);
    figures.freed_bytes_variance = allocated->bytes_variance - live->bytes_variance;
    figures.freed_count_variance = allocated->count_variance - live->count_variance;
    figures.freed_samples = allocated->samples - live->samples;
    return figures;
}
