/* SPDX-License-Identifier: Apache-2.0 */
/* Differences of profiles: which callsites are matched, and their variances and probabilities
 * against a simulation of the sampling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/budgets.h"
#include "profile/compare/diff.h"
#include "profile/compare/estimates.h"
#include "profile/compare/matching.h"
#include "profile/compare/stack_pattern.h"
#include "profile/symbols/clones.h"
#include "uint_in_range.h"

#define INTERVAL_BYTES 4096

static uint64_t random_state = 88172645463325252u;

static double uniform(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) * 0x1p-53;
}

static double probability_of(double size)
{
    return size >= INTERVAL_BYTES * log(100) ? 1 : -expm1(-size / INTERVAL_BYTES);
}

/* Add the expected figures of a sampled allocation of this size. */
static void add_allocated(struct trace_figures *figures, double size)
{
    double p = probability_of(size), missed = (1 - p) / (p * p);
    figures->allocated_bytes += size / p;
    figures->allocated_count += 1 / p;
    figures->allocated_bytes_variance += size * size * missed;
    figures->allocated_count_variance += missed;
    figures->samples++;
}

static void add_freed(struct trace_figures *figures, double size)
{
    double p = probability_of(size), missed = (1 - p) / (p * p);
    figures->freed_bytes += size / p;
    figures->freed_count += 1 / p;
    figures->freed_bytes_variance += size * size * missed;
    figures->freed_count_variance += missed;
    figures->freed_samples++;
}

/* --- hand-made profiles: one process, its heap with two dumps, and a callsite for each function
 * --- */

#define SITES 40
#define LEAK 20 /* index of one with small blocks */

struct made {
    struct profile profile;
    struct profile_mapping mapping;
    struct profile_frame frames[SITES];
    struct profile_callsite callsites[SITES];
    struct profile_process process;
    struct profile_heap heap;
    struct profile_dump dumps[2];
    struct profile_sample samples[2][SITES];
    const struct profile_sample *pointers[2][SITES];
    char names[SITES][32];
    struct export_dump chosen[2];
};

static void make(struct made *made, int32_t pid, uint64_t start_ns)
{
    memset(made, 0, sizeof(*made));
    made->mapping = (struct profile_mapping){.path = "/usr/bin/example", .build_id = ""};
    made->process = (struct profile_process){.pid = pid, .name = "example", .command = ""};
    made->heap = (struct profile_heap){.name = "libc.malloc",
                                       .interval_bytes = INTERVAL_BYTES,
                                       .start_boottime_ns = start_ns,
                                       .dumps = made->dumps,
                                       .dump_count = 2};
    for (uint32_t i = 0; i < SITES; i++) {
        snprintf(made->names[i], sizeof(made->names[i]), "function_%u", i);
        made->frames[i] = (struct profile_frame){.name = made->names[i],
                                                 .linkage_name = made->names[i],
                                                 .obfuscated_name = "",
                                                 .source_file = ""};
        made->callsites[i] = (struct profile_callsite){PROFILE_NONE, i, 0};
        for (int dump = 0; dump < 2; dump++) {
            made->samples[dump][i].callsite = i;
            made->pointers[dump][i] = &made->samples[dump][i];
        }
    }
    for (int dump = 0; dump < 2; dump++) {
        made->dumps[dump].samples = made->pointers[dump];
        made->dumps[dump].sample_count = SITES;
        made->chosen[dump] = (struct export_dump){&made->heap, &made->dumps[dump]};
    }
    made->profile = (struct profile){.mappings = &made->mapping,
                                     .mapping_count = 1,
                                     .frames = made->frames,
                                     .frame_count = SITES,
                                     .callsites = made->callsites,
                                     .callsite_count = SITES,
                                     .processes = &made->process,
                                     .process_count = 1,
                                     .heaps = &made->heap,
                                     .heap_count = 1,
                                     .warning = ""};
}

