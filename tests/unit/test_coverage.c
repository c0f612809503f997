/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bias and coverage: programs whose truth is known are sampled many times, by the sampling rule,
 * into the real ledger, and read with the real estimates and limits. HEAPPROFD_RUNS=1000 prints the
 * figures of docs/sampling.md; by default there are fewer runs, and chance has more room.
 */
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
#include "profile/compare/estimates.h"
#include "recorder/ledger/ledger.h"
#include "wire/sampling.h"

#define RUNS_DEFAULT (32u / FEWER_ROUNDS + 2)
#define ROWS 3u
#define DUMPS 4u

/* --- programs --- */

/* A step of a program: an allocation, or with size 0 the free of an earlier one. */
struct step {
    uint32_t block, size;
    uint8_t row;
};

struct program {
    const char *name;
    struct step *steps;
    size_t count, capacity;
    uint32_t blocks;
    uint32_t *live;
    size_t live_count;
};

static void program_allocate(struct program *program, uint32_t size, unsigned row)
{
    if (program->count + 2 > program->capacity) {
        program->capacity = program->capacity * 2 + 1024;
        program->steps = realloc(program->steps, program->capacity * sizeof(*program->steps));
        program->live = realloc(program->live, program->capacity * sizeof(*program->live));
    }
    program->live[program->live_count++] = program->blocks;
    program->steps[program->count++] = (struct step){program->blocks++, size, (uint8_t)row};
}

static void program_free_at(struct program *program, size_t place)
{
    if (program->count + 2 > program->capacity) {
        program->capacity = program->capacity * 2 + 1024;
        program->steps = realloc(program->steps, program->capacity * sizeof(*program->steps));
        program->live = realloc(program->live, program->capacity * sizeof(*program->live));
    }
    program->steps[program->count++] = (struct step){.block = program->live[place]};
    program->live[place] = program->live[--program->live_count];
}

/* Sizes of 16 to 800 bytes in two rows, and of 16 bytes to 6 KiB in the third. */
static void allocate_some(struct program *program)
{
    unsigned row = (unsigned)(lrand48() % ROWS);
    program_allocate(program, 16 + (uint32_t)(row < 2 ? lrand48() % 785 : lrand48() % 6000), row);
}

/* Blocks of random lifetime: some 2,000 are live at a time. */
static void make_churning(struct program *program)
{
    for (int i = 0; i < 30000; i++) {
        allocate_some(program);
        if (lrand48() % 4000 < (long)program->live_count)
            program_free_at(program, (size_t)lrand48() % program->live_count);
        if (program->live_count > 2100)
            program_free_at(program, (size_t)lrand48() % program->live_count);
    }
}

static void make_growing(struct program *program)
{
    for (int i = 0; i < 12000; i++)
        allocate_some(program);
}

/* Grows to some 1,800 blocks and frees them all, twenty times. */
static void make_sawtooth(struct program *program)
{
    for (int cycle = 0; cycle < 20; cycle++) {
        for (long i = 0, blocks = 1500 + lrand48() % 600; i < blocks; i++)
            allocate_some(program);
        while (program->live_count > 0)
            program_free_at(program, program->live_count - 1);
    }
}

/* Most blocks are freed at once, one in ten never. */
static void make_leaking(struct program *program)
{
    for (int i = 0; i < 30000; i++) {
        allocate_some(program);
        if (i % 10 != 0)
            program_free_at(program, program->live_count - 1);
    }
}

static const struct {
    const char *name;
    void (*make)(struct program *program);
} programs[] = {
    {"churning", make_churning},
    {"growing", make_growing},
    {"sawtooth", make_sawtooth},
    {"leaking", make_leaking},
};

/* --- truth --- */

struct amounts {
    double bytes, count;
};

struct truth {
    struct amounts live, peak, allocated;
    struct amounts row_live[ROWS], row_allocated[ROWS];
    struct amounts row_peak[ROWS]; /* at the moment that the profile shows */
    double shown_bytes;
};

static void truth_add(struct truth *truth, unsigned row, double size, double sign)
{
    struct amounts *sums[] = {&truth->live, &truth->row_live[row], &truth->allocated,
                              &truth->row_allocated[row]};
    for (size_t i = 0; i < (sign > 0 ? 4 : 2); i++) {
        sums[i]->bytes += sign * size;
        sums[i]->count += sign;
    }
    if (truth->live.bytes > truth->peak.bytes)
        truth->peak = truth->live;
}

/* --- a run --- */

struct block {
    uint32_t size;
    uint8_t row;
    bool sampled;
};

/* A run's profile, as tools have it. */
struct run {
    struct profile_heap heap;
    struct profile_dump dump;
    struct profile_sample samples[ROWS];
    const struct profile_sample *pointers[ROWS];
    struct truth truth;
};

