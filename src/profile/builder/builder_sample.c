/* SPDX-License-Identifier: Apache-2.0 */
/* Read the samples of ProfilePackets: figures, peaks, and the parts of threads and types. */
#include <math.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_sequence.h"
#include "profile/live_times.h"
#include "util/array.h"

#define TIME_MS_MAX (UINT64_C(1) << 38) /* eight years */

/* --- figures --- */

static const struct proto_member figure_members[] = {
#define FIGURE(member, number) PROTO_MEMBER(number, struct trace_figures, member),
    TRACE_FIGURES(FIGURE)
#undef FIGURE
};

static int take_figures(struct trace_figures *figures, struct proto_span span)
{
    return proto_read_members(PROTO_MEMBERS(figure_members), span, figures);
}

/* Estimate the variance of n samples that represent `bytes` in total, assuming equal sizes. With e
 * = s/p bytes each, s follows from p = 1 - exp(-s/T), and the variance is n e^2 (1-p). */
static double estimate_variance(double bytes, double samples, uint64_t interval)
{
    if (samples <= 0 || bytes <= 0 || interval <= 1)
        return 0;
    double each = bytes / samples, size = each;
    /* A sample represents at least the interval: these samples have the smallest possible size. */
    if (each <= (double)interval)
        return samples * each * each;
    for (int i = 0; i < 30; i++)
        size = each * -expm1(-size / (double)interval);
    return samples * each * each * exp(-size / (double)interval);
}

/* Convert a count. A hostile trace may count to 2^64 and beyond, which exceeds uint64_t. */
static uint64_t whole(double count)
{
    return count < 0x1p63 ? (uint64_t)count : UINT64_C(1) << 63;
}

void builder_estimate_figures(struct trace_figures *figures, uint64_t interval)
{
    figures->samples = whole(figures->allocated_count);
    figures->freed_samples = whole(figures->freed_count);
    figures->allocated_bytes_variance =
        estimate_variance(figures->allocated_bytes, figures->allocated_count, interval);
    figures->freed_bytes_variance =
        estimate_variance(figures->freed_bytes, figures->freed_count, interval);
    if (figures->freed_bytes_variance > figures->allocated_bytes_variance)
        figures->freed_bytes_variance = figures->allocated_bytes_variance;
}

/* Set the number of samples if the file omits it: without variance every allocation was sampled. */
static void fill_peak_samples(struct trace_peak_figures *peak)
{
    if (peak->count_variance == 0)
        peak->samples = peak->count;
}

/* --- taking samples --- */

struct part_entry {
    struct profile_part part;
    struct pending_tag tag;
    struct proto_span figures; /* .at == NULL: none */
};

#define PART(name, member) PROTO_MEMBER(PB_HEAP_THREAD_FIGURES_##name, struct part_entry, member)

static const struct proto_member part_members[] = {
    PART(TID, part.tid),
    PART(FIGURES, figures),
    PART(TYPE_ID, tag.type),
    PART(CONTEXT_ID, tag.context),
    PART(PEAK_BYTES, part.peak.bytes),
    PART(PEAK_COUNT, part.peak.count),
    PART(PEAK_BYTES_VARIANCE, part.peak.bytes_variance),
    PART(PEAK_COUNT_VARIANCE, part.peak.count_variance),
    PROTO_MEMBER_AS(PB_HEAP_THREAD_FIGURES_PEAK_SAMPLES, struct part_entry, part.peak.samples,
                    PROTO_COUNT_TO_DOUBLE),
};

/* Read one more part of a sample. */
static int take_part(struct builder *builder, struct pending_dump *dump, struct proto_span message,
                     struct profile_sample *sample, bool *has_figures)
{
    struct part_entry entry = {0};
    struct profile_part *part = &entry.part;
    if (proto_read_members(PROTO_MEMBERS(part_members), message, &entry) < 0)
        return -EBADMSG;
    *has_figures = entry.figures.at != NULL;
    if (*has_figures && take_figures(&part->figures, entry.figures) < 0)
        return -EBADMSG;
    if (ARRAY_RESERVE(&dump->parts, &dump->part_capacity, dump->part_count, 1) < 0 ||
        ARRAY_RESERVE(&dump->tags, &dump->tag_capacity, dump->part_count, 1) < 0)
        return builder_fail(builder);
    fill_peak_samples(&part->peak);
    dump->tags[dump->part_count] = entry.tag;
    dump->parts[dump->part_count++] = *part;
    sample->part_count++;
    sample->tagged |= entry.tag.type != 0 || entry.tag.context != 0;
    return 0;
}

