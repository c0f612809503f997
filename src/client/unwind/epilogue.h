/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinds functions that have no CFI, such as musl's, by the rest of their own code.
 *
 * From any instruction of a function, each path to its end undoes what the function did to the
 * stack: it pops the registers that it has saved, releases its frame, and returns. So one path is
 * followed from the return address to the return, without executing it. Its pops and additions to
 * the stack pointer say where the caller's frame is, and where the caller's registers are.
 *
 * A path may still be wrong: it may lead through a call that never returns. So the address that
 * the frame returns to must be one (epilogue_is_return_address()).
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_EPILOGUE_H
#define HEAPPROFD_CLIENT_UNWIND_EPILOGUE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/unwind/cfi.h"

/* Code that may be read, and two functions in it that end the program or a thread: a function that
 * calls one of them has no caller. 0: unknown. */
struct epilogue_code {
    uintptr_t start, end;
    uintptr_t exit, pthread_exit;
};

/* Find the row of a frame that continues at pc. Return CFI_NONE if no path leads to its end. */
enum cfi_result epilogue_find_row(const struct epilogue_code *code, uintptr_t pc,
                                  struct cfi_row *row);

/* Return whether a frame may return to an address: it follows a call, or a signal's frame begins
 * there. [start, end) can be read. */
bool epilogue_is_return_address(uintptr_t start, uintptr_t end, uintptr_t address);

#endif
