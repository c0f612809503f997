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

#include "daemon/walk/frame_step.h"
#include "fuzzing.h"
#include "reader/answers.h"
#include "reader/file_reader.h"

#define WORDS 64u
#define FRAMES_MAX 32u
#define LENGTH_MAX (1u << 16)

/* Return the rule for an address, or NULL. */
static const struct frame_rule *find_rule(struct question *question, uint64_t address,
                                          struct answer *answer)
{
    *answer = (struct answer){0};
    question->bytes = &address;
    question->request.bytes = sizeof(address);
    if (answer_unwind_rules(question, answer) < 0)
        return NULL;
    if (reader_rules_take(answer->bytes, answer->length, 1) < 0)
        abort();
    struct reader_rules rules = {.bytes = answer->bytes};
    size_t bytes;
    return reader_rules_next(&rules, &bytes);
}

static void walk(struct question *question, const uint64_t *words)
{
    struct frame_machine machine = {.stack = words + FRAME_REGISTERS,
                                    .stack_low = words[FRAME_STACK_POINTER] & 0xfffffffffff8,
                                    .known = words[15],
                                    .steps_left = 4096};
    machine.stack_high = machine.stack_low + (WORDS - FRAME_REGISTERS) * 8;
    memcpy(machine.registers, words, sizeof(machine.registers));
    uint64_t pc = words[14] & 0xffff;
    for (unsigned i = 0; i < FRAMES_MAX; i++) {
        struct answer answer;
        bool is_signal;
        const struct frame_rule *rule = find_rule(question, pc, &answer);
        bool found = rule != NULL && frame_step(rule, &machine, &pc, &is_signal) == FRAME_FOUND;
        free(answer.bytes);
        if (!found)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t words[WORDS];
    struct question question = {.request.file = 1, .debug_fd = -1};
    if (size < sizeof(words) || size > LENGTH_MAX)
        return 0;
    memcpy(words, data, sizeof(words));
    elf_version(EV_CURRENT);
    question.fd = fuzz_file(NULL, data + sizeof(words), size - sizeof(words));
    if (answer_unwind_open(&question) >= 0)
        walk(&question, words);
    answer_unwind_close(1);
    close(question.fd);
    return 0;
}
