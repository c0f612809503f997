/* SPDX-License-Identifier: Apache-2.0 */
/* Several dumps in one trace: what a dump inherits, shares, and splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "profile/builder/profile_read.h"
#include "trace.pb-c.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_reader.h"
#include "trace/read/trace_source.h"
#include "trace_fixture.h"

static void write_dump(struct trace_writer *writer, uint64_t timestamp_ns, uint64_t callstack,
                       double bytes, bool at_max)
{
    struct trace_heap_dump dump = fixture_dump();
    struct trace_heap_sample sample = {
        .callstack = callstack,
        .figures = {.allocated_bytes = bytes, .allocated_count = 1, .samples = 1},
        .peak.bytes = bytes / 2,
        .peak.count = 1};
    dump.timestamp_ns = timestamp_ns;
    dump.dump_at_max = at_max;
    /* Dumps with these fields are complete. */
    dump.exact_calls = 0;
    dump.peak_live_bytes = 0;
    trace_writer_dump_begin(writer, &dump);
    trace_writer_dump_sample(writer, &sample);
    trace_writer_dump_end(writer);
}

static void omitted_values_are_carried_over(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    write_dump(writer, 1, stacks.in_outer, 100, false);
    write_dump(writer, 2, stacks.in_inner, 50, false);
    trace_writer_close(writer);
    struct fixture_trace trace = fixture_take(fd);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_int_equal(profile->heaps[0].dump_count, 2);
    assert_true(profile->heaps[0].dumps[1].total.allocated_bytes == 150);
    profile_free(profile);
    free(trace.bytes);
}

static const struct profile_new_loss *find_new_loss(const struct profile_dump *dump,
                                                    enum trace_loss_id id)
{
    for (uint32_t i = 0; i < dump->new_loss_count; i++)
        if (dump->new_losses[i].id == id)
            return &dump->new_losses[i];
    return NULL;
}