/* Set the dump's total, as reading a trace does. */
static void add_up(struct made *made, int dump)
{
    made->dumps[dump].total = (struct trace_figures){0};
    for (int i = 0; i < SITES; i++)
        trace_figures_add(&made->dumps[dump].total, &made->samples[dump][i].figures);
}

static struct diff *compare(struct made *before, int before_dump, struct made *after,
                            int after_dump, enum dimension by)
{
    struct diff_side sides[2] = {{&before->profile, &before->chosen[before_dump], 1},
                                 {&after->profile, &after->chosen[after_dump], 1}};
    struct diff_options options = {.by = by};
    add_up(before, before_dump);
    add_up(after, after_dump);
    struct diff *diff = diff_new(&sides[0], &sides[1], &options);
    assert_non_null(diff);
    assert_int_equal(diff->pair_count, 1);
    return diff;
}

/* --- two dumps of one process --- */

/* One block's life: before the first dump (0), between (1) or after (2). */
struct life {
    int begins, ends;
    double size;
    unsigned count;
};

static double variance_of_parts(const struct change_parts *parts)
{
    return parts->gained.bytes_variance + parts->lost.bytes_variance;
}

/* Simulate the sampling of a process. Return the true variance of the differences and the claimed
 * one. */
static void simulate(const struct life *lives, size_t count, double *real, double *claimed)
{
    enum { RUNS = 2000 };
    double sum = 0, squares = 0;
    static struct made made;
    *claimed = 0;
    for (int run = 0; run < RUNS; run++) {
        make(&made, 1, 1);
        for (size_t i = 0; i < count; i++) {
            for (unsigned j = 0; j < lives[i].count; j++) {
                if (uniform() >= probability_of(lives[i].size))
                    continue;
                for (int dump = 0; dump < 2; dump++) {
                    struct trace_figures *figures = &made.samples[dump][0].figures;
                    if (lives[i].begins <= dump)
                        add_allocated(figures, lives[i].size);
                    if (lives[i].ends <= dump)
                        add_freed(figures, lives[i].size);
                }
            }
        }
        struct diff *diff = compare(&made, 0, &made, 1, DIMENSION_CALLSITE);
        assert_true(diff->pairs[0].same_process);
        double change = diff->pairs[0].total.changes[EXPORT_SPACE].value;
        sum += change;
        squares += change * change;
        *claimed += variance_of_parts(&diff->pairs[0].total.parts[DIFF_LIVE]) / RUNS;
        diff_free(diff);
    }
    *real = squares / RUNS - (sum / RUNS) * (sum / RUNS);
}

