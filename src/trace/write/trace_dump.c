/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's dumps: a heap's samples as ProfilePackets, split below the size limit. Each packet
 * contains the interned data that it needs first.
 *
 * Perfetto's counters are integers. Rounding keeps their order: a growing sum never gives a smaller
 * integer. Freed is limited to allocated. So a counter never decreases, and nothing is freed that
 * was not allocated. The unrounded figures go into our own fields if they differ.
 */
#include <errno.h>

#include "pb_field_numbers.h"
#include "trace.pb-c.h"
#include "trace/process_end.h"
#include "trace/proto_fields.h"
#include "trace/write/writer_state.h"

typedef Perfetto__Protos__ProfilePacket__ProcessHeapSamples HeapSamples;
typedef Perfetto__Protos__ProfilePacket__ProcessStats HeapStats;

/* How much is written of a sample's parts. A part has the figures of one thread, type and context.
 */
enum part_detail {
    PART_ALONE,   /* only thread, type and context: the sample has one part, with its figures */
    PART_FIGURES, /* and figures */
    PART_PEAK,    /* and figures and peak, if any part of the sample has a type or context */
};

/* The size of figures: eleven of 9 bytes, and two counts of at most 11. */
#define FIGURES_BYTES_MAX 121u
/* The size of live times: two numbers, and two lists of numbers. */
#define LIST_BYTES_MAX (TRACE_TIME_SLICES * PROTO_VARINT_BYTES_MAX)
#define TIMES_BYTES_MAX (2 * PROTO_FIELD_BYTES_MAX + 2 * (8 + LIST_BYTES_MAX))
/* Limits of the size of a sample without threads, and of each thread. */
#define SAMPLE_BYTES_MAX (320u + 12u + TIMES_BYTES_MAX)
#define THREAD_BYTES_MAX 240u

/* Maximum of parts in one message. The rest goes into further messages. */
#define THREADS_OF_MESSAGE 1000u

