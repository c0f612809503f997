/* SPDX-License-Identifier: Apache-2.0 */
/* Make trampolines of real machine code and run them: a patched function returns the same result
 * through its hook as before, whatever its first instructions are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "recorder/attach/trampoline.h"

enum { AREA_BYTES = 65536, FUNCTION_AT = 0x1000, HOOK_AT = 0x4000, TRAMPOLINE_AT = 0x8000 };

/* Memory for functions, hook and trampoline. */
static uint8_t *area;

static int make_area(void **state)
{
    (void)state;
    area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    return area == MAP_FAILED;
}

static uint64_t at(size_t offset)
{
    return (uintptr_t)area + offset;
}

static long call(size_t offset, long argument)
{
    return ((long (*)(long))at(offset))(argument);
}

/* The hook counts its calls and jumps to the trampoline. */
struct counting_hook {
    uint8_t code[16];
    uint64_t trampoline;
    uint64_t calls;
};

static struct counting_hook *put_hook(void)
{
    /* inc qword [rip+17]; jmp [rip+3] */
    static const uint8_t code[] = {0x48, 0xff, 0x05, 0x11, 0, 0, 0, 0xff, 0x25, 0x03, 0, 0, 0};
    struct counting_hook *hook = (struct counting_hook *)(area + HOOK_AT);
    memset(hook, 0, sizeof(*hook));
    memcpy(hook->code, code, sizeof(code));
    hook->trampoline = at(TRAMPOLINE_AT);
    return hook;
}

static int make(struct trampoline *trampoline, const uint8_t *code, size_t length, const char **why)
{
    memset(area + FUNCTION_AT, 0xcc, 256);
    memcpy(area + FUNCTION_AT, code, length);
    return trampoline_make(trampoline, at(FUNCTION_AT), area + FUNCTION_AT, length, at(HOOK_AT),
                           at(TRAMPOLINE_AT), why);
}

/* Patch the code, compare its result with the one before, and remove the patch. */
static void expect_same(const uint8_t *code, size_t length)
{
    static const long arguments[] = {0, 1, 2, -1, 1000};
    enum { COUNT = sizeof(arguments) / sizeof(arguments[0]) };
    struct trampoline trampoline;
    struct counting_hook *hook = put_hook();
    const char *why = "";
    long before[COUNT];
    int made = make(&trampoline, code, length, &why);
    if (made != 0)
        fail_msg("refused: %s", why);
    for (int i = 0; i < COUNT; i++)
        before[i] = call(FUNCTION_AT, arguments[i]);

    memcpy(area + TRAMPOLINE_AT, trampoline.code, trampoline.code_bytes);
    uint8_t *site = area + (trampoline.site.address - at(0));
    assert_memory_equal(site, trampoline.site.original, trampoline.site.length);
    memcpy(site, trampoline.site.patched, trampoline.site.length);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(call(FUNCTION_AT, arguments[i]), before[i]);
    assert_true(hook->calls >= COUNT);

    memcpy(site, trampoline.site.original, trampoline.site.length);
    assert_memory_equal(area + FUNCTION_AT, code, length);
}

/* Return the reason. */
static const char *expect_refused(const uint8_t *code, size_t length)
{
    struct trampoline trampoline;
    const char *why = "";
    assert_true(make(&trampoline, code, length, &why) < 0);
    assert_true(why[0] != 0);
    return why;
}

#define SAME(...)                                                                                  \
    do {                                                                                           \
        static const uint8_t code[] = {__VA_ARGS__};                                               \
        expect_same(code, sizeof(code));                                                           \
    } while (0)

#define REFUSED(...)                                                                               \
    do {                                                                                           \
        static const uint8_t code[] = {__VA_ARGS__};                                               \
        expect_refused(code, sizeof(code));                                                        \
    } while (0)

#define REFUSED_BECAUSE(words, ...)                                                                \
    do {                                                                                           \
        static const uint8_t code[] = {__VA_ARGS__};                                               \
        assert_string_equal(expect_refused(code, sizeof(code)), words);                            \
    } while (0)