int builder_put_sample(struct builder *builder, struct pending_dump *dump,
                       const struct pending_origin *origin, const struct profile_sample *sample)
{
    if (ARRAY_RESERVE(&dump->samples, &dump->sample_capacity, dump->sample_count, 1) < 0 ||
        ARRAY_RESERVE(&dump->origins, &dump->origin_capacity, dump->sample_count, 1) < 0)
        return builder_fail(builder);
    dump->origins[dump->sample_count] = *origin;
    if (origin->known == NULL)
        dump->samples[dump->sample_count] = *sample;
    dump->sample_count++;
    return builder_keep(builder, 1);
}

/* A single part without figures is the whole sample, which gets its thread. */
static void take_single(struct pending_dump *dump, struct profile_sample *sample,
                        struct pending_origin *origin)
{
    dump->part_count--;
    sample->single.tid = dump->parts[dump->part_count].tid;
    origin->tag = dump->tags[dump->part_count];
    origin->is_single = true;
}

/* --- times --- */

struct times_entry {
    uint64_t slice_ms, oldest_ms;
    struct proto_span samples, bytes; /* lists; .at == NULL: none */
};

static const struct proto_member times_members[] = {
    PROTO_MEMBER(PB_HEAP_LIVE_TIMES_SLICE_MS, struct times_entry, slice_ms),
    PROTO_MEMBER(PB_HEAP_LIVE_TIMES_OLDEST_MS, struct times_entry, oldest_ms),
    PROTO_MEMBER(PB_HEAP_LIVE_TIMES_SAMPLES, struct times_entry, samples),
    PROTO_MEMBER(PB_HEAP_LIVE_TIMES_BYTES, struct times_entry, bytes),
};

/* Keep the times of a sample. Without a sample in them they are unknown. */
static int take_times(struct builder *builder, struct profile_sample *sample,
                      struct proto_span message)
{
    struct times_entry entry = {0};
    struct trace_live_times times = {0};
    bool any = false;
    if (proto_read_members(PROTO_MEMBERS(times_members), message, &entry) < 0)
        return -EBADMSG;
    for (uint32_t i = 0; i < TRACE_TIME_SLICES && entry.samples.at < entry.samples.end; i++) {
        uint64_t samples, bytes = 0;
        if (!proto_read_varint(&entry.samples, &samples) ||
            (entry.bytes.at < entry.bytes.end && !proto_read_varint(&entry.bytes, &bytes)))
            return -EBADMSG;
        times.samples[i] = samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
        times.bytes[i] = bytes < PROFILE_BYTES_MAX ? (double)bytes : (double)PROFILE_BYTES_MAX;
        any |= samples > 0;
    }
    if (!any || entry.slice_ms == 0 || entry.slice_ms > TIME_MS_MAX ||
        entry.oldest_ms > TIME_MS_MAX)
        return 0;
    times.slice_ms = entry.slice_ms;
    times.oldest_ms = entry.oldest_ms;
    struct profile_times *kept = builder_memory(builder, profile_times_bytes(&times));
    if (kept == NULL)
        return builder->error;
    profile_times_keep(&times, kept);
    sample->times = kept;
    return 0;
}

/* A HeapSample, whose fields mean something only together. */
struct sample_entry {
    uint64_t callstack; /* id */
    struct profile_sample sample;
    struct proto_span estimate, times; /* .at == NULL: none */
    double max, max_count;
    bool at_max, part_has_figures;
};

#define SAMPLE(name) PB_PROFILE_PACKET_HEAP_SAMPLE_##name
#define MEMBER(name, member) PROTO_MEMBER(SAMPLE(name), struct sample_entry, member)
#define COUNTER(name, member)                                                                      \
    PROTO_MEMBER_AS(SAMPLE(name), struct sample_entry, member, PROTO_COUNT_TO_DOUBLE)

static const struct proto_member sample_members[] = {
    MEMBER(CALLSTACK_ID, callstack),
    COUNTER(SELF_ALLOCATED, sample.figures.allocated_bytes),
    COUNTER(SELF_FREED, sample.figures.freed_bytes),
    MEMBER(ESTIMATE, estimate),
    MEMBER(LIVE_TIMES, times),
    COUNTER(ALLOC_COUNT, sample.figures.allocated_count),
    COUNTER(FREE_COUNT, sample.figures.freed_count),
    MEMBER(PEAK_BYTES, sample.peak.bytes),
    MEMBER(PEAK_COUNT, sample.peak.count),
    MEMBER(PEAK_BYTES_VARIANCE, sample.peak.bytes_variance),
    MEMBER(PEAK_COUNT_VARIANCE, sample.peak.count_variance),
    COUNTER(PEAK_SAMPLES, sample.peak.samples),
    COUNTER(SELF_MAX, max),
    COUNTER(SELF_MAX_COUNT, max_count),
};

