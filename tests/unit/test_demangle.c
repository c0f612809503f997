/* SPDX-License-Identifier: Apache-2.0 */
/* Demangled names of C++, Rust and D, and names that are not mangled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/symbols/demangle.h"

static void assert_demangled(const char *name, const char *expected)
{
    char *result = demangle_name(name);
    assert_non_null(result);
    assert_string_equal(result, expected);
    free(result);
}

static void cpp_names_have_their_parameters(void **state)
{
    (void)state;
    assert_demangled("_ZN3foo3barEiPKc", "foo::bar(int, char const*)");
    assert_demangled("_Znwm", "operator new(unsigned long)");
    assert_demangled("_ZNSt6vectorIiSaIiEE9push_backERKi",
                     "std::vector<int, std::allocator<int> >::push_back(int const&)");
}

static void rust_legacy_names_lose_their_hash(void **state)
{
    (void)state;
    assert_demangled("_ZN5alloc7raw_vec11finish_grow17h0123456789abcdefE",
                     "alloc::raw_vec::finish_grow");
}

static void rust_v0_names_are_demangled(void **state)
{
    (void)state;
    assert_demangled("_RNvC6_123foo3bar", "123foo::bar");
    assert_demangled("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
}

static void d_names_are_demangled(void **state)
{
    (void)state;
    assert_demangled("_D4test3fooFiZi", "test.foo(int)");
}

static void assert_simple(const char *name, const char *expected)
{
    char *result = demangle_name_as(name, DEMANGLE_SIMPLE);
    assert_non_null(result);
    assert_string_equal(result, expected);
    free(result);
}

static void simple_names_have_no_parameters(void **state)
{
    (void)state;
    assert_simple("_ZN3foo3barEiPKc", "foo::bar");
    assert_simple("_Znwm", "operator new");
    assert_simple("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back");
    assert_simple("_ZSt4sortIPiEvT_S1_", "std::sort");
    assert_simple("_ZNSt6vectorISt4pairIiS0_IllEESaIS2_EEixEm", "std::vector::operator[]");
    assert_simple("_ZN1AlsEi", "A::operator<<");
    assert_simple("_ZN1AlsIiEEvT_", "A::operator<<");
    assert_simple("_ZN1AltIiEEvT_", "A::operator<");
    assert_simple("_ZN1AptEv", "A::operator->");
    assert_simple("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f");
    assert_simple("main", "main");
    assert_simple("", "");
}

static void simple_rust_names_have_no_generics(void **state)
{
    (void)state;
    assert_simple("_ZN5alloc7raw_vec11finish_grow17h0123456789abcdefE",
                  "alloc::raw_vec::finish_grow");
    assert_simple("_RINvNtC3std3mem8align_ofjdE", "std::mem::align_of");
    assert_simple("_RNvXs_C7mycrateNtB4_3FooINtB4_3BarjE3baz",
                  "<mycrate::Foo as mycrate::Bar>::baz");
}

static void simple_d_names_have_no_parameters(void **state)
{
    (void)state;
    assert_simple("_D4test3fooFiZi", "test.foo");
    assert_simple("_D8demangle11__T4testTaZv", "demangle.test");
}

static void mangled_names_can_stay(void **state)
{
    (void)state;
    char *result = demangle_name_as("_ZN3foo3barEiPKc", DEMANGLE_NONE);
    assert_string_equal(result, "_ZN3foo3barEiPKc");
    free(result);
}

static void other_names_stay_as_they_are(void **state)
{
    (void)state;
    assert_demangled("main", "main");
    assert_demangled("", "");
    assert_demangled("_", "_");
    assert_demangled("_Z", "_Z");
    assert_demangled("_ZNotAName", "_ZNotAName");
    assert_demangled("[unknown]", "[unknown]");
}

/* Each parameter type is a pair of the previous one: the last has 2^30 parts. */
static void an_exponentially_long_name_is_truncated(void **state)
{
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRST";
    char name[1024];
    size_t used = (size_t)snprintf(name, sizeof(name), "_Z1f4pairIiiE");
    for (size_t i = 0; digits[i] != '\0'; i++)
        used += (size_t)snprintf(name + used, sizeof(name) - used, "S_IS%c_S%c_E", digits[i],
                                 digits[i]);
    char *result = demangle_name(name);
    assert_non_null(result);
    assert_int_equal(strlen(result), 4096 + 3);
    assert_string_equal(result + 4096, "...");
    free(result);
}

static void a_very_long_name_stays_mangled(void **state)
{
    (void)state;
    size_t length = 1 << 20;
    char *name = malloc(length + 1);
    assert_non_null(name);
    memset(name, 'N', length);
    memcpy(name, "_Z", 2);
    name[length] = '\0';
    assert_demangled(name, name);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpp_names_have_their_parameters),
        cmocka_unit_test(rust_legacy_names_lose_their_hash),
        cmocka_unit_test(rust_v0_names_are_demangled),
        cmocka_unit_test(d_names_are_demangled),
        cmocka_unit_test(simple_names_have_no_parameters),
        cmocka_unit_test(simple_rust_names_have_no_generics),
        cmocka_unit_test(simple_d_names_have_no_parameters),
        cmocka_unit_test(mangled_names_can_stay),
        cmocka_unit_test(other_names_stay_as_they_are),
        cmocka_unit_test(an_exponentially_long_name_is_truncated),
        cmocka_unit_test(a_very_long_name_stays_mangled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