static void variance_of_dumps_counts_unshared_memory(void **state)
{
    (void)state;
    static const struct {
        struct life lives[3];
        bool exact;
    } cases[] = {
        /* Nothing is freed: memory that is live in both dumps cancels out. */
        {{{0, 2, 300, 5000}, {1, 2, 200, 300}}, true},
        /* Nothing is allocated between the dumps. */
        {{{0, 2, 300, 5000}, {0, 1, 1000, 200}}, true},
        /* All live memory is freed. */
        {{{0, 1, 300, 900}, {1, 2, 500, 400}}, true},
        /* Sizes that are nearly always sampled. */
        {{{0, 2, 9000, 200}, {1, 2, 9000, 300}}, true},
        /* Memory is freed, allocated, and both between the dumps: the claim is an upper bound. */
        {{{0, 2, 300, 3000}, {0, 1, 300, 500}, {1, 2, 300, 500}}, false},
        {{{0, 2, 300, 3000}, {1, 1, 300, 2000}, {1, 2, 300, 200}}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double real, claimed;
        simulate(cases[i].lives, 3, &real, &claimed);
        /* With 2,000 runs the standard error of a variance is 3.2 %. */
        assert_true(claimed > 0.87 * real);
        if (cases[i].exact)
            assert_true(claimed < 1.13 * real);
    }
}

/* The exact totals are known: the totals differ by what was counted, and by nothing else. */
static void counted_totals_have_no_margin(void **state)
{
    (void)state;
    static struct made before, after;
    make(&before, 1, 1);
    make(&after, 2, 2);
    for (int i = 0; i < 30; i++) {
        add_allocated(&before.samples[1][0].figures, 1000);
        add_allocated(&after.samples[1][0].figures, i < 28 ? 1000 : 3000);
    }
    before.dumps[1].exact_bytes = 130000;
    before.dumps[1].exact_calls = 131;
    after.dumps[1].exact_bytes = 130810;
    after.dumps[1].exact_calls = 130;
    struct diff *diff = compare(&before, 1, &after, 1, DIMENSION_CALLSITE);
    const struct diff_row *total = &diff->pairs[0].total;
    const struct change *bytes = &total->changes[EXPORT_ALLOC_SPACE],
                        *calls = &total->changes[EXPORT_ALLOC_OBJECTS];
    assert_true(bytes->counted && bytes->value == 810 && bytes->interval.low == 810 &&
                bytes->interval.high == 810);
    assert_true(calls->value == -1 && calls->interval.low == -1 && calls->interval.high == -1);
    assert_true(total->before[DIFF_ALLOCATED].bytes == 130000 &&
                total->after[DIFF_ALLOCATED].count == 130);
    assert_true(total->marks[EXPORT_ALLOC_SPACE]);
    /* Rows are estimates. */
    assert_false(diff->pairs[0].rows[0].changes[EXPORT_ALLOC_SPACE].counted);
    diff_free(diff);
}

/* A count that lacks another allocator's calls has no limits: the surfaces would call it exact. */
static void partial_totals_are_not_exact(void **state)
{
    (void)state;
    static struct made before, after;
    make(&before, 1, 1);
    make(&after, 2, 2);
    before.dumps[1].exact_bytes = 130000;
    before.dumps[1].exact_calls = 131;
    after.dumps[1].exact_bytes = 130810;
    after.dumps[1].exact_calls = 130;
    struct trace_heap_dump *status = &after.profile.heaps[0].status;
    for (int partial = 0; partial < 2; partial++) {
        status->unseen_allocator = partial ? "other.malloc" : NULL;
        const struct estimate_shown total =
            estimate_total(&after.profile.heaps[0], &after.dumps[1], EXPORT_ALLOC_SPACE, false);
        assert_true(total.value == 130810);
        assert_int_equal(isnan(total.interval.low) && isnan(total.interval.high), partial);
        struct diff *diff = compare(&before, 1, &after, 1, DIMENSION_CALLSITE);
        const struct change *change = &diff->pairs[0].total.changes[EXPORT_ALLOC_SPACE];
        assert_true(change->counted && change->value == 810);
        assert_int_equal(change->partial, partial);
        diff_free(diff);
    }
}

/* Each estimate is in its own interval, also one above what was counted. */
static void changes_are_in_their_intervals(void **state)
{
    (void)state;
    static struct made before, after;
    for (int blocks = 0; blocks < 40; blocks++) {
        make(&before, 1, 1);
        make(&after, 2, 2);
        for (int i = 0; i < blocks; i++) {
            add_allocated(&before.samples[1][i % 3].figures, 400);
            add_allocated(&after.samples[1][0].figures, i % 2 == 0 ? 400 : 900);
        }
        before.dumps[1].exact_bytes = 1 + (uint64_t)blocks * 300;
        before.dumps[1].exact_calls = 1 + (uint64_t)blocks;
        after.dumps[1].exact_bytes = 1 + (uint64_t)blocks * 2000;
        after.dumps[1].exact_calls = 1 + (uint64_t)blocks * 7;
        struct diff *diff = compare(&before, 1, &after, 1, DIMENSION_CALLSITE);
        const struct diff_pair *pair = &diff->pairs[0];
        for (size_t i = 0; i <= pair->row_count; i++) {
            const struct diff_row *row = i < pair->row_count ? &pair->rows[i] : &pair->total;
            for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
                const struct change *change = &row->changes[view];
                assert_true(change->interval.low <= change->value &&
                            change->value <= change->interval.high);
            }
        }
        diff_free(diff);
    }
}

