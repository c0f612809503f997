/* SPDX-License-Identifier: Apache-2.0 */
/* What the writer writes, the reader and the profile give back; damage harms nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <zlib.h>

#include "pb_field_numbers.h"
#include "profile/profile.h"
#include "profile/rollup.h"
#include "trace.pb-c.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_reader.h"
#include "trace_fixture.h"

static struct profile *read_fixture(void)
{
    struct fixture_trace trace = fixture_full_trace();
    struct error error = {0};
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, &error);
    if (profile == NULL)
        fail_msg("%s", error.message);
    free(trace.bytes);
    return profile;
}

static const struct profile_sample *sample_at(const struct profile *profile,
                                              const struct profile_dump *dump, const char *name)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t frame = profile->callsites[dump->samples[i]->callsite].frame;
        if (strcmp(profile->frames[frame].linkage_name, name) == 0)
            return dump->samples[i];
    }
    return NULL;
}

static void figures_travel_unrounded(void **state)
{
    (void)state;
    struct profile *profile = read_fixture();
    assert_int_equal(profile->heap_count, 1);
    assert_int_equal(profile->heaps[0].dump_count, 1);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    const struct profile_sample *sample = sample_at(profile, dump, "_Z5inneri");
    assert_true(sample->figures.allocated_bytes == 1500.25);
    assert_true(sample->figures.freed_bytes == 100.25);
    assert_true(sample->figures.allocated_bytes_variance == 77.5);
    assert_int_equal(sample->figures.samples, 2);
    assert_true(sample->peak.bytes == 1400.5);
    assert_true(dump->total.allocated_bytes == 1564.25);
    assert_true(dump->final);
    assert_string_equal(profile->warning, "");
    profile_free(profile);
}

static void figures_of_threads_travel(void **state)
{
    (void)state;
    struct profile *profile = read_fixture();
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    const struct profile_sample *both = sample_at(profile, dump, "_Z5inneri");
    assert_int_equal(both->part_count, 2);
    assert_int_equal(both->parts[1].tid, FIXTURE_PID + 1);
    assert_true(both->parts[1].figures.freed_bytes == 100.25);
    const struct profile_sample *one = sample_at(profile, dump, "_Z5outerv");
    assert_int_equal(one->part_count, 1);
    assert_true(one->parts[0].figures.allocated_bytes == 64);
    profile_free(profile);
}

static void heads_and_names_travel(void **state)
{
    (void)state;
    struct profile *profile = read_fixture();
    const struct profile_heap *heap = &profile->heaps[0];
    const struct profile_process *process = &profile->processes[heap->process];
    assert_string_equal(process->name, "example");
    assert_string_equal(process->command, "/usr/bin/example 'two words' 'it'\\''s'");
    assert_int_equal(process->timeline_count, 1);
    assert_int_equal(process->timeline[0].heap_bytes, 4097);
    assert_string_equal(heap->status.remark, "nothing to remark");
    assert_string_equal(heap->status.allocator, "libc.so.6");
    assert_int_equal(heap->status.lost[2], 1);
    assert_int_equal(heap->status.exact_calls, 789);
    assert_int_equal(heap->status.exit_status, 0);
    assert_true(heap->status.from_startup);
    assert_string_equal(profile_thread_name(profile, FIXTURE_PID, FIXTURE_PID + 1), "worker");
    assert_int_equal(profile->unprofiled_count, 1);
    assert_string_equal(profile->unprofiled[0].reason, "it is static");
    profile_free(profile);
}

static void stacks_become_a_tree(void **state)
{
    (void)state;
    struct profile *profile = read_fixture();
    assert_int_equal(profile->callsite_count, 3);
    const struct profile_callsite *leaf = &profile->callsites[2];
    assert_int_equal(leaf->depth, 2);
    const struct profile_frame *frame = &profile->frames[leaf->frame];
    assert_string_equal(frame->name, "inner(int)");
    assert_string_equal(profile->mappings[frame->mapping].path, "/usr/bin/example");
    assert_string_equal(profile->mappings[frame->mapping].build_id, "deadbeef");
    profile_free(profile);
}

static void rollup_counts_callers(void **state)
{
    (void)state;
    struct profile *profile = read_fixture();
    struct rollup_tables tables = {.profile = profile};
    struct rollup *rollup = rollup_new(&tables, &profile->heaps[0].dumps[0], ROLLUP_FUNCTION);
    assert_int_equal(rollup->row_count, 3);
    for (size_t i = 0; i < rollup->row_count; i++) {
        const struct rollup_row *row = &rollup->rows[i];
        if (strcmp(profile->frames[row->frame].name, "main") != 0)
            continue;
        assert_true(row->self.figures.allocated_bytes == 0);
        assert_true(row->cumulative.figures.allocated_bytes == 1564.25);
    }
    for (int by_function = 0; by_function < 2; by_function++) {
        struct rollup_tree *tree =
            rollup_tree_new(&tables, &profile->heaps[0].dumps[0], by_function != 0);
        assert_int_not_equal(tree->first_root, PROFILE_NONE);
        const struct rollup_node *root = &tree->nodes[tree->first_root];
        assert_true(root->cumulative.figures.allocated_bytes == 1564.25);
        assert_string_equal(profile->frames[profile->callsites[root->callsite].frame].name, "main");
        rollup_tree_free(tree);
    }
    /* Again from the same tables: nothing of the first is left in them. */
    struct rollup *again = rollup_new(&tables, &profile->heaps[0].dumps[0], ROLLUP_FUNCTION);
    assert_int_equal(again->row_count, rollup->row_count);
    assert_memory_equal(again->rows, rollup->rows, rollup->row_count * sizeof(*rollup->rows));
    rollup_free(again);
    rollup_tables_clear(&tables);
    rollup_free(rollup);
    profile_free(profile);
}

