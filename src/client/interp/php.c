/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PHP's frames (the Zend Engine). Its globals have the innermost frame, and each frame the next
 * one. A frame has its function, and the instruction that it executes, which has the line.
 * execute_ex() is the loop: each activation executes the frames up to one that is marked.
 *
 * Functions in C, as those of extensions, have frames, too. They are shown without file and line:
 * PHP and its extensions are mostly stripped, so the native stack does not have their names.
 *
 * A build for several threads keeps its globals elsewhere; it is not supported. In all others one
 * thread executes PHP. If the loop is on its stack, nobody else frees its functions: they are read
 * directly.
 */
#include <string.h>

#include "client/interp/interpreter.h"
#include "client/interp/php_layout.h"
#include "client/sample/ring_writer.h"
#include "client/system.h"
#include "wire/barrier.h"

/* Members of struct interpreter.places. */
enum php_place {
    PHP_GLOBALS,    /* executor_globals; 0: it has them for each thread */
    PHP_EXTENSIONS, /* module_registry: the table of extensions */
    PHP_GENERATORS, /* zend_ce_generator: address of the class */
};

#define PIECE_BYTES 128u

/* Generators that wait for one to which they have delegated ("yield from"). */
#define DELEGATIONS_MAX 32u

/* Of "{main}" and "{eval}". */
#define UNNAMED_BYTES 6u

static const struct php_layout layouts[] = {
    {.api = 20210902, .code = 72, .code_count = 68, .file = 144},  /* 8.1 */
    {.api = 20220829, .code = 88, .code_count = 80, .file = 152},  /* 8.2 */
    {.api = 20230831, .code = 80, .code_count = 76, .file = 144},  /* 8.3 */
    {.api = 20240924, .code = 104, .code_count = 96, .file = 168}, /* 8.4 */
};

/* --- finding --- */

static bool php_find(const struct module *module, struct interpreter *found)
{
    struct elf_tables tables;
    uint64_t loop_bytes = 0, globals_bytes = 0, size;
    if (!interpreter_open(module, &tables))
        return false;
    uintptr_t loop = elf_tables_find_sized(&tables, "execute_ex", &loop_bytes);
    uintptr_t extensions = elf_tables_find_sized(&tables, "module_registry", &size);
    if (loop == 0 || extensions == 0)
        return false;
    uintptr_t globals = elf_tables_find_sized(&tables, "executor_globals", &globals_bytes);
    found->loop = (struct code_range){loop, loop + loop_bytes};
    found->places[PHP_GLOBALS] = globals;
    found->places[PHP_EXTENSIONS] = extensions;
    found->places[PHP_GENERATORS] = elf_tables_find_sized(&tables, "zend_ce_generator", &size);
    found->supported = globals != 0 && globals_bytes >= PHP_GLOBALS_FRAME + sizeof(uint64_t);
    return true;
}

/* Return the layout, or NULL. Extensions say for which version they are built. Before they are
 * there, nothing is executed. */
static const struct php_layout *layout_of(const struct interpreter *php)
{
    uint64_t entries, extension, words[PHP_MODULE_WORDS];
    uint32_t proven = load_relaxed(&php->proven);
    if (likely(proven != 0))
        return &layouts[proven - 1];
    if (!interpreter_copy_words(false, php->places[PHP_EXTENSIONS] + PHP_TABLE_ENTRIES, &entries,
                                1) ||
        !interpreter_copy_words(false, entries + PHP_ENTRY_POINTER, &extension, 1) ||
        !interpreter_copy_words(false, extension, words, PHP_MODULE_WORDS) ||
        (words[PHP_MODULE_BUILD] & 0xffff) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        if (layouts[i].api == words[PHP_MODULE_API] >> 32)
            return &layouts[i];
    }
    return NULL;
}

/* --- functions --- */

struct text {
    uintptr_t at; /* 0: none */
    uint64_t length, hash;
};

struct function {
    uint8_t type;
    uint32_t first_line, code_count;
    uintptr_t code;
    struct text class_name, name, file;
};

