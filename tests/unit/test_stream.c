/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of events: the ledger's figures are its sums, and a reader of the trace computes the
 * same sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/profile.h"
#include "recorder/ledger/ledger.h"
#include "trace.pb-c.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_reader.h"
#include "trace_fixture.h"
#include "uint_in_range.h"

enum { EVENTS = 60000, ADDRESSES = 4096, PID = 4242, OTHER_PID = 4243 };

static uint32_t random_below(uint32_t *state, uint32_t limit)
{
    *state = *state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*state * limit >> 32);
}

/* --- from the ledger into a trace, as in the daemon --- */

static void write_change(void *context, const struct ledger_change *change)
{
    const struct trace_stream_event event = {
        .pid = PID,
        .heap = change->heap,
        .sequence = change->sequence,
        .address = change->address,
        .size = change->size,
        .count = change->count,
        .timestamp_ns = change->time_ms * UINT64_C(1000000),
    };
    int code = change->kind == LEDGER_ALLOCATED ? trace_writer_stream_allocation(context, &event)
               : change->kind == LEDGER_FREED   ? trace_writer_stream_free(context, &event)
                                                : trace_writer_stream_undone(context, &event);
    assert_int_equal(code, 0);
}

/* The interval of the heap that is not malloc's. */
#define OTHER_INTERVAL LEDGER_INTERVALS_OF_MALLOC

/* Make any event that a process can send, also an inconsistent one with a defined effect: an
 * allocation of a live address, or a free of an unknown one. */
static struct heap_event random_event(uint32_t *state)
{
    struct heap_event event = {
        .type = RECORD_FREE,
        .heap = (uint8_t)random_below(state, 2),
        .thread = (uint16_t)random_below(state, 2),
        .time_ms = random_below(state, 1000),
        .address = 0x7f0000000000 + UINT64_C(16) * random_below(state, ADDRESSES),
    };
    uint32_t what = random_below(state, 100);
    if (what < 50) {
        event.type = RECORD_ALLOC;
        event.interval = event.heap == 0 ? 0 : OTHER_INTERVAL;
        event.size = random_below(state, 2) ? random_below(state, 20000) : 48;
        event.flags = what < 2 ? RECORD_ALLOC_LOST_FREE : 0;
    }
    return event;
}

static struct ledger *make_ledger(struct trace_writer *writer, uint64_t interval_bytes)
{
    uint32_t state = 1;
    struct ledger *ledger = ledger_open(interval_bytes);
    assert_non_null(ledger);
    assert_int_equal(ledger_visitor.thread(ledger, 0, 10, "main"), 0);
    assert_int_equal(ledger_visitor.thread(ledger, 1, 11, "worker"), 0);
    assert_int_equal(ledger_visitor.interval(ledger, 1, OTHER_INTERVAL, 100), 0);
    assert_int_equal(ledger_visitor.heap(ledger, 1, 100, "other"), 0);
    ledger_observe(ledger, write_change, writer);
    for (int i = 0; i < EVENTS; i++) {
        struct heap_event event = random_event(&state);
        assert_int_equal(ledger_visitor.events(ledger, &event, 1), 0);
        if (event.type != RECORD_FREE || random_below(&state, 50) != 0)
            continue;
        event.type = RECORD_UNFREE;
        assert_int_equal(ledger_visitor.events(ledger, &event, 1), 0);
    }
    return ledger;
}

/* --- out of the trace again, by protobuf-c and a replay --- */

struct replayed {
    unsigned kind; /* 0: unknown number */
    uint64_t address, heap;
    double bytes, count;
};

struct sums {
    double allocated_bytes, allocated_count, freed_bytes, freed_count, live_bytes;
    uint64_t events, packets, undone;
};

static struct replayed *replay_slot(struct replayed *events, uint64_t sequence)
{
    assert_uint_in_range(sequence, 1, 2 * EVENTS);
    assert_int_equal(events[sequence].kind, 0);
    return &events[sequence];
}

static void gather(const Perfetto__Protos__TracePacket *packet, struct replayed *events)
{
    const Perfetto__Protos__StreamingAllocation *allocations = packet->streaming_allocation;
    const Perfetto__Protos__StreamingFree *frees = packet->streaming_free;
    for (size_t i = 0; allocations != NULL && i < allocations->n_address; i++) {
        assert_int_equal(allocations->pid, PID);
        assert_int_equal(allocations->n_address, allocations->n_sample_size);
        assert_true(allocations->n_count == 0 || allocations->n_count == allocations->n_address);
        double count = allocations->n_count > 0 ? allocations->count[i] : 1;
        double bytes = count * (double)allocations->size[i];
        assert_true(fabs((double)allocations->sample_size[i] - bytes) <= 0.5);
        *replay_slot(events, allocations->sequence_number[i]) =
            (struct replayed){1, allocations->address[i], allocations->heap_id[i], bytes, count};
    }
    for (size_t i = 0; frees != NULL && i < frees->n_address; i++)
        *replay_slot(events, frees->sequence_number[i]) =
            (struct replayed){2, frees->address[i], frees->heap_id[i], 0, 0};
    for (size_t i = 0; frees != NULL && i < frees->n_undone_address; i++)
        *replay_slot(events, frees->undone_sequence_number[i]) =
            (struct replayed){3, frees->undone_address[i], frees->undone_heap_id[i], 0, 0};
}

