/* SPDX-License-Identifier: Apache-2.0 */
/* The share that the daemon's cost leaves to a user's programs: no new program gets around it. The
 * losses that a dump tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <unistd.h>

#include "production/continuous/programs.h"

/* Make a program of this process's user, which has samples. */
static struct program *begin_program(struct programs *programs, const char *name, double samples)
{
    const struct known_process *process = programs_find_or_add(programs, getpid(), name, "section");
    assert_non_null(process);
    struct program *program = programs_of(programs, process);
    program->processes = 1;
    program->control.samples_per_hour_lately = samples;
    return program;
}

static void a_new_program_takes_the_least_share_of_its_user(void **state)
{
    const struct collector_config config = {0};
    struct programs programs;
    char user[16];
    (void)state;
    programs_init(&programs, &config);
    snprintf(user, sizeof(user), "%u", (unsigned)getuid());
    assert_true(begin_program(&programs, "first", 10)->cost_share == 1);
    programs_scale_cost(&programs, user, 0.25);
    assert_true(begin_program(&programs, "second", 10)->cost_share == 0.25);
    programs_scale_cost(&programs, user, 2);
    assert_true(begin_program(&programs, "third", 10)->cost_share == 0.5);
    /* Another user's programs have nothing to do with it. */
    for (size_t i = 0; i < programs.program_count; i++)
        snprintf(programs.programs[i].user, sizeof(programs.programs[i].user), "another");
    assert_true(begin_program(&programs, "fourth", 10)->cost_share == 1);
    programs_clear(&programs);
}

static void the_share_of_a_user_is_the_least_of_its_programs(void **state)
{
    static const double shares_of[] = {1, 0.25, 0.5};
    const struct collector_config config = {0};
    (void)state;
    for (size_t least = 0; least < 3; least++) {
        struct programs programs;
        programs_init(&programs, &config);
        for (size_t i = 0; i < 3; i++) {
            const char *names[] = {"first", "second", "third"};
            begin_program(&programs, names[i], i == 2 ? 0 : 10);
            programs.programs[i].cost_share = shares_of[(i + least) % 3];
        }
        struct program *other = begin_program(&programs, "other", 15);
        snprintf(other->user, sizeof(other->user), "another");
        other->cost_share = 0.125;
        const struct programs_cost_shares shares = programs_cost_shares(&programs);
        assert_string_equal(shares.user, programs.programs[0].user);
        assert_true(shares.of_user == 0.25);
        assert_true(shares.least == 0.125);
        programs_clear(&programs);
    }
}

/* Metrics read both from here. What is not told apart is of a heap, not of the process. */
static void a_dump_tells_its_losses_and_the_time_that_threads_waited(void **state)
{
    const struct collector_config config = {0};
    struct profile_dump dump = {.incomplete = true};
    const struct profile_heap heap = {
        .name = "libc.malloc",
        .dumps = &dump,
        .dump_count = 1,
        .status = {.blocked_us = 250000, .lost = {[TRACE_LOST_UNWIND] = 3}, .other_types = 5},
    };
    struct programs programs;
    (void)state;
    programs_init(&programs, &config);
    struct known_process *process = programs_find_or_add(&programs, getpid(), "name", "section");
    assert_non_null(process);
    programs_take_heap(process, NULL, &heap, 0);
    assert_int_equal(process->loss_count, 2);
    assert_string_equal(process->losses[0].reason, "unwind");
    assert_int_equal(process->losses[0].amount, 3);
    assert_string_equal(process->losses[1].reason, "blocked_us");
    assert_int_equal(process->losses[1].amount, 250000);
    programs_clear(&programs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_program_takes_the_least_share_of_its_user),
        cmocka_unit_test(the_share_of_a_user_is_the_least_of_its_programs),
        cmocka_unit_test(a_dump_tells_its_losses_and_the_time_that_threads_waited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
