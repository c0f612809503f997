/* SPDX-License-Identifier: Apache-2.0 */
/* The reader and the profile return what the writer wrote; damage is tolerated. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <zlib.h>

#include <cmocka.h>

#include "pb_field_numbers.h"
#include "profile/profile.h"
#include "profile/sums.h"
#include "trace.pb-c.h"
#include "trace/proto_buffer.h"
#include "trace/read/trace_reader.h"
#include "trace/read/trace_source.h"
#include "trace_fixture.h"

static struct profile *read_fixture(void)
{
    struct fixture_trace trace = fixture_full_trace();
    struct error error = {0};
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length, NULL, &error);
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

static void figures_survive_the_round_trip_unrounded(void **state)
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

static void figures_of_threads_survive_the_round_trip(void **state)
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

static void headers_and_names_survive_the_round_trip(void **state)
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

static void sums_count_callers(void **state)
{
    (void)state;
    struct profile *profile = read_fixture();
    struct sums_tables tables = {.profile = profile};
    struct sums *sums = sums_by_function(&tables, &profile->heaps[0].dumps[0]);
    assert_int_equal(sums->row_count, 3);
    for (size_t i = 0; i < sums->row_count; i++) {
        const struct sums_row *row = &sums->rows[i];
        if (strcmp(profile->frames[row->frame].name, "main") == 0)
            assert_true(row->values.figures.allocated_bytes == 1564.25);
    }
    for (int by_function = 0; by_function < 2; by_function++) {
        struct sums_tree *tree =
            sums_tree_new(&tables, &profile->heaps[0].dumps[0], by_function != 0);
        assert_int_not_equal(tree->first_root, PROFILE_NONE);
        const struct sums_node *root = &tree->nodes[tree->first_root];
        assert_true(root->cumulative.figures.allocated_bytes == 1564.25);
        assert_string_equal(profile->frames[profile->callsites[root->callsite].frame].name, "main");
        sums_tree_free(tree);
    }
    /* Again from the same tables: nothing of the first pass remains in them. */
    struct sums *again = sums_by_function(&tables, &profile->heaps[0].dumps[0]);
    assert_int_equal(again->row_count, sums->row_count);
    for (size_t i = 0; i < sums->row_count; i++) {
        const struct sums_row *row = &sums->rows[i], *other = &again->rows[i];
        assert_int_equal(row->frame, other->frame);
        assert_memory_equal(&row->values, &other->values, sizeof(row->values));
    }
    sums_free(again);
    sums_tables_clear(&tables);
    sums_free(sums);
    profile_free(profile);
}

static void every_cut_is_survived(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    for (size_t length = 0; length < trace.length; length++) {
        struct error error = {0};
        /* A separate allocation, so that a sanitizer sees a read beyond the cut. */
        uint8_t *part = malloc(length + (length == 0));
        memcpy(part, trace.bytes, length);
        struct profile *profile = profile_read_bytes(part, length, NULL, &error);
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
        profile_free(profile_read_bytes(trace.bytes, trace.length, NULL, NULL));
        trace.bytes[at] ^= 0xff;
    }
    free(trace.bytes);
}

static void truncation_is_reported_with_its_offset(void **state)
{
    (void)state;
    struct fixture_trace trace = fixture_full_trace();
    struct profile *profile = profile_read_bytes(trace.bytes, trace.length - 1, NULL, NULL);
    assert_non_null(strstr(profile->warning, "cut off in the packet at offset"));
    assert_int_equal(profile->heap_count, 1);
    profile_free(profile);
    free(trace.bytes);
}

static void files_other_than_traces_are_refused(void **state)
{
    (void)state;
    struct error error = {0};
    assert_null(profile_read_bytes("hello, world", 12, NULL, &error));
    assert_true(error.code < 0);
    assert_null(profile_read_bytes("", 0, NULL, &error));
    assert_null(profile_read("/nonexistent/trace", NULL, &error));
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
    struct profile *profile = profile_read_bytes(packed, stream.total_out, NULL, NULL);
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
    struct profile *profile = profile_read_bytes(file.bytes, file.length, NULL, NULL);
    assert_true(profile->heaps[0].dumps[0].total.allocated_bytes == 1564.25);
    profile_free(profile);
    proto_buffer_free(&packet);
    proto_buffer_free(&file);
    free(packed);
    free(trace.bytes);
}

static struct profile *read_stats(const Perfetto__Protos__ProcessStats__Process *process)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__ProcessStats stats = PERFETTO__PROTOS__PROCESS_STATS__INIT;
    Perfetto__Protos__ProcessStats__Process *processes[] = {
        (Perfetto__Protos__ProcessStats__Process *)process};
    struct proto_buffer file = {0};
    stats.n_processes = 1;
    stats.processes = processes;
    packet.process_stats = &stats;
    proto_put_message(&file, PB_TRACE_PACKET, &packet.base);
    struct profile *profile = profile_read_bytes(file.bytes, file.length, NULL, NULL);
    proto_buffer_free(&file);
    return profile;
}