static void a_dump_has_its_interval_and_the_losses_since_the_last(void **state)
{
    (void)state;
    static const struct {
        uint64_t interval_bytes, overrun;
        bool corrupted;
    } heads[] = {{4096, 0, false}, {4096, 50, false}, {8192, 70, true}, {8192, 70, true}};
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    for (uint64_t i = 0; i < 4; i++) {
        struct trace_heap_dump dump = fixture_dump();
        dump.timestamp_ns = i + 1;
        dump.start_timestamp_ns = i;
        dump.interval_bytes = heads[i].interval_bytes;
        dump.buffer_corrupted = heads[i].corrupted;
        memset(dump.lost, 0, sizeof(dump.lost));
        dump.lost[TRACE_LOST_OVERRUN] = heads[i].overrun;
        trace_writer_dump_begin(writer, &dump);
        trace_writer_dump_end(writer);
    }
    trace_writer_close(writer);
    struct profile *profile = fixture_take_profile(fd);
    const struct profile_dump *dumps = profile->heaps[0].dumps;
    assert_int_equal(profile->heaps[0].dump_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(dumps[i].interval_bytes, heads[i].interval_bytes);
    assert_int_equal(dumps[0].new_loss_count, 0);
    assert_int_equal(dumps[1].new_loss_count, 1);
    assert_int_equal(find_new_loss(&dumps[1], TRACE_LOST_OVERRUN)->amount, 50);
    assert_int_equal(dumps[2].new_loss_count, 2);
    assert_int_equal(find_new_loss(&dumps[2], TRACE_LOST_OVERRUN)->amount, 20);
    assert_int_equal(find_new_loss(&dumps[2], TRACE_LOSS_BUFFER_CORRUPTED)->amount, 1);
    assert_int_equal(dumps[3].new_loss_count, 0);
    profile_free(profile);
}

/* A frame that gets its name after a dump makes another callstack in the next one. The old
 * callstack must not count besides it. */
static void a_dump_of_heapprofd_is_complete(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    for (uint64_t i = 0; i < 2; i++) {
        struct trace_heap_dump dump = fixture_dump();
        struct trace_heap_sample sample = {
            .callstack = i == 0 ? stacks.in_outer : stacks.in_inner,
            .figures = {.allocated_bytes = 100, .allocated_count = 1, .samples = 1}};
        dump.timestamp_ns = i + 1;
        dump.exact_bytes = 100;
        dump.exact_calls = 1;
        trace_writer_dump_begin(writer, &dump);
        trace_writer_dump_sample(writer, &sample);
        trace_writer_dump_end(writer);
    }
    trace_writer_close(writer);
    struct fixture_trace trace = fixture_take(fd);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_int_equal(profile->heaps[0].dump_count, 2);
    assert_true(profile->heaps[0].dumps[1].total.allocated_bytes == 100);
    profile_free(profile);
    free(trace.bytes);
}

static void dump_at_max_has_self_max_and_no_other_counter(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    write_dump(writer, 1, stacks.in_outer, 100, true);
    trace_writer_close(writer);
    struct fixture_trace trace = fixture_take(fd);
    Perfetto__Protos__Trace *message =
        perfetto__protos__trace__unpack(NULL, trace.length, trace.bytes);
    assert_non_null(message);
    const Perfetto__Protos__ProfilePacket__HeapSample *sample =
        message->packet[message->n_packet - 1]->profile_packet->process_dumps[0]->samples[0];
    assert_int_equal(sample->self_max, 50);
    assert_false(sample->has_self_allocated);
    assert_false(sample->has_alloc_count);
    perfetto__protos__trace__free_unpacked(message, NULL);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_true(profile->heaps[0].status.dump_at_max);
    assert_true(profile->heaps[0].dumps[0].samples[0]->figures.allocated_bytes == 100);
    assert_true(profile->heaps[0].dumps[0].samples[0]->peak.bytes == 50);
    profile_free(profile);
    free(trace.bytes);
}

#define SHARING_PROCESSES 50u

/* Dump a process with a program and a library, each at its own address. */
static void dump_at(struct trace_writer *writer, unsigned process, uint64_t timestamp_ns)
{
    struct trace_mapping program = {.path = "/usr/bin/example",
                                    .build_id = fixture_build_id,
                                    .build_id_length = sizeof(fixture_build_id),
                                    .start = 0x400000 + process * 0x10000,
                                    .end = 0x405000 + process * 0x10000,
                                    .exact_offset = 0x1000,
                                    .load_bias = 0x2000};
    struct trace_mapping library = program;
    library.path = "/usr/lib/library.so";
    library.start += 0x10000000;
    library.end += 0x10000000;
    uint64_t mappings[] = {trace_writer_mapping(writer, &program),
                           trace_writer_mapping(writer, &library)};
    assert_int_equal(trace_writer_mapping(writer, &program), mappings[0]);
    assert_int_equal(trace_writer_has_place(writer, &program), process == 0);
    uint64_t frames[] = {trace_writer_frame(writer, mappings[1], 0x3010, "inner"),
                         trace_writer_frame(writer, mappings[0], 0x3020, "main")};
    struct trace_place places[] = {{mappings[0], program.start, program.end},
                                   {mappings[1], library.start, library.end}};
    struct trace_heap_dump dump = fixture_dump();
    dump.pid += (int32_t)process;
    dump.timestamp_ns = timestamp_ns;
    dump.places = places;
    dump.place_count = process == 0 ? 0 : 2;
    struct trace_heap_sample sample = {
        .callstack = trace_writer_callstack(writer, frames, 2, NULL),
        .figures = {.allocated_bytes = 100, .allocated_count = 1, .samples = 1}};
    assert_int_equal(trace_writer_dump_begin(writer, &dump), 0);
    assert_int_equal(trace_writer_dump_sample(writer, &sample), 0);
    assert_int_equal(trace_writer_dump_end(writer), 0);
}

/* The first place of a file has its own mappings, frames and stacks; all other places share another
 * set. */
static void processes_share_stacks_of_one_file(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    for (unsigned i = 0; i < SHARING_PROCESSES; i++)
        dump_at(writer, i, 2000000000);
    assert_int_equal(trace_writer_close(writer), 0);
    struct fixture_trace trace = fixture_take(fd);
    Perfetto__Protos__Trace *message =
        perfetto__protos__trace__unpack(NULL, trace.length, trace.bytes);
    assert_non_null(message);
    size_t mappings = 0, frames = 0, callstacks = 0;
    for (size_t i = 0; i < message->n_packet; i++) {
        const Perfetto__Protos__InternedData *data = message->packet[i]->interned_data;
        mappings += data == NULL ? 0 : data->n_mappings;
        frames += data == NULL ? 0 : data->n_frames;
        callstacks += data == NULL ? 0 : data->n_callstacks;
    }
    perfetto__protos__trace__free_unpacked(message, NULL);
    assert_int_equal(mappings, 4);
    assert_int_equal(frames, 4);
    assert_int_equal(callstacks, 2);

    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_string_equal(profile->warning, "");
    assert_int_equal(profile->heap_count, SHARING_PROCESSES);
    assert_int_equal(profile->mapping_count, 4);
    for (unsigned i = 0; i < SHARING_PROCESSES; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        const struct profile_callsite *inner =
            &profile->callsites[heap->dumps[0].samples[0]->callsite];
        uint32_t library = profile->frames[inner->frame].mapping;
        uint32_t program = profile->frames[profile->callsites[inner->parent].frame].mapping;
        struct profile_place place = profile_place_of(profile, heap, program);
        assert_int_equal(place.start, 0x400000 + i * 0x10000);
        assert_int_equal(place.end, 0x405000 + i * 0x10000);
        place = profile_place_of(profile, heap, library);
        assert_int_equal(place.start, 0x10400000 + i * 0x10000);
        assert_int_equal(profile->mappings[library].start, i == 0 ? 0x10400000 : 0);
    }
    profile_free(profile);
    free(trace.bytes);
}

/* The process whose data has the mapping with addresses may have ended before the checkpoint, or
 * may come after it. */
static void a_checkpoint_has_the_callstacks_of_its_trace(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct trace_checkpoint checkpoint = {0};
        int fd = memfd_create("trace", 0);
        struct trace_writer *writer = trace_writer_open(fd);
        trace_writer_system_info(writer);
        dump_at(writer, 0, 2000000000);
        if (i == 0)
            dump_at(writer, 1, 2000000000);
        struct trace_writer *part = trace_writer_begin_checkpoint(writer, &checkpoint);
        dump_at(part, 1, 3000000000);
        assert_int_equal(trace_writer_end_checkpoint(writer, part, &checkpoint), 0);
        if (i == 1)
            dump_at(writer, 1, 4000000000);
        assert_int_equal(trace_writer_close(writer), 0);
        struct fixture_trace trace = fixture_take(fd);
        struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
        const struct profile_heap *heap = &profile->heaps[1];
        assert_int_equal(heap->dump_count, 2);
        assert_int_equal(heap->dumps[0].samples[0]->callsite, heap->dumps[1].samples[0]->callsite);
        assert_int_equal(heap->dumps[1].total.samples, 1);
        profile_free(profile);
        free(trace.bytes);
    }
}

