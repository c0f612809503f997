/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader skips samples whose bytes equal those of the previous dump. Whatever happens to the
 * ids in them, the profile must be the same as that of a trace with an additional unknown field in
 * each sample, which makes all of their bytes differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pb_field_numbers.h"
#include "profile/builder/profile_read.h"
#include "trace/proto_buffer.h"

#define UNKNOWN_FIELD 900
#define CALLSTACKS 8
#define NAMES 4
#define FRAMES 4
#define SEQUENCE_CLEARED 1

/* A trace under construction. */
struct scene {
    struct proto_buffer trace;
    bool all_differ;
    uint64_t random;
    uint64_t samples; /* written so far */
    uint64_t seconds, interval_bytes;
    double bytes[2][CALLSTACKS]; /* by heap */
    uint64_t types[CALLSTACKS];
};

static uint32_t pick(struct scene *scene, uint32_t count)
{
    scene->random = scene->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(scene->random >> 33) % count;
}

static void put(struct proto_buffer *buffer, uint32_t field, struct proto_buffer *message)
{
    proto_put_bytes(buffer, field, message->bytes, message->length);
    proto_buffer_free(message);
}

static void put_double(struct proto_buffer *buffer, uint32_t field, double value)
{
    proto_put_varint(buffer, (uint64_t)field << 3 | 1);
    proto_put_raw(buffer, &value, sizeof(value));
}

