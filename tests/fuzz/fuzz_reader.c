/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of a hostile file reader. The first byte is the kind of request, the second the requested
 * size.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/reader/file_reader.h"
#include "recorder/walk/frame_step.h"
#include "recorder/walk/rule_cache.h"

#define COUNT_MAX 64u

static void take_names(char *bytes, size_t length, size_t count)
{
    const char *names[COUNT_MAX];
    size_t all = 0;
    if (reader_names_take(bytes, length, count, names) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        all += names[i] != NULL ? strlen(names[i]) : 0;
    if (all > length * COUNT_MAX)
        abort();
}

static void take_rule(const struct frame_rule *rule, size_t length)
{
    uint64_t stack[16] = {0}, address;
    bool is_signal;
    struct frame_machine machine = {
        .known = UINT64_MAX, .stack = stack, .stack_low = 4096, .steps_left = 4096};
    struct rule_cache cache = {0};
    machine.stack_high = machine.stack_low + sizeof(stack);
    for (unsigned i = 0; i < FRAME_REGISTERS; i++)
        machine.registers[i] = machine.stack_low + i * 8;
    const struct frame_rule *kept = rule_cache_add(&cache, 0, rule, length), *found;
    if (kept == NULL || !rule_cache_find(&cache, 0, &found) || found != kept)
        abort();
    frame_step(kept, &machine, &address, &is_signal);
    rule_cache_clear(&cache);
}

static void take_rules(void *bytes, size_t length, size_t count)
{
    struct reader_rules rules = {.bytes = bytes, .length = length};
    if (reader_rules_take(bytes, length, count) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        size_t rule_bytes;
        const struct frame_rule *rule = reader_rules_next(&rules, &rule_bytes);
        if (rule != NULL)
            take_rule(rule, rule_bytes);
    }
}

static void take_functions(const void *bytes, size_t length, size_t count)
{
    const struct reader_function *functions = bytes;
    int found = reader_functions_take(bytes, length, count);
    for (int i = 0; i < found; i++) {
        if (functions[i].name >= count)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader_segment segment;
    struct program_file program;
    if (size < 2)
        return 0;
    size_t count = data[1] % COUNT_MAX, length = size - 2;
    char *bytes = malloc(length > 0 ? length : 1); /* a sanitizer checks its end */
    if (bytes == NULL)
        abort();
    memcpy(bytes, data + 2, length);
    switch (data[0] % 5) {
    case 0:
        take_names(bytes, length, count);
        break;
    case 1:
        take_rules(bytes, length, count);
        break;
    case 2:
        take_functions(bytes, length, count);
        break;
    case 3:
        if (reader_segment_take(bytes, length, &segment) == 0 &&
            segment.build_id_length > READER_BUILD_ID_MAX)
            abort();
        break;
    default:
        if (reader_program_take(bytes, length, &program) == 0 &&
            strlen(program.allocator) + strlen(program.build_id) > sizeof(program))
            abort();
    }
    free(bytes);
    return 0;
}