/* Files without a build id, and mappings without a file, may differ. */
static void possibly_different_mappings_are_not_shared(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct trace_mapping one = {.path = "/a", .start = 0x1000, .end = 0x2000};
    struct trace_mapping other = {.path = "/a", .start = 0x3000, .end = 0x4000};
    assert_int_not_equal(trace_writer_mapping(writer, &one), trace_writer_mapping(writer, &other));
    assert_true(trace_writer_has_place(writer, &other));
    static const uint8_t ids[2][4] = {{1}, {2}};
    uint64_t shared[2];
    for (unsigned i = 0; i < 2; i++) {
        one.build_id = other.build_id = ids[i];
        one.build_id_length = other.build_id_length = sizeof(ids[i]);
        uint64_t first = trace_writer_mapping(writer, &one);
        shared[i] = trace_writer_mapping(writer, &other);
        assert_int_not_equal(first, shared[i]);
        assert_false(trace_writer_has_place(writer, &other));
        other.exact_offset = 0x1000;
        assert_int_not_equal(trace_writer_mapping(writer, &other), shared[i]);
        other.exact_offset = 0;
    }
    assert_int_not_equal(shared[0], shared[1]);
    struct trace_mapping generated = {.path = "[jit:1]"}, others = {.path = "[jit:2]"};
    assert_int_not_equal(trace_writer_mapping(writer, &generated),
                         trace_writer_mapping(writer, &others));
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
}

