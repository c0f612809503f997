/* SPDX-License-Identifier: Apache-2.0 */
/* Ruby's index of lines, from memory of the profiled process that may hold anything. The input is
 * that memory: a body, a place, and what it leads to. Nothing outside of it may be read. */
#include <stdlib.h>
#include <string.h>

#include "client/interp/interpreter.h"
#include "client/interp/ruby_layout.h"
#include "client/interp/ruby_lines.h"

static const struct ruby_layout layout = {
    .body_entries = 15,
    .body_entry_count = 17,
    .body_index = 18,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the input is in the process's memory: aligned, and far from 0 and from overflow. */
#define BASE UINT64_C(0x100000)

static const uint8_t *memory;
static size_t memory_bytes;

const uint8_t *interpreter_view(bool direct, uintptr_t from, void *room, size_t bytes)
{
    if (direct)
        abort();
    if (from < BASE || from - BASE > memory_bytes || memory_bytes - (from - BASE) < bytes)
        return NULL;
    memcpy(room, memory + (from - BASE), bytes);
    return room;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t body[RUBY_BODY_WORDS], pc, line = UINT64_MAX;
    if (size < sizeof(body) + sizeof(pc))
        return 0;
    memcpy(body, data, sizeof(body));
    memcpy(&pc, data + sizeof(body), sizeof(pc));
    memory = data;
    memory_bytes = size;
    if (ruby_lines_find(&layout, false, body, pc, &line) && line > INT32_MAX)
        abort();
    /* Addresses into the input, which random bytes seldom are. */
    body[RUBY_BODY_CODE] = BASE;
    body[layout.body_index] = BASE + body[layout.body_index] % (size + 1);
    body[layout.body_entries] = BASE + body[layout.body_entries] % (size + 1);
    body[layout.body_index] &= ~UINT64_C(7);
    pc = BASE + (pc & 0xfff8);
    body[RUBY_BODY_SIZE] |= UINT64_C(1) << 44;
    if (ruby_lines_find(&layout, false, body, pc, &line) && line > INT32_MAX)
        abort();
    return 0;
}