static struct sums replay(const struct replayed *events)
{
    static struct replayed live[2][ADDRESSES], freed[2][ADDRESSES];
    struct sums sums = {0};
    memset(live, 0, sizeof(live));
    for (uint64_t i = 1; events[i].kind != 0; i++) {
        const struct replayed *event = &events[i];
        uint64_t index = (event->address - 0x7f0000000000) / 16;
        assert_uint_in_range(event->heap, 0, 1);
        assert_uint_in_range(index, 0, ADDRESSES - 1);
        struct replayed *now = &live[event->heap][index], *last = &freed[event->heap][index];
        sums.events++;
        if (event->kind == 1) {
            assert_int_equal(now->kind, 0);
            *now = *event;
            sums.allocated_bytes += event->bytes;
            sums.allocated_count += event->count;
            sums.live_bytes += event->bytes;
        } else if (event->kind == 2) {
            assert_int_equal(now->kind, 1);
            sums.freed_bytes += now->bytes;
            sums.freed_count += now->count;
            sums.live_bytes -= now->bytes;
            *last = *now;
            now->kind = 0;
        } else {
            assert_int_equal(now->kind, 0);
            *now = *last;
            sums.freed_bytes -= now->bytes;
            sums.freed_count -= now->count;
            sums.live_bytes += now->bytes;
            sums.undone++;
        }
    }
    return sums;
}

static struct sums read_back(const struct fixture_trace *trace)
{
    struct replayed *events = calloc(2 * EVENTS + 2, sizeof(*events));
    assert_non_null(events);
    Perfetto__Protos__Trace *whole =
        perfetto__protos__trace__unpack(NULL, trace->length, trace->bytes);
    assert_non_null(whole);
    uint64_t packets = whole->n_packet;
    for (size_t i = 0; i < whole->n_packet; i++) {
        assert_true(perfetto__protos__trace_packet__get_packed_size(whole->packet[i]) <
                    TRACE_PACKET_BYTES_MAX);
        gather(whole->packet[i], events);
    }
    perfetto__protos__trace__free_unpacked(whole, NULL);
    struct sums sums = replay(events);
    sums.packets = packets;
    free(events);
    return sums;
}

static void assert_near(double got, double wanted)
{
    if (fabs(got - wanted) > 1e-9 * fabs(wanted))
        fail_msg("%.17g, and not %.17g", got, wanted);
}

static void check_totals(uint64_t interval_bytes)
{
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct ledger *ledger = make_ledger(writer, interval_bytes);
    assert_int_equal(trace_writer_close(writer), 0);
    struct fixture_trace trace = fixture_take(fd);
    struct trace_figures total = {0};
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures figures = ledger_figures(ledger, i);
        total.allocated_bytes += figures.sums.allocated_bytes;
        total.allocated_count += figures.sums.allocated_count;
        total.freed_bytes += figures.sums.freed_bytes;
        total.freed_count += figures.sums.freed_count;
    }
    struct sums sums = read_back(&trace);
    assert_near(sums.allocated_bytes, total.allocated_bytes);
    assert_near(sums.allocated_count, total.allocated_count);
    assert_near(sums.freed_bytes, total.freed_bytes);
    assert_near(sums.freed_count, total.freed_count);
    assert_near(sums.live_bytes, ledger_live_bytes(ledger));
    assert_true(sums.packets > 10);
    assert_true(sums.undone > 10);
    assert_true(sums.events > EVENTS / 2);

    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_non_null(profile);
    assert_string_equal(profile->warning, "");
    assert_int_equal(profile->stream_count, 2);
    struct profile_stream both = {0};
    for (size_t i = 0; i < 2; i++) {
        const struct profile_stream *stream = &profile->streams[i];
        assert_int_equal(profile->processes[stream->process].pid, PID);
        both.allocations += stream->allocations;
        both.frees += stream->frees;
        both.undone_frees += stream->undone_frees;
        both.allocated_bytes += stream->allocated_bytes;
        both.allocated_count += stream->allocated_count;
    }
    assert_int_equal(both.allocations, ledger_counts(ledger).allocs);
    assert_int_equal(both.allocations + both.frees + both.undone_frees, sums.events);
    assert_int_equal(both.undone_frees, sums.undone);
    assert_near(both.allocated_bytes, total.allocated_bytes);
    assert_near(both.allocated_count, total.allocated_count);
    profile_free(profile);
    ledger_close(ledger);
    free(trace.bytes);
}

