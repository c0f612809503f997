/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that is followed to its end tells the same as its CFI: at each call of this process's C
 * library, and at the calls of functions that end in unusual ways.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <link.h>
#include <stdio.h>
#include <string.h>

#include "client/unwind/cfi.h"
#include "client/unwind/epilogue.h"
#include "client/unwind/go_call.h"
#include "wire/x86_instruction.h"

/* The C library's code and CFI. */
struct library {
    struct epilogue_code code;
    struct cfi_source cfi;
};

static int find_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct library *library = context;
    if (strstr(info->dlpi_name, "libc.so") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
            library->code.start = start;
            library->code.end = start + segment->p_memsz;
        } else if (segment->p_type == PT_GNU_EH_FRAME) {
            library->cfi.eh_frame_hdr = start;
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
        if (segment->p_type == PT_LOAD && library->cfi.eh_frame_hdr >= start &&
            library->cfi.eh_frame_hdr < end) {
            library->cfi.low = start;
            library->cfi.high = end;
        }
    }
    return 1;
}

struct counts {
    unsigned calls, same, unknown, other, registers;
    unsigned by_stack; /* by the stack pointer what the CFI tells by the frame pointer */
};

#define FRAME_POINTER 6u
#define STACK_POINTER 7u

static bool is_call(const struct x86_instruction *found)
{
    return found->map == 0 &&
           (found->opcode == 0xe8 || (found->opcode == 0xff && (found->reg & 7) == 2));
}

/* Compare the frames that continue at pc, and the registers that both rows restore. */
static void compare(const struct library *library, uintptr_t pc, struct counts *counts)
{
    struct cfi_row wanted, found;
    if (cfi_find_row(&library->cfi, pc - 1, NULL, &wanted) != CFI_FOUND ||
        cfi_cell_rule(wanted.columns.cfa) != CFI_RULE_REGISTER ||
        (wanted.columns.cfa_register != STACK_POINTER &&
         wanted.columns.cfa_register != FRAME_POINTER))
        return;
    counts->calls++;
    if (epilogue_find_row(&library->code, pc, &found) != CFI_FOUND) {
        counts->unknown++;
    } else if (found.columns.cfa == wanted.columns.cfa &&
               found.columns.cfa_register == wanted.columns.cfa_register) {
        counts->same++;
        for (unsigned i = 0; i < ARCH_REGISTERS; i++)
            counts->registers += found.columns.cells[i] != wanted.columns.cells[i];
    } else if (found.columns.cfa_register == STACK_POINTER &&
               wanted.columns.cfa_register == FRAME_POINTER) {
        counts->by_stack++;
    } else {
        counts->other++;
    }
}

static void follows_the_c_library(void **state)
{
    (void)state;
    struct library library = {0};
    struct counts counts = {0};
    assert_int_equal(dl_iterate_phdr(find_library, &library), 1);
    uintptr_t pc = library.code.start;
    while (pc < library.code.end) {
        struct cfi_row row;
        if (cfi_find_row(&library.cfi, pc, NULL, &row) != CFI_FOUND || row.end <= pc) {
            pc++;
            continue;
        }
        struct x86_instruction found;
        while (pc < row.end && x86_instruction_decode(&found, (const uint8_t *)pc, row.end - pc)) {
            pc += found.length;
            if (is_call(&found) && pc < row.end)
                compare(&library, pc, &counts);
        }
        pc = row.end;
    }
    printf(
        "%u calls: %u same, %u by the stack pointer, %u registers differ, %u unknown, %u other\n",
        counts.calls, counts.same, counts.by_stack, counts.registers, counts.unknown, counts.other);
    /* Calls that never return are among the others, too. */
    assert_true(counts.calls > 5000);
    assert_true((counts.same + counts.by_stack) * 100 > counts.calls * 85);
    assert_true(counts.other * 100 < counts.calls && counts.registers * 100 < counts.calls);
}

/* Return the length of the instruction, 0 if it is refused. */
static unsigned length_of(const char *code, unsigned bytes)
{
    struct x86_instruction found;
    return x86_instruction_decode(&found, (const uint8_t *)code, bytes) ? found.length : 0;
}

