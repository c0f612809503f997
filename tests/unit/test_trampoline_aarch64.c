/* SPDX-License-Identifier: Apache-2.0 */
/* Trampolines of aarch64, on any processor: what an entry becomes, and that the moved instructions
 * do the same as before, near the hook and far from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "aarch64_machine.h"
#include "recorder/attach/trampoline.h"

#define FUNCTION UINT64_C(0xffff80123450)
#define NEAR_HOOK (FUNCTION - 0x7000000)
#define FAR_HOOK UINT64_C(0xaaaa00001000)

#define NOP 0xd503201fu
#define BTI_C 0xd503245fu
#define PACIASP 0xd503233fu
#define STORE_PAIR 0xa9bf7bfdu /* stp x29, x30, [sp, #-16]! */
#define RETURN 0xd65f03c0u

static int make(struct trampoline *trampoline, const uint32_t *words, size_t count, uint64_t hook,
                const char **why)
{
    return trampoline_make(trampoline, FUNCTION, (const uint8_t *)words, count * 4, hook,
                           hook + 0x10000, why);
}

static uint32_t patched_word(const struct trampoline *trampoline, unsigned index)
{
    uint32_t word;
    memcpy(&word, trampoline->site.patched + 4 * index, 4);
    return word;
}

/* Run the replaced instructions and the trampoline from the same state. */
static void expect_same(const struct trampoline *trampoline)
{
    const struct attached_site *site = &trampoline->site;
    for (unsigned seed = 0; seed < 64; seed++) {
        struct machine before = {.flags = seed & 15};
        for (unsigned i = 0; i < 31; i++)
            before.registers[i] = seed >> 4 != 0 ? UINT64_C(1) << (seed + i) % 64 : 0;
        struct machine after = before;
        machine_run(&before, site->original, site->length, site->address, site->address);
        machine_run(&after, trampoline->code, trampoline->code_bytes, site->trampoline,
                    site->address);
        assert_true(machine_is_same(&before, &after));
    }
}