/* Trace processor takes differences of dumps, and reports a decrease as an error. */
static void a_decreasing_part_of_the_maximum_gets_counters(void **state)
{
    (void)state;
    static const struct {
        double bytes; /* twice the peak */
        uint64_t allocated, freed;
    } steps[] = {{100, 50, 0},  {200, 100, 0}, {80, 100, 60},
                 {80, 100, 60}, {90, 105, 60}, {0, 105, 105}};
    enum { STEPS = sizeof(steps) / sizeof(steps[0]) };
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    for (unsigned i = 0; i < STEPS; i++)
        write_dump(writer, i + 1, stacks.in_outer, steps[i].bytes, true);
    trace_writer_close(writer);
    struct fixture_trace trace = fixture_take(fd);
    Perfetto__Protos__Trace *message =
        perfetto__protos__trace__unpack(NULL, trace.length, trace.bytes);
    assert_non_null(message);
    for (unsigned i = 0; i < STEPS; i++) {
        const Perfetto__Protos__ProfilePacket__HeapSample *sample =
            message->packet[message->n_packet - STEPS + i]
                ->profile_packet->process_dumps[0]
                ->samples[0];
        assert_int_equal(sample->has_self_max, steps[i].freed == 0);
        assert_int_equal(sample->has_self_max ? sample->self_max : sample->self_allocated,
                         steps[i].allocated);
        assert_int_equal(sample->self_freed, steps[i].freed);
    }
    perfetto__protos__trace__free_unpacked(message, NULL);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_int_equal(profile->heaps[0].dump_count, STEPS);
    assert_true(profile->heaps[0].status.dump_at_max);
    for (unsigned i = 0; i < STEPS; i++) {
        const struct profile_sample *sample = profile->heaps[0].dumps[i].samples[0];
        assert_true(sample->peak.bytes == steps[i].bytes / 2);
        assert_true(sample->figures.allocated_bytes == steps[i].bytes);
        assert_true(sample->figures.freed_bytes == 0);
        assert_true(sample->figures.allocated_count == 1 && sample->figures.freed_count == 0);
    }
    profile_free(profile);
    free(trace.bytes);
}

static void a_large_dump_is_split_below_the_limit(void **state)
{
    (void)state;
    enum { STACKS = 20000 };
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct trace_heap_dump dump = fixture_dump();
    uint64_t program = fixture_stacks(writer).program;
    trace_writer_dump_begin(writer, &dump);
    for (uint64_t i = 0; i < STACKS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%llu", (unsigned long long)i);
        uint64_t frame = trace_writer_frame(writer, program, 0x2000 + i, name);
        struct trace_heap_sample sample = {
            .callstack = trace_writer_callstack(writer, &frame, 1, NULL),
            .figures = {.allocated_bytes = 0.5 + (double)i, .allocated_count = 1}};
        trace_writer_dump_sample(writer, &sample);
    }
    trace_writer_dump_end(writer);
    assert_int_equal(trace_writer_close(writer), 0);
    struct fixture_trace trace = fixture_take(fd);
    struct trace_reader *reader =
        trace_reader_open_source(trace_source_of_bytes(trace.bytes, trace.length, NULL), NULL);
    struct proto_span packet;
    while (trace_reader_next(reader, &packet, NULL) > 0)
        assert_true(proto_length(packet) < TRACE_PACKET_BYTES_MAX);
    trace_reader_close(reader);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, NULL);
    assert_string_equal(profile->warning, "");
    assert_int_equal(profile->heaps[0].dump_count, 1);
    assert_int_equal(profile->heaps[0].dumps[0].sample_count, STACKS);
    profile_free(profile);
    free(trace.bytes);
}