static void put_packet(struct scene *scene, uint32_t field, struct proto_buffer *message,
                       bool cleared)
{
    struct proto_buffer packet = {0};
    proto_put_uint(&packet, PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID, 1);
    if (cleared)
        proto_put_uint(&packet, PB_TRACE_PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
    put(&packet, field, message);
    put(&scene->trace, PB_TRACE_PACKET, &packet);
}

/* --- definitions of ids --- */

static void put_name(struct proto_buffer *data, uint32_t field, uint64_t iid, const char *word,
                     uint32_t number)
{
    struct proto_buffer entry = {0};
    char text[32];
    snprintf(text, sizeof(text), "%s %u", word, number);
    proto_put_uint(&entry, PB_INTERNED_STRING_IID, iid);
    proto_put_string(&entry, PB_INTERNED_STRING_STR, text);
    put(data, field, &entry);
}

static void put_callstack(struct scene *scene, struct proto_buffer *data, uint64_t iid)
{
    struct proto_buffer entry = {0};
    proto_put_uint(&entry, PB_CALLSTACK_IID, iid);
    for (uint32_t depth = 1 + pick(scene, 2); depth > 0; depth--)
        proto_put_uint(&entry, PB_CALLSTACK_FRAME_IDS, 1 + pick(scene, FRAMES));
    put(data, PB_INTERNED_DATA_CALLSTACKS, &entry);
}

static void put_context(struct scene *scene, struct proto_buffer *data, uint64_t iid)
{
    struct proto_buffer entry = {0};
    proto_put_uint(&entry, PB_HEAP_CONTEXT_IID, iid);
    proto_put_uint(&entry, PB_HEAP_CONTEXT_NAME_IDS, 1 + pick(scene, NAMES));
    put(data, PB_INTERNED_DATA_HEAP_CONTEXTS, &entry);
}

/* Define some of the ids. Others are missing until they are named later, or for good. */
static void define_all(struct scene *scene, bool cleared)
{
    struct proto_buffer data = {0};
    for (uint32_t i = 1; i <= FRAMES; i++) {
        struct proto_buffer frame = {0};
        put_name(&data, PB_INTERNED_DATA_FUNCTION_NAMES, i, "function", i);
        proto_put_uint(&frame, PB_FRAME_IID, i);
        proto_put_uint(&frame, PB_FRAME_FUNCTION_NAME_ID, i);
        put(&data, PB_INTERNED_DATA_FRAMES, &frame);
    }
    for (uint32_t i = 1; i <= NAMES; i++)
        if (pick(scene, 4) > 0)
            put_name(&data, PB_INTERNED_DATA_HEAP_NAMES, i, "name", pick(scene, 100));
    for (uint32_t i = 1; i <= NAMES; i++)
        if (pick(scene, 4) > 0)
            put_context(scene, &data, i);
    for (uint32_t i = 1; i <= CALLSTACKS; i++)
        if (pick(scene, 8) > 0)
            put_callstack(scene, &data, i);
    put_packet(scene, PB_TRACE_PACKET_INTERNED_DATA, &data, cleared);
}

static void change_a_meaning(struct scene *scene)
{
    struct proto_buffer data = {0};
    switch (pick(scene, 4)) {
    case 0:
        put_name(&data, PB_INTERNED_DATA_HEAP_NAMES, 1 + pick(scene, NAMES), "name",
                 pick(scene, 100));
        break;
    case 1:
        put_context(scene, &data, 1 + pick(scene, NAMES));
        break;
    case 2:
        put_callstack(scene, &data, 1 + pick(scene, CALLSTACKS));
        break;
    default:
        define_all(scene, true);
        return;
    }
    put_packet(scene, PB_TRACE_PACKET_INTERNED_DATA, &data, false);
}

/* --- dumps --- */

static void put_sample(struct scene *scene, struct proto_buffer *heap, uint32_t heap_index,
                       uint32_t stack)
{
    struct proto_buffer sample = {0}, figures = {0}, part = {0}, part_figures = {0};
    double bytes = scene->bytes[heap_index][stack];
    proto_put_uint(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID, stack + 1);
    if (stack == 1 && bytes > 3)
        proto_put_uint(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_MAX, 77);
    if (stack == 2 && bytes > 3) /* the last value counts */
        proto_put_uint(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID, CALLSTACKS);
    proto_put_uint(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_ALLOCATED, (uint64_t)bytes);
    proto_put_uint(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_ALLOC_COUNT, 1);
    put_double(&figures, PB_HEAP_FIGURES_ALLOCATED_BYTES, bytes);
    if (stack != 0) /* one has no estimate */
        put(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_ESTIMATE, &figures);
    proto_put_uint(&part, PB_HEAP_THREAD_FIGURES_TID, 5);
    proto_put_uint(&part, PB_HEAP_THREAD_FIGURES_TYPE_ID, scene->types[stack]);
    proto_put_uint(&part, PB_HEAP_THREAD_FIGURES_CONTEXT_ID, stack % (NAMES + 1));
    put_double(&part_figures, PB_HEAP_FIGURES_ALLOCATED_BYTES, bytes / 2);
    if (stack % 2 == 0)
        put(&part, PB_HEAP_THREAD_FIGURES_FIGURES, &part_figures);
    put(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_THREADS, &part);
    scene->samples++;
    if (scene->all_differ)
        proto_put_uint(&sample, UNKNOWN_FIELD, scene->samples);
    put(heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_SAMPLES, &sample);
    proto_buffer_free(&figures);
    proto_buffer_free(&part_figures);
}

/* Put the samples of every `step`th callstack. */
static void put_heap(struct scene *scene, struct proto_buffer *packet, uint32_t heap_index,
                     uint32_t first, uint32_t step)
{
    struct proto_buffer heap = {0};
    proto_put_uint(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_PID, 9);
    proto_put_string(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_HEAP_NAME,
                     heap_index == 0 ? "one" : "other");
    proto_put_uint(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_SAMPLING_INTERVAL_BYTES,
                   scene->interval_bytes);
    proto_put_uint(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_TIMESTAMP, scene->seconds);
    for (uint32_t stack = first; stack < CALLSTACKS; stack += step) {
        if (pick(scene, 12) == 0)
            scene->bytes[heap_index][stack] += pick(scene, 3) == 0 ? 1000000 : 1;
        if (pick(scene, 30) == 0)
            scene->types[stack] = pick(scene, NAMES + 1);
        if (pick(scene, 12) > 0)
            put_sample(scene, &heap, heap_index, stack);
        if (pick(scene, 40) == 0)
            put_sample(scene, &heap, heap_index, stack);
    }
    put(packet, PB_PROFILE_PACKET_PROCESS_DUMPS, &heap);
}

static void put_dump(struct scene *scene)
{
    uint32_t packets = 1 + pick(scene, 3);
    scene->seconds++;
    if (pick(scene, 10) == 0)
        scene->interval_bytes *= 2;
    for (uint32_t i = 0; i < packets; i++) {
        struct proto_buffer packet = {0};
        uint32_t heap = pick(scene, 2);
        if (i > 0 && pick(scene, 4) == 0)
            change_a_meaning(scene);
        put_heap(scene, &packet, heap, i, packets);
        put_heap(scene, &packet, 1 - heap, i, packets);
        if (i + 1 < packets)
            proto_put_uint(&packet, PB_PROFILE_PACKET_CONTINUED, 1);
        put_packet(scene, PB_TRACE_PACKET_PROFILE_PACKET, &packet, false);
    }
}

static struct profile *read_scene(struct scene *scene)
{
    struct error error = {0};
    struct profile *profile =
        profile_read_bytes(scene->trace.bytes, scene->trace.length, NULL, &error);
    assert_non_null(profile);
    proto_buffer_free(&scene->trace);
    return profile;
}

static struct profile *make_profile(uint64_t seed, uint32_t dumps, bool all_differ)
{
    struct scene scene = {.random = seed, .all_differ = all_differ, .interval_bytes = 512};
    for (uint32_t i = 0; i < CALLSTACKS; i++)
        scene.types[i] = i % (NAMES + 1);
    define_all(&scene, false);
    for (uint32_t i = 0; i < dumps; i++) {
        put_dump(&scene);
        if (pick(&scene, 5) == 0)
            change_a_meaning(&scene);
    }
    return read_scene(&scene);
}

/* --- comparing --- */

static void print_sample(FILE *out, const struct profile *profile,
                         const struct profile_sample *sample)
{
    for (uint32_t at = sample->callsite; at != PROFILE_NONE; at = profile->callsites[at].parent)
        fprintf(out, "%s<", profile->frames[profile->callsites[at].frame].name);
    fprintf(out, " %a %a %a %d", sample->figures.allocated_bytes,
            sample->figures.allocated_bytes_variance, sample->peak.bytes, sample->tagged);
    for (uint32_t i = 0; i < sample->part_count; i++)
        fprintf(out, " [%d %s %s %a %a]", sample->parts[i].tid, sample->parts[i].type,
                sample->parts[i].context, sample->parts[i].figures.allocated_bytes,
                sample->parts[i].peak.bytes);
    fprintf(out, "\n");
}

static char *print_profile(const struct profile *profile)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    for (size_t i = 0; i < profile->heap_count; i++) {
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++) {
            const struct profile_dump *dump = &profile->heaps[i].dumps[j];
            fprintf(out, "%s %zu: %a in %zu parts\n", profile->heaps[i].name, j,
                    dump->total.allocated_bytes, dump->part_count);
            for (size_t k = 0; k < dump->sample_count; k++)
                print_sample(out, profile, dump->samples[k]);
        }
    }
    fprintf(out, "%s\n", profile->warning);
    fclose(out);
    return text;
}