/* Make a trampoline of one instruction and four that do the same anywhere, near and far. */
static void expect_moved(uint32_t word)
{
    static const char *why;
    const uint32_t words[] = {
        word, 0xaa0003e4 /* mov x4, x0 */, NOP, NOP, NOP, NOP, RETURN, RETURN, RETURN};
    struct trampoline trampoline;
    assert_int_equal(make(&trampoline, words, 7, NEAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.length, 4);
    expect_same(&trampoline);
    assert_int_equal(make(&trampoline, words, 7, FAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.length, 16);
    expect_same(&trampoline);
}

static void expect_refused(uint32_t word, const char *reason)
{
    const char *why = "";
    const uint32_t words[] = {word, NOP, NOP, NOP, NOP, RETURN};
    struct trampoline trampoline;
    assert_true(make(&trampoline, words, 6, NEAR_HOOK, &why) < 0);
    assert_string_equal(why, reason);
}

static void test_one_instruction_becomes_a_branch(void **state)
{
    (void)state;
    const uint32_t words[] = {STORE_PAIR, 0x910003fd, RETURN};
    const char *why;
    struct trampoline trampoline;
    assert_int_equal(make(&trampoline, words, 3, NEAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.address, FUNCTION);
    assert_int_equal(trampoline.site.length, 4);
    assert_int_equal(patched_word(&trampoline, 0), 0x14000000 | (-0x7000000 / 4 & 0x3ffffff));
    assert_int_equal(trampoline.code_bytes, 8);
    expect_same(&trampoline);
    /* No thread can be between replaced instructions, and it can be anywhere in the trampoline. */
    assert_int_equal(trampoline_enter(&trampoline, FUNCTION), 0);
    assert_int_equal(trampoline_enter(&trampoline, FUNCTION + 4), 0);
    assert_int_equal(trampoline_leave(&trampoline, NEAR_HOOK + 0x10000), FUNCTION);
    assert_int_equal(trampoline_leave(&trampoline, NEAR_HOOK + 0x10004), FUNCTION + 4);
}

static void test_landing_pads_stay(void **state)
{
    (void)state;
    const uint32_t landing[] = {BTI_C, STORE_PAIR, 0x910003fd, RETURN};
    const uint32_t signing[] = {PACIASP, STORE_PAIR, 0x910003fd, RETURN};
    const uint32_t both[] = {BTI_C, PACIASP, STORE_PAIR, 0x910003fd, RETURN};
    const char *why;
    struct trampoline trampoline;
    assert_int_equal(make(&trampoline, landing, 4, NEAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.address, FUNCTION + 4);
    assert_int_equal(trampoline.site.length, 4);
    expect_same(&trampoline);
    assert_int_equal(make(&trampoline, signing, 4, NEAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.address, FUNCTION);
    assert_int_equal(trampoline.site.length, 8);
    assert_int_equal(patched_word(&trampoline, 0), BTI_C);
    assert_int_equal(patched_word(&trampoline, 1) >> 26, 5);
    expect_same(&trampoline);
    assert_int_equal(trampoline_enter(&trampoline, FUNCTION + 4), NEAR_HOOK + 0x10004);
    assert_int_equal(make(&trampoline, both, 5, NEAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.address, FUNCTION + 4);
    assert_int_equal(trampoline.site.length, 4);
}

static void test_addresses_and_literals(void **state)
{
    (void)state;
    expect_moved(0x10000123); /* adr x3, .+36 */
    expect_moved(0x70ffffe3); /* adr x3, .-1 */
    expect_moved(0xb0000423); /* adrp x3, 0x85000 */
    expect_moved(0x90800000); /* adrp x0, the farthest before */
    expect_moved(0x9000001f); /* adrp xzr */
    expect_moved(0x18000123); /* ldr w3, .+36 */
    expect_moved(0x58ffffe3); /* ldr x3, .-4 */
    expect_moved(0x98000123); /* ldrsw x3, .+36 */
    expect_moved(0x58000130); /* ldr x16 */
    expect_moved(0x1c000123); /* ldr s3 */
    expect_moved(0x5c000131); /* ldr d17 */
    expect_moved(0x9c000123); /* ldr q3 */
    expect_moved(0xd8000120); /* prfm pldl1keep */
}

static void test_branches(void **state)
{
    (void)state;
    for (uint32_t condition = 0; condition < 16; condition++)
        expect_moved(0x54000400 | condition); /* b.cond .+128 */
    expect_moved(0x54800001);                 /* b.ne, the farthest before */
    expect_moved(0xb4000403);                 /* cbz x3 */
    expect_moved(0x34000403);                 /* cbz w3 */
    expect_moved(0xb5000403);                 /* cbnz x3 */
    expect_moved(0x35fff803);                 /* cbnz w3, backwards */
    expect_moved(0x36380403);                 /* tbz w3, 7 */
    expect_moved(0xb7f80403);                 /* tbnz x3, 63 */
    expect_moved(0xb43ffff1);                 /* cbz x17, the farthest */
}

static void test_functions_that_jump(void **state)
{
    (void)state;
    const char *why;
    struct trampoline trampoline;
    const uint32_t near[] = {0x14000100, STORE_PAIR};                         /* b .+1024 */
    const uint32_t stub[] = {0x90000410, 0xf9400211, 0x91000210, 0xd61f0220}; /* as in a .plt */
    const uint32_t longest[] = {0x15ffffff, NOP, NOP, NOP};
    assert_int_equal(make(&trampoline, near, 2, NEAR_HOOK, &why), 0);
    assert_int_equal(trampoline.code_bytes, 4);
    expect_same(&trampoline);
    assert_int_equal(make(&trampoline, longest, 4, NEAR_HOOK, &why), 0);
    assert_true(trampoline.code_bytes > 4);
    expect_same(&trampoline);
    assert_int_equal(make(&trampoline, longest, 4, FAR_HOOK, &why), 0);
    expect_same(&trampoline);
    /* A far entry replaces all of it. Nothing jumps back, so x16 and x17 stay as they are. */
    assert_int_equal(make(&trampoline, stub, 4, FAR_HOOK, &why), 0);
    expect_same(&trampoline);
}

static void test_what_cannot_be_moved(void **state)
{
    (void)state;
    static const char call[] = "it begins with a call, which cannot be moved",
                      unknown[] = "its first instructions cannot be decoded";
    expect_refused(0x94000010, call);    /* bl */
    expect_refused(0xd63f0100, call);    /* blr x8 */
    expect_refused(0xd73f0811, call);    /* blraa x0, x17 */
    expect_refused(0xd50324ff, unknown); /* pacm */
    expect_refused(0xdac1a3fe, unknown); /* paciasppc */
    expect_refused(0xdac187fe, unknown); /* pacnbibsppc */
    expect_refused(0xf380001f, unknown); /* autiasppc */
    expect_refused(0x5500001f, unknown); /* retaasppc */
    expect_refused(0x74000000, unknown); /* cbgt: compare and branch */
    expect_refused(0x5800011f, unknown); /* ldr xzr, literal */
    expect_refused(0xdc000000, unknown); /* a literal of no size */
    expect_refused(0x00000000, unknown); /* udf */
    expect_refused(0x02000000, unknown);
}

static void test_far_entries(void **state)
{
    (void)state;
    const char *why;
    struct trampoline trampoline;
    const uint32_t words[] = {PACIASP, STORE_PAIR, 0x910003fd, 0xb4000100, NOP, 0x91000400, RETURN};
    uint64_t hook;
    assert_int_equal(make(&trampoline, words, 7, FAR_HOOK, &why), 0);
    assert_int_equal(trampoline.site.length, 20);
    assert_int_equal(patched_word(&trampoline, 0), BTI_C);
    memcpy(&hook, trampoline.site.patched + 12, sizeof(hook));
    assert_int_equal(hook, FAR_HOOK);
    expect_same(&trampoline);

    /* x17 is in use: the jump back takes x16. Both are in use: it cannot jump back. */
    const uint32_t uses_17[] = {0x58000131, NOP, NOP, NOP, RETURN};
    const uint32_t uses_both[] = {0x58000131, 0x58000110, NOP, NOP, RETURN};
    assert_int_equal(make(&trampoline, uses_17, 5, FAR_HOOK, &why), 0);
    expect_same(&trampoline);
    assert_true(make(&trampoline, uses_both, 5, FAR_HOOK, &why) < 0);
    assert_string_equal(why, "its first instructions use a register that a far jump changes");
    assert_int_equal(make(&trampoline, uses_both, 5, NEAR_HOOK, &why), 0);

    const uint32_t loop[] = {0xd1000400, 0xf100001f, NOP, 0x54ffffc1, RETURN}; /* to the second */
    assert_true(make(&trampoline, loop, 5, FAR_HOOK, &why) < 0);
    assert_string_equal(why, "it jumps back into its first instructions");
    const uint32_t full[] = {PACIASP, 0xb4000400, 0xb4000401, 0xb4000402, 0xb4000403, RETURN};
    assert_true(make(&trampoline, full, 6, FAR_HOOK, &why) < 0);
    assert_string_equal(why, "its first instructions take too much room once moved");
}

static void test_short_functions(void **state)
{
    (void)state;
    static const char is_short[] = "it is shorter than a jump";
    const char *why;
    struct trampoline trampoline;
    const uint32_t padded[] = {RETURN, NOP, NOP, NOP}, followed[] = {RETURN, NOP, STORE_PAIR, NOP};
    assert_int_equal(make(&trampoline, padded, 1, NEAR_HOOK, &why), 0);
    assert_int_equal(make(&trampoline, padded, 4, FAR_HOOK, &why), 0);
    assert_true(make(&trampoline, padded, 3, FAR_HOOK, &why) < 0);
    assert_string_equal(why, is_short);
    assert_true(make(&trampoline, followed, 4, FAR_HOOK, &why) < 0);
    assert_string_equal(why, is_short);
    assert_true(make(&trampoline, padded, 0, NEAR_HOOK, &why) < 0);
    assert_true(trampoline_make(&trampoline, FUNCTION + 2, (const uint8_t *)padded, 16, NEAR_HOOK,
                                NEAR_HOOK, &why) < 0);
    assert_string_equal(why, "it is not aligned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_instruction_becomes_a_branch),
        cmocka_unit_test(test_landing_pads_stay),
        cmocka_unit_test(test_addresses_and_literals),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_functions_that_jump),
        cmocka_unit_test(test_what_cannot_be_moved),
        cmocka_unit_test(test_far_entries),
        cmocka_unit_test(test_short_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