static void every_cut_is_survived(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    for (size_t length = 0; length < trace.length; length++) {
        struct error error = {0};
        /* Its own allocation, so that a sanitizer sees a read beyond the cut. */
        uint8_t *part = malloc(length + (length == 0));
        memcpy(part, trace.bytes, length);
        struct profile *profile = profile_read_bytes(part, length, &error);
        if (profile == NULL)
            assert_true(error.message[0] != '\0');
        profile_free(profile);
        free(part);
    }
    free(trace.bytes);
}

static void every_flipped_byte_is_survived(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    for (size_t at = 0; at < trace.length; at++) {
        trace.bytes[at] ^= 0xff;
        profile_free(profile_read_bytes(trace.bytes, trace.length, NULL));
        trace.bytes[at] ^= 0xff;
    }
    free(trace.bytes);
}

static void a_cut_is_told_with_its_offset(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length - 1, NULL);
    assert_non_null(strstr(profile->warning, "cut off in the packet at offset"));
    assert_int_equal(profile->heap_count, 1);
    profile_free(profile);
    free(trace.bytes);
}

static void what_is_no_trace_is_refused(void **state)
{
    (void)state;
    struct error error = {0};
    assert_null(profile_read_bytes("hello, world", 12, &error));
    assert_true(error.code < 0);
    assert_null(profile_read_bytes("", 0, &error));
    assert_null(profile_read("/nonexistent/trace", &error));
    assert_non_null(strstr(error.message, "/nonexistent/trace"));
}

static void a_gzipped_trace_reads_the_same(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    z_stream stream = {0};
    size_t room = trace.length + 1024;
    uint8_t *packed = malloc(room);
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = trace.bytes;
    stream.avail_in = (uInt)trace.length;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    struct profile *profile = profile_read_bytes(packed, stream.total_out, NULL);
    deflateEnd(&stream);
    assert_true(profile->heaps[0].dumps[0].total.allocated_bytes == 1564.25);
    assert_string_equal(profile->warning, "");
    profile_free(profile);
    free(packed);
    free(trace.bytes);
}

