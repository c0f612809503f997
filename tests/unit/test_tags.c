/* SPDX-License-Identifier: Apache-2.0 */
/* Types and contexts in traces: missing, too long, duplicate, or before their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/sums.h"
#include "trace_fixture.h"
#include "uint_in_range.h"

static struct trace_thread_figures part(uint64_t type, uint64_t context, double bytes)
{
    return (struct trace_thread_figures){
        .tid = FIXTURE_PID,
        .figures = {.allocated_bytes = bytes, .allocated_count = 1, .samples = 1},
        .type = type,
        .context = context,
        .peak.bytes = bytes};
}

static void put_sample(struct trace_writer *writer, uint64_t callstack,
                       const struct trace_thread_figures *parts, size_t count)
{
    struct trace_heap_sample sample = {
        .callstack = callstack, .threads = parts, .thread_count = count};
    for (size_t i = 0; i < count; i++) {
        sample.figures.allocated_bytes += parts[i].figures.allocated_bytes;
        sample.figures.allocated_count += 1;
        sample.figures.samples += 1;
        sample.peak.bytes += parts[i].peak.bytes;
    }
    assert_int_equal(trace_writer_dump_sample(writer, &sample), 0);
}

static struct profile *finish(struct trace_writer *writer, int fd)
{
    trace_writer_dump_end(writer);
    assert_int_equal(trace_writer_close(writer), 0);
    return fixture_take_profile(fd);
}

static double bytes_of(const struct profile_dump *dump, enum dimension by, const char *label)
{
    struct sums *sums = sums_by_parts(dump, &by, 1, NULL);
    double bytes = -1;
    assert_non_null(sums);
    for (size_t i = 0; i < sums->row_count; i++) {
        if (strcmp(sums->rows[i].label, label) == 0) {
            assert_true(bytes == -1);
            bytes = sums->rows[i].values.figures.allocated_bytes;
        }
    }
    sums_free(sums);
    return bytes;
}

struct scene {
    int fd;
    struct trace_writer *writer;
    struct fixture_stacks stacks;
    uint64_t type, context;
};

static struct scene open_scene(void)
{
    struct scene scene = {.fd = memfd_create("trace", 0)};
    scene.writer = trace_writer_open(scene.fd);
    trace_writer_clock_snapshot(scene.writer);
    scene.stacks = fixture_stacks(scene.writer);
    scene.type = trace_writer_heap_name(scene.writer, "Node");
    uint64_t names[] = {trace_writer_heap_name(scene.writer, "outer"),
                        trace_writer_heap_name(scene.writer, "inner")};
    scene.context = trace_writer_heap_context(scene.writer, names, 2);
    assert_int_equal(trace_writer_heap_name(scene.writer, "Node"), scene.type);
    assert_int_equal(trace_writer_heap_context(scene.writer, names, 2), scene.context);
    return scene;
}

static void begin_dump(struct scene *scene, uint64_t timestamp_ns, bool final)
{
    struct trace_heap_dump dump = fixture_dump();
    dump.timestamp_ns = timestamp_ns;
    dump.final = final;
    /* Dumps with these fields are complete. */
    dump.exact_calls = 0;
    dump.peak_live_bytes = 0;
    trace_writer_dump_begin(scene->writer, &dump);
}

static void undefined_tags_are_unknown(void **state)
{
    (void)state;
    struct scene scene = open_scene();
    struct trace_thread_figures parts[] = {part(scene.type, scene.context, 1), part(77, 0, 2),
                                           part(0, 78, 4), part(0, 0, 8)};
    begin_dump(&scene, 1000, true);
    put_sample(scene.writer, scene.stacks.in_inner, parts, 4);
    struct profile *profile = finish(scene.writer, scene.fd);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    assert_true(bytes_of(dump, DIMENSION_TYPE, "Node") == 1);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "[unknown]") == 2);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "") == 12);
    assert_true(bytes_of(dump, DIMENSION_CONTEXT, "outer;inner") == 1);
    assert_true(bytes_of(dump, DIMENSION_CONTEXT, "[unknown]") == 4);
    profile_free(profile);
}

