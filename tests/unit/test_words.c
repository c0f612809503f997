/* SPDX-License-Identifier: Apache-2.0 */
/* Figures in people's format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/print/format.h"

static void limits_are_printed_with_their_value(void **state)
{
    (void)state;
    static const struct {
        double value, low, high;
        bool counts;
        const char *words;
    } cases[] = {
        {1000, 900, 1100, false, "± 100 B"},
        {1000, 900, 1110, false, "± 110 B"},
        {1000, 900, 2500, false, "-100 B +1.50 kB"},
        {1000, 1000, 1000, false, "± 0 B"},
        {1000, 1000, 1400, false, "+400 B"},
        {1000, 600, 1000, false, "-400 B"},
        /* Nothing was sampled. */
        {0, 0, 12271, false, "at most 12.3 kB"},
        {0, 0, 511, true, "at most 511"},
        {0, -12271, 12271, false, "± 12.3 kB"},
        {0, 0, 0.4, false, "± 0 B"},
        /* Limits are added to the printed number. */
        {2.4, 2, 5, true, "+3"},
        {2.6, 2, 5, true, "-1 +2"},
        {2.6, 2, 2.6, true, "-1"},
        {2.4, 2, 2.4, true, "± 0"},
        {72000, 69648, 70000, false, "at most 70.0 kB"},
        {70000.3, 69648, 70000, false, "-352 B"},
        {807126400, 807115000, 807126219, false, "-11.4 kB"}, /* both are printed as 807 MB */
        {3.4, 2, 3, true, "-1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(
            format_margin(cases[i].value, cases[i].low, cases[i].high, cases[i].counts).bytes,
            cases[i].words);
}

static void nothing_has_no_sign(void **state)
{
    (void)state;
    assert_string_equal(format_signed(-0.4, true).bytes, "0");
    assert_string_equal(format_signed(0.4, false).bytes, "0 B");
    assert_string_equal(format_signed(-0.6, true).bytes, "-1");
    assert_string_equal(format_signed(1500, false).bytes, "+1.50 kB");
    assert_string_equal(format_bytes(-0.4).bytes, "0 B");
}

static void times_have_units_for_people(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *words;
    } cases[] = {
        {0, "0 us"},          {0.00095, "950 us"},
        {0.00172, "1.72 ms"}, {0.0999, "99.9 ms"},
        {3.4, "3.40 s"},      {59.4, "59.4 s"},
        {60, "1 min 0 s"},    {1719.0549, "28 min 39 s"},
        {59.6, "1 min 0 s"},  {3599.7, "1 h 0 min"},
        {18123, "5 h 2 min"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(format_time(cases[i].seconds).bytes, cases[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_printed_with_their_value),
        cmocka_unit_test(nothing_has_no_sign),
        cmocka_unit_test(times_have_units_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