static void compressed_packets_read_the_same(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    uLongf length = compressBound(trace.length);
    uint8_t *packed = malloc(length);
    assert_int_equal(compress(packed, &length, trace.bytes, trace.length), Z_OK);
    struct proto_buffer packet = {0}, file = {0};
    proto_put_bytes(&packet, PB_TRACE_PACKET_COMPRESSED_PACKETS, packed, length);
    proto_put_bytes(&file, PB_TRACE_PACKET, packet.bytes, packet.length);
    struct profile *profile = profile_read_bytes(file.bytes, file.length, NULL);
    assert_true(profile->heaps[0].dumps[0].total.allocated_bytes == 1564.25);
    profile_free(profile);
    proto_buffer_free(&packet);
    proto_buffer_free(&file);
    free(packed);
    free(trace.bytes);
}

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
    trace_writer_dump_begin(writer, &dump);
    trace_writer_dump_sample(writer, &sample);
    trace_writer_dump_end(writer);
}

static void what_a_dump_leaves_out_is_carried_over(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    struct fixture_stacks stacks = fixture_stacks(writer);
    write_dump(writer, 1, stacks.in_outer, 100, false);
    write_dump(writer, 2, stacks.in_inner, 50, false);
    trace_writer_close(writer);
    struct fixture_trace trace = fixture_take(fd);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL);
    assert_int_equal(profile->heaps[0].dump_count, 2);
    assert_true(profile->heaps[0].dumps[1].total.allocated_bytes == 150);
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
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL);
    assert_true(profile->heaps[0].status.dump_at_max);
    assert_true(profile->heaps[0].dumps[0].samples[0]->figures.allocated_bytes == 100);
    assert_true(profile->heaps[0].dumps[0].samples[0]->peak.bytes == 50);
    profile_free(profile);
    free(trace.bytes);
}

#define SHARING_PROCESSES 50u

/* Dump a process that has the program and a library, each at an address of its own. */
static void dump_at(struct trace_writer *writer, unsigned process)
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
    dump.places = places;
    dump.place_count = process == 0 ? 0 : 2;
    struct trace_heap_sample sample = {
        .callstack = trace_writer_callstack(writer, frames, 2, NULL),
        .figures = {.allocated_bytes = 100, .allocated_count = 1, .samples = 1}};
    assert_int_equal(trace_writer_dump_begin(writer, &dump), 0);
    assert_int_equal(trace_writer_dump_sample(writer, &sample), 0);
    assert_int_equal(trace_writer_dump_end(writer), 0);
}

/* The first place of a file has mappings, frames and stacks, and all others together. */
static void processes_share_stacks_of_one_file(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    for (unsigned i = 0; i < SHARING_PROCESSES; i++)
        dump_at(writer, i);
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

    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL);
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

/* Nobody knows that files without a build id, or mappings of no file, are the same. */
static void what_may_differ_is_not_shared(void **state)
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

/* Trace processor takes differences of dumps, and counts a fall as an error. */
static void a_part_of_the_maximum_that_falls_gets_counters(void **state)
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
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL);
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
    struct trace_reader *reader = trace_reader_open_bytes(trace.bytes, trace.length, NULL);
    struct proto_span packet;
    while (trace_reader_next(reader, &packet, NULL) > 0)
        assert_true(proto_length(packet) < TRACE_PACKET_BYTES_MAX);
    trace_reader_close(reader);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL);
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
    struct fixture_trace trace = fixture_take(fd);
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL);
    assert_int_equal(profile->heap_count, 2);
    assert_string_equal(profile->processes[profile->heaps[0].process].name, "sh");
    assert_string_equal(profile->processes[profile->heaps[1].process].name, "example");
    profile_free(profile);
    free(trace.bytes);
}

