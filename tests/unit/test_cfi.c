/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter of call frame information: rows, rules, steps, expressions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/unwind/cfi.h"

#define BASE UINT64_C(0x10000) /* address that the image is read as */
#define CODE UINT64_C(0x20000) /* address of the function */

/* An .eh_frame_hdr of one function, its CIE and FDE. */
struct image {
    uint8_t bytes[512];
    size_t used;
};

static void put(struct image *image, const void *bytes, size_t size)
{
    if (size > 0)
        memcpy(image->bytes + image->used, bytes, size);
    image->used += size;
}

static void put_u32(struct image *image, uint32_t value)
{
    put(image, &value, sizeof(value));
}

static struct cfi_source image_make(struct image *image, const char *augmentation,
                                    const uint8_t *program, size_t program_bytes)
{
    memset(image, 0, sizeof(*image));
    const uint8_t head[4] = {1, 0x1b, 0x03, 0x3b}; /* pcrel sdata4, udata4, datarel sdata4 */
    put(image, head, sizeof(head));
    put_u32(image, 20 - 4); /* .eh_frame */
    put_u32(image, 1);
    put_u32(image, (uint32_t)(CODE - BASE));
    size_t fde_place = image->used;
    put_u32(image, 0);

    size_t cie = image->used;
    put_u32(image, 0);
    put_u32(image, 0);
    put(image, "\1", 1);
    put(image, augmentation, strlen(augmentation) + 1);
    const uint8_t alignments[] = {1, 0x78, 16}; /* code 1, data -8, return column */
    put(image, alignments, sizeof(alignments));
    if (augmentation[0] == 'z')
        put(image, "\1\x1b", 2);
    const uint8_t initial[] = {0x0c, 7, 8, 0x80 | 16, 1}; /* CFA = rsp + 8, pc at CFA - 8 */
    put(image, initial, sizeof(initial));
    while (image->used % 4 != 0)
        put(image, "", 1);
    uint32_t length = (uint32_t)(image->used - cie - 4);
    memcpy(image->bytes + cie, &length, 4);

    size_t fde = image->used;
    uint32_t fde_offset = (uint32_t)fde;
    memcpy(image->bytes + fde_place, &fde_offset, 4);
    put_u32(image, 0);
    put_u32(image, (uint32_t)(image->used - cie));
    if (augmentation[0] == 'z') {
        put_u32(image, (uint32_t)(CODE - (BASE + image->used)));
        put_u32(image, 0x100);
        put(image, "", 1);
    } else {
        uint64_t range[2] = {CODE, 0x100};
        put(image, range, sizeof(range));
    }
    put(image, program, program_bytes);
    length = (uint32_t)(image->used - fde - 4);
    memcpy(image->bytes + fde, &length, 4);
    put_u32(image, 0);
    return (struct cfi_source){.low = BASE,
                               .high = BASE + image->used,
                               .eh_frame_hdr = BASE,
                               .delta = BASE - (uintptr_t)image->bytes};
}

static bool read_stack(void *context, uintptr_t address, uint64_t *value)
{
    const uint64_t *stack = context;
    if (address < 0x1000 || address >= 0x1000 + 16 * 8 || address % 8 != 0)
        return false;
    *value = stack[(address - 0x1000) / 8];
    return true;
}

static uint64_t stack[16];

static struct cfi_machine machine_make(void)
{
    struct cfi_machine machine = {.read = read_stack, .context = stack};
    for (uint64_t i = 0; i < 16; i++)
        stack[i] = 0x100 + i;
    machine.registers[6] = 0x1040;
    machine.registers[7] = 0x1000;
    machine.known = 1 << 6 | 1 << 7 | 1 << 16;
    return machine;
}

static void rows_change_at_their_location(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    /* push rbp at 1: CFA + 16, rbp at CFA - 16; mov at 4: CFA from rbp */
    const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_cell_value(row.columns.cfa), 8);
    assert_int_equal(cfi_find_row(&source, CODE + 1, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_cell_value(row.columns.cfa), 16);
    assert_int_equal(row.columns.cfa_register, 7);
    assert_int_equal(cfi_find_row(&source, CODE + 4, NULL, &row), CFI_FOUND);
    assert_int_equal(row.columns.cfa_register, 6);
    assert_int_equal(cfi_cell_value(row.columns.cells[6]), -16);
    assert_int_equal(row.start, CODE);
    assert_int_equal(row.end, CODE + 0x100);
}

static void code_without_fde_has_no_row(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    struct cfi_source source = image_make(&image, "zR", NULL, 0);
    assert_int_equal(cfi_find_row(&source, CODE - 1, NULL, &row), CFI_NONE);
    assert_int_equal(cfi_find_row(&source, CODE + 0x100, NULL, &row), CFI_NONE);
}

static void remembered_rows_come_back(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x0e, 32, 0x0a, 0x41, 0x0e, 8, 0x41, 0x0b};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    assert_int_equal(cfi_find_row(&source, CODE + 1, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_cell_value(row.columns.cfa), 8);
    assert_int_equal(cfi_find_row(&source, CODE + 2, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_cell_value(row.columns.cfa), 32);
}

static void restore_goes_back_to_the_cie(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x90, 3, 0x41, 0xc0 | 16};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_cell_value(row.columns.cells[16]), -24);
    assert_int_equal(cfi_find_row(&source, CODE + 1, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_cell_value(row.columns.cells[16]), -8);
}

