/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions fuzz_trampoline runs: only those of instructions whose effect depends on
 * registers and memory alone. */
#ifndef HEAPPROFD_FUZZ_TRAMPOLINE_INPUTS_H
#define HEAPPROFD_FUZZ_TRAMPOLINE_INPUTS_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/attach/trampoline.h"

#define CODE UINT64_C(0x10000000)
#define FUNCTION (CODE + 0x800)
#define DATA UINT64_C(0x20000000)
#define INPUT_BYTES_MAX 64u

/* Print a finding and abort. */
_Noreturn void input_fail(const char *what);

bool input_decode(const uint8_t *code, size_t length, ZydisDecodedInstruction *decoded,
                  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT]);

/* Redirect the pc-relative operands of the first instructions to mapped memory: data, or int3. */
void input_redirect(uint8_t *code, size_t length);

/* Return whether the replaced instructions may be run; *count: their number. */
bool input_may_run(const struct trampoline *trampoline, unsigned *count);

#endif
