/* Figures as people read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/words.h"

static void limits_stand_beside_their_value(void **state)
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
        /* Limits are added to the number that is printed. */
        {2.4, 2, 5, true, "+3"},
        {2.6, 2, 5, true, "-1 +2"},
        {2.6, 2, 2.6, true, "-1"},
        {2.4, 2, 2.4, true, "± 0"},
        {72000, 69648, 70000, false, "at most 70.0 kB"},
        {70000.3, 69648, 70000, false, "-352 B"},
        {3.4, 2, 3, true, "-1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(
            words_of_margin(cases[i].value, cases[i].low, cases[i].high, cases[i].counts).bytes,
            cases[i].words);
}

static void nothing_has_no_sign(void **state)
{
    (void)state;
    assert_string_equal(words_of_signed(-0.4, true).bytes, "0");
    assert_string_equal(words_of_signed(0.4, false).bytes, "0 B");
    assert_string_equal(words_of_signed(-0.6, true).bytes, "-1");
    assert_string_equal(words_of_signed(1500, false).bytes, "+1.50 kB");
    assert_string_equal(words_of_bytes(-0.4).bytes, "0 B");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_stand_beside_their_value),
        cmocka_unit_test(nothing_has_no_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