static void an_exec_begins_another_process(void **state)
{
    (void)state;
    static const char *const shell[] = {"sh", "-c", "exec example"};
    struct trace_process process = {.pid = FIXTURE_PID, .arguments = shell, .argument_count = 3};
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    trace_writer_process_tree(writer, &process, 1, NULL, 0);
    write_dump(writer, 1, stacks.in_outer, 100, false);
    fixture_process(writer);
    struct trace_heap_dump dump = fixture_dump();
    dump.start_timestamp_ns = 5;
    trace_writer_dump_begin(writer, &dump);
    trace_writer_dump_end(writer);
    trace_writer_close(writer);
    struct profile *profile = fixture_take_profile(fd);
    assert_int_equal(profile->heap_count, 2);
    assert_string_equal(profile->processes[profile->heaps[0].process].name, "sh");
    assert_string_equal(profile->processes[profile->heaps[1].process].name, "example");
    profile_free(profile);
}

/* The program's last dump has a name of its own. The heap is still one, which has ended. */
static void a_heap_before_an_exec_is_one(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t start_ns, end_ns;
        bool final;
    } dumps[] = {
        {"libc.malloc", 1, 5, false},
        {"libc.malloc (sh, before exec)", 5, 7, true},
        {"libc.malloc", 6, 9, true},                     /* of the next program */
        {"libc.malloc (sh, before exec 2)", 4, 6, true}, /* continues nothing */
    };
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    fixture_process(writer);
    for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]); i++) {
        struct trace_heap_dump dump = fixture_dump();
        dump.heap_name = dumps[i].name;
        dump.start_timestamp_ns = dumps[i].start_ns;
        dump.timestamp_ns = dumps[i].end_ns;
        dump.final = dumps[i].final;
        dump.exact_calls = i + 1;
        trace_writer_dump_begin(writer, &dump);
        trace_writer_dump_end(writer);
    }
    trace_writer_close(writer);
    struct profile *profile = fixture_take_profile(fd);
    assert_int_equal(profile->heap_count, 3);
    const struct profile_heap *heap = &profile->heaps[0];
    assert_string_equal(heap->name, "libc.malloc (sh, before exec)");
    assert_int_equal(heap->dump_count, 2);
    assert_int_equal(heap->dumps[1].exact_calls, 2);
    assert_false(heap->unfinished);
    assert_string_equal(profile->heaps[1].name, "libc.malloc");
    assert_int_equal(profile->heaps[1].dump_count, 1);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omitted_values_are_carried_over),
        cmocka_unit_test(a_dump_has_its_interval_and_the_losses_since_the_last),
        cmocka_unit_test(a_dump_of_heapprofd_is_complete),
        cmocka_unit_test(dump_at_max_has_self_max_and_no_other_counter),
        cmocka_unit_test(a_decreasing_part_of_the_maximum_gets_counters),
        cmocka_unit_test(processes_share_stacks_of_one_file),
        cmocka_unit_test(a_checkpoint_has_the_callstacks_of_its_trace),
        cmocka_unit_test(possibly_different_mappings_are_not_shared),
        cmocka_unit_test(a_large_dump_is_split_below_the_limit),
        cmocka_unit_test(an_exec_begins_another_process),
        cmocka_unit_test(a_heap_before_an_exec_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