static void equal_bytes_follow_the_current_meaning_of_ids(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct profile *profile = make_profile(seed, 24, false);
        struct profile *read_whole = make_profile(seed, 24, true);
        char *text = print_profile(profile), *wanted = print_profile(read_whole);
        assert_string_equal(text, wanted);
        free(text);
        free(wanted);
        profile_free(profile);
        profile_free(read_whole);
    }
}

/* Here the samples have no special fields. */
static void unchanged_samples_are_shared_by_all_dumps(void **state)
{
    (void)state;
    struct scene scene = {.random = 3};
    struct proto_buffer data = {0};
    for (uint32_t i = 1; i <= 3; i++) {
        struct proto_buffer stack = {0};
        proto_put_uint(&stack, PB_CALLSTACK_IID, i);
        for (uint32_t depth = 0; depth < i; depth++)
            proto_put_uint(&stack, PB_CALLSTACK_FRAME_IDS, 1);
        put(&data, PB_INTERNED_DATA_CALLSTACKS, &stack);
    }
    put_packet(&scene, PB_TRACE_PACKET_INTERNED_DATA, &data, false);
    for (uint32_t i = 1; i <= 8; i++) {
        struct proto_buffer packet = {0}, heap = {0};
        proto_put_uint(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_PID, 9);
        proto_put_uint(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_TIMESTAMP, i);
        for (uint32_t stack = 1; stack <= 3; stack++) {
            struct proto_buffer sample = {0}, figures = {0};
            proto_put_uint(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID, stack);
            put_double(&figures, PB_HEAP_FIGURES_ALLOCATED_BYTES, stack == 2 ? i : 64);
            put(&sample, PB_PROFILE_PACKET_HEAP_SAMPLE_ESTIMATE, &figures);
            put(&heap, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_SAMPLES, &sample);
        }
        put(&packet, PB_PROFILE_PACKET_PROCESS_DUMPS, &heap);
        put_packet(&scene, PB_TRACE_PACKET_PROFILE_PACKET, &packet, false);
    }
    struct profile *profile = read_scene(&scene);
    assert_int_equal(profile->heaps[0].dump_count, 8);
    for (size_t i = 0; i < 8; i++) {
        const struct profile_dump *dump = &profile->heaps[0].dumps[i];
        assert_int_equal(dump->sample_count, 3);
        assert_true(dump->samples[1]->figures.allocated_bytes == (double)(i + 1));
        assert_ptr_equal(dump->samples[0], profile->heaps[0].dumps[0].samples[0]);
        assert_ptr_equal(dump->samples[2], profile->heaps[0].dumps[0].samples[2]);
    }
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bytes_follow_the_current_meaning_of_ids),
        cmocka_unit_test(unchanged_samples_are_shared_by_all_dumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
