/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periods of cumulative dumps, and the file of a period: what is live has the same estimate and the
 * same limits as in the dump, whatever was allocated within the period.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "production/continuous/periods.h"
#include "production/sinks/period_pprof.h"
#include "profile/compare/estimates.h"
#include "profile/import/import.h"
#include "profile/partial.h"

#define INTERVAL 65536
#define ROWS 2
#define NEAR(a, b) (fabs((a) - (b)) <= 1e-9 * fmax(fabs(a), fabs(b)))

/* A process with one heap, whose dumps the test makes. */
struct fixture {
    struct profile *names; /* of the callsites */
    struct profile profile;
    struct profile_process process;
    struct profile_heap heap;
    struct profile_dump dump;
    struct profile_sample rows[ROWS];
    const struct profile_sample *samples[ROWS];
    struct periods *periods;
    bool is_calibrated; /* the estimates add up to the exact totals */
};

static void begin(struct fixture *fixture)
{
    static const char text[] = "main;hold 1\nmain;churn 1\n";
    *fixture = (struct fixture){
        .names = import_profile_bytes(text, sizeof(text) - 1, NULL, NULL),
        .process = {.pid = 7, .name = "held", .command = "held"},
        .heap = {.name = "libc.malloc",
                 .interval_bytes = INTERVAL,
                 .first_interval_bytes = INTERVAL,
                 .status = {.exit_status = -1}},
        .periods = periods_new(),
    };
    assert_non_null(fixture->names);
    fixture->profile = *fixture->names;
    fixture->profile.processes = &fixture->process;
    fixture->profile.heaps = &fixture->heap;
    fixture->profile.process_count = fixture->profile.heap_count = 1;
    fixture->heap.dumps = &fixture->dump;
    fixture->heap.dump_count = 1;
    fixture->dump.interval_bytes = INTERVAL;
    const struct profile_dump *named = &fixture->names->heaps[0].dumps[0];
    assert_int_equal(named->sample_count, ROWS);
    for (int i = 0; i < ROWS; i++) {
        fixture->rows[i] = (struct profile_sample){
            .callsite = named->samples[i]->callsite, .type = "", .context = ""};
        fixture->samples[i] = &fixture->rows[i];
    }
    fixture->dump.samples = fixture->samples;
    fixture->dump.sample_count = ROWS;
}

static void end(struct fixture *fixture)
{
    periods_free(fixture->periods);
    profile_free(fixture->names);
}

/* Add samples of a size to a row, and to the exact totals what they represent, or one less. */
static void allocate(struct fixture *fixture, int row, uint64_t samples, double size, bool freed)
{
    struct trace_figures *figures = &fixture->rows[row].figures;
    double p = -expm1(-size / INTERVAL), count = (double)samples / p;
    double variance = (double)samples * (1 - p) / (p * p);
    figures->samples += samples;
    figures->allocated_count += count;
    figures->allocated_bytes += count * size;
    figures->allocated_count_variance += variance;
    figures->allocated_bytes_variance += variance * size * size;
    fixture->dump.exact_calls += (uint64_t)count;
    fixture->dump.exact_bytes += (uint64_t)count * (uint64_t)size;
    if (!freed)
        return;
    figures->freed_samples += samples;
    figures->freed_count += count;
    figures->freed_bytes += count * size;
    figures->freed_count_variance += variance;
    figures->freed_bytes_variance += variance * size * size;
}

/* Take a dump of what there is now, and return its period. */
static struct period *dump(struct fixture *fixture)
{
    size_t count = 0;
    uint64_t lost = 0;
    fixture->dump.boottime_ns += 1000000000;
    fixture->dump.total = (struct trace_figures){0};
    for (int i = 0; i < ROWS; i++)
        trace_figures_add(&fixture->dump.total, &fixture->rows[i].figures);
    if (fixture->is_calibrated) {
        const struct trace_figures *total = &fixture->dump.total;
        fixture->dump.exact_bytes = (uint64_t)(total->allocated_bytes + 0.5);
        fixture->dump.exact_calls = (uint64_t)(total->allocated_count + 0.5);
        fixture->dump.sampled_bytes = total->allocated_bytes * 1.02;
        fixture->dump.sampled_calls = total->allocated_count * 1.02;
    }
    struct period *periods =
        periods_make(fixture->periods, &fixture->profile, 1000000000, &count, &lost);
    assert_int_equal(count, 1);
    assert_int_equal(lost, 0);
    return &periods[0];
}

/* Return the profile that a tool reads from the period's file. */
static struct profile *file_of(const struct period *period)
{
    static const struct pprof_period file = {.types = PERIOD_PPROF_TYPES};
    struct period_pprof made;
    struct error error = {0};
    assert_int_equal(period_pprof_make(&made, period, file, &error), 0);
    struct profile *profile = import_profile_bytes(made.bytes, made.length, NULL, &error);
    assert_non_null(profile);
    period_pprof_free(&made);
    return profile;
}

static struct profile_interval total_interval(const struct profile_estimate *figure, bool counts,
                                              const struct profile_heap *heap,
                                              const struct profile_dump *dump)
{
    return estimate_total_of(figure, counts, heap, dump).interval;
}