/* A ProfilePacket with tables of its own, and symbols that come after it. */
static struct profile *read_packet_with_own_tables(void)
{
    Perfetto__Protos__InternedString name = PERFETTO__PROTOS__INTERNED_STRING__INIT;
    Perfetto__Protos__InternedString path = PERFETTO__PROTOS__INTERNED_STRING__INIT;
    Perfetto__Protos__InternedString build_id = PERFETTO__PROTOS__INTERNED_STRING__INIT;
    Perfetto__Protos__InternedString *strings[] = {&name, &path, &build_id};
    Perfetto__Protos__Mapping mapping = PERFETTO__PROTOS__MAPPING__INIT, *mappings = &mapping;
    Perfetto__Protos__Frame frame = PERFETTO__PROTOS__FRAME__INIT, *frames = &frame;
    Perfetto__Protos__Callstack stack = PERFETTO__PROTOS__CALLSTACK__INIT, *stacks = &stack;
    Perfetto__Protos__ProfilePacket__HeapSample sample =
        PERFETTO__PROTOS__PROFILE_PACKET__HEAP_SAMPLE__INIT;
    Perfetto__Protos__ProfilePacket__HeapSample *samples = &sample;
    Perfetto__Protos__ProfilePacket__ProcessHeapSamples dump =
        PERFETTO__PROTOS__PROFILE_PACKET__PROCESS_HEAP_SAMPLES__INIT;
    Perfetto__Protos__ProfilePacket__ProcessHeapSamples *dumps = &dump;
    Perfetto__Protos__ProfilePacket profile_packet = PERFETTO__PROTOS__PROFILE_PACKET__INIT;
    Perfetto__Protos__Line line = PERFETTO__PROTOS__LINE__INIT, *lines = &line;
    Perfetto__Protos__AddressSymbols address = PERFETTO__PROTOS__ADDRESS_SYMBOLS__INIT;
    Perfetto__Protos__AddressSymbols *addresses = &address;
    Perfetto__Protos__ModuleSymbols module = PERFETTO__PROTOS__MODULE_SYMBOLS__INIT;
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    static uint8_t build_id_bytes[] = "\x01\x02";
    uint64_t path_ids[] = {2}, frame_ids[] = {1, 1};

    name.has_iid = path.has_iid = build_id.has_iid = true;
    name.has_str = path.has_str = build_id.has_str = true;
    name.iid = 1;
    path.iid = 2;
    build_id.iid = 3;
    name.str = (ProtobufCBinaryData){3, (uint8_t *)"foo"};
    path.str = (ProtobufCBinaryData){6, (uint8_t *)"lib.so"};
    build_id.str = (ProtobufCBinaryData){2, build_id_bytes};
    mapping.has_iid = mapping.has_build_id = mapping.has_end = true;
    mapping.iid = 1;
    mapping.build_id = 3;
    mapping.end = 4096;
    mapping.n_path_string_ids = 1;
    mapping.path_string_ids = path_ids;
    frame.has_iid = frame.has_function_name_id = frame.has_mapping_id = frame.has_rel_pc = true;
    frame.iid = frame.function_name_id = frame.mapping_id = 1;
    frame.rel_pc = 0x1234;
    stack.has_iid = true;
    stack.iid = 1;
    stack.n_frame_ids = 2;
    stack.frame_ids = frame_ids;
    sample.has_callstack_id = sample.has_self_allocated = sample.has_alloc_count = true;
    sample.callstack_id = 1;
    sample.self_allocated = 8192;
    sample.alloc_count = 2;
    dump.has_pid = dump.has_sampling_interval_bytes = true;
    dump.pid = 7;
    dump.sampling_interval_bytes = 4096;
    dump.n_samples = 1;
    dump.samples = &samples;
    profile_packet.n_strings = 3;
    profile_packet.strings = strings;
    profile_packet.n_mappings = profile_packet.n_frames = profile_packet.n_callstacks = 1;
    profile_packet.mappings = &mappings;
    profile_packet.frames = &frames;
    profile_packet.callstacks = &stacks;
    profile_packet.n_process_dumps = 1;
    profile_packet.process_dumps = &dumps;
    line.function_name = "_Z3bari";
    line.source_file_name = "bar.c";
    line.has_line_number = true;
    line.line_number = 12;
    address.has_address = true;
    address.address = 0x1234;
    address.n_lines = 1;
    address.lines = &lines;
    module.path = "/lib.so";
    module.build_id = (char *)build_id_bytes;
    module.n_address_symbols = 1;
    module.address_symbols = &addresses;
    packet.profile_packet = &profile_packet;
    packet.module_symbols = &module;

