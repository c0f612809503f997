/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps: each shows one moment, although events arrive while it is written. Also: skipped
 * frames. */
#include <limits.h>
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_fixture.h"
#include "profile/profile.h"
#include "profile/sums.h"
#include "recorder/dump/dump.h"
#include "trace_fixture.h"

#define STACKS 20000u
#define THREADS 3u

struct scene {
    struct ledger *ledger;
    uint64_t random, stacks;
    unsigned pauses;
};

static uint32_t next_random(struct scene *scene)
{
    scene->random = scene->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(scene->random >> 33);
}

/* A function of SKIPPED_BYTES addresses. Each address becomes a separate frame. */
#define SKIPPED_BYTES 8192
__asm__(".text\n.globl skipped_function\n.type skipped_function, %function\n"
        "skipped_function: .skip 8192\n.size skipped_function, 8192\n");
extern const char skipped_function[];

static void add_stack(struct scene *scene)
{
    uint64_t words[sizeof(struct record_stack) / 8 + 4] = {0};
    struct record_stack *record = (void *)words;
    record->hash = ++scene->stacks;
    record->count = 4;
    for (unsigned i = 0; i < 4; i++)
        record->frames[i] = 0x10000 + (record->hash >> 3 * i) * 16;
    assert_int_equal(0, ledger_visitor.stack(scene->ledger, record));
}

static void add_module(struct scene *scene, uint64_t start, uint64_t bytes, const char *path)
{
    uint64_t words[(sizeof(struct record_module) + PATH_MAX) / 8] = {0};
    struct record_module *record = (void *)words;
    record->start = start;
    record->end = start + bytes;
    record->path_length = (uint16_t)strlen(path);
    memcpy(record->bytes, path, strlen(path));
    assert_int_equal(0, ledger_visitor.module(scene->ledger, record));
}

static void add_events(struct scene *scene, unsigned count, uint8_t heaps)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t bits = next_random(scene);
        struct heap_event event = {
            .type = bits % 5 < 3 ? RECORD_ALLOC : RECORD_FREE,
            .heap = (uint8_t)(bits / 8 % heaps),
            .thread = (uint16_t)(bits / 64 % THREADS),
            .address = 64 + next_random(scene) % 40000 * 16,
            .size = 8 + next_random(scene) % 500,
            .stack = 1 + next_random(scene) % scene->stacks,
            .time_ms = i,
        };
        assert_int_equal(0, ledger_visitor.events(scene->ledger, &event, 1));
    }
}

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.ledger = ledger_open(100)};
    assert_non_null(scene->ledger);
    add_module(scene, 0x10000, 0x10000, "/no/such/library");
    for (unsigned i = 0; i < STACKS; i++)
        add_stack(scene);
    for (uint16_t i = 0; i < THREADS; i++)
        ledger_visitor.thread(scene->ledger, i, 100u + i, "worker");
    add_events(scene, 100000, 2);
}

/* Apply all kinds of events from a ring, and change all existing figures. */
static void change_ledger(void *context)
{
    struct scene *scene = context;
    scene->pauses++;
    add_module(scene, 0x1000000 * scene->pauses, 0x10000, "/no/such/library");
    for (unsigned i = 0; i < 2000; i++)
        add_stack(scene);
    ledger_visitor.thread(scene->ledger, (uint16_t)(scene->pauses % THREADS), 200 + scene->pauses,
                          "new");
    add_events(scene, 20000, 3);
    ledger_visitor.interval(scene->ledger, 0, scene->pauses, 100 + scene->pauses);
    ledger_visitor.modules_reset(scene->ledger);
}

static struct profile *read_back(int fd)
{
    struct profile *profile = fixture_take_profile(fd);
    assert_string_equal("", profile->warning);
    return profile;
}

/* Of a process that has ended and saw our files. */
static struct process_rights own_rights = {.has_ours = true, .shares_root = true};