static void test_plain_prologue(void **state)
{
    (void)state;
    /* push rbp; mov rbp, rsp; lea rax, [rdi+1]; pop rbp; ret */
    SAME(0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x47, 0x01, 0x5d, 0xc3);
    /* sub rsp, 24; lea rax, [rdi+rdi*2]; add rsp, 24; ret */
    SAME(0x48, 0x83, 0xec, 0x18, 0x48, 0x8d, 0x04, 0x7f, 0x48, 0x83, 0xc4, 0x18, 0xc3);
}

static void test_endbr64_stays(void **state)
{
    (void)state;
    static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa,       /* endbr64 */
                                   0x48, 0x8d, 0x47, 0x02, 0x90, /* lea rax, [rdi+2]; nop */
                                   0xc3};
    struct trampoline trampoline;
    const char *why;
    assert_int_equal(make(&trampoline, code, sizeof(code), &why), 0);
    assert_int_equal(trampoline.site.address, at(FUNCTION_AT) + 4);
    expect_same(code, sizeof(code));
}

static void test_operands_relative_to_rip(void **state)
{
    (void)state;
    /* mov rax, [rip+3]; add rax, rdi... : the word is after the ret */
    SAME(0x48, 0x8b, 0x05, 0x04, 0, 0, 0, /* mov rax, [rip+4] */
         0x48, 0x01, 0xf8,                /* add rax, rdi */
         0xc3, 0x2a, 0, 0, 0, 0, 0, 0, 0);
    /* An operand after the displacement: cmp dword [rip+8], 7; sete al; movzx eax, al; ret */
    SAME(0x83, 0x3d, 0x07, 0, 0, 0, 0x07, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3, 7, 0, 0, 0);
    /* lea rax, [rip+0]; sub rax, rax; add rax, rdi; ret */
    SAME(0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x48, 0x29, 0xc0, 0x48, 0x01, 0xf8, 0xc3);
}

static void test_conditional_jumps(void **state)
{
    (void)state;
    /* test rdi, rdi; je +4; mov eax, edi; nop; ret; mov eax, 7; ret */
    SAME(0x48, 0x85, 0xff, 0x74, 0x04, 0x89, 0xf8, 0x90, 0xc3, 0xb8, 7, 0, 0, 0, 0xc3);
    /* The same with a 32-bit distance: test edi, edi; jg ... */
    SAME(0x85, 0xff, 0x0f, 0x8f, 0x03, 0, 0, 0, 0x31, 0xc0, 0xc3, 0xb8, 9, 0, 0, 0, 0xc3);
}

static void test_entry_that_jumps(void **state)
{
    (void)state;
    /* jmp +1; int3; lea rax, [rdi+5]; ret: 32 bits wide, and through memory */
    SAME(0xe9, 1, 0, 0, 0, 0xcc, 0x48, 0x8d, 0x47, 0x05, 0xc3);
    /* The pointer is before the function: an address among the instructions could decode as a jump
     * back into them. */
    static const uint8_t code[] = {0xff, 0x25, 0xf2, 0xff, 0xff,
                                   0xff, 0xcc, 0xcc, /* jmp [rip-14] */
                                   0x48, 0x8d, 0x47, 0x06, 0xc3};
    uint64_t target = at(FUNCTION_AT) + 8;
    memcpy(area + FUNCTION_AT - sizeof(target), &target, sizeof(target));
    expect_same(code, sizeof(code));
}

static void test_short_functions(void **state)
{
    (void)state;
    SAME(0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90);                      /* xor eax, eax; ret; padding */
    REFUSED(0x31, 0xc0, 0xc3, 0x55, 0x48, 0x89, 0xe5);             /* other code follows */
    REFUSED(0x31, 0xc0, 0xc3);                                     /* nothing known follows */
    REFUSED(0xeb, 0x06, 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0xc3); /* jmp +6, then code */
}

static void calls_are_not_patched(void **state)
{
    (void)state;
    static const char call_first[] = "it begins with a call, which cannot be moved";
    REFUSED_BECAUSE(call_first, 0xe8, 0, 0, 0, 0, 0x58, 0xc3); /* call +0; pop rax; ret */
    REFUSED_BECAUSE(call_first, 0xff, 0x15, 0, 0, 0, 0, 0xc3); /* call [rip] */
    REFUSED_BECAUSE(call_first, 0xff, 0xd0, 0x48, 0x8d, 0x47, 0x01, 0xc3); /* call rax */
}