    struct proto_buffer file = {0};
    proto_put_message(&file, PB_TRACE_PACKET, &packet.base);
    struct profile *profile = profile_read_bytes(file.bytes, file.length, NULL);
    proto_buffer_free(&file);
    return profile;
}

static void tables_inside_a_profile_packet_are_read(void **state)
{
    (void)state;
    struct profile *profile = read_packet_with_own_tables();
    assert_string_equal(profile->mappings[0].path, "/lib.so");
    assert_string_equal(profile->mappings[0].build_id, "0102");
    assert_string_equal(profile->heaps[0].name, "unknown");
    assert_int_equal(profile->callsite_count, 2); /* recursion: the same frame twice */
    assert_string_equal(profile->warning, "");
    profile_free(profile);
}

static void symbols_that_come_later_name_frames(void **state)
{
    (void)state;
    struct profile *profile = read_packet_with_own_tables();
    assert_string_equal(profile->frames[0].name, "bar(int)");
    assert_string_equal(profile->frames[0].source_file, "bar.c");
    assert_int_equal(profile->frames[0].line, 12);
    profile_free(profile);
}

static void without_variances_they_are_estimated(void **state)
{
    (void)state;
    struct profile *profile = read_packet_with_own_tables();
    const struct trace_figures *figures = &profile->heaps[0].dumps[0].total;
    assert_true(figures->allocated_bytes == 8192);
    /* Two samples that stand for 4096 bytes each at an interval of 4096: tiny allocations,
     * so that each has the variance of the interval squared. */
    assert_true(figures->allocated_bytes_variance > 1.6e7);
    assert_true(figures->allocated_bytes_variance <= 2.0 * 4096 * 4096);
    profile_free(profile);
}

static void a_failed_write_is_told_at_close(void **state)
{
    (void)state;
    struct trace_writer *writer = trace_writer_open(-1);
    assert_int_equal(trace_writer_uuid(writer), -EBADF);
    assert_int_equal(trace_writer_clock_snapshot(writer), -EBADF);
    assert_int_equal(trace_writer_close(writer), -EBADF);
}

/* --- checkpoints --- */

#define CHECKPOINT_CALLSITES 3000

/* A dump with so many callsites that it takes several packets. */
static void write_large_dump(struct trace_writer *writer, uint64_t timestamp_ns, bool final)
{
    struct trace_heap_dump dump = fixture_dump();
    struct fixture_stacks stacks = fixture_stacks(writer);
    dump.timestamp_ns = timestamp_ns;
    dump.final = final;
    fixture_process(writer);
    trace_writer_dump_begin(writer, &dump);
    for (uint64_t i = 0; i < CHECKPOINT_CALLSITES; i++) {
        uint64_t frames[] = {trace_writer_frame(writer, stacks.program, 0x2000 + 16 * i, NULL),
                             stacks.main};
        struct trace_thread_figures threads[40] = {0};
        for (int j = 0; j < 40; j++)
            threads[j] = (struct trace_thread_figures){
                .tid = j + 1,
                .figures = {.allocated_bytes = 16, .allocated_count = 1, .samples = 1}};
        struct trace_heap_sample sample = {
            .callstack = trace_writer_callstack(writer, frames, 2, NULL),
            .figures = {.allocated_bytes = 640, .allocated_count = 40, .samples = 40},
            .threads = threads,
            .thread_count = 40};
        trace_writer_dump_sample(writer, &sample);
    }
    trace_writer_dump_end(writer);
}

