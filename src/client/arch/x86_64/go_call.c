/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of asmcgocall as Go's assembler writes it (src/runtime/asm_amd64.s); the places have
 * changed between versions:
 *
 *     mov 0x30(%rsp),%rdi   the goroutine
 *     mov 0x8(%rdi),%rsi    the end of its stack
 *     sub 0x28(%rsp),%rsi
 *     ...
 *     mov %rsi,%rsp
 *
 * or, if it was called on the thread's stack:
 *
 *     mov 0x28(%rsp),%rsi
 *     mov %rsi,%rsp
 *     mov %eax,0x18(%rsp)
 *     ret
 *
 * A program that is position-independent reads the place of its thread-local word before.
 */
#include "client/unwind/go_call.h"

#include <string.h>

#define TLS_LOAD_BYTES 7u /* mov 0x0(%rip),%rcx; or mov $0x0,%rcx, into which linkers change it */

struct code {
    const uint8_t *at, *end;
};

static bool go_call_take(struct code *code, const uint8_t *bytes, size_t count)
{
    if ((size_t)(code->end - code->at) < count || memcmp(code->at, bytes, count) != 0)
        return false;
    code->at += count;
    return true;
}
#define TAKE(code, ...)                                                                            \
    go_call_take(code, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* Take an instruction of 64 bits with a register and a place on the stack. */
static bool take_with_place(struct code *code, uint8_t operation, uint8_t field, uint8_t *place)
{
    *place = 0;
    if (TAKE(code, 0x48, operation, (uint8_t)(field | 0x04), 0x24)) /* (%rsp) */
        return true;
    if (!TAKE(code, 0x48, operation, (uint8_t)(field | 0x44), 0x24) || code->at == code->end)
        return false;
    *place = *code->at++;
    return *place < 0x80 && *place % 8 == 0;
}

#define MOVE 0x8b
#define SUBTRACT 0x2b
#define RSI (6 << 3)
#define RDI (7 << 3)

static bool changes_stack_later(struct code code)
{
    for (; code.at < code.end; code.at++) {
        struct code here = code;
        if (TAKE(&here, 0x48, 0x89, 0xf4)) /* mov %rsi,%rsp */
            return true;
    }
    return false;
}

bool go_call_read(const uint8_t *code, size_t bytes, struct go_call *call)
{
    struct code at = {code, code + bytes}, thread;
    if (bytes > TLS_LOAD_BYTES && (TAKE(&at, 0x48, 0x8b, 0x0d) || TAKE(&at, 0x48, 0xc7, 0xc1)))
        at.at = code + TLS_LOAD_BYTES;
    thread = at;
    *call = (struct go_call){0};
    if (take_with_place(&at, MOVE, RDI, &call->goroutine) &&
        TAKE(&at, 0x48, 0x8b, 0x77, 0x08) /* mov 0x8(%rdi),%rsi */ &&
        take_with_place(&at, SUBTRACT, RSI, &call->stack))
        return changes_stack_later(at);
    call->on_thread = true;
    return take_with_place(&thread, MOVE, RSI, &call->stack) &&
           TAKE(&thread, 0x48, 0x89, 0xf4, 0x89, 0x44, 0x24) && thread.end - thread.at >= 2 &&
           thread.at[1] == 0xc3;
}