static void refuses_what_it_does_not_know(void **state)
{
    (void)state;
    assert_int_equal(length_of("\x48\x83\xec\x08", 4), 4);         /* sub $8, %rsp */
    assert_int_equal(length_of("\x48\x83\xec\x08", 3), 0);         /* cut */
    assert_int_equal(length_of("\xc5\xf8\x77", 3), 3);             /* vzeroupper */
    assert_int_equal(length_of("\x62\xf1\x7c\x48\x10\x00", 6), 6); /* vmovups (%rax), %zmm0 */
    assert_int_equal(length_of("\x62\xfc\x7c\x08\x01\xc0", 6), 0); /* APX */
    assert_int_equal(length_of("\x8f\xe8\x78\xa2\xc0\x10", 6), 0); /* XOP */
    assert_int_equal(length_of("\x48\x66\x90", 3), 0);             /* a prefix after REX */
    assert_int_equal(
        length_of("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90", 16), 0);
    assert_int_equal(length_of("\xff\x25\x00\x00\x00\x00", 6), 6);     /* jmp *(%rip) */
    assert_int_equal(length_of("\x0f\x84\x00\x00\x00\x00", 6), 6);     /* je */
    assert_int_equal(length_of("\x48\xb8\1\2\3\4\5\6\7\x08", 10), 10); /* movabs */
}

/* Random code ends a search, within its bounds. */
static void survives_any_code(void **state)
{
    (void)state;
    static uint8_t bytes[4096];
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[i] = (uint8_t)(random >> 56);
        }
        struct epilogue_code code = {.start = (uintptr_t)bytes,
                                     .end = (uintptr_t)bytes + sizeof(bytes)};
        struct cfi_row row;
        for (uintptr_t pc = code.start; pc < code.end; pc += 97) {
            epilogue_find_row(&code, pc, &row);
            epilogue_is_return_address(code.start, code.end, pc);
        }
    }
}

/* The code after asmcgocall's call, of Go 1.19 and 1.22, and of a position-independent program. */
static void calls_from_go_are_recognized(void **state)
{
    (void)state;
    static const uint8_t usual[] = {0x48, 0x8b, 0x7c, 0x24, 0x30, 0x48, 0x8b, 0x77, 0x08,
                                    0x48, 0x2b, 0x74, 0x24, 0x28, 0x64, 0x48, 0x89, 0x3c,
                                    0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x89, 0xf4};
    static const uint8_t later[] = {0x48, 0x8b, 0x7c, 0x24, 0x08, 0x48, 0x8b, 0x77, 0x08,
                                    0x48, 0x2b, 0x34, 0x24, 0x64, 0x48, 0x89, 0x3c, 0x25,
                                    0xf8, 0xff, 0xff, 0xff, 0x48, 0x89, 0xf4};
    static const uint8_t movable[] = {0x48, 0xc7, 0xc1, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x8b, 0x7c,
                                      0x24, 0x30, 0x48, 0x8b, 0x77, 0x08, 0x48, 0x2b, 0x74, 0x24,
                                      0x28, 0x64, 0x48, 0x89, 0x39, 0x48, 0x89, 0xf4};
    static const uint8_t on_thread[] = {0x48, 0x8b, 0x34, 0x24, 0x48, 0x89,
                                        0xf4, 0x89, 0x44, 0x24, 0x18, 0xc3};
    struct go_call call;
    assert_true(go_call_read(usual, sizeof(usual), &call));
    assert_true(!call.on_thread && call.goroutine == 0x30 && call.stack == 0x28);
    assert_true(go_call_read(later, sizeof(later), &call));
    assert_true(!call.on_thread && call.goroutine == 8 && call.stack == 0);
    assert_true(go_call_read(movable, sizeof(movable), &call));
    assert_true(!call.on_thread && call.goroutine == 0x30 && call.stack == 0x28);
    assert_true(go_call_read(on_thread, sizeof(on_thread), &call));
    assert_true(call.on_thread && call.stack == 0);
    for (size_t bytes = 0; bytes < sizeof(usual); bytes++)
        assert_false(go_call_read(usual, bytes, &call));
    for (size_t bytes = 0; bytes < sizeof(on_thread); bytes++)
        assert_false(go_call_read(on_thread, bytes, &call));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_c_library),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(survives_any_code),
        cmocka_unit_test(calls_from_go_are_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