static struct trace_checkpoint write_checkpoint(struct trace_writer *writer, uint64_t timestamp_ns)
{
    struct trace_checkpoint checkpoint = {0};
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &checkpoint);
    assert_non_null(part);
    write_large_dump(part, timestamp_ns, false);
    assert_int_equal(trace_writer_end_checkpoint(writer, part, &checkpoint), 0);
    return checkpoint;
}

/* What a reader finds in the first `length` bytes: whole dumps of these times, and no other. */
static void check_dumps(int fd, size_t length, const uint64_t *times_ns, size_t count)
{
    uint8_t *bytes = malloc(length);
    struct error error = {0};
    assert_int_equal(pread(fd, bytes, length, 0), length);
    struct profile *profile = profile_read_bytes(bytes, length, &error);
    free(bytes);
    if (profile == NULL)
        fail_msg("%zu bytes: %s", length, error.message);
    if ((profile->heap_count > 0 ? profile->heaps[0].dump_count : 0) != count)
        fail_msg("%zu bytes: not %zu dumps", length, count);
    for (size_t i = 0; i < count; i++) {
        const struct profile_dump *dump = &profile->heaps[0].dumps[i];
        assert_int_equal(dump->sample_count, CHECKPOINT_CALLSITES);
        assert_int_equal(dump->total.samples, 40 * CHECKPOINT_CALLSITES);
        assert_false(dump->incomplete);
        assert_int_equal(dump->boottime_ns % 1000000000, times_ns[i] % 1000000000);
    }
    if (count > 0)
        assert_int_equal(profile->heaps[0].unfinished, !profile->heaps[0].dumps[count - 1].final);
    profile_free(profile);
}

/* At whatever byte a writer is killed: all checkpoints but the one being written are there. */
static void checkpoints_are_whole_or_not_there(void **state)
{
    (void)state;
    static const uint64_t times_ns[] = {2000000001, 3000000002, 4000000003};
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd);
    trace_writer_system_info(writer);
    /* So that the first head would lie in two pages. */
    while (lseek(fd, 0, SEEK_CUR) % 4096 < 4090) {
        off_t left = 4093 - lseek(fd, 0, SEEK_CUR) % 4096;
        struct trace_thread thread = {1, 1, "12345678901234"};
        if (left > 40)
            trace_writer_process_tree(writer, NULL, 0, &thread, 1);
        else
            break;
    }
    struct trace_checkpoint first = write_checkpoint(writer, times_ns[0]);
    assert_true(first.offset % 4096 <= 4096 - 14);
    off_t first_end = lseek(fd, 0, SEEK_CUR);
    check_dumps(fd, (size_t)first_end, times_ns, 1);

    struct trace_checkpoint second = {0};
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &second);
    write_large_dump(part, times_ns[1], false);
    off_t end = lseek(fd, 0, SEEK_CUR);
    assert_true(end > first_end + 1000000);
    for (off_t length = first_end; length < end; length += length < first_end + 40 ? 1 : 99991)
        check_dumps(fd, (size_t)length, times_ns, 1);
    assert_int_equal(trace_writer_end_checkpoint(writer, part, &second), 0);
    end = lseek(fd, 0, SEEK_CUR);
    check_dumps(fd, (size_t)end, times_ns, 2);
    assert_int_equal(trace_writer_withdraw_checkpoint(writer, &first), 0);
    check_dumps(fd, (size_t)end, times_ns + 1, 1);

    write_large_dump(writer, times_ns[2], true);
    assert_int_equal(trace_writer_withdraw_checkpoint(writer, &second), 0);
    check_dumps(fd, (size_t)lseek(fd, 0, SEEK_CUR), times_ns + 2, 1);
    assert_int_equal(trace_writer_bytes(writer), lseek(fd, 0, SEEK_CUR));
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
}