static void same_dump_is_no_difference(void **state)
{
    (void)state;
    static struct made made;
    make(&made, 1, 1);
    for (int i = 0; i < SITES; i++) {
        add_allocated(&made.samples[1][i].figures, 100 * (i + 1));
        made.samples[1][i].peak.bytes = 100;
    }
    for (enum dimension by = DIMENSION_CALLSITE; by <= DIMENSION_CONTEXT; by++) {
        struct diff *diff = compare(&made, 1, &made, 1, by);
        for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
            size_t count = 1;
            free(diff_rank(&diff->pairs[0], view, &count));
            assert_int_equal(count, 0);
            assert_true(diff->pairs[0].total.changes[view].value == 0);
        }
        diff_free(diff);
    }
}

/* --- two runs --- */

/* Return the exact probability, by the sum over both Poisson variables. */
static double exact_tail(unsigned difference, double mean)
{
    double tail = 0, first = exp(-mean / 2);
    for (unsigned i = 0; i < 400; i++) {
        double second = exp(-mean / 2);
        for (unsigned j = 0; j < 400; j++) {
            if ((i > j ? i - j : j - i) >= difference)
                tail += first * second;
            second *= mean / 2 / (j + 1);
        }
        first *= mean / 2 / (i + 1);
    }
    return tail;
}

static const struct change_bounds unknown;

static void probability_equals_that_of_two_poisson_variables(void **state)
{
    (void)state;
    static const unsigned samples[][2] = {{1, 0}, {4, 0}, {12, 3}, {25, 4}, {60, 20}, {90, 90}};
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct change_parts parts = {0};
        struct profile_estimate *estimates[2] = {&parts.gained, &parts.lost};
        /* The size is so small that each sample represents the interval. */
        const double size = 1e-3, p = size / INTERVAL_BYTES;
        for (int side = 0; side < 2; side++) {
            double n = samples[i][side];
            *estimates[side] =
                (struct profile_estimate){.bytes = n * size / p,
                                          .count = n / p,
                                          .bytes_variance = n * size * size * (1 - p) / (p * p),
                                          .count_variance = n * (1 - p) / (p * p),
                                          .samples = n};
        }
        struct change_sampling sampling = {.gained_interval_bytes = INTERVAL_BYTES,
                                           .lost_interval_bytes = INTERVAL_BYTES};
        struct change change = change_of_row(&parts, false, &sampling, &unknown);
        unsigned difference = samples[i][0] - samples[i][1];
        double exact = exact_tail(difference, samples[i][0] + samples[i][1]);
        /* Medium probabilities are less accurate, and no decision depends on them. */
        assert_true(fabs(change.probability - exact) < (exact < 0.1 ? 0.02 : 0.08) * exact);
    }
}

/* Sample a run of a program that does the same in each run, at callsites of several sizes. */
static void sample_run(struct made *made, int32_t pid, unsigned leaked)
{
    make(made, pid, (uint64_t)pid);
    for (int i = 0; i < SITES; i++) {
        for (unsigned j = 0; j < 200; j++) {
            double size = 16 * pow(2, i % 10) * (1 + j % 4);
            if (uniform() < probability_of(size))
                add_allocated(&made->samples[1][i].figures, size);
        }
    }
    for (unsigned j = 0; j < leaked; j++)
        if (uniform() < probability_of(200))
            add_allocated(&made->samples[1][LEAK].figures, 200);
}