static void apply_step(struct ledger *ledger, uint64_t interval_bytes, const struct step *step,
                       struct block *blocks, uint32_t time_ms, struct truth *truth)
{
    struct block *block = &blocks[step->block];
    uint64_t address = UINT64_C(0x10000) + (uint64_t)step->block * 16;
    if (step->size == 0) {
        truth_add(truth, block->row, block->size, -1);
        struct heap_event event = free_event(address);
        event.time_ms = time_ms;
        if (block->sampled)
            apply(ledger, event);
        return;
    }
    *block = (struct block){step->size, step->row, false};
    truth_add(truth, step->row, step->size, 1);
    block->sampled = step->size >= sampling_certain_bytes(interval_bytes) ||
                     drand48() < -expm1(-(double)step->size / (double)interval_bytes);
    if (!block->sampled)
        return;
    struct heap_event event = alloc_event(address, step->size, step->row + 1u);
    event.time_ms = time_ms;
    event.ordinal = step->block + 1;
    apply(ledger, event);
}

static void note_peak(struct ledger *ledger, struct truth *truth)
{
    size_t count;
    double bytes = ledger_heaps(ledger, &count)[0].peak_bytes;
    if (bytes != truth->shown_bytes)
        memcpy(truth->row_peak, truth->row_live, sizeof(truth->row_peak));
    truth->shown_bytes = bytes;
}

static void calibrate(struct ledger *ledger, const struct truth *truth)
{
    static const struct ring_heap_totals none[LEDGER_HEAPS_MAX];
    const struct ring_totals totals = {.bytes = (uint64_t)truth->allocated.bytes,
                                       .calls = (uint64_t)truth->allocated.count};
    ledger_calibrate(ledger, &totals, none, false);
}

static void read_run(struct ledger *ledger, uint64_t interval_bytes, struct run *run)
{
    size_t count;
    const struct ledger_heap *heap = &ledger_heaps(ledger, &count)[0];
    struct ledger_amount held = {0};
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        const struct ledger_figures figures = ledger_figures(ledger, i);
        if (ledger_holds_peak(&figures))
            ledger_amount_add(&held, 1, ledger_peak_missed(&figures));
    }
    const struct ledger_peak peak = ledger_peak_of(heap, held);
    run->heap = (struct profile_heap){.interval_bytes = interval_bytes,
                                      .first_interval_bytes = interval_bytes,
                                      .dumps = &run->dump,
                                      .dump_count = 1};
    run->dump = (struct profile_dump){
        .samples = run->pointers,
        .sample_count = ROWS,
        .exact_bytes = (uint64_t)run->truth.allocated.bytes,
        .exact_calls = (uint64_t)run->truth.allocated.count,
        .sampled_bytes = heap->seen_bytes + heap->calibration.missed_by_chance.bytes,
        .sampled_calls = (double)heap->samples + heap->calibration.missed_by_chance.count,
        .calibration_ratio = calibration_ratio_most(&heap->calibration),
        .peak_highest_bytes = peak.highest.bytes,
        .peak_highest_count = peak.highest.count,
    };
    memset(run->samples, 0, sizeof(run->samples));
    for (size_t i = 0; i < ROWS; i++)
        run->pointers[i] = &run->samples[i];
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures figures = ledger_figures(ledger, i);
        ledger_correct_peak(&figures, peak.factor);
        const struct callsite_node *node = &ledger_callsites(ledger)->nodes[figures.node];
        struct profile_sample *sample = &run->samples[node->pc - 1];
        trace_figures_add(&sample->figures, &figures.sums);
        trace_peak_figures_add(&sample->peak, &figures.peak);
        trace_figures_add(&run->dump.total, &figures.sums);
    }
    rollup_find_peak_bias(&run->dump);
}

static void make_run(const struct program *program, uint64_t interval_bytes, struct run *run)
{
    struct ledger *ledger = open_ledger(interval_bytes);
    struct block *blocks = calloc(program->blocks + 1, sizeof(*blocks));
    run->truth = (struct truth){0};
    for (size_t i = 0; i < program->count; i++) {
        apply_step(ledger, interval_bytes, &program->steps[i], blocks, (uint32_t)(1 + i / 8),
                   &run->truth);
        note_peak(ledger, &run->truth);
        if ((i + 1) % (program->count / DUMPS + 1) == 0)
            calibrate(ledger, &run->truth);
        run->truth.shown_bytes = ledger_heaps(ledger, &(size_t){0})[0].peak_bytes;
    }
    calibrate(ledger, &run->truth);
    read_run(ledger, interval_bytes, run);
    free(blocks);
    ledger_close(ledger);
}

/* --- what is judged --- */

struct tally {
    double truth, estimate, covered, cases, outside, width;
};

static void judge(struct tally *tally, const struct run *run, const struct profile_estimate *figure,
                  bool counts, bool is_total, double truth)
{
    double value = counts ? figure->count : figure->bytes;
    struct profile_interval limits =
        is_total ? estimate_total_of(figure, counts, &run->heap, &run->dump).interval
                 : estimate_interval(figure, counts, &run->heap, &run->dump);
    double slack = 1e-6 * truth + 1e-6;
    tally->truth += truth;
    tally->estimate += value;
    tally->width += (limits.high - limits.low) / 2;
    tally->covered += limits.low <= truth + slack && truth <= limits.high + slack;
    tally->cases++;
    double most = rollup_most(&run->heap, &run->dump, counts);
    if (most > 0 && value > most)
        value = most;
    if (value < limits.low - slack || value > limits.high + slack)
        tally->outside++;
}