static int finish_sample(struct builder *builder, struct pending_dump *dump,
                         struct sample_entry *entry, struct pending_origin *origin)
{
    struct profile_sample *sample = &entry->sample;
    bool has_estimate = entry->estimate.at != NULL;
    if (entry->at_max) {
        dump->status.dump_at_max = true;
        if (sample->peak.bytes == 0) {
            sample->peak.bytes = entry->max;
            sample->peak.count = entry->max_count;
        }
        if (!has_estimate) {
            sample->figures.allocated_bytes = entry->max;
            sample->figures.allocated_count = entry->max_count;
        }
    }
    if (!has_estimate) {
        /* Only Perfetto's recorder writes no estimates. */
        builder->profile->heaps[dump->heap].is_perfettos = true;
        builder_estimate_figures(&sample->figures, dump->status.interval_bytes);
        if (entry->at_max)
            sample->peak.bytes_variance = sample->figures.allocated_bytes_variance;
    } else if (take_figures(&sample->figures, entry->estimate) < 0) {
        return -EBADMSG;
    }
    fill_peak_samples(&sample->peak);
    origin->is_single = false;
    if (sample->part_count == 1 && !entry->part_has_figures)
        take_single(dump, sample, origin);
    return entry->times.at != NULL ? take_times(builder, sample, entry->times) : 0;
}

int builder_read_sample(struct builder *builder, struct pending_dump *dump,
                        struct proto_span message, struct profile_sample *sample,
                        struct pending_origin *origin, enum builder_sample_kind *kind)
{
    struct sample_entry entry = {.part_has_figures = true};
    struct proto_field field;
    int status, code = 0;
    *sample = (struct profile_sample){0};
    while (code == 0 && (status = proto_next(&message, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        entry.at_max |= field.number == SAMPLE(SELF_MAX);
        if (field.number == SAMPLE(THREADS))
            code = take_part(builder, dump, field.span, &entry.sample, &entry.part_has_figures);
        else
            proto_store(PROTO_MEMBERS(sample_members), &field, &entry);
    }
    if (code == 0)
        code = finish_sample(builder, dump, &entry, origin);
    if (code < 0)
        return code;
    *sample = entry.sample;
    origin->callstack = entry.callstack;
    *kind = SAMPLE_OF_PEAK;
    if (!entry.at_max && entry.estimate.at != NULL)
        *kind = SAMPLE_OF_ITS_BYTES;
    else if (!entry.at_max && sample->part_count == 0)
        *kind = SAMPLE_OF_COUNTERS;
    return 0;
}

int builder_take_sample(struct builder *builder, struct builder_sequence *sequence,
                        struct pending_dump *dump, struct proto_span entry)
{
    struct pending_origin origin = {0};
    struct profile_sample sample;
    enum builder_sample_kind kind;
    int code = builder_take_unchanged(builder, sequence, dump, entry, &origin);
    if (code != 0)
        return code < 0 ? code : 0;
    uint64_t kept_callstack = origin.callstack; /* the callstack that the kept bytes belong to */
    origin.part_first = dump->part_count;
    code = builder_read_sample(builder, dump, entry, &sample, &origin, &kind);
    if (code < 0)
        return code;
    /* Such bytes do not determine the sample: a later dump must read them again. */
    if (kind != SAMPLE_OF_ITS_BYTES || origin.callstack != kept_callstack)
        origin.kept = 0;
    origin.is_counted = kind == SAMPLE_OF_COUNTERS;
    return builder_put_sample(builder, dump, &origin, &sample);
}

int builder_take_more(struct builder *builder, struct pending_dump *dump, struct proto_span entry)
{
    struct profile_sample sample = {0};
    struct proto_field field;
    struct pending_origin origin = {.part_first = dump->part_count};
    bool has_figures;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&entry, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_HEAP_MORE_FIGURES_CALLSTACK_ID)
            origin.callstack = field.value;
        else if (field.number == PB_HEAP_MORE_FIGURES_THREADS)
            code = take_part(builder, dump, field.span, &sample, &has_figures);
    }
    return code < 0 ? code : builder_put_sample(builder, dump, &origin, &sample);
}