/* Add the bytes of a text to a hash. */
static bool hash_bytes(bool direct, struct text text, uint64_t *hash)
{
    for (uint64_t done = 0; done < text.length && done < RECORD_CODE_FILE_MAX;) {
        uint8_t room[PIECE_BYTES];
        uint64_t more = text.length - done < PIECE_BYTES ? text.length - done : PIECE_BYTES;
        const uint8_t *view = interpreter_view(direct, text.at + done, room, more);
        if (view == NULL)
            return false;
        for (uint64_t i = 0; i < more; i += sizeof(uint64_t)) {
            uint64_t word = 0;
            memcpy(&word, view + i, more - i < sizeof(word) ? more - i : sizeof(word));
            *hash = interpreter_mix(*hash ^ word, UINT64_C(0xd6e8feb86659fd93));
        }
        done += more;
    }
    return true;
}

/* Read a string, or that there is none. PHP has computed the hashes of names and files, by a
 * function that gives "Ez" and "FY" the same one. So the first bytes count, too. */
static bool read_text(bool direct, uintptr_t string, struct text *text)
{
    uint64_t words[PHP_STRING_WORDS];
    *text = (struct text){0};
    if (string == 0)
        return true;
    if (!interpreter_copy_words(direct, string, words, PHP_STRING_WORDS) ||
        words[PHP_STRING_LENGTH] > UINT32_MAX)
        return false;
    text->at = string + PHP_STRING_CONTENT * sizeof(*words);
    text->length = words[PHP_STRING_LENGTH];
    text->hash = words[PHP_STRING_HASH];
    if (text->hash == 0 && !hash_bytes(direct, *text, &text->hash))
        return false;
    uint64_t unused_bits = text->length < 8 ? 64 - 8 * text->length : 0;
    uint64_t first = text->length > 0 ? words[PHP_STRING_CONTENT] << unused_bits : 0;
    text->hash = interpreter_mix(text->hash ^ first, UINT64_C(0x94d049bb133111eb)) + text->length;
    return true;
}

static bool read_class(bool direct, uintptr_t class, struct text *name)
{
    uint64_t string = 0;
    return (class == 0 || interpreter_copy_words(direct, class + PHP_CLASS_NAME, &string, 1)) &&
           read_text(direct, string, name);
}

static bool read_function(const struct php_layout *layout, bool direct, uintptr_t from,
                          struct function *function)
{
    uint64_t words[PHP_FUNCTION_WORDS];
    *function = (struct function){0};
    if (!interpreter_copy_words(direct, from, words, PHP_FUNCTION_HEAD))
        return false;
    function->type = words[PHP_FUNCTION_TYPE] & 0xff;
    if (function->type == PHP_FUNCTION_IN_PHP || function->type == PHP_FUNCTION_EVAL) {
        const uint8_t *bytes = (const uint8_t *)words;
        if (!interpreter_copy_words(direct, from, words, PHP_FUNCTION_WORDS) ||
            !read_text(direct, words[layout->file / sizeof(*words)], &function->file))
            return false;
        function->first_line = (uint32_t)words[layout->file / sizeof(*words) + 1];
        function->code = words[layout->code / sizeof(*words)];
        memcpy(&function->code_count, bytes + layout->code_count, sizeof(function->code_count));
    } else if (function->type != PHP_FUNCTION_IN_C) {
        return false;
    }
    return read_text(direct, words[PHP_FUNCTION_NAME], &function->name) &&
           read_class(direct, words[PHP_FUNCTION_CLASS], &function->class_name);
}

/* Compute the key of a function. Each request of a server may load it anew, at another address. */
static uint64_t key_of(const struct function *function)
{
    uint64_t hash = interpreter_mix(function->name.hash, UINT64_C(0x9e3779b97f4a7c15)) +
                    interpreter_mix(function->class_name.hash, UINT64_C(0xff51afd7ed558ccd)) +
                    interpreter_mix(function->file.hash, UINT64_C(0x2545f4914f6cdd1d)) +
                    interpreter_mix(function->first_line, UINT64_C(0xc4ceb9fe1a85ec53)) +
                    interpreter_mix(function->type, UINT64_C(0xd1342543de82ef95));
    hash = interpreter_mix(hash ^ hash >> 32, UINT64_C(0xe7037ed1a0b428db));
    return hash != 0 ? hash : 1;
}

/* --- frames --- */

/* Return the line that a frame executes. While an exception is handled, its instruction is not the
 * function's. */
