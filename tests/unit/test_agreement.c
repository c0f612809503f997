/* SPDX-License-Identifier: Apache-2.0 */
/* The check of samples against exact totals: no false alarm, and every lost block is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "profile/agreement.h"
#include "wire/sampling.h"

#define RUNS 300
#define CALLS 20000

/* The heap of a program with these sizes, sampled by the rule. */
struct scene {
    struct profile_heap heap;
    struct profile_dump dump;
};

static void allocate(struct scene *scene, uint64_t size)
{
    uint64_t interval = scene->heap.interval_bytes;
    double weighed = size > 0 ? (double)size : 1;
    double p = size >= sampling_certain_bytes(interval) ? 1 : -expm1(-weighed / (double)interval);
    scene->dump.exact_bytes += size;
    scene->dump.exact_calls++;
    if (drand48() >= p)
        return;
    struct trace_figures *total = &scene->dump.total;
    double bytes = (double)size;
    total->samples++;
    total->allocated_bytes += bytes / p;
    total->allocated_count += 1 / p;
    total->allocated_bytes_variance += bytes * bytes * (1 - p) / (p * p);
    total->allocated_count_variance += (1 - p) / (p * p);
}

static struct scene scene_of(uint64_t interval, uint64_t smallest, double spread, unsigned calls)
{
    struct scene scene = {
        .heap = {.interval_bytes = interval, .first_interval_bytes = interval},
    };
    for (unsigned i = 0; i < calls; i++)
        allocate(&scene, (uint64_t)((double)smallest * exp(drand48() * spread)));
    return scene;
}

static const struct {
    uint64_t interval, smallest;
    double spread; /* natural logarithm of the largest size over the smallest */
} mixtures[] = {{1, 16, 4},    {256, 16, 6},   {4096, 0, 0},   {4096, 16, 0},
                {4096, 16, 8}, {4096, 300, 5}, {65536, 1, 12}, {65536, 24, 3}};

#define MIXTURES (sizeof(mixtures) / sizeof(mixtures[0]))

static void chance_alone_never_disagrees(void **state)
{
    (void)state;
    srand48(1);
    for (size_t i = 0; i < MIXTURES; i++) {
        for (unsigned run = 0; run < RUNS; run++) {
            struct scene scene = scene_of(mixtures[i].interval, mixtures[i].smallest,
                                          mixtures[i].spread, CALLS >> (run % 15));
            assert_false(profile_disagrees(&scene.heap, &scene.dump));
        }
    }
}

/* With few samples a normal approximation is wrong. The probability of no sample in x intervals is
 * e^-x, so this is no disagreement below x = -ln 1e-9. */
static void nothing_sampled_is_chance_up_to_the_probability(void **state)
{
    (void)state;
    struct scene scene = {.heap = {.interval_bytes = 4096, .first_interval_bytes = 4096}};
    scene.dump.exact_calls = 1000;
    scene.dump.exact_bytes = (uint64_t)(4096 * -log(PROFILE_AGREEMENT_PROBABILITY));
    assert_false(profile_disagrees(&scene.heap, &scene.dump));
    scene.dump.exact_bytes = 4096 * 200;
    assert_true(profile_disagrees(&scene.heap, &scene.dump));
}

/* From a browser's profile: a block of 2.1 MB, of 19.9 MB in total, was in no sample. */
static void a_large_block_that_is_in_no_sample_is_noticed(void **state)
{
    (void)state;
    srand48(2);
    for (unsigned run = 0; run < RUNS; run++) {
        struct scene scene = scene_of(4096, 24, 7, CALLS / 5);
        for (int i = 0; i < 4; i++)
            allocate(&scene, 1000000);
        assert_false(profile_disagrees(&scene.heap, &scene.dump));
        scene.dump.exact_bytes += 2100000;
        scene.dump.exact_calls++;
        struct profile_agreement agreement = profile_agreement_of(&scene.heap, &scene.dump);
        assert_true(profile_gap_is_real(&agreement.bytes));
        assert_true(agreement.bytes.missing > 0);
        assert_false(profile_gap_is_real(&agreement.calls)); /* may be chance */
    }
}

static void overweighted_samples_are_noticed(void **state)
{
    (void)state;
    srand48(3);
    struct scene scene = scene_of(4096, 24, 7, CALLS);
    scene.dump.total.allocated_bytes *= 1.5;
    struct profile_agreement agreement = profile_agreement_of(&scene.heap, &scene.dump);
    assert_true(profile_gap_is_real(&agreement.bytes));
    assert_true(agreement.bytes.missing < 0);
}

static void without_sampling_every_difference_is_certain(void **state)
{
    (void)state;
    struct scene scene = scene_of(1, 16, 4, CALLS);
    assert_false(profile_disagrees(&scene.heap, &scene.dump));
    scene.dump.exact_calls++;
    assert_true(profile_disagrees(&scene.heap, &scene.dump));
    scene.dump.exact_calls--;
    scene.dump.exact_bytes--;
    assert_true(profile_disagrees(&scene.heap, &scene.dump));
}

static void without_exact_totals_nothing_is_known(void **state)
{
    (void)state;
    struct scene scene = scene_of(4096, 16, 4, CALLS);
    scene.dump.exact_calls = scene.dump.exact_bytes = 0;
    assert_false(profile_agreement_of(&scene.heap, &scene.dump).known);
    assert_false(profile_disagrees(&scene.heap, &scene.dump));
    scene = scene_of(4096, 16, 4, CALLS);
    scene.heap.interval_bytes = scene.heap.first_interval_bytes = 0;
    assert_false(profile_agreement_of(&scene.heap, &scene.dump).known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chance_alone_never_disagrees),
        cmocka_unit_test(nothing_sampled_is_chance_up_to_the_probability),
        cmocka_unit_test(a_large_block_that_is_in_no_sample_is_noticed),
        cmocka_unit_test(overweighted_samples_are_noticed),
        cmocka_unit_test(without_sampling_every_difference_is_certain),
        cmocka_unit_test(without_exact_totals_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