static struct profile *dump(struct scene *scene, void (*pause)(void *context),
                            char *const *skipped_prefixes)
{
    int fd = memfd_create("dump", 0);
    struct dump_files *files = dump_files_open(pause, scene);
    struct trace_writer *writer = trace_writer_open(fd);
    struct dump_request request = {
        .rights = &own_rights,
        .status = {.pid = FIXTURE_PID, .exit_status = -1, .timestamp_ns = 1}};
    assert_true(fd >= 0 && files != NULL && writer != NULL);
    dump_files_skip(files, skipped_prefixes);
    assert_int_equal(0, dump_write(writer, files, scene->ledger, &request));
    assert_int_equal(0, trace_writer_close(writer));
    dump_files_close(files);
    return read_back(fd);
}

static void assert_same_sample(const struct profile_sample *one, const struct profile_sample *two)
{
    assert_int_equal(one->callsite, two->callsite);
    assert_int_equal(one->part_count, two->part_count);
    assert_memory_equal(&one->figures, &two->figures, sizeof(one->figures));
    assert_true(one->peak.bytes == two->peak.bytes && one->peak.count == two->peak.count);
}

static void test_dump_holds_the_moment_that_it_began(void **state)
{
    (void)state;
    struct scene quiet, busy;
    open_scene(&quiet);
    open_scene(&busy);
    struct profile *expected = dump(&quiet, NULL, NULL), *found = dump(&busy, change_ledger, NULL);
    assert_true(busy.pauses >= 5);
    assert_int_equal(2, found->heap_count);
    assert_int_equal(expected->heap_count, found->heap_count);
    for (size_t i = 0; i < found->heap_count; i++) {
        const struct profile_heap *one = &expected->heaps[i], *two = &found->heaps[i];
        assert_int_equal(one->interval_bytes, two->interval_bytes);
        assert_int_equal(one->status.heap_samples, two->status.heap_samples);
        assert_true(one->status.peak_live_bytes == two->status.peak_live_bytes);
        assert_int_equal(one->dumps[0].sample_count, two->dumps[0].sample_count);
        for (size_t j = 0; j < one->dumps[0].sample_count; j++)
            assert_same_sample(one->dumps[0].samples[j], two->dumps[0].samples[j]);
    }
    profile_free(expected);
    profile_free(found);
    ledger_close(quiet.ledger);
    ledger_close(busy.ledger);
}

static void test_dump_after_a_dump_misses_nothing(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    profile_free(dump(&scene, change_ledger, NULL));
    struct profile *profile = dump(&scene, NULL, NULL);
    double allocated = 0, freed = 0, peak = 0, peak_found = 0;
    struct ledger_amount held[LEDGER_HEAPS_MAX] = {0};
    struct trace_figures found = {0};
    for (size_t i = 0; i < ledger_figures_count(scene.ledger); i++) {
        struct ledger_figures figures = ledger_figures(scene.ledger, i);
        allocated += figures.sums.allocated_bytes;
        freed += figures.sums.freed_bytes;
        if (ledger_holds_peak(&figures))
            ledger_amount_add(&held[figures.heap], 1, ledger_peak_missed(&figures));
    }
    size_t heap_count;
    const struct ledger_heap *heaps = ledger_heaps(scene.ledger, &heap_count);
    for (size_t i = 0; i < heap_count; i++)
        peak += ledger_peak_of(&heaps[i], held[i]).bytes;
    assert_int_equal(3, profile->heap_count);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_dump *last = &profile->heaps[i].dumps[0];
        found.allocated_bytes += last->total.allocated_bytes;
        found.freed_bytes += last->total.freed_bytes;
        for (size_t j = 0; j < last->sample_count; j++)
            peak_found += last->samples[j]->peak.bytes;
    }
    assert_true(fabs(found.allocated_bytes - allocated) < 1e-9 * allocated);
    assert_true(fabs(found.freed_bytes - freed) < 1e-9 * allocated);
    assert_true(fabs(peak_found - peak) < 1e-9 * allocated);
    profile_free(profile);
    ledger_close(scene.ledger);
}

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uint64_t *)base = info->dlpi_addr;
    return 1; /* the program is the first */
}