static void marks_the_leak_and_nothing_else(void **state)
{
    (void)state;
    enum { RUNS = 1000 };
    static struct made before, after;
    int wrong = 0, nothing = 0, found = 0, held = 0;
    for (int run = 0; run < RUNS; run++) {
        unsigned leaked = run % 2 == 0 ? 2000 : 0;
        sample_run(&before, 1, 0);
        sample_run(&after, 2, leaked);
        struct diff *diff = compare(&before, 1, &after, 1, DIMENSION_CALLSITE);
        const struct diff_pair *pair = &diff->pairs[0];
        assert_false(pair->same_process);
        int others = 0, leak = 0;
        for (size_t i = 0; i < pair->row_count; i++) {
            bool is_leak = pair->rows[i].callsite == LEAK;
            *(is_leak ? &leak : &others) += pair->rows[i].marks[EXPORT_SPACE];
        }
        held += pair->total.changes[EXPORT_SPACE].interval.low <= leaked * 200.0 &&
                pair->total.changes[EXPORT_SPACE].interval.high >= leaked * 200.0;
        found += leaked > 0 && leak == 1;
        wrong += leaked > 0 && (leak != 1 || others != 0);
        nothing += leaked == 0 && leak + others > 0;
        diff_free(diff);
    }
    /* Of 500 at 1 %, 5 are expected; more than 18 have a probability of 1e-6. */
    assert_true(wrong <= 18);
    assert_true(nothing <= 18);
    assert_true(found >= RUNS / 2 - 18);
    /* 95 %, within four standard errors. */
    assert_uint_in_range(held, 922, 978);
}

/* Without sampling, a byte in a terabyte is a difference. With estimates, the rounding
 * error of a sum is no difference. */
static void exact_numbers_differ_by_one_byte(void **state)
{
    (void)state;
    const struct profile_estimate before = {.bytes = 0x1p40, .count = 1000, .samples = 1000};
    const struct profile_estimate after = {.bytes = 0x1p40 + 1, .count = 1000, .samples = 1000},
                                  nothing = {0};
    const struct change_sampling sampling = {.gained_interval_bytes = 1, .lost_interval_bytes = 1};
    struct change_parts parts = {.gained = after, .lost = before};
    assert_true(change_of_row(&parts, false, &sampling, &unknown).value == 1);
    parts = change_parts_of_common(&before, &after, &nothing);
    assert_true(change_of_row(&parts, false, &sampling, &unknown).value == 1);
    parts = change_parts_of_common(&before, &after, &before);
    assert_true(parts.gained.bytes == 1 && parts.lost.bytes == 0);
    parts = (struct change_parts){.gained = {.bytes = 0.1 + 0.2}, .lost = {.bytes = 0.3}};
    assert_true(change_of_row(&parts, false, &sampling, &unknown).value == 0);
}

/* --- marks --- */

static void marks_are_holms(void **state)
{
    (void)state;
    static const double probabilities[] = {0.004, 0.0001, 0.5, 0.0034, 1e-9, 0.02};
    struct change changes[6];
    bool marks[6];
    for (int i = 0; i < 6; i++)
        changes[i] = (struct change){.value = 1, .probability = probabilities[i]};
    assert_int_equal(change_mark(changes, 6, marks), 0);
    /* In order: 1e-9 of 0.01/6, 0.0001 of 0.01/5, 0.0034 not of 0.01/4. */
    assert_true(marks[4] && marks[1] && !marks[3] && !marks[0] && !marks[2] && !marks[5]);
    /* Rows that could not be rejected with any figures do not count as tests. */
    changes[2].probability_least = changes[5].probability_least = 0.02;
    changes[0].probability_least = 0.02;
    assert_int_equal(change_mark(changes, 6, marks), 0);
    assert_true(marks[4] && marks[1] && marks[3] && !marks[0]);
}

/* --- matching of names --- */

