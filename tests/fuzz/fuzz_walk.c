/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile module file and a hostile walk that reached its code: the first 64 words are the walk's
 * registers and stack, the rest is the file. One process does the work of the file reader and of
 * the daemon: the daemon must accept the reader's answers.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libelf.h>

#include "fuzzing.h"
#include "recorder/reader/file_reader.h"
#include "recorder/reader/handlers.h"
#include "recorder/walk/frame_step.h"

#define WORDS 64u
#define FRAMES_MAX 32u
#define LENGTH_MAX (1u << 16)

/* Return the rule for an address, or NULL. */
static const struct frame_rule *find_rule(struct reader_call *call, uint64_t address,
                                          struct reader_result *result)
{
    *result = (struct reader_result){0};
    call->bytes = &address;
    call->request.bytes = sizeof(address);
    if (handle_unwind_rules(call, result) < 0)
        return NULL;
    if (reader_rules_take(result->bytes, result->length, 1) < 0)
        abort();
    struct reader_rules rules = {.bytes = result->bytes};
    size_t bytes;
    return reader_rules_next(&rules, &bytes);
}

static void walk(struct reader_call *call, const uint64_t *words)
{
    struct frame_machine machine = {.stack = words + FRAME_REGISTERS,
                                    .stack_low = words[FRAME_STACK_POINTER] & 0xfffffffffff8,
                                    .known = words[15],
                                    .steps_left = 4096};
    machine.stack_high = machine.stack_low + (WORDS - FRAME_REGISTERS) * 8;
    memcpy(machine.registers, words, sizeof(machine.registers));
    uint64_t pc = words[14] & 0xffff;
    for (unsigned i = 0; i < FRAMES_MAX; i++) {
        struct reader_result result;
        bool is_signal;
        const struct frame_rule *rule = find_rule(call, pc, &result);
        bool found = rule != NULL && frame_step(rule, &machine, &pc, &is_signal) == FRAME_FOUND;
        free(result.bytes);
        if (!found)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t words[WORDS];
    struct reader_call call = {.request.file = 1, .debug_fd = -1};
    if (size < sizeof(words) || size > LENGTH_MAX)
        return 0;
    memcpy(words, data, sizeof(words));
    elf_version(EV_CURRENT);
    call.fd = fuzz_file(NULL, data + sizeof(words), size - sizeof(words));
    if (handle_unwind_open(&call) >= 0)
        walk(&call, words);
    handle_unwind_close(1);
    close(call.fd);
    return 0;
}