static void test_skipped_frames_leave_one_callsite(void **state)
{
    (void)state;
    struct scene scene = {.ledger = ledger_open(1)};
    char path[PATH_MAX], *prefixes[] = {"skipped_f", NULL};
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    uint64_t base = 0, address = (uint64_t)skipped_function;
    assert_true(length > 0);
    path[length] = 0;
    dl_iterate_phdr(find_base, &base);
    add_module(&scene, base, address + SKIPPED_BYTES - base, path);
    for (uint64_t i = 0; i < SKIPPED_BYTES; i++) {
        uint64_t words[sizeof(struct record_stack) / 8 + 2] = {0};
        struct record_stack *record = (void *)words;
        record->hash = i + 1;
        record->count = 2;
        record->frames[0] = address + i;
        record->frames[1] = 0x1234;
        assert_int_equal(0, ledger_visitor.stack(scene.ledger, record));
        struct heap_event event = {
            .type = RECORD_ALLOC, .address = 16 + i * 16, .size = 10, .stack = i + 1};
        assert_int_equal(0, ledger_visitor.events(scene.ledger, &event, 1));
    }
    struct profile *profile = dump(&scene, NULL, prefixes);
    assert_int_equal(1, profile->heaps[0].dumps[0].sample_count);
    assert_true(profile->heaps[0].dumps[0].total.allocated_bytes == 10 * SKIPPED_BYTES);
    profile_free(profile);
    ledger_close(scene.ledger);
}

static void put(struct ledger *ledger, uint8_t heap, uint64_t id, uint64_t size)
{
    struct heap_event event = {.type = RECORD_ALLOC,
                               .heap = heap,
                               .interval = LEDGER_INTERVALS_OF_MALLOC,
                               .address = id,
                               .size = size,
                               .stack = 1};
    event.flags = heap == 3 ? RECORD_ALLOC_WEIGHED : 0;
    assert_int_equal(0, ledger_visitor.events(ledger, &event, 1));
}

static struct profile *dump_of(struct ledger *ledger, const struct dump_request *request)
{
    int fd = memfd_create("dump", 0);
    struct dump_files *files = dump_files_open(NULL, NULL);
    struct trace_writer *writer = trace_writer_open(fd);
    assert_int_equal(0, dump_write(writer, files, ledger, request));
    assert_int_equal(0, trace_writer_close(writer));
    dump_files_close(files);
    return read_back(fd);
}

static void test_each_heap_is_a_dump(void **state)
{
    (void)state;
    static struct ring_heap_totals totals[RING_HEAPS_MAX];
    struct ledger *ledger = ledger_open(0);
    assert_int_equal(0, ledger_visitor.interval(ledger, 1, LEDGER_INTERVALS_OF_MALLOC, 1));
    static const char *const names[] = {"", "pool", "pool", "frames", "quiet"};
    for (uint8_t heap = 1; heap <= 4; heap++) {
        assert_int_equal(0, ledger_visitor.heap(ledger, heap, 1, names[heap]));
        totals[heap] = (struct ring_heap_totals){.calls = heap, .bytes = 10u * heap};
        if (heap < 4)
            put(ledger, heap, UINT64_MAX, 10u * heap);
    }
    struct dump_request request = {
        .status = {.pid = FIXTURE_PID, .exit_status = -1, .timestamp_ns = 1, .remark = "once"},
        .heap_totals = totals};
    request.status.exact_bytes = request.status.exact_calls = 1000;
    struct profile *profile = dump_of(ledger, &request);
    static const struct {
        const char *name;
        double allocated;
        uint64_t bytes, calls;
    } expected[] = {
        {"pool", 10, 10, 1}, {"pool-2", 20, 20, 2}, {"frames", 30, 0, 0}, {"quiet", 0, 40, 4}};
    assert_int_equal(4, profile->heap_count);
    for (size_t i = 0; i < 4; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        assert_string_equal(expected[i].name, heap->name);
        assert_true(heap->dumps[0].total.allocated_bytes == expected[i].allocated);
        assert_int_equal(expected[i].bytes, heap->dumps[0].exact_bytes);
        assert_int_equal(expected[i].calls, heap->dumps[0].exact_calls);
        assert_int_equal(1, heap->interval_bytes);
        assert_true((heap->status.remark != NULL) == (i == 0));
    }
    profile_free(profile);
    ledger_close(ledger);
}