static void undefined_return_address_is_outermost(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x07, 16};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    struct cfi_machine machine = machine_make();
    uint64_t cfa;
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_step(&row, &machine, &cfa), CFI_OUTERMOST);
}

static void step_recovers_saved_registers(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x0e, 48, 0x83, 4, 0x86, 2};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    struct cfi_machine machine = machine_make();
    uint64_t cfa;
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_step(&row, &machine, &cfa), CFI_FOUND);
    assert_int_equal(cfa, 0x1030);
    assert_int_equal(machine.registers[16], 0x105);
    assert_int_equal(machine.registers[6], 0x104);
    assert_int_equal(machine.registers[3], 0x102);
    assert_int_equal(machine.registers[7], 0x1030);
    assert_false(machine.known >> 12 & 1);
}

static void realigned_stack_is_found_by_expression(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    /* CFA = *(rbp - 8), rbp at *rbp */
    const uint8_t program[] = {0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    struct cfi_machine machine = machine_make();
    stack[7] = 0x1058;
    uint64_t cfa;
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_step(&row, &machine, &cfa), CFI_FOUND);
    assert_int_equal(cfa, 0x1058);
    assert_int_equal(machine.registers[16], 0x10a);
    assert_int_equal(machine.registers[6], 0x108);
}

static void unknown_register_is_requested(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x0d, 3};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    struct cfi_machine machine = machine_make();
    uint64_t cfa;
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_step(&row, &machine, &cfa), CFI_UNKNOWN);
    assert_int_equal(machine.registers[7], 0x1000);
}

static void unreadable_stack_is_reported(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x0e, 0x80, 0x20};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    struct cfi_machine machine = machine_make();
    uint64_t cfa;
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_step(&row, &machine, &cfa), CFI_UNREADABLE);
}

static void signal_frames_are_marked(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    struct cfi_source source = image_make(&image, "zRS", NULL, 0);
    assert_int_equal(cfi_find_row(&source, CODE, NULL, &row), CFI_FOUND);
    assert_true(row.signal_frame);
}

static void every_truncation_is_refused_or_right(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row;
    const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    size_t fde_end = image.used - 4;
    for (size_t bytes = 0; bytes < fde_end; bytes++) {
        source.high = BASE + bytes;
        assert_int_equal(cfi_find_row(&source, CODE + 4, NULL, &row), CFI_BAD);
    }
}

static void copied_entries_give_the_same_row(void **state)
{
    (void)state;
    struct image image;
    struct cfi_row row, copied;
    struct cfi_copy copy;
    const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2};
    struct cfi_source source = image_make(&image, "zR", program, sizeof(program));
    assert_int_equal(cfi_find_row(&source, CODE + 1, NULL, &row), CFI_FOUND);
    assert_int_equal(cfi_find_row(&source, CODE + 1, &copy, &copied), CFI_FOUND);
    assert_memory_equal(&row.columns.cells, &copied.columns.cells, sizeof(row.columns.cells));
    assert_int_equal(row.columns.cfa, copied.columns.cfa);
}

static uint64_t evaluate(const uint8_t *block, enum cfi_result expected)
{
    struct cfi_machine machine = machine_make();
    uint64_t value = 0;
    assert_int_equal(cfi_expression(block, &machine, NULL, &value), expected);
    return value;
}

static void expressions_compute(void **state)
{
    (void)state;
    /* The lazy-binding stubs: rsp + 8 + ((rip & 15) >= 11) << 3, here with rsp for rip */
    const uint8_t stub[] = {11, 0x77, 8, 0x77, 0xb, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
    assert_int_equal(evaluate(stub, CFI_FOUND), 0x1010);
    const uint8_t swap_minus[] = {4, 0x35, 0x39, 0x16, 0x1c};
    assert_int_equal(evaluate(swap_minus, CFI_FOUND), 4);
    const uint8_t branch[] = {7, 0x31, 0x28, 1, 0, 0x30, 0x32, 0x96};
    assert_int_equal(evaluate(branch, CFI_FOUND), 2);
}

static void hostile_expressions_end(void **state)
{
    (void)state;
    const uint8_t endless[] = {3, 0x2f, 0xfd, 0xff};
    evaluate(endless, CFI_BAD);
    const uint8_t by_zero[] = {3, 0x31, 0x30, 0x1b};
    evaluate(by_zero, CFI_BAD);
    const uint8_t underflow[] = {1, 0x22};
    evaluate(underflow, CFI_BAD);
    const uint8_t jump_out[] = {3, 0x2f, 0x10, 0x00};
    evaluate(jump_out, CFI_BAD);
    const uint8_t empty[] = {0};
    evaluate(empty, CFI_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_change_at_their_location),
        cmocka_unit_test(code_without_fde_has_no_row),
        cmocka_unit_test(remembered_rows_come_back),
        cmocka_unit_test(restore_goes_back_to_the_cie),
        cmocka_unit_test(undefined_return_address_is_outermost),
        cmocka_unit_test(step_recovers_saved_registers),
        cmocka_unit_test(realigned_stack_is_found_by_expression),
        cmocka_unit_test(unknown_register_is_requested),
        cmocka_unit_test(unreadable_stack_is_reported),
        cmocka_unit_test(signal_frames_are_marked),
        cmocka_unit_test(every_truncation_is_refused_or_right),
        cmocka_unit_test(copied_entries_give_the_same_row),
        cmocka_unit_test(expressions_compute),
        cmocka_unit_test(hostile_expressions_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