static void names_are_matched_without_what_differs_by_build(void **state)
{
    (void)state;
    const char *base;
    assert_int_equal(clones_name_length("take.isra.0"), 4);
    assert_int_equal(clones_name_length("take(int) [clone .part.3]"), 9);
    assert_int_equal(clones_name_length("take.c"), 6);
    assert_int_equal(clones_name_length("take.llvm.8163049"), 4);
    assert_int_equal(clones_name_length("take.constprop.0.isra.0.cold"), 4);
    assert_int_equal(clones_name_length("take.lto_priv.17"), 4);
    assert_int_equal(clones_name_length("take.part.c"), 11); /* no number: a name of its own */
    assert_int_equal(clones_name_length("main.coldest"), 12);
    assert_int_equal(clones_name_length(".cold"), 5);
    assert_int_equal(matching_module_length("/lib/libfoo.so.1.2", &base), 9);
    assert_int_equal(matching_module_length("/opt/program", &base), 7);
    static struct made before, after;
    make(&before, 1, 1);
    make(&after, 2, 2);
    after.mapping.path = "/elsewhere/example-2.0";
    after.process.name = "example-2.0";
    for (uint32_t i = 0; i < SITES; i++) {
        after.frames[i].rel_pc = 0x1000 + i;
        add_allocated(&before.samples[1][i].figures, 100000);
        add_allocated(&after.samples[1][i].figures, 100000);
    }
    strcpy(after.names[3], "function_3.constprop.0");
    struct diff *diff = compare(&before, 1, &after, 1, DIMENSION_CALLSITE);
    assert_int_equal(diff->pairs[0].row_count, SITES);
    size_t count = 1;
    free(diff_rank(&diff->pairs[0], EXPORT_SPACE, &count));
    assert_int_equal(count, 0);
    diff_free(diff);
    strcpy(after.names[3], "renamed");
    diff = compare(&before, 1, &after, 1, DIMENSION_FUNCTION);
    free(diff_rank(&diff->pairs[0], EXPORT_SPACE, &count));
    assert_int_equal(count, 2);
    diff_free(diff);
}

static void patterns_are_of_functions_and_modules(void **state)
{
    (void)state;
    static struct made made;
    make(&made, 1, 1);
    strcpy(made.names[0], "parse(int, char)");
    assert_true(stack_pattern_matches(&made.profile, 0, "parse"));
    assert_true(stack_pattern_matches(&made.profile, 0, "par*"));
    assert_true(stack_pattern_matches(&made.profile, 0, "parse(int, char)"));
    assert_false(stack_pattern_matches(&made.profile, 0, "arse"));
    assert_true(stack_pattern_matches(&made.profile, 0, "module:example"));
    assert_false(stack_pattern_matches(&made.profile, 0, "module:usr"));
    strcpy(made.names[0], "parse.part.0");
    assert_true(stack_pattern_matches(&made.profile, 0, "parse"));
    assert_true(stack_pattern_matches(&made.profile, 0, "parse.part.0"));
}

static void callsites_are_chains_of_patterns(void **state)
{
    (void)state;
    static struct made made;
    static const struct {
        const char *pattern;
        bool matches[3]; /* main, its callee parse, and put below that */
    } cases[] = {
        {"put < parse < main", {false, false, true}},
        {"put < main", {false, false, true}},
        {"parse < main", {false, true, true}},
        {"p* < p*", {false, false, true}},
        {"main < parse", {false, false, false}},
        {"parse < parse", {false, false, false}},
        {"put < module:example", {false, false, true}},
        {"put < ", {false, false, false}},
        {"* < * < * < *", {false, false, false}},
        {"a < b < c < d < e < f < g < h < i < j", {false, false, false}},
    };
    make(&made, 3, 1);
    strcpy(made.names[0], "main");
    strcpy(made.names[1], "parse");
    strcpy(made.names[2], "put");
    made.callsites[1].parent = 0;
    made.callsites[2].parent = 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool *matches = stack_pattern_callsites(&made.profile, cases[i].pattern);
        for (uint32_t j = 0; j < 3; j++) {
            assert_int_equal(matches[j], cases[i].matches[j]);
            assert_int_equal(stack_pattern_matches(&made.profile, j, cases[i].pattern),
                             cases[i].matches[j]);
        }
        free(matches);
    }
}