static uint64_t line_of(bool direct, const struct function *function, uintptr_t instruction)
{
    uint64_t word, distance = instruction - function->code;
    if (distance >= function->code_count * (uint64_t)PHP_INSTRUCTION_BYTES ||
        distance % PHP_INSTRUCTION_BYTES != 0 ||
        !interpreter_copy_words(direct, instruction + PHP_INSTRUCTION_LINE, &word, 1))
        return RECORD_CODE_PLACE_UNKNOWN;
    return (uint32_t)word;
}

/* What follows a frame. */
enum next_frame { NEXT_OUTER, NEXT_NONE, NEXT_UNKNOWN };

/* Add a frame of a function. `is_entry`: the loop was entered with it. */
static enum next_frame add_frame(const struct php_layout *layout, struct interpreter_stack *stack,
                                 const uint64_t *frame, bool is_entry)
{
    struct interpreter_item *item = &stack->items[stack->count];
    uint64_t place = RECORD_CODE_PLACE_UNKNOWN;
    struct function function;
    if (!read_function(layout, stack->direct, frame[PHP_FRAME_FUNCTION], &function))
        return NEXT_UNKNOWN;
    bool in_c = function.type == PHP_FUNCTION_IN_C;
    /* The outermost frame of a fiber. Frames further out are on another native stack. */
    if (in_c && function.name.at == 0)
        return NEXT_NONE;
    /* A copy of the next frame, for a call from C. */
    if (!in_c && frame[PHP_FRAME_INSTRUCTION] == 0)
        return NEXT_OUTER;
    if (!in_c)
        place = line_of(stack->direct, &function, frame[PHP_FRAME_INSTRUCTION]);
    item->key = key_of(&function);
    item->frame = record_code_frame(RECORD_LANGUAGE_PHP, item->key, place);
    item->code = frame[PHP_FRAME_FUNCTION];
    stack->count++;
    if (!in_c && is_entry)
        stack->items[stack->count++] = (struct interpreter_item){0};
    return NEXT_OUTER;
}

static bool has_room(const struct interpreter_stack *stack)
{
    return stack->count < INTERPRETER_ITEMS_MAX - 2;
}

/*
 * Add the frames of generators that have delegated to the one that runs. The one that was called
 * has a frame without a function in their place. Each leads to the one that it waits for, whose
 * frame is further in.
 */
static enum next_frame add_delegating(const struct interpreter *php,
                                      const struct php_layout *layout,
                                      struct interpreter_stack *stack, const uint64_t *place)
{
    uint64_t waiting[DELEGATIONS_MAX], frame[PHP_FRAME_WORDS], class, generators = 0;
    uintptr_t generator = place[PHP_FRAME_THIS], waits_for;
    unsigned count = 0;
    if ((place[PHP_FRAME_FLAGS] & PHP_VALUE_TYPE) != PHP_VALUE_OBJECT)
        return NEXT_OUTER;
    if (php->places[PHP_GENERATORS] == 0 ||
        !interpreter_copy_words(stack->direct, php->places[PHP_GENERATORS], &generators, 1) ||
        !interpreter_copy_words(stack->direct, generator + PHP_OBJECT_CLASS, &class, 1))
        return NEXT_UNKNOWN;
    if (class != generators)
        return NEXT_OUTER;
    for (; count < DELEGATIONS_MAX; generator = waits_for) {
        if (!interpreter_copy_words(stack->direct, generator + PHP_GENERATOR_WAITS_FOR, &waits_for,
                                    1) ||
            !interpreter_copy_words(stack->direct, generator + PHP_GENERATOR_FRAME, &waiting[count],
                                    1))
            return NEXT_UNKNOWN;
        if (waits_for == 0)
            break;
        count++;
    }
    while (count > 0 && has_room(stack)) {
        if (!interpreter_copy_words(stack->direct, waiting[--count], frame, PHP_FRAME_WORDS) ||
            add_frame(layout, stack, frame, false) != NEXT_OUTER)
            return NEXT_UNKNOWN;
    }
    return NEXT_OUTER;
}

