/* SPDX-License-Identifier: Apache-2.0 */
/* Figures in people's format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/print/format.h"

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
        {1000, 900, 2500, false, "(900 B to 2.50 kB)"},
        {1000, 1000, 1000, false, "± 0 B"},
        {1000, 1000, 1400, false, "(up to 1.40 kB)"},
        {1000, 600, 1000, false, "(600 B to 1.00 kB)"},
        /* Nothing was sampled. */
        {0, 0, 12271, false, "(up to 12.3 kB)"},
        {0, 0, 511, true, "(up to 511)"},
        {0, -12271, 12271, false, "± 12.3 kB"},
        {0, 0, 0.4, false, "± 0 B"},
        /* Beside the printed, whole number. */
        {2.4, 2, 5, true, "(up to 5)"},
        {2.6, 2, 5, true, "(2 to 5)"},
        {2.6, 2, 2.6, true, "(2 to 3)"},
        {2.4, 2, 2.4, true, "± 0"},
        {138e6, 130450000, 138056600, false, "(130 to 138 MB)"},
        {72700, 72650, 466000, false, "(up to 466 kB)"},
        {807126400, 807115000, 807126400, false, "± 11.4 kB"}, /* all are printed as 807 MB */
        /* Changes: a true minus sign. */
        {-478, -2320, 739, true, "(\u22122,320 to 739)"},
        {-500, -600, -100, false, "(\u2212600 to \u2212100 B)"},
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
    assert_string_equal(format_signed(-0.6, true).bytes, "\u22121");
    assert_string_equal(format_signed(1500, false).bytes, "+1.50 kB");
    assert_string_equal(format_bytes(-0.4).bytes, "0 B");
    /* Tables count columns, not bytes. */
    struct formatted text = format_signed(-1500, false);
    assert_int_equal(format_width(&text, 11), 13);
    text = format_margin(1000, 900, 1100, false);
    assert_int_equal(format_width(&text, 19), 20);
}

static void shares_have_margins(void **state)
{
    (void)state;
    assert_string_equal(format_share(12.34).bytes, "12.3 %");
    assert_string_equal(format_share_margin(12.3, 11.3, 13.4).bytes, "± 1.1 %");
    assert_string_equal(format_share_margin(0, 0, 40).bytes, "(up to 40.0 %)");
    assert_string_equal(format_share_margin(50, 20, 60).bytes, "(20.0 to 60.0 %)");
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
        cmocka_unit_test(shares_have_margins),
        cmocka_unit_test(times_have_units_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