/* --- types and contexts --- */

#define TYPES 2500u /* more than one message has room for */

/* A ledger with one callsite of many types: type t has t bytes, half of them in a context. */
static struct ledger *tagged_ledger(void)
{
    struct ledger *ledger = ledger_open(1);
    add_name(ledger, 100001, "inner");
    add_name(ledger, 100002, "outer");
    add_context(ledger, 200000, 100001, 100002);
    for (uint64_t i = 1; i <= TYPES; i++) {
        char text[32];
        snprintf(text, sizeof(text), "type %u", (unsigned)i);
        add_name(ledger, i, text);
        struct heap_event event = {.type = RECORD_ALLOC,
                                   .address = 16 * i,
                                   .size = i,
                                   .type_hash = i,
                                   .context_hash = i % 2 == 0 ? 200000 : 0};
        assert_int_equal(0, ledger_visitor.events(ledger, &event, 1));
    }
    /* Now the heap is smaller than at its peak. */
    struct heap_event freed = {.type = RECORD_FREE, .address = 16 * 7};
    assert_int_equal(0, ledger_visitor.events(ledger, &freed, 1));
    return ledger;
}

static const struct sums_row *find_group(const struct sums *sums, const char *label)
{
    for (size_t i = 0; i < sums->row_count; i++) {
        if (strcmp(sums->rows[i].label, label) == 0)
            return &sums->rows[i];
    }
    fail_msg("no group %s", label);
    return NULL;
}

static void test_types_and_contexts_travel(void **state)
{
    (void)state;
    struct ledger *ledger = tagged_ledger();
    const struct dump_request request = {
        .status = {.pid = FIXTURE_PID, .exit_status = -1, .timestamp_ns = 1}};
    struct profile *profile = dump_of(ledger, &request);
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    assert_int_equal(1, dump->sample_count);
    assert_int_equal(TYPES, dump->samples[0]->part_count);
    assert_true(dump->total.allocated_bytes == TYPES * (TYPES + 1) / 2.0);

    const enum dimension by_type[] = {DIMENSION_TYPE, DIMENSION_CONTEXT};
    struct sums *types = sums_by_parts(dump, by_type, 2, NULL);
    assert_int_equal(TYPES, types->row_count);
    const struct sums_row *row = find_group(types, "type 2400");
    assert_true(rollup_live_bytes(&row->values.figures) == 2400 && row->values.peak.bytes == 2400);
    assert_int_equal(1, row->count);
    assert_string_equal("outer;inner", types->inner[row->first].label);
    row = find_group(types, "type 7");
    assert_true(rollup_live_bytes(&row->values.figures) == 0 && row->values.peak.bytes == 7);
    assert_string_equal("", types->inner[row->first].label);
    sums_free(types);

    const enum dimension by_context[] = {DIMENSION_CONTEXT, DIMENSION_CALLSITE};
    struct sums *contexts = sums_by_parts(dump, by_context, 2, NULL);
    assert_int_equal(2, contexts->row_count);
    assert_true(find_group(contexts, "outer;inner")->values.figures.allocated_count == TYPES / 2);
    assert_int_equal(1, find_group(contexts, "")->count);
    sums_free(contexts);
    profile_free(profile);
    ledger_close(ledger);
}

/* --- the frames of a callsite --- */