enum judged {
    LIVE,
    LIVE_COUNT,
    PEAK,
    ALLOCATED,
    CALLS,
    ROW_LIVE,
    ROW_PEAK,
    ROW_ALLOCATED,
    ROW_CALLS,
    JUDGED
};
static const char *const judged_names[] = {"live",      "live count",    "peak",
                                           "allocated", "calls",         "row live",
                                           "row peak",  "row allocated", "row calls"};

static void judge_run(struct tally tallies[JUDGED], const struct run *run)
{
    static const struct {
        enum export_view view;
        bool counts;
        enum judged total, row;
    } figures[] = {
        {EXPORT_SPACE, false, LIVE, ROW_LIVE},
        {EXPORT_OBJECTS, true, LIVE_COUNT, JUDGED},
        {EXPORT_MAX, false, PEAK, ROW_PEAK},
        {EXPORT_ALLOC_SPACE, false, ALLOCATED, ROW_ALLOCATED},
        {EXPORT_ALLOC_OBJECTS, true, CALLS, ROW_CALLS},
    };
    const struct truth *truth = &run->truth;
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
        bool is_peak = figures[i].total == PEAK;
        bool is_live = figures[i].total == LIVE || figures[i].total == LIVE_COUNT;
        const struct amounts *all = is_peak   ? &truth->peak
                                    : is_live ? &truth->live
                                              : &truth->allocated;
        const struct amounts *rows = is_peak   ? truth->row_peak
                                     : is_live ? truth->row_live
                                               : truth->row_allocated;
        struct profile_estimate figure = estimate_of_dump(&run->dump, figures[i].view);
        judge(&tallies[figures[i].total], run, &figure, figures[i].counts, true,
              figures[i].counts ? all->count : all->bytes);
        for (size_t j = 0; j < ROWS && figures[i].row != JUDGED; j++) {
            struct rollup_values values = rollup_values_of(run->pointers[j]);
            figure = estimate_of_view(&values, figures[i].view);
            if (figure.samples < 1)
                continue; /* a row without samples is not shown */
            judge(&tallies[figures[i].row], run, &figure, figures[i].counts, false,
                  figures[i].counts ? rows[j].count : rows[j].bytes);
        }
    }
}

static void print_tallies(const char *name, uint64_t interval_bytes,
                          const struct tally tallies[JUDGED])
{
    printf("%-9s %7llu", name, (unsigned long long)interval_bytes);
    for (size_t i = 0; i < JUDGED; i++)
        printf(" | %s %.1f%% %+.1f%% w %.0f%%", judged_names[i],
               100 * tallies[i].covered / tallies[i].cases,
               100 * (tallies[i].estimate / tallies[i].truth - 1),
               100 * tallies[i].width / tallies[i].truth);
    printf("\n");
}

static void check_tallies(const char *name, uint64_t interval_bytes,
                          const struct tally tallies[JUDGED])
{
    for (size_t i = 0; i < JUDGED; i++) {
        const struct tally *tally = &tallies[i];
        /* Rows with less than one sample on average are held less often (docs/sampling.md). */
        bool is_row = i >= ROW_LIVE;
        double least = is_row && interval_bytes >= 65536 ? 0.88 : 0.92;
        double missed = tally->cases - tally->covered;
        double most = tally->cases * (1 - least) + 4 * sqrt(tally->cases * least * (1 - least)) + 1;
        if (missed > most || tally->outside > 0)
            fail_msg("%s at %llu: the limits of '%s' miss the truth in %.0f of %.0f cases, and the "
                     "estimate in %.0f",
                     name, (unsigned long long)interval_bytes, judged_names[i], missed,
                     tally->cases, tally->outside);
    }
    /* What is known exactly is used. */
    const struct tally *allocated = &tallies[ALLOCATED];
    if (interval_bytes <= 4096)
        assert_true(fabs(allocated->estimate - allocated->truth) < 1e-6 * allocated->truth);
}

static void test_estimates_hold_the_truth(void **state)
{
    (void)state;
    static const uint64_t intervals[] = {512, 4096, 16384, 65536, 524288};
    const char *wanted = getenv("HEAPPROFD_RUNS");
    size_t runs = wanted != NULL ? (size_t)atol(wanted) : RUNS_DEFAULT;
    for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        for (size_t j = 0; j < sizeof(intervals) / sizeof(*intervals); j++) {
            struct tally tallies[JUDGED] = {0};
            srand48(7);
            for (size_t k = 0; k < runs; k++) {
                struct program program = {.name = programs[i].name};
                struct run run;
                programs[i].make(&program);
                make_run(&program, intervals[j], &run);
                judge_run(tallies, &run);
                free(program.steps);
                free(program.live);
            }
            if (wanted != NULL)
                print_tallies(programs[i].name, intervals[j], tallies);
            check_tallies(programs[i].name, intervals[j], tallies);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimates_hold_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
