/* SPDX-License-Identifier: Apache-2.0 */
/* Read streamed events. Only their sums are kept, so a stream of any length takes almost no memory.
 */
#include <errno.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

/* A process has few heaps. More mean that the file is damaged. */
#define STREAMS_MAX 4096u

/* The values of one repeated field of a message, packed or not, in order. */
struct values {
    struct proto_span message, packed;
    uint32_t field;
    bool is_double;
};

/* Read the next value. Return 1: *value is set; 0: the end; -1: malformed. */
static int values_next(struct values *values, struct proto_field *value)
{
    while (values->packed.at >= values->packed.end) {
        int status = proto_next(&values->message, value);
        if (status <= 0)
            return status;
        if (value->number == values->field && value->type != PROTO_BYTES)
            return 1;
        if (value->number == values->field)
            values->packed = value->span;
    }
    value->type = PROTO_VARINT;
    if (!values->is_double)
        return proto_read_varint(&values->packed, &value->value) ? 1 : -1;
    value->type = PROTO_FIXED64;
    if (proto_length(values->packed) < sizeof(value->value))
        return -1;
    memcpy(&value->value, values->packed.at, sizeof(value->value));
    values->packed.at += sizeof(value->value);
    return 1;
}

/* Return the number of values, or -EBADMSG. */
static int64_t count_values(struct proto_span message, uint32_t field, bool is_double)
{
    struct values values = {.message = message, .field = field, .is_double = is_double};
    struct proto_field value;
    int64_t count = 0;
    int status;
    while ((status = values_next(&values, &value)) > 0)
        count++;
    return status < 0 ? -EBADMSG : count;
}

/* Check that parallel arrays have the same length or are absent. Return that length, or -EBADMSG.
 */
static int64_t check_lengths(struct proto_span message, uint32_t addresses, const uint32_t *others,
                             size_t count)
{
    int64_t wanted = count_values(message, addresses, false);
    for (size_t i = 0; i < count && wanted >= 0; i++) {
        int64_t length = count_values(message, others[i], false);
        if (length != 0 && length != wanted)
            return -EBADMSG;
    }
    return wanted;
}

/* Find or add a stream. Return NULL: no memory, or too many streams. */
static struct profile_stream *stream_of(struct builder *builder, int32_t pid, uint64_t heap_id)
{
    struct profile *profile = builder->profile;
    uint32_t process = pid != 0 ? builder_process(builder, pid) : PROFILE_NONE;
    if (builder->error < 0)
        return NULL;
    /* Usually it is the last one. */
    for (size_t i = profile->stream_count; i-- > 0;) {
        struct profile_stream *known = &profile->streams[i];
        if (known->process == process && known->heap_id == heap_id)
            return known;
    }
    if (profile->stream_count >= STREAMS_MAX)
        return NULL;
    if (ARRAY_RESERVE(&profile->streams, &builder->stream_capacity, profile->stream_count, 1) < 0) {
        builder_fail(builder);
        return NULL;
    }
    profile->streams[profile->stream_count] =
        (struct profile_stream){.process = process, .heap_id = (uint32_t)heap_id};
    return &profile->streams[profile->stream_count++];
}

static void note_sequence(struct profile_stream *stream, uint64_t sequence)
{
    if (sequence > stream->last_sequence)
        stream->last_sequence = sequence;
}

/* A process's events are numbered from 1, whatever their heap. */
void builder_finish_streams(struct builder *builder)
{
    struct profile *profile = builder->profile;
    for (size_t i = 0; i < profile->stream_count; i++) {
        struct profile_stream *stream = &profile->streams[i];
        uint64_t last = 0, seen = 0;
        for (size_t j = 0; j < profile->stream_count; j++) {
            const struct profile_stream *other = &profile->streams[j];
            if (other->process != stream->process)
                continue;
            last = other->last_sequence > last ? other->last_sequence : last;
            seen += other->allocations + other->frees + other->undone_frees;
        }
        stream->missing = last > seen ? last - seen : 0;
    }
}

static int32_t read_pid(struct proto_span message, uint32_t field)
{
    struct values values = {.message = message, .field = field};
    struct proto_field value;
    return values_next(&values, &value) > 0 ? (int32_t)value.value : 0;
}