static uint64_t round_counter(double value)
{
    if (!(value > 0))
        return 0;
    return value >= 0x1p63 ? UINT64_C(1) << 63 : (uint64_t)(value + 0.5);
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* --- one sample --- */

/* A sample's integers, as Perfetto has them. */
struct sample_counters {
    uint64_t allocated_bytes, freed_bytes, allocated_count, freed_count;
    uint64_t max_bytes, max_count;
    bool has_max;
};

static struct sample_counters counters_of(const struct trace_figures *figures)
{
    struct sample_counters counters = {
        .allocated_bytes = round_counter(figures->allocated_bytes),
        .allocated_count = round_counter(figures->allocated_count),
    };
    counters.freed_bytes = at_most(round_counter(figures->freed_bytes), counters.allocated_bytes);
    counters.freed_count = at_most(round_counter(figures->freed_count), counters.allocated_count);
    return counters;
}

/* Return the callstack's bytes and count at the heap's maximum: as a maximum, or, once they have
 * decreased from one dump to the next, as the difference of two counters (trace_peaks.c). */
static struct sample_counters counters_at_max(struct trace_writer *writer,
                                              const struct trace_heap_sample *sample)
{
    struct trace_peak peak = {.bytes = round_counter(sample->peak.bytes),
                              .count = round_counter(sample->peak.count)};
    if (trace_peaks_next(&writer->peaks, sample->callstack, &peak) < 0)
        writer->error = -ENOMEM;
    if (peak.freed_bytes == 0 && peak.freed_count == 0)
        return (struct sample_counters){.max_bytes = peak.bytes,
                                        .max_count = peak.count,
                                        .has_max = peak.bytes != 0 || peak.count != 0};
    return (struct sample_counters){.allocated_bytes = peak.bytes + peak.freed_bytes,
                                    .allocated_count = peak.count + peak.freed_count,
                                    .freed_bytes = peak.freed_bytes,
                                    .freed_count = peak.freed_count};
}

static uint8_t *put_counters(uint8_t *at, const struct sample_counters *counters)
{
    at = proto_field_count(at, PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_ALLOCATED,
                           counters->allocated_bytes);
    at = proto_field_count(at, PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_FREED, counters->freed_bytes);
    at =
        proto_field_count(at, PB_PROFILE_PACKET_HEAP_SAMPLE_ALLOC_COUNT, counters->allocated_count);
    at = proto_field_count(at, PB_PROFILE_PACKET_HEAP_SAMPLE_FREE_COUNT, counters->freed_count);
    /* Without self_max, readers ignore the count. */
    if (counters->has_max)
        at = proto_field_uint(at, PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_MAX, counters->max_bytes);
    return proto_field_count(at, PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_MAX_COUNT, counters->max_count);
}

/* Write an estimate, unless the counter has its value. Without a counter readers take it as 0. */
static uint8_t *put_estimate(uint8_t *at, uint32_t field, double estimate, uint64_t counter)
{
    return estimate != (double)counter ? proto_field_double(at, field, estimate) : at;
}

/* Write the figures, except those that equal the counters. */
static uint8_t *put_figures(uint8_t *at, const struct trace_figures *figures,
                            const struct sample_counters *counters)
{
    at = put_estimate(at, PB_HEAP_FIGURES_ALLOCATED_BYTES, figures->allocated_bytes,
                      counters->allocated_bytes);
    at = put_estimate(at, PB_HEAP_FIGURES_FREED_BYTES, figures->freed_bytes, counters->freed_bytes);
    at = put_estimate(at, PB_HEAP_FIGURES_ALLOCATED_COUNT, figures->allocated_count,
                      counters->allocated_count);
    at = put_estimate(at, PB_HEAP_FIGURES_FREED_COUNT, figures->freed_count, counters->freed_count);
    at = proto_field_figure(at, PB_HEAP_FIGURES_ALLOCATED_BYTES_VARIANCE,
                            figures->allocated_bytes_variance);
    at =
        proto_field_figure(at, PB_HEAP_FIGURES_FREED_BYTES_VARIANCE, figures->freed_bytes_variance);
    at = proto_field_figure(at, PB_HEAP_FIGURES_ALLOCATED_COUNT_VARIANCE,
                            figures->allocated_count_variance);
    at =
        proto_field_figure(at, PB_HEAP_FIGURES_FREED_COUNT_VARIANCE, figures->freed_count_variance);
    at = proto_field_count(at, PB_HEAP_FIGURES_SAMPLES, figures->samples);
    at = proto_field_count(at, PB_HEAP_FIGURES_FREED_SAMPLES, figures->freed_samples);
    at = proto_field_figure(at, PB_HEAP_FIGURES_TEMPORARY_BYTES, figures->temporary_bytes);
    at = proto_field_figure(at, PB_HEAP_FIGURES_TEMPORARY_COUNT, figures->temporary_count);
    return proto_field_figure(at, PB_HEAP_FIGURES_LIFETIME_MS_SUM, figures->lifetime_ms_sum);
}

/* Write a packed list, without the zeros at its end. */
static uint8_t *put_list(uint8_t *at, uint32_t field, const uint64_t values[TRACE_TIME_SLICES])
{
    uint8_t list[LIST_BYTES_MAX], *end = list;
    size_t count = TRACE_TIME_SLICES;
    while (count > 0 && values[count - 1] == 0)
        count--;
    for (size_t i = 0; i < count; i++)
        end += proto_encode_varint(end, values[i]);
    return proto_field_message(at, field, list, (size_t)(end - list));
}

static uint8_t *put_times(uint8_t *at, const struct trace_live_times *times)
{
    uint8_t message[TIMES_BYTES_MAX], *end = message;
    uint64_t samples[TRACE_TIME_SLICES], bytes[TRACE_TIME_SLICES];
    for (size_t i = 0; i < TRACE_TIME_SLICES; i++) {
        samples[i] = times->samples[i];
        bytes[i] = round_counter(times->bytes[i]);
    }
    end = proto_field_uint(end, PB_HEAP_LIVE_TIMES_SLICE_MS, times->slice_ms);
    end = proto_field_count(end, PB_HEAP_LIVE_TIMES_OLDEST_MS, times->oldest_ms);
    end = put_list(end, PB_HEAP_LIVE_TIMES_SAMPLES, samples);
    end = put_list(end, PB_HEAP_LIVE_TIMES_BYTES, bytes);
    return proto_field_message(at, PB_PROFILE_PACKET_HEAP_SAMPLE_LIVE_TIMES, message,
                               (size_t)(end - message));
}

/* Return the number of the peak's samples, or 0 to omit it. Without variance every allocation was
 * sampled, and readers take the count. */
static uint64_t peak_samples_to_write(const struct trace_peak_figures *peak)
{
    return peak->count_variance != 0 ? round_counter(peak->samples) : 0;
}

/* Write a peak to the five fields of a sample or of a part. */
#define PUT_PEAK(at, message, peak)                                                                \
    do {                                                                                           \
        at = proto_field_figure(at, message##_PEAK_BYTES, (peak)->bytes);                          \
        at = proto_field_figure(at, message##_PEAK_COUNT, (peak)->count);                          \
        at = proto_field_figure(at, message##_PEAK_BYTES_VARIANCE, (peak)->bytes_variance);        \
        at = proto_field_figure(at, message##_PEAK_COUNT_VARIANCE, (peak)->count_variance);        \
        at = proto_field_count(at, message##_PEAK_SAMPLES, peak_samples_to_write(peak));           \
    } while (0)

static enum part_detail detail_of(const struct trace_heap_sample *sample)
{
    if (sample->thread_count == 1)
        return PART_ALONE;
    for (size_t i = 0; i < sample->thread_count; i++) {
        if (sample->threads[i].type != 0 || sample->threads[i].context != 0)
            return PART_PEAK;
    }
    return PART_FIGURES;
}

static void put_thread(struct proto_buffer *buffer, uint32_t field,
                       const struct trace_thread_figures *thread, enum part_detail detail)
{
    static const struct sample_counters none;
    uint8_t message[THREAD_BYTES_MAX], figures[FIGURES_BYTES_MAX];
    /* A negative number takes ten bytes, as protobuf's int32 does. */
    uint8_t *at = proto_field_uint(message, PB_HEAP_THREAD_FIGURES_TID, (uint64_t)thread->tid);
    if (detail != PART_ALONE)
        at = proto_field_message(at, PB_HEAP_THREAD_FIGURES_FIGURES, figures,
                                 (size_t)(put_figures(figures, &thread->figures, &none) - figures));
    at = proto_field_count(at, PB_HEAP_THREAD_FIGURES_TYPE_ID, thread->type);
    at = proto_field_count(at, PB_HEAP_THREAD_FIGURES_CONTEXT_ID, thread->context);
    if (detail == PART_PEAK)
        PUT_PEAK(at, PB_HEAP_THREAD_FIGURES, &thread->peak);
    proto_put_bytes(buffer, field, message, (size_t)(at - message));
}

static size_t threads_of_message(size_t left)
{
    return left < THREADS_OF_MESSAGE ? left : THREADS_OF_MESSAGE;
}

static void put_entry(struct trace_writer *writer, uint32_t field)
{
    struct proto_buffer *entry = &writer->scratch;
    proto_put_bytes(&writer->dump_samples, field, entry->bytes, entry->length);
    if (entry->failed || writer->dump_samples.failed)
        writer->error = -ENOMEM;
}

/* Write parts [first, first + count) as a message of their own. */
static void put_more(struct trace_writer *writer, const struct trace_heap_sample *sample,
                     size_t first, size_t count, enum part_detail detail)
{
    struct proto_buffer *entry = &writer->scratch;
    entry->length = 0;
    proto_put_uint(entry, PB_HEAP_MORE_FIGURES_CALLSTACK_ID, sample->callstack);
    for (size_t i = first; i < first + count; i++)
        put_thread(entry, PB_HEAP_MORE_FIGURES_THREADS, &sample->threads[i], detail);
    put_entry(writer, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_MORE);
}

/* Write the sample with its first `count` parts. */
static void put_sample(struct trace_writer *writer, const struct trace_heap_sample *sample,
                       size_t count, enum part_detail detail)
{
    struct proto_buffer *entry = &writer->scratch;
    uint8_t figures[FIGURES_BYTES_MAX];
    struct sample_counters counters =
        writer->dump_at_max ? counters_at_max(writer, sample) : counters_of(&sample->figures);
    entry->length = 0;
    uint8_t *at = proto_buffer_reserve(entry, SAMPLE_BYTES_MAX);
    if (at != NULL) {
        at = proto_field_uint(at, PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID, sample->callstack);
        at = put_counters(at, &counters);
        uint8_t *end = put_figures(figures, &sample->figures, &counters);
        at = proto_field_message(at, PB_PROFILE_PACKET_HEAP_SAMPLE_ESTIMATE, figures,
                                 (size_t)(end - figures));
        PUT_PEAK(at, PB_PROFILE_PACKET_HEAP_SAMPLE, &sample->peak);
        if (sample->times != NULL)
            at = put_times(at, sample->times);
        entry->length = (size_t)(at - entry->bytes);
    }
    for (size_t i = 0; i < count; i++)
        put_thread(entry, PB_PROFILE_PACKET_HEAP_SAMPLE_THREADS, &sample->threads[i], detail);
    put_entry(writer, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_SAMPLES);
}

/* --- the head, and packets --- */

/* Fields with value zero are omitted: readers take missing fields as zero. */
#define SET_UNLESS_ZERO(message, field, from)                                                      \
    do {                                                                                           \
        (message)->field = (from);                                                                 \
        (message)->has_##field = (message)->field != 0;                                            \
    } while (0)

static void pack_into(struct proto_buffer *buffer, const ProtobufCMessage *message)
{
    buffer->length = 0;
    uint8_t *at = proto_buffer_reserve(buffer, protobuf_c_message_get_packed_size(message));
    if (at != NULL)
        buffer->length = protobuf_c_message_pack(message, at);
}

static void fill_head(HeapSamples *head, const struct trace_heap_dump *dump)
{
    head->has_pid = head->has_timestamp = true;
    head->pid = (uint64_t)dump->pid;
    head->timestamp = dump->timestamp_ns;
    head->heap_name = (char *)(dump->heap_name == NULL ? "libc.malloc" : dump->heap_name);
    SET_UNLESS_ZERO(head, start_timestamp, dump->start_timestamp_ns);
    SET_UNLESS_ZERO(head, sampling_interval_bytes, dump->interval_bytes);
    SET_UNLESS_ZERO(head, orig_sampling_interval_bytes, dump->first_interval_bytes);
    SET_UNLESS_ZERO(head, from_startup, dump->from_startup);
    SET_UNLESS_ZERO(head, rejected_concurrent, dump->rejected_concurrent);
    SET_UNLESS_ZERO(head, disconnected, dump->disconnected);
    SET_UNLESS_ZERO(head, buffer_overran, dump->buffer_overran);
    SET_UNLESS_ZERO(head, buffer_corrupted, dump->buffer_corrupted);
    SET_UNLESS_ZERO(head, hit_guardrail, dump->hit_guardrail);
    SET_UNLESS_ZERO(head, client_error, dump->client_error);
}

static void fill_stats(HeapStats *stats, const struct trace_heap_dump *dump)
{
    stats->has_unwinding_errors = stats->has_heap_samples = stats->has_map_reparses = true;
    stats->has_total_unwinding_time_us = stats->has_client_spinlock_blocked_us = true;
    stats->unwinding_errors = dump->unwinding_errors;
    stats->heap_samples = dump->heap_samples;
    stats->map_reparses = dump->map_reparses;
    stats->total_unwinding_time_us = dump->unwinding_time_us;
    stats->client_spinlock_blocked_us = dump->blocked_us;
}

/* Set the fields that Perfetto does not have. */
static void fill_own(HeapSamples *head, const struct trace_heap_dump *dump)
{
    SET_UNLESS_ZERO(head, exact_bytes, dump->exact_bytes);
    /* Write a zero, too, if nothing was sampled: without the field, readers take the value as
     * unknown. */
    head->has_exact_calls = dump->exact_calls > 0 || dump->heap_samples == 0;
    head->exact_calls = dump->exact_calls;
    SET_UNLESS_ZERO(head, unsent_ring_bytes, dump->unsent_bytes_of_ring);
    SET_UNLESS_ZERO(head, sampled_bytes, dump->sampled_bytes);
    SET_UNLESS_ZERO(head, sampled_calls, dump->sampled_calls);
    SET_UNLESS_ZERO(head, calibration_ratio, dump->calibration_ratio);
    SET_UNLESS_ZERO(head, image, dump->image);
    SET_UNLESS_ZERO(head, peak_highest_bytes, dump->peak_highest_bytes);
    SET_UNLESS_ZERO(head, peak_highest_count, dump->peak_highest_count);
    SET_UNLESS_ZERO(head, peak_live_bytes, dump->peak_live_bytes);
    SET_UNLESS_ZERO(head, peak_live_count, dump->peak_live_count);
    SET_UNLESS_ZERO(head, peak_timestamp, dump->peak_timestamp_ns);
    SET_UNLESS_ZERO(head, final, dump->final);
    head->has_cause = dump->cause != DUMP_CAUSE_NONE;
    head->cause = (Perfetto__Protos__ProfilePacket__ProcessHeapSamples__DumpCause)dump->cause;
    SET_UNLESS_ZERO(head, cause_used_bytes, dump->cause_used_bytes);
    SET_UNLESS_ZERO(head, cause_limit_bytes, dump->cause_limit_bytes);
    head->has_dump_at_max = dump->dump_at_max;
    head->dump_at_max = dump->dump_at_max;
    head->has_exit_status = dump->exit_status != -1;
    head->exit_status = dump->exit_status;
    head->allocator = (char *)dump->allocator;
    head->remark = (char *)dump->remark;
    SET_UNLESS_ZERO(head, other_types, dump->other_types);
    SET_UNLESS_ZERO(head, other_contexts, dump->other_contexts);
    SET_UNLESS_ZERO(head, weighed_samples, dump->weighed_samples);
    SET_UNLESS_ZERO(head, max_overhead_percent, dump->max_overhead_percent);
    head->unseen_allocator = (char *)dump->unseen_allocator;
    for (size_t i = 0; i < TRACE_LOST_PLACES; i++) {
        if (dump->lost[i] != 0)
            head->n_lost = i + 1;
    }
    head->lost = (uint64_t *)dump->lost;
}

/* Write mapping, start and end of each place. */
static void put_places(struct trace_writer *writer, const struct trace_heap_dump *dump)
{
    struct proto_buffer *places = &writer->scratch;
    places->length = 0;
    for (size_t i = 0; i < dump->place_count && i < TRACE_PLACES_MAX; i++) {
        const struct trace_place *place = &dump->places[i];
        proto_put_varint(places, place->mapping);
        proto_put_varint(places, place->start);
        proto_put_varint(places, place->end);
    }
    if (places->length > 0)
        proto_put_bytes(&writer->dump_head, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_PLACES,
                        places->bytes, places->length);
    writer->dump_head.failed |= places->failed;
}

static uint64_t whole(double bytes)
{
    return bytes >= 0.5 && bytes < 0x1p63 ? (uint64_t)(bytes + 0.5) : 0;
}

static void put_sites(struct trace_writer *writer, const struct trace_heap_dump *dump)
{
    struct proto_buffer *sites = &writer->scratch;
    if (dump->site_count == 0)
        return;
    sites->length = 0;
    proto_put_varint(sites, dump->piece_bytes);
    for (size_t i = 0; i < dump->site_count; i++) {
        const struct trace_memory_site *site = &dump->sites[i];
        proto_put_varint(sites, site->callsite);
        proto_put_varint(sites, whole(site->live_bytes));
        proto_put_varint(sites, whole(site->live_margin));
        proto_put_varint(sites, whole(site->absent_bytes));
        proto_put_varint(sites, whole(site->free_bytes));
    }
    proto_put_bytes(&writer->dump_head, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_MEMORY_SITES,
                    sites->bytes, sites->length);
    writer->dump_head.failed |= sites->failed;
}

int trace_writer_dump_begin(struct trace_writer *writer, const struct trace_heap_dump *dump)
{
    if (writer->in_dump)
        trace_writer_dump_end(writer);
    HeapSamples head = PERFETTO__PROTOS__PROFILE_PACKET__PROCESS_HEAP_SAMPLES__INIT;
    HeapStats stats = PERFETTO__PROTOS__PROFILE_PACKET__PROCESS_STATS__INIT;
    fill_head(&head, dump);
    pack_into(&writer->dump_again, &head.base); /* further packets repeat no more than this */
    fill_stats(&stats, dump);
    head.stats = &stats;
    fill_own(&head, dump);
    pack_into(&writer->dump_head, &head.base);
    put_places(writer, dump);
    put_sites(writer, dump);
    if (writer->dump_head.failed || writer->dump_again.failed)
        writer->error = -ENOMEM;
    /* A checkpoint has only one dump per heap. */
    bool is_last = dump->final || writer->sequence != TRACE_SEQUENCE_MAIN;
    if (dump->dump_at_max &&
        trace_peaks_begin(&writer->peaks, dump->pid, head.heap_name, is_last) < 0)
        writer->error = -ENOMEM;
    writer->in_dump = true;
    writer->dump_at_max = dump->dump_at_max;
    writer->dump_head_written = false;
    writer->dump_samples.length = 0;
    return writer->error;
}

static void put_heap(struct proto_buffer *profile, const struct proto_buffer *head,
                     const struct proto_buffer *samples)
{
    uint8_t *at = proto_buffer_reserve(profile, 1 + PROTO_VARINT_BYTES_MAX);
    if (at != NULL) {
        at[0] = PB_PROFILE_PACKET_PROCESS_DUMPS << 3 | 2;
        profile->length += 1 + proto_encode_varint(at + 1, head->length + samples->length);
    }
    proto_put_raw(profile, head->bytes, head->length);
    proto_put_raw(profile, samples->bytes, samples->length);
}

int packet_write_profile(struct trace_writer *writer, const struct proto_buffer *head,
                         const struct proto_buffer *samples, bool continued)
{
    struct proto_buffer *packet = &writer->packet, *profile = &writer->scratch;
    packet_begin(writer, packet_time_ns(writer), SEQUENCE_NEEDS_INTERNED);
    profile->length = 0;
    if (writer->for_service) {
        proto_put_raw(profile, writer->interned.bytes, writer->interned.length);
        profile->failed |= writer->interned.failed;
        writer->interned.length = 0;
    } else {
        packet_put_interned(writer);
    }
    if (head != NULL)
        put_heap(profile, head, samples);
    if (continued)
        proto_put_uint(profile, PB_PROFILE_PACKET_CONTINUED, 1);
    proto_put_uint(profile, PB_PROFILE_PACKET_INDEX, writer->profile_packets++);
    proto_put_bytes(packet, PB_TRACE_PACKET_PROFILE_PACKET, profile->bytes, profile->length);
    packet->failed |= profile->failed;
    return packet_end(writer);
}

static int write_dump_packet(struct trace_writer *writer, bool continued)
{
    struct proto_buffer *head =
        writer->dump_head_written ? &writer->dump_again : &writer->dump_head;
    struct proto_buffer *samples = &writer->dump_samples;
    if (writer->interned.length + head->length + samples->length + PACKET_OVERHEAD_BYTES >
        TRACE_PACKET_BYTES_MAX)
        packet_flush_interned(writer);
    int code = packet_write_profile(writer, head, samples, continued);
    samples->length = 0;
    writer->dump_head_written = true;
    return code;
}

/* Make room for an entry with this many parts. */
static void make_dump_room(struct trace_writer *writer, size_t threads)
{
    size_t bytes = SAMPLE_BYTES_MAX + threads * THREAD_BYTES_MAX;
    size_t waiting = writer->dump_head.length + writer->dump_samples.length + PACKET_OVERHEAD_BYTES;
    if (waiting + bytes > TRACE_PACKET_BYTES_MAX && writer->dump_samples.length > 0)
        write_dump_packet(writer, true);
}

int trace_writer_dump_sample(struct trace_writer *writer, const struct trace_heap_sample *sample)
{
    if (!writer->in_dump)
        return -EINVAL;
    enum part_detail detail = detail_of(sample);
    size_t count = threads_of_message(sample->thread_count);
    make_dump_room(writer, count);
    if (writer->error == 0)
        put_sample(writer, sample, count, detail);
    for (size_t first = count; first < sample->thread_count && writer->error == 0; first += count) {
        count = threads_of_message(sample->thread_count - first);
        make_dump_room(writer, count);
        if (writer->error == 0)
            put_more(writer, sample, first, count, detail);
    }
    return writer->error;
}

int trace_writer_dump_end(struct trace_writer *writer)
{
    if (!writer->in_dump)
        return -EINVAL;
    writer->in_dump = false;
    if (writer->dump_at_max)
        trace_peaks_end(&writer->peaks);
    /* Other heaps of the process may use the same tables. */
    writer->has_dumps |= writer->for_service;
    return write_dump_packet(writer, writer->for_service);
}

int trace_writer_dumps_end(struct trace_writer *writer)
{
    if (!writer->has_dumps)
        return writer->error;
    writer->has_dumps = writer->has_tables = false;
    packet_write_profile(writer, NULL, NULL, false);
    return packet_forget_interned(writer);
}