/* The buffer grows for a large packet, and shrinks again later. */
static void packets_after_large_ones_read_the_same(void **state)
{
    (void)state;
    static const size_t lengths[] = {100, 3000000, 700000}; /* then ordinary ones */
    const size_t count = 300, usual = 50000;
    struct proto_buffer trace = {0};
    uint8_t *bytes = malloc(lengths[1]);
    for (size_t i = 0; i < count; i++) {
        size_t length = i < 3 ? lengths[i] : usual + i;
        memset(bytes, (int)i, length);
        proto_put_bytes(&trace, PB_TRACE_PACKET, bytes, length);
    }
    struct error error = {0};
    struct trace_reader *reader =
        trace_reader_open_source(trace_source_of_bytes(trace.bytes, trace.length, &error), &error);
    struct proto_span packet;
    for (size_t i = 0; i < count; i++) {
        size_t length = i < 3 ? lengths[i] : usual + i;
        assert_int_equal(trace_reader_next(reader, &packet, &error), 1);
        assert_int_equal(proto_length(packet), length);
        assert_int_equal(packet.at[0], (uint8_t)i);
        assert_int_equal(packet.at[length - 1], (uint8_t)i);
    }
    assert_int_equal(trace_reader_next(reader, &packet, &error), 0);
    trace_reader_close(reader);
    proto_buffer_free(&trace);
    free(bytes);
}

static void absent_parts_of_the_memory_are_unknown(void **state)
{
    (void)state;
    Perfetto__Protos__ProcessStats__Process process =
        PERFETTO__PROTOS__PROCESS_STATS__PROCESS__INIT;
    process.has_pid = process.has_vm_swap_kb = process.has_rss_shmem_kb = true;
    process.pid = 7;
    process.vm_swap_kb = 3;
    process.rss_shmem_kb = 0;
    struct profile *profile = read_stats(&process);
    assert_int_equal(profile->processes[0].timeline_count, 1);
    const struct profile_memory_point *point = &profile->processes[0].timeline[0];
    assert_int_equal(point->swap_bytes, 3072);
    assert_int_equal(point->rss_shmem_bytes, 0);
    assert_true(point->rss_file_bytes == PROFILE_UNKNOWN_BYTES);
    profile_free(profile);

    process.vm_swap_kb = UINT64_MAX; /* no such amount of bytes */
    process.has_rss_shmem_kb = false;
    profile = read_stats(&process);
    assert_int_equal(profile->process_count, 0);
    profile_free(profile);
}

/* Read a ProfilePacket with its own tables, whose symbols come later. */
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
    struct profile *profile = profile_read_bytes(file.bytes, file.length, NULL, NULL);
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
    /* Two samples of 4096 bytes each at an interval of 4096: tiny allocations, so each has a
     * variance of the squared interval. */
    assert_true(figures->allocated_bytes_variance > 1.6e7);
    assert_true(figures->allocated_bytes_variance <= 2.0 * 4096 * 4096);
    profile_free(profile);
}

static void a_failed_write_is_reported_at_close(void **state)
{
    (void)state;
    struct trace_writer *writer = trace_writer_open(-1);
    assert_int_equal(trace_writer_uuid(writer), -EBADF);
    assert_int_equal(trace_writer_clock_snapshot(writer), -EBADF);
    assert_int_equal(trace_writer_close(writer), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_survive_the_round_trip_unrounded),
        cmocka_unit_test(figures_of_threads_survive_the_round_trip),
        cmocka_unit_test(headers_and_names_survive_the_round_trip),
        cmocka_unit_test(stacks_become_a_tree),
        cmocka_unit_test(sums_count_callers),
        cmocka_unit_test(every_cut_is_survived),
        cmocka_unit_test(every_flipped_byte_is_survived),
        cmocka_unit_test(truncation_is_reported_with_its_offset),
        cmocka_unit_test(files_other_than_traces_are_refused),
        cmocka_unit_test(a_gzipped_trace_reads_the_same),
        cmocka_unit_test(compressed_packets_read_the_same),
        cmocka_unit_test(packets_after_large_ones_read_the_same),
        cmocka_unit_test(absent_parts_of_the_memory_are_unknown),
        cmocka_unit_test(tables_inside_a_profile_packet_are_read),
        cmocka_unit_test(symbols_that_come_later_name_frames),
        cmocka_unit_test(without_variances_they_are_estimated),
        cmocka_unit_test(a_failed_write_is_reported_at_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