/* Where bytes cannot be taken back, none are written that would have to be. */
static void checkpoints_need_an_ordinary_file(void **state)
{
    (void)state;
    int pipes[2];
    char path[] = "/tmp/test-checkpoint-XXXXXX";
    struct trace_checkpoint checkpoint = {0};
    assert_int_equal(pipe(pipes), 0);
    struct trace_writer *writer = trace_writer_open(pipes[1]);
    assert_null(trace_writer_begin_checkpoint(writer, &checkpoint));
    assert_int_equal(trace_writer_close(writer), 0);
    int fd = mkostemp(path, O_APPEND);
    assert_true(fd >= 0);
    unlink(path);
    writer = trace_writer_open(fd);
    trace_writer_uuid(writer);
    assert_null(trace_writer_begin_checkpoint(writer, &checkpoint));
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    assert_int_equal(write(fd, "x", 1), 1); /* somebody else */
    assert_null(trace_writer_begin_checkpoint(writer, &checkpoint));
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

/* A checkpoint that fails for want of room is passed over, and so is what it left. */
static void a_failed_checkpoint_is_passed_over(void **state)
{
    (void)state;
    static const uint64_t times_ns[] = {2000000001};
    int fd = memfd_create("trace", MFD_ALLOW_SEALING);
    struct trace_writer *writer = trace_writer_open(fd);
    struct trace_checkpoint checkpoint = {0};
    trace_writer_system_info(writer);
    struct trace_writer *part = trace_writer_begin_checkpoint(writer, &checkpoint);
    struct rlimit limit = {.rlim_cur = 300000, .rlim_max = RLIM_INFINITY}, before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    write_large_dump(part, times_ns[0], false);
    assert_int_equal(trace_writer_end_checkpoint(writer, part, &checkpoint), -EFBIG);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(checkpoint.offset, 0);
    check_dumps(fd, (size_t)lseek(fd, 0, SEEK_CUR), times_ns, 0);
    write_large_dump(writer, times_ns[0], true);
    check_dumps(fd, (size_t)lseek(fd, 0, SEEK_CUR), times_ns, 1);
    assert_int_equal(trace_writer_close(writer), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_travel_unrounded),
        cmocka_unit_test(figures_of_threads_travel),
        cmocka_unit_test(heads_and_names_travel),
        cmocka_unit_test(stacks_become_a_tree),
        cmocka_unit_test(rollup_counts_callers),
        cmocka_unit_test(every_cut_is_survived),
        cmocka_unit_test(every_flipped_byte_is_survived),
        cmocka_unit_test(a_cut_is_told_with_its_offset),
        cmocka_unit_test(what_is_no_trace_is_refused),
        cmocka_unit_test(a_gzipped_trace_reads_the_same),
        cmocka_unit_test(compressed_packets_read_the_same),
        cmocka_unit_test(what_a_dump_leaves_out_is_carried_over),
        cmocka_unit_test(dump_at_max_has_self_max_and_no_other_counter),
        cmocka_unit_test(a_part_of_the_maximum_that_falls_gets_counters),
        cmocka_unit_test(processes_share_stacks_of_one_file),
        cmocka_unit_test(what_may_differ_is_not_shared),
        cmocka_unit_test(a_large_dump_is_split_below_the_limit),
        cmocka_unit_test(an_exec_begins_another_process),
        cmocka_unit_test(tables_inside_a_profile_packet_are_read),
        cmocka_unit_test(symbols_that_come_later_name_frames),
        cmocka_unit_test(without_variances_they_are_estimated),
        cmocka_unit_test(a_failed_write_is_told_at_close),
        cmocka_unit_test(checkpoints_are_whole_or_not_there),
        cmocka_unit_test(checkpoints_need_an_ordinary_file),
        cmocka_unit_test(a_failed_checkpoint_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
