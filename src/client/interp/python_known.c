/* SPDX-License-Identifier: Apache-2.0 */
/* Remember a function of a stack. */
#include "client/interp/python_known.h"

#include <stddef.h>

/* Every so many misses replace the first function of a set, which may be dead. */
#define FIRST_PERIOD 16u

/* The bytes that tell a text without a hash from others, as hash_text() of python_stack.c reads. */
static struct python_known_text text_at(const struct python_layout *layout, uintptr_t at)
{
    const uint8_t *head = (const uint8_t *)at;
    struct python_known_text text = {.at = at,
                                     .hash = python_word(head, PYTHON_TEXT_HASH),
                                     .length = python_word(head, PYTHON_TEXT_LENGTH),
                                     .state =
                                         python_half(head, PYTHON_TEXT_STATE) & PYTHON_TEXT_LAYOUT};
    if (text.hash == UINT64_MAX && text.state == PYTHON_TEXT_LAYOUT &&
        text.length < PYTHON_LENGTH_MAX) {
        text.end_at = at + layout->text_ascii + text.length + 1 - 8;
        text.end = python_word_at(text.end_at);
    }
    return text;
}

/* A jump out of a signal handler may leave this at any instruction. */
static void python_known_put(struct python_known *known, const struct python_known *made)
{
    const size_t head = sizeof(known->code);
    known->code = 0;
    barrier_signal();
    __builtin_memcpy((uint8_t *)known + head, (const uint8_t *)made + head, sizeof(*known) - head);
    barrier_signal();
    known->code = made->code;
}

/* Stacks of more functions than there is room for come again and again in the same order. The first
 * function of a set stays, so that some are found. */
static struct python_known *place_for(struct python_known_functions *functions, uintptr_t code)
{
    struct python_known *set = functions->sets[python_known_set(code)];
    bool takes_first = set[0].code == code || set[0].code == 0;
    return &set[takes_first || functions->misses++ % FIRST_PERIOD == 0 ? 0 : 1];
}

void python_know(struct python_known_functions *functions, const struct python_layout *layout,
                 uintptr_t code, const uint8_t *view, uint64_t key)
{
    struct python_known made = {
        .code = code,
        .layout = layout,
        .name = text_at(layout, python_word(view, layout->code_name)),
        .file = text_at(layout, python_word(view, layout->code_file)),
        .table = python_word(view, layout->code_table),
        .size = python_word(view, PYTHON_OBJECT_SIZE),
        .first_line = python_half(view, layout->code_first_line),
        .key = key,
    };
    made.qualified = layout->code_qualified_name == 0
                         ? made.name
                         : text_at(layout, python_word(view, layout->code_qualified_name));
    made.table_length = python_word_at(made.table + PYTHON_OBJECT_SIZE);
    made.table_middle = python_word_at(python_table_bytes(made.table, made.table_length / 2));
    made.table_end = python_word_at(python_table_bytes(made.table, made.table_length));
    python_known_put(place_for(functions, code), &made);
}
