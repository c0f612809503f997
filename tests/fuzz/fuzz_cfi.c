/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information of arbitrary bytes. Input: 2 bytes of pc offset, then an
 * image that begins with .eh_frame_hdr.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/unwind/cfi.h"
#include "client/unwind/unwind_rule.h"

#define BASE UINT64_C(0x100000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_memory(void *context, uintptr_t address, uint64_t *value)
{
    (void)context;
    *value = address * UINT64_C(0x9e3779b97f4a7c15);
    return address % 16 != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cfi_row row;
    struct cfi_copy copy;
    uint64_t cfa;
    uint16_t offset;
    if (size < sizeof(offset))
        return 0;
    memcpy(&offset, data, sizeof(offset));
    const uint8_t *image = data + sizeof(offset);
    size -= sizeof(offset);
    struct cfi_source source = {
        .low = BASE, .high = BASE + size, .eh_frame_hdr = BASE, .delta = BASE - (uintptr_t)image};
    for (int copying = 0; copying < 2; copying++) {
        uintptr_t pc = BASE - 0x8000 + offset;
        if (cfi_find_row(&source, pc, copying ? &copy : NULL, &row) != CFI_FOUND)
            continue;
        rule_compile(&row);
        struct cfi_machine machine = {.read = read_memory, .known = 0x1fff5};
        for (unsigned i = 0; i < ARCH_REGISTERS; i++)
            machine.registers[i] = 0x7000000 + i * 8;
        cfi_step(&row, &machine, &cfa);
    }
    return 0;
}