static void long_contexts_are_cut(void **state)
{
    (void)state;
    struct scene scene = open_scene();
    char name[1001];
    memset(name, 'x', 1000);
    name[1000] = 0;
    uint64_t names[200];
    for (size_t i = 0; i < 200; i++) {
        snprintf(name, 8, "%07u", (unsigned)i);
        name[7] = 'x';
        names[i] = trace_writer_heap_name(scene.writer, name);
    }
    struct trace_thread_figures parts[] = {
        part(0, trace_writer_heap_context(scene.writer, names, 200), 1)};
    begin_dump(&scene, 1000, true);
    put_sample(scene.writer, scene.stacks.in_inner, parts, 1);
    struct profile *profile = finish(scene.writer, scene.fd);
    const char *context = profile->heaps[0].dumps[0].samples[0]->parts[0].context;
    size_t length = strlen(context);
    assert_uint_in_range(length, 15000, 17000);
    assert_string_equal("[...]", context + length - 5);
    assert_memory_equal("0000000xx", context, 9);
    profile_free(profile);
}

static void parts_of_one_callsite_are_summed(void **state)
{
    (void)state;
    struct scene scene = open_scene();
    struct trace_thread_figures once[] = {part(scene.type, 0, 1), part(0, 0, 2)};
    struct trace_thread_figures twice[] = {part(scene.type, 0, 4),
                                           part(scene.type, scene.context, 8)};
    begin_dump(&scene, 1000, true);
    put_sample(scene.writer, scene.stacks.in_inner, once, 2);
    put_sample(scene.writer, scene.stacks.in_inner, twice, 2);
    struct profile *profile = finish(scene.writer, scene.fd);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    assert_int_equal(dump->sample_count, 1);
    assert_int_equal(dump->samples[0]->part_count, 3);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "Node") == 13);
    assert_true(bytes_of(dump, DIMENSION_CONTEXT, "outer;inner") == 8);
    assert_true(dump->total.allocated_bytes == 15);
    profile_free(profile);
}

static void parts_are_carried_over(void **state)
{
    (void)state;
    struct scene scene = open_scene();
    struct trace_thread_figures first[] = {part(scene.type, 0, 1), part(0, 0, 2)};
    struct trace_thread_figures later[] = {part(scene.type, scene.context, 8)};
    begin_dump(&scene, 1000, false);
    put_sample(scene.writer, scene.stacks.in_inner, first, 2);
    trace_writer_dump_end(scene.writer);
    begin_dump(&scene, 2000, true);
    put_sample(scene.writer, scene.stacks.in_outer, later, 1);
    struct profile *profile = finish(scene.writer, scene.fd);
    assert_int_equal(profile->heaps[0].dump_count, 2);
    const struct profile_dump *dump = &profile->heaps[0].dumps[1];
    assert_int_equal(dump->sample_count, 2);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "Node") == 9);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "") == 2);
    assert_true(bytes_of(dump, DIMENSION_CONTEXT, "outer;inner") == 8);
    profile_free(profile);
}

static void names_may_come_after_their_use(void **state)
{
    (void)state;
    struct scene scene = open_scene();
    /* More parts than fit in a packet. */
    enum { PARTS = 5000 };
    struct trace_thread_figures *parts = calloc(PARTS, sizeof(*parts));
    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = part(i + 100, 0, 1);
    begin_dump(&scene, 1000, true);
    put_sample(scene.writer, scene.stacks.in_inner, parts, PARTS);
    for (unsigned i = 0; i < PARTS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "type %u", i);
        trace_writer_heap_name(scene.writer, name);
    }
    struct profile *profile = finish(scene.writer, scene.fd);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    /* Ids start at 1, and three exist already: id 100 + i is of type 96 + i, and 96 ids are of
     * none. */
    assert_int_equal(dump->samples[0]->part_count, PARTS - 96 + 1);
    assert_true(dump->total.allocated_bytes == PARTS);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "type 96") == 1);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "type 4999") == 1);
    assert_true(bytes_of(dump, DIMENSION_TYPE, "[unknown]") == 96);
    free(parts);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undefined_tags_are_unknown),
        cmocka_unit_test(long_contexts_are_cut),
        cmocka_unit_test(parts_of_one_callsite_are_summed),
        cmocka_unit_test(parts_are_carried_over),
        cmocka_unit_test(names_may_come_after_their_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