/* The part of a name that is taken as its pattern matches it, and every stack below it. */
static void patterns_of_functions_match_them(void **state)
{
    (void)state;
    static struct made made;
    static const struct {
        const char *name, *pattern;
    } cases[] = {
        {"parse", "parse"},
        {"parse(int, char)", "parse"},
        {"parse.part.0", "parse"},
        {"a::parse<int>(int) [clone .cold]", "a::parse<int>"},
        {"(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"},
        {"a::(anonymous namespace)::f(int)", "a::(anonymous namespace)::f(int)"},
        {"block (2 levels) in f", "block (2 levels) in f"},
        {"<top (required)>", "<top (required)>"},
        {"a::operator()(int)", "a::operator()(int)"},
        {"operator new(unsigned long)", "operator new"},
        {"(", "("},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make(&made, 2, 1);
        strcpy(made.names[0], cases[i].name);
        made.callsites[1].parent = 0;
        char *pattern = strndup(cases[i].name, stack_pattern_name_length(cases[i].name));
        assert_string_equal(pattern, cases[i].pattern);
        bool *matches = stack_pattern_callsites(&made.profile, pattern);
        bool wanted = *pattern != '\0';
        assert_true(matches[0] == wanted && matches[1] == wanted);
        assert_true(stack_pattern_matches(&made.profile, 1, pattern) == wanted);
        free(matches);
        free(pattern);
    }
}

/* What one profile knows exactly, another one that sampled may have without a sample. */
static void unseen_on_one_side_is_no_zero(void **state)
{
    const struct change_parts lost = {.lost = {.bytes = 4096, .count = 1, .samples = 1}};
    const struct change_parts gained = {.gained = lost.lost};
    const struct change_sampling sampling = {.gained_interval_bytes = 4096,
                                             .lost_interval_bytes = 1};
    const struct change_sampling swapped = {.gained_interval_bytes = 1,
                                            .lost_interval_bytes = 4096};
    struct change_bounds bounds = {.apart = true, .gained_unseen = {3 * 4096, INFINITY}};
    (void)state;
    struct change change = change_of_row(&lost, false, &sampling, &bounds);
    assert_true(fabs(change.probability - exp(-1)) < 0.01);
    assert_true(change.interval.low == -4096 && change.interval.high == 2 * 4096);
    bounds = (struct change_bounds){.apart = true, .lost_unseen = {3 * 4096, INFINITY}};
    change = change_of_row(&gained, false, &swapped, &bounds);
    assert_true(fabs(change.probability - exp(-1)) < 0.01);
    assert_true(change.interval.low == -2 * 4096 && change.interval.high == 4096);
    /* Both recorded every allocation, or both are dumps of one process. */
    bounds = (struct change_bounds){.apart = true};
    assert_true(change_of_row(&lost, false, &sampling, &bounds).probability == 0);
    bounds = (struct change_bounds){.gained_unseen = {3 * 4096, INFINITY}};
    assert_true(change_of_row(&lost, false, &sampling, &bounds).probability == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variance_of_dumps_counts_unshared_memory),
        cmocka_unit_test(counted_totals_have_no_margin),
        cmocka_unit_test(partial_totals_are_not_exact),
        cmocka_unit_test(changes_are_in_their_intervals),
        cmocka_unit_test(same_dump_is_no_difference),
        cmocka_unit_test(probability_equals_that_of_two_poisson_variables),
        cmocka_unit_test(marks_the_leak_and_nothing_else),
        cmocka_unit_test(exact_numbers_differ_by_one_byte),
        cmocka_unit_test(unseen_on_one_side_is_no_zero),
        cmocka_unit_test(marks_are_holms),
        cmocka_unit_test(names_are_matched_without_what_differs_by_build),
        cmocka_unit_test(patterns_are_of_functions_and_modules),
        cmocka_unit_test(patterns_of_functions_match_them),
        cmocka_unit_test(callsites_are_chains_of_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
