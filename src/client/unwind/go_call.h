/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from Go to C (cgo). runtime.asmcgocall changes from the goroutine's stack to that of the
 * thread, and calls the C function there. No table describes that: Go's .debug_frame says that
 * the caller is on the same stack. The function's own code after the call says how it goes back,
 * and where it has kept what it needs for that.
 *
 * Beyond it, the frames of Go are found by their frame pointers, which Go's compiler keeps. They
 * stay as asmcgocall found them, because C preserves the register.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_GO_CALL_H
#define HEAPPROFD_CLIENT_UNWIND_GO_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GO_CALL_CODE_BYTES 48u

/* How asmcgocall finds the stack to which it goes back. Places are offsets from the stack pointer
 * that it has while the C function runs. */
struct go_call {
    bool on_thread;    /* it was called on the thread's stack, to which `stack` points */
    uint8_t goroutine; /* place of the goroutine; the end of its stack is its second word */
    uint8_t stack;     /* place of the distance from that end; or of the stack pointer */
};

/* Read the code at an address to which a C function returns. Return false if it is no asmcgocall.
 */
bool go_call_read(const uint8_t *code, size_t bytes, struct go_call *call);

#endif