int builder_streaming_allocation(struct builder *builder, struct proto_span message)
{
    static const uint32_t others[] = {
        PB_STREAMING_ALLOCATION_SIZE,
        PB_STREAMING_ALLOCATION_SAMPLE_SIZE,
        PB_STREAMING_ALLOCATION_CLOCK_MONOTONIC_COARSE_TIMESTAMP,
        PB_STREAMING_ALLOCATION_HEAP_ID,
        PB_STREAMING_ALLOCATION_SEQUENCE_NUMBER,
    };
    int64_t length = check_lengths(message, PB_STREAMING_ALLOCATION_ADDRESS, others,
                                   sizeof(others) / sizeof(others[0]));
    int64_t count_length = count_values(message, PB_STREAMING_ALLOCATION_COUNT, true);
    if (length < 0 || count_length < 0 || (count_length > 0 && count_length != length))
        return -EBADMSG;
    int32_t pid = read_pid(message, PB_STREAMING_ALLOCATION_PID);
    struct values addresses = {.message = message, .field = PB_STREAMING_ALLOCATION_ADDRESS};
    struct values sizes = {.message = message, .field = PB_STREAMING_ALLOCATION_SIZE};
    struct values weighted = {.message = message, .field = PB_STREAMING_ALLOCATION_SAMPLE_SIZE};
    struct values heaps = {.message = message, .field = PB_STREAMING_ALLOCATION_HEAP_ID};
    struct values counts = {
        .message = message, .field = PB_STREAMING_ALLOCATION_COUNT, .is_double = true};
    struct values sequences = {.message = message,
                               .field = PB_STREAMING_ALLOCATION_SEQUENCE_NUMBER};
    struct proto_field address, size, bytes, heap, count, sequence;
    while (values_next(&addresses, &address) > 0) {
        bool has_size = values_next(&sizes, &size) > 0;
        bool has_bytes = values_next(&weighted, &bytes) > 0;
        bool has_heap = values_next(&heaps, &heap) > 0;
        bool has_count = values_next(&counts, &count) > 0;
        struct profile_stream *stream = stream_of(builder, pid, has_heap ? heap.value : 0);
        if (stream == NULL)
            return builder->error < 0 ? builder->error : -EBADMSG;
        if (values_next(&sequences, &sequence) > 0)
            note_sequence(stream, sequence.value);
        stream->allocations++;
        stream->allocated_count += has_count ? proto_double(&count) : 1;
        /* Use the unrounded figure if it is known. */
        if (has_count && has_size)
            stream->allocated_bytes += proto_double(&count) * (double)size.value;
        else if (has_bytes)
            stream->allocated_bytes += (double)bytes.value;
        else if (has_size)
            stream->allocated_bytes += (double)size.value;
    }
    return builder->error;
}

static int take_frees(struct builder *builder, struct proto_span message, int32_t pid, bool undone)
{
    struct values addresses = {.message = message,
                               .field = undone ? PB_STREAMING_FREE_UNDONE_ADDRESS
                                               : PB_STREAMING_FREE_ADDRESS};
    struct values heaps = {.message = message,
                           .field = undone ? PB_STREAMING_FREE_UNDONE_HEAP_ID
                                           : PB_STREAMING_FREE_HEAP_ID};
    struct values sequences = {.message = message,
                               .field = undone ? PB_STREAMING_FREE_UNDONE_SEQUENCE_NUMBER
                                               : PB_STREAMING_FREE_SEQUENCE_NUMBER};
    struct proto_field address, heap, sequence;
    while (values_next(&addresses, &address) > 0) {
        bool has_heap = values_next(&heaps, &heap) > 0;
        struct profile_stream *stream = stream_of(builder, pid, has_heap ? heap.value : 0);
        if (stream == NULL)
            return builder->error < 0 ? builder->error : -EBADMSG;
        if (values_next(&sequences, &sequence) > 0)
            note_sequence(stream, sequence.value);
        if (undone)
            stream->undone_frees++;
        else
            stream->frees++;
    }
    return builder->error;
}

int builder_streaming_free(struct builder *builder, struct proto_span message)
{
    static const uint32_t others[] = {
        PB_STREAMING_FREE_HEAP_ID,
        PB_STREAMING_FREE_SEQUENCE_NUMBER,
    };
    static const uint32_t undone_others[] = {
        PB_STREAMING_FREE_UNDONE_HEAP_ID,
        PB_STREAMING_FREE_UNDONE_SEQUENCE_NUMBER,
    };
    int32_t pid = read_pid(message, PB_STREAMING_FREE_PID);
    if (check_lengths(message, PB_STREAMING_FREE_ADDRESS, others, 2) < 0 ||
        check_lengths(message, PB_STREAMING_FREE_UNDONE_ADDRESS, undone_others, 2) < 0)
        return -EBADMSG;
    int code = take_frees(builder, message, pid, false);
    return code < 0 ? code : take_frees(builder, message, pid, true);
}