static bool read_frames(const struct interpreter *php, const struct php_layout *layout,
                        struct interpreter_stack *stack)
{
    uint64_t at, frame[PHP_FRAME_WORDS];
    enum next_frame next = NEXT_OUTER;
    if (!interpreter_copy_words(stack->direct, php->places[PHP_GLOBALS] + PHP_GLOBALS_FRAME, &at,
                                1))
        return false;
    for (unsigned i = 0; next == NEXT_OUTER && at != 0; i++) {
        if (!has_room(stack) || i >= INTERPRETER_ITEMS_MAX * 2) {
            stack->cut = true;
            return true;
        }
        if (!interpreter_copy_words(stack->direct, at, frame, PHP_FRAME_WORDS))
            return false;
        next = frame[PHP_FRAME_FUNCTION] != 0
                   ? add_frame(layout, stack, frame, frame[PHP_FRAME_FLAGS] & PHP_FRAME_IS_ENTRY)
                   : add_delegating(php, layout, stack, frame);
        at = frame[PHP_FRAME_OUTER];
    }
    /* A function in C that no function in PHP has called, as at a script's end. */
    while (stack->count > 0 && stack->items[stack->count - 1].frame != 0)
        stack->count--;
    return next != NEXT_UNKNOWN;
}

static enum interpreter_result php_read(struct interpreter *php, struct interpreter_stack *stack)
{
    const struct php_layout *layout = php->supported ? layout_of(php) : NULL;
    if (layout == NULL)
        return INTERPRETER_UNSUPPORTED;
    /* Once a whole stack was right, so are the offsets. */
    stack->direct = load_relaxed(&php->proven) != 0;
    if (!read_frames(php, layout, stack))
        return INTERPRETER_UNCERTAIN;
    if (!stack->direct && stack->count != 0)
        store_relaxed(&php->proven, (uint32_t)(layout - layouts) + 1);
    return INTERPRETER_READ;
}

/* --- sending --- */

/* Write a text up to a 0: names of anonymous classes have what tells them apart behind it. Return
 * the length. */
static uint16_t write_text(bool direct, struct text text, uint8_t *to)
{
    uint16_t length = 0;
    if (text.at == 0)
        return 0;
    if (direct)
        memcpy(to, (const void *)text.at, text.length);
    else if (system_read_memory(to, text.at, text.length) != (long)text.length)
        return 0;
    while (length < text.length && to[length] != 0)
        length++;
    return length;
}

static uint16_t write_name(bool direct, const struct function *function, uint8_t *to)
{
    uint16_t length = 0;
    if (function->name.at == 0) {
        memcpy(to, function->type == PHP_FUNCTION_EVAL ? "{eval}" : "{main}", UNNAMED_BYTES);
        return UNNAMED_BYTES;
    }
    if (function->class_name.at != 0) {
        length = write_text(direct, function->class_name, to);
        memcpy(to + length, "::", 2);
        length += 2;
    }
    return length + write_text(direct, function->name, to + length);
}

static void limit_text(struct text *text, uint64_t most)
{
    if (text->length > most)
        text->length = most;
}

static bool php_send(struct ring_thread *thread, const struct interpreter *php,
                     const struct interpreter_stack *stack, const struct interpreter_item *item)
{
    const struct php_layout *layout = layout_of(php);
    struct function function;
    if (layout == NULL || !read_function(layout, stack->direct, item->code, &function))
        return false;
    limit_text(&function.class_name, RECORD_CODE_NAME_MAX / 2);
    limit_text(&function.name, RECORD_CODE_NAME_MAX / 2 - UNNAMED_BYTES);
    limit_text(&function.file, RECORD_CODE_FILE_MAX);
    uint64_t bytes =
        function.class_name.length + function.name.length + UNNAMED_BYTES + function.file.length;
    struct record_code *record = ring_writer_reserve(thread, (uint32_t)(sizeof(*record) + bytes));
    if (record == NULL)
        return false;
    record->function = record_code_function(item->frame);
    record->first_line = function.first_line;
    record->table_length = 0;
    record->name_length = write_name(stack->direct, &function, record->bytes);
    record->file_length =
        write_text(stack->direct, function.file, record->bytes + record->name_length);
    record->lines = RECORD_LINES_NONE;
    record->flags = 0;
    return ring_writer_commit(thread, record, RECORD_CODE);
}

const struct interpreter_language interpreter_php = {
    .read_in_loop = true,
    .find = php_find,
    .read = php_read,
    .send = php_send,
};