/* Write the names on the stack of the only sample with this number of bytes, outermost first. */
static void stack_of(const struct profile *profile, double bytes, char *text, size_t size)
{
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    uint32_t path[16];
    size_t depth = 0, found = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        if (dump->samples[i]->figures.allocated_bytes != bytes)
            continue;
        found++;
        depth = 0;
        for (uint32_t at = dump->samples[i]->callsite; at != PROFILE_NONE;
             at = profile->callsites[at].parent)
            path[depth++] = at;
    }
    assert_int_equal(1, found);
    text[0] = 0;
    while (depth-- > 0) {
        const struct profile_frame *frame = &profile->frames[profile->callsites[path[depth]].frame];
        size_t used = strlen(text);
        /* Named frames have no mapping; frames of code have no names here. */
        assert_true(*frame->name == 0 || frame->mapping == PROFILE_NONE);
        snprintf(text + used, size - used, "%s%s", used > 0 ? " > " : "",
                 *frame->name != 0 ? frame->name : "code");
    }
}

static void expect_stacks(enum heap_stack_mode mode, const char *plain, const char *in_context)
{
    struct ledger *ledger = ledger_open(1);
    uint64_t words[sizeof(struct record_stack) / 8 + 8] = {0};
    struct record_stack *stack = (void *)words;
    stack->hash = 1;
    stack->count = 2;
    stack->frames[0] = 0x1234;
    stack->frames[1] = 0x5678;
    assert_int_equal(0, ledger_visitor.stack(ledger, stack));
    assert_int_equal(0, ledger_visitor.thread(ledger, 0, 10, "main"));
    add_name(ledger, 1, "parse");
    add_name(ledger, 2, "style");
    uint64_t context_words[sizeof(struct record_context) / 8 + 2] = {0};
    struct record_context *context = (void *)context_words;
    context->hash = 3;
    context->count = 2;
    context->names[0] = 2;
    context->names[1] = 1;
    assert_int_equal(0, ledger_visitor.context(ledger, context));
    struct heap_event event = {.type = RECORD_ALLOC, .address = 16, .size = 5, .stack = 1};
    assert_int_equal(0, ledger_visitor.events(ledger, &event, 1));
    event.address = 32;
    event.context_hash = 3;
    event.size = 7;
    assert_int_equal(0, ledger_visitor.events(ledger, &event, 1));

    char text[256];
    const struct dump_request request = {
        .status = {.pid = FIXTURE_PID, .exit_status = -1, .timestamp_ns = 1}, .stack_mode = mode};
    struct profile *profile = dump_of(ledger, &request);
    if (in_context == NULL) {
        stack_of(profile, 12, text, sizeof(text));
        assert_string_equal(plain, text);
    } else {
        stack_of(profile, 5, text, sizeof(text));
        assert_string_equal(plain, text);
        stack_of(profile, 7, text, sizeof(text));
        assert_string_equal(in_context, text);
    }
    profile_free(profile);
    ledger_close(ledger);
}

static void test_stack_modes(void **state)
{
    (void)state;
    expect_stacks(HEAP_STACK_NATIVE, "code > code", NULL);
    expect_stacks(HEAP_STACK_THREAD_NAMES, "main > code > code", NULL);
    expect_stacks(HEAP_STACK_PSEUDO, "[no context]", "parse > style");
    expect_stacks(HEAP_STACK_MIXED, "code > code", "parse > style > code > code");
}

static void test_no_heap_is_reported(void **state)
{
    (void)state;
    struct ledger *ledger = ledger_open(0);
    const struct dump_request request = {
        .status = {.pid = FIXTURE_PID, .exit_status = -1, .timestamp_ns = 1, .remark = "why"},
        .no_heap_name = "wanted"};
    struct profile *profile = dump_of(ledger, &request);
    assert_int_equal(1, profile->heap_count);
    assert_string_equal("wanted", profile->heaps[0].name);
    assert_string_equal("why", profile->heaps[0].status.remark);
    assert_int_equal(0, profile->heaps[0].dumps[0].sample_count);
    profile_free(profile);
    ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dump_holds_the_moment_that_it_began),
        cmocka_unit_test(test_dump_after_a_dump_misses_nothing),
        cmocka_unit_test(test_skipped_frames_leave_one_callsite),
        cmocka_unit_test(test_each_heap_is_a_dump),
        cmocka_unit_test(test_types_and_contexts_travel),
        cmocka_unit_test(test_stack_modes),
        cmocka_unit_test(test_no_heap_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