static void test_loops(void **state)
{
    (void)state;
    /* jrcxz has no form with a longer distance */
    REFUSED_BECAUSE("it begins with a loop, which cannot be moved", 0xe3, 0x03, 0x48, 0x89, 0xf8,
                    0xc3, 0x90);
    /* xor eax, eax; inc eax; dec rdi; jg to the inc: into the replaced bytes */
    REFUSED(0x31, 0xc0, 0xff, 0xc0, 0x48, 0xff, 0xcf, 0x7f, 0xf9, 0xc3);
    /* A loop to the very first instruction is fine: all that the code needs there is in its
     * arguments. sub rdi, 3; jg to it; mov rax, rdi; ret */
    SAME(0x48, 0x83, 0xef, 0x03, 0x7f, 0xfa, 0x48, 0x89, 0xf8, 0xc3);
}

static void test_short_operands_are_refused(void **state)
{
    (void)state;
    /* jmp with prefix 66: processors disagree on its length and target */
    REFUSED(0x66, 0xe9, 0x01, 0, 0, 0, 0xcc, 0x31, 0xc0, 0xc3);
    /* lea rax, [eip+1] */
    REFUSED(0x67, 0x48, 0x8d, 0x05, 0x01, 0, 0, 0, 0x31, 0xc0, 0xc3);
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    REFUSED(0x06, 0x06, 0x06, 0x06, 0x06, 0x06); /* no instruction in 64-bit mode */
    struct trampoline trampoline;
    const char *why = "";
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x47, 0x01, 0x5d, 0xc3};
    assert_true(trampoline_make(&trampoline, at(FUNCTION_AT), code, 0, at(HOOK_AT),
                                at(TRAMPOLINE_AT), &why) < 0);
    assert_true(trampoline_make(&trampoline, at(FUNCTION_AT), code, sizeof(code),
                                at(HOOK_AT) + (UINT64_C(1) << 33), at(TRAMPOLINE_AT), &why) < 0);
    assert_true(trampoline_make(&trampoline, at(FUNCTION_AT), code, sizeof(code), at(HOOK_AT),
                                at(TRAMPOLINE_AT) + (UINT64_C(1) << 33), &why) < 0);
}

/* A thread between replaced instructions is moved to the same instruction, and back. */
static void test_threads_are_moved(void **state)
{
    (void)state;
    /* push rbp; mov rbp, rsp; lea rax, [rip+...]; ret */
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3};
    struct trampoline trampoline;
    const char *why;
    assert_int_equal(make(&trampoline, code, sizeof(code), &why), 0);
    uint64_t start = trampoline.site.address, there = trampoline.site.trampoline;
    assert_int_equal(trampoline.site.length, 5);
    assert_int_equal(trampoline_enter(&trampoline, start), 0);     /* executes the jump */
    assert_int_equal(trampoline_enter(&trampoline, start + 2), 0); /* no instruction begins there */
    assert_int_equal(trampoline_enter(&trampoline, start + 5), 0); /* after the patch */
    for (uint64_t offset = 1; offset < 5; offset += 3) {
        uint64_t moved = trampoline_enter(&trampoline, start + offset);
        assert_int_equal(moved, there + offset);
        assert_int_equal(trampoline_leave(&trampoline, moved), start + offset);
    }
    assert_int_equal(trampoline_leave(&trampoline, there), start);
    assert_int_equal(trampoline_leave(&trampoline, there + 5), start + 5); /* at the jump back */
    assert_int_equal(trampoline_leave(&trampoline, there + trampoline.code_bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_prologue),
        cmocka_unit_test(test_endbr64_stays),
        cmocka_unit_test(test_operands_relative_to_rip),
        cmocka_unit_test(test_conditional_jumps),
        cmocka_unit_test(test_entry_that_jumps),
        cmocka_unit_test(test_short_functions),
        cmocka_unit_test(calls_are_not_patched),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_threads_are_moved),
        cmocka_unit_test(test_short_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, make_area, NULL);
}
