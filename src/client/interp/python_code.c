/* SPDX-License-Identifier: Apache-2.0 */
/* Send a Python function: its name, file, and table of lines. */
#include <string.h>

#include "client/interp/python.h"
#include "client/sample/ring_writer.h"
#include "client/system.h"

#define PIECE_BYTES 128u
#define REPLACEMENT 0xfffdu /* in place of half a surrogate pair */

/* The characters of a string object: one, two or four bytes each. */
struct text {
    uintptr_t at;
    uint64_t length;
    uint32_t width;
};

static struct text python_code_text_of(const struct python_memory *memory, uintptr_t object)
{
    uint8_t room[40];
    const uint8_t *head = python_view(memory, object, room, sizeof(room));
    if (object == 0 || object % 8 != 0 || head == NULL)
        return (struct text){0};
    uint32_t state = python_half(head, PYTHON_TEXT_STATE), width = PYTHON_TEXT_KIND(state);
    bool ascii = (state & PYTHON_TEXT_ASCII) != 0;
    if (!(state & PYTHON_TEXT_COMPACT) || (width != 1 && width != 2 && width != 4))
        return (struct text){0};
    return (struct text){
        .at = object + (ascii ? memory->layout->text_ascii : memory->layout->text_wide),
        .length = python_word(head, PYTHON_TEXT_LENGTH),
        .width = width,
    };
}

/* Encode a character. Return its number of bytes. */
static unsigned encode(uint32_t character, uint8_t to[4])
{
    if (character < 0x80) {
        to[0] = (uint8_t)character;
        return 1;
    }
    if (character < 0x800) {
        to[0] = (uint8_t)(0xc0 | character >> 6);
        to[1] = (uint8_t)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character > 0x10ffff || character >> 11 == 0xd800 >> 11)
        character = REPLACEMENT;
    unsigned more = character < 0x10000 ? 2 : 3;
    to[0] = (uint8_t)((more == 2 ? 0xe0 : 0xf0) | character >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        to[i] = (uint8_t)(0x80 | (character >> 6 * (more - i) & 0x3f));
    return more + 1;
}

static uint32_t character_at(const uint8_t *view, uint32_t width)
{
    uint16_t two;
    if (width == 1)
        return *view;
    if (width == 4)
        return python_half(view, 0);
    memcpy(&two, view, sizeof(two));
    return two;
}

/* Write a string as UTF-8, at most `room` bytes; `to` NULL: only measure it. Return the length. */
static uint32_t write_text(const struct python_memory *memory, const struct text *text, uint8_t *to,
                           uint32_t room)
{
    uint32_t length = 0;
    for (uint64_t done = 0; done < text->length;) {
        uint8_t piece[PIECE_BYTES];
        uint64_t count = PIECE_BYTES / text->width;
        if (count > text->length - done)
            count = text->length - done;
        const uint8_t *view =
            python_view(memory, text->at + done * text->width, piece, count * text->width);
        if (view == NULL)
            return length;
        for (uint64_t i = 0; i < count; i++) {
            uint8_t bytes[4];
            unsigned more = encode(character_at(view + i * text->width, text->width), bytes);
            if (more > room - length)
                return length;
            for (unsigned j = 0; to != NULL && j < more; j++)
                to[length + j] = bytes[j];
            length += more;
        }
        done += count;
    }
    return length;
}

/* The parts of a function that are sent. */
struct function {
    struct text name, file;
    uintptr_t table; /* its bytes */
    uint32_t name_length, file_length, table_length;
    uint32_t first_line;
    bool table_is_cut;
};

static bool read_function(const struct python_memory *memory, uintptr_t code,
                          struct function *function)
{
    const struct python_layout *layout = memory->layout;
    uint8_t room[PYTHON_CODE_BYTES], head_room[PYTHON_BYTES_DATA];
    const uint8_t *view = python_view(memory, code, room, layout->code_bytes);
    if (view == NULL || python_word(view, PYTHON_OBJECT_TYPE) != memory->code_type)
        return false;
    uintptr_t qualified = layout->code_qualified_name != 0
                              ? python_word(view, layout->code_qualified_name)
                              : python_word(view, layout->code_name);
    uintptr_t table = python_word(view, layout->code_table);
    const uint8_t *head = python_view(memory, table, head_room, sizeof(head_room));
    *function = (struct function){
        .name = python_code_text_of(memory, qualified),
        .file = python_code_text_of(memory, python_word(view, layout->code_file)),
        .table = table + PYTHON_BYTES_DATA,
        .first_line = python_half(view, layout->code_first_line),
    };
    function->name_length = write_text(memory, &function->name, NULL, RECORD_CODE_NAME_MAX);
    function->file_length = write_text(memory, &function->file, NULL, RECORD_CODE_FILE_MAX);
    uint64_t length = head != NULL ? python_word(head, PYTHON_OBJECT_SIZE) : 0;
    uint32_t most = ring_writer_length_max() / 4;
    most = most < RECORD_CODE_TABLE_MAX ? most : RECORD_CODE_TABLE_MAX;
    function->table_is_cut = length > most;
    function->table_length = length > most ? most : (uint32_t)length;
    return true;
}

bool python_send(struct ring_thread *thread, const struct interpreter *interpreter,
                 const struct interpreter_stack *stack, const struct interpreter_item *item)
{
    const struct python_layout *layout = python_layout_in(interpreter);
    const struct python_memory memory = {.layout = layout,
                                         .code_type = interpreter->places[PYTHON_CODE_TYPE],
                                         .direct = stack->direct};
    struct function function;
    if (!read_function(&memory, item->code, &function))
        return false;
    uint32_t length = (uint32_t)sizeof(struct record_code) + function.name_length +
                      function.file_length + function.table_length;
    struct record_code *record = ring_writer_reserve(thread, length);
    if (record == NULL)
        return false;
    record->function = record_code_function(item->frame);
    record->first_line = function.first_line;
    record->name_length = (uint16_t)function.name_length;
    record->file_length = (uint16_t)function.file_length;
    record->lines = layout->lines;
    record->flags = function.table_is_cut ? RECORD_CODE_TABLE_CUT : 0;
    uint8_t *to = record->bytes;
    /* If another thread frees a string meanwhile, less of it is copied. */
    memset(to, '?', function.name_length + function.file_length);
    write_text(&memory, &function.name, to, function.name_length);
    to += function.name_length;
    write_text(&memory, &function.file, to, function.file_length);
    to += function.file_length;
    record->table_length = function.table_length;
    if (memory.direct)
        memcpy(to, (const void *)function.table, function.table_length);
    else if (system_read_memory(to, function.table, function.table_length) !=
             (long)function.table_length)
        record->table_length = 0;
    return ring_writer_commit(thread, record, RECORD_CODE);
}