static void totals_equal_the_ledgers_without_sampling(void **state)
{
    (void)state;
    check_totals(1);
}

static void totals_equal_the_ledgers_with_sampling(void **state)
{
    (void)state;
    check_totals(4096);
}

/* --- packets --- */

static void a_packet_holds_events_of_one_process(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct trace_stream_event event = {.address = 4096, .size = 10, .count = 1};
    for (uint64_t i = 1; i <= 6; i++) {
        event.pid = i % 3 == 0 ? OTHER_PID : PID;
        event.sequence = i;
        event.count = i < 5 ? 1 : 2.5;
        trace_writer_stream_allocation(writer, &event);
        trace_writer_stream_free(writer, &event);
    }
    assert_int_equal(trace_writer_close(writer), 0);
    struct profile *profile = fixture_take_profile(fd);
    assert_int_equal(profile->stream_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct profile_stream *stream = &profile->streams[i];
        bool is_other = profile->processes[stream->process].pid == OTHER_PID;
        assert_int_equal(stream->allocations, is_other ? 2 : 4);
        assert_int_equal(stream->frees, is_other ? 2 : 4);
        assert_true(stream->allocated_count == (is_other ? 3.5 : 5.5));
    }
    profile_free(profile);
}

/* Read a trace of a valid packet and one with this message. */
static struct profile *read_message(uint32_t field, const struct proto_buffer *message)
{
    struct proto_buffer packet = {0}, trace = {0};
    proto_put_uint(&packet, PB_TRACE_PACKET_TIMESTAMP, 1);
    proto_put_bytes(&trace, PB_TRACE_PACKET, packet.bytes, packet.length);
    packet.length = 0;
    proto_put_uint(&packet, PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID, 1);
    proto_put_bytes(&packet, field, message->bytes, message->length);
    proto_put_bytes(&trace, PB_TRACE_PACKET, packet.bytes, packet.length);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    proto_buffer_free(&packet);
    proto_buffer_free(&trace);
    assert_non_null(profile);
    return profile;
}

static void others_streams_are_read(void **state)
{
    (void)state;
    struct proto_buffer message = {0}, packed = {0};
    for (uint64_t i = 0; i < 3; i++)
        proto_put_uint(&message, PB_STREAMING_ALLOCATION_ADDRESS, 4096 + 16 * i);
    for (uint64_t i = 0; i < 3; i++)
        proto_put_varint(&packed, 1000 * i);
    proto_put_bytes(&message, PB_STREAMING_ALLOCATION_SAMPLE_SIZE, packed.bytes, packed.length);
    struct profile *profile = read_message(PB_TRACE_PACKET_STREAMING_ALLOCATION, &message);
    assert_int_equal(profile->stream_count, 1);
    assert_int_equal(profile->streams[0].process, PROFILE_NONE);
    assert_int_equal(profile->streams[0].allocations, 3);
    assert_true(profile->streams[0].allocated_bytes == 3000);
    assert_string_equal(profile->warning, "");
    profile_free(profile);
    proto_buffer_free(&message);
    proto_buffer_free(&packed);
}

static void arrays_of_different_lengths_are_damage(void **state)
{
    (void)state;
    static const uint32_t of_allocation[] = {
        PB_STREAMING_ALLOCATION_SIZE, PB_STREAMING_ALLOCATION_SAMPLE_SIZE,
        PB_STREAMING_ALLOCATION_HEAP_ID, PB_STREAMING_ALLOCATION_SEQUENCE_NUMBER};
    for (size_t i = 0; i < sizeof(of_allocation) / sizeof(of_allocation[0]); i++) {
        struct proto_buffer message = {0};
        proto_put_uint(&message, PB_STREAMING_ALLOCATION_ADDRESS, 1);
        proto_put_uint(&message, PB_STREAMING_ALLOCATION_ADDRESS, 2);
        proto_put_uint(&message, of_allocation[i], 1);
        struct profile *profile = read_message(PB_TRACE_PACKET_STREAMING_ALLOCATION, &message);
        assert_int_equal(profile->stream_count, 0);
        assert_string_not_equal(profile->warning, "");
        profile_free(profile);
        proto_buffer_free(&message);
    }
    struct proto_buffer message = {0};
    proto_put_uint(&message, PB_STREAMING_FREE_HEAP_ID, 1);
    struct profile *profile = read_message(PB_TRACE_PACKET_STREAMING_FREE, &message);
    assert_string_not_equal(profile->warning, "");
    profile_free(profile);
    proto_buffer_free(&message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_equal_the_ledgers_without_sampling),
        cmocka_unit_test(totals_equal_the_ledgers_with_sampling),
        cmocka_unit_test(a_packet_holds_events_of_one_process),
        cmocka_unit_test(others_streams_are_read),
        cmocka_unit_test(arrays_of_different_lengths_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
