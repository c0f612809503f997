/* SPDX-License-Identifier: Apache-2.0 */
/* Code without CFI is not followed on aarch64: such frames are found by frame pointers. */
#include "client/unwind/epilogue.h"

enum cfi_result epilogue_find_row(const struct epilogue_code *code, uintptr_t pc,
                                  struct cfi_row *row)
{
    (void)code;
    (void)pc;
    (void)row;
    return CFI_NONE;
}

bool epilogue_is_return_address(uintptr_t start, uintptr_t end, uintptr_t address)
{
    (void)start;
    (void)end;
    (void)address;
    return false;
}