static void check_same(const struct trace_figures *mine, const struct profile_heap *heap,
                       const struct profile_dump *dump, const struct trace_figures *wanted,
                       const struct fixture *fixture, bool is_total)
{
    const struct profile_estimate a = rollup_live_of(mine), b = rollup_live_of(wanted);
    for (int counts = 0; counts < 2; counts++) {
        struct profile_interval (*limits)(
            const struct profile_estimate *, bool, const struct profile_heap *,
            const struct profile_dump *) = is_total ? total_interval : estimate_interval;
        struct profile_interval in_file = limits(&a, counts, heap, dump);
        struct profile_interval in_dump = limits(&b, counts, &fixture->heap, &fixture->dump);
        double mean = counts ? a.count : a.bytes;
        /* Values of pprof are whole bytes. */
        assert_true(fabs(in_file.low - in_dump.low) <= 2);
        assert_true(fabs(in_file.high - in_dump.high) <= 2);
        assert_true(fabs(mean - (counts ? b.count : b.bytes)) <= 1);
        assert_true(in_file.low <= mean && mean <= in_file.high);
    }
    assert_true(a.samples == b.samples);
    assert_true(NEAR(a.bytes_variance, b.bytes_variance));
}

/* Find the row of a function. */
static const struct profile_sample *row_of(const struct profile *profile, const char *function)
{
    const struct profile_dump *dump = &profile->heaps[0].dumps[0];
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t frame = profile->callsites[dump->samples[i]->callsite].frame;
        if (strcmp(profile->frames[frame].name, function) == 0)
            return dump->samples[i];
    }
    fail_msg("no row of %s", function);
    return NULL;
}

static void check_limits_of_a_file(bool is_calibrated)
{
    struct fixture fixture;
    begin(&fixture);
    fixture.is_calibrated = is_calibrated;
    allocate(&fixture, 0, 40, 10000, false);
    allocate(&fixture, 0, 30, 90000, false);
    profile_free(file_of(dump(&fixture)));
    /* Now only the other row allocates, and frees at once. */
    allocate(&fixture, 1, 3, 500, true);
    const struct period *period = dump(&fixture);
    struct profile *profile = file_of(period);
    const struct profile_heap *heap = &profile->heaps[0];
    const struct profile_sample *hold = row_of(profile, "hold");
    check_same(&hold->figures, heap, &heap->dumps[0], &fixture.rows[0].figures, &fixture, false);
    check_same(&heap->dumps[0].total, heap, &heap->dumps[0], &fixture.dump.total, &fixture, true);
    assert_true(trace_figures_live_samples(&hold->figures) == 70);
    /* What was allocated is of the period. */
    assert_int_equal(heap->dumps[0].total.samples, 3);
    assert_true(hold->figures.samples == 0);
    profile_free(profile);
    end(&fixture);
}

static void the_file_of_a_period_has_the_limits_of_the_dump(void **state)
{
    (void)state;
    check_limits_of_a_file(false);
}

static void so_has_that_of_a_calibrated_dump(void **state)
{
    (void)state;
    check_limits_of_a_file(true);
}

static void a_period_has_its_own_exact_totals(void **state)
{
    struct fixture fixture;
    (void)state;
    begin(&fixture);
    allocate(&fixture, 0, 400, 10000, false);
    uint64_t bytes = fixture.dump.exact_bytes, calls = fixture.dump.exact_calls;
    const struct period *period = dump(&fixture);
    assert_int_equal(period->dump->exact_bytes, bytes);
    assert_false(profile_dump_is_partial(period->heap, period->dump));
    allocate(&fixture, 1, 3, 500, true);
    period = dump(&fixture);
    assert_int_equal(period->dump->exact_bytes, fixture.dump.exact_bytes - bytes);
    assert_int_equal(period->dump->exact_calls, fixture.dump.exact_calls - calls);
    assert_int_equal(period->dump->earlier.exact_bytes, bytes);
    /* The totals of all the time and the samples of the period would disagree. */
    assert_false(profile_dump_is_partial(period->heap, period->dump));
    /* Live memory may be all that was ever allocated. */
    assert_true(rollup_most(period->heap, period->dump, false) == (double)fixture.dump.exact_bytes);
    end(&fixture);
}

static void a_period_that_lost_samples_is_partial(void **state)
{
    struct fixture fixture;
    (void)state;
    begin(&fixture);
    allocate(&fixture, 0, 400, 10000, false);
    dump(&fixture);
    allocate(&fixture, 1, 3, 500, true);
    fixture.dump.exact_bytes += 1000 * INTERVAL;
    const struct period *period = dump(&fixture);
    assert_true(profile_dump_is_partial(period->heap, period->dump));
    struct profile *profile = file_of(period);
    assert_true(profile_dump_is_partial(&profile->heaps[0], &profile->heaps[0].dumps[0]));
    profile_free(profile);
    end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_of_a_period_has_the_limits_of_the_dump),
        cmocka_unit_test(so_has_that_of_a_calibrated_dump),
        cmocka_unit_test(a_period_has_its_own_exact_totals),
        cmocka_unit_test(a_period_that_lost_samples_is_partial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
