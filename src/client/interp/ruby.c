/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ruby's frames (MRI). A thread's execution context is a thread-local variable, that of the fiber
 * which it executes. It has a stack of frames, innermost first. A frame has its code object (in
 * Ruby "iseq") and the address of the next instruction. Frames of functions in C are left out: the
 * native stack shows these.
 *
 * rb_vm_exec() is the loop: each activation executes the frames up to one that is marked. For most
 * of the time its core does, a function without a name. Instructions are addresses in the core, so
 * any code object leads to it. From 3.3 on libruby exports neither the loop nor the variable: the
 * loop is what calls the core on a stack, and rb_thread_current() reads the variable.
 *
 * If the thread has the global lock, nobody else frees or moves code objects: they are read
 * directly. Otherwise they are copied through the kernel.
 */
#include <string.h>

#include "client/arch/unwind.h"
#include "client/interp/interpreter.h"
#include "client/interp/ruby_layout.h"
#include "client/interp/ruby_lines.h"
#include "client/sample/ring_writer.h"
#include "client/system.h"
#include "wire/barrier.h"

/* Members of struct interpreter.places. */
enum ruby_place {
    RUBY_THREAD_LOCAL, /* two words for the thread-local variable: module and offset */
    RUBY_VM,           /* ruby_current_vm_ptr */
};

/* A thread's own pthread_self() is this near to its thread pointer. */
#define THREAD_BYTES_MAX 8192u

#define STACK_WORDS_MAX (1u << 27)
#define PIECE_BYTES 128u

/* --- finding --- */

static const struct ruby_layout layouts[] = {
    {.version = "3.1.",
     .thread_context = 40,
     .thread_id = 80,
     .thread_blocking = 168,
     .frame_words = 8,
     .string_content = 2,
     .body_entries = 15,
     .body_entry_count = 17,
     .body_index = 18,
     .first_line_shift = 1},
    {.version = "3.2.",
     .thread_context = 48,
     .thread_native = 40,
     .thread_id = 8,
     .thread_blocking = 120,
     .frame_words = 8,
     .string_content = 3,
     .body_entries = 14,
     .body_entry_count = 16,
     .body_index = 17},
    {.version = "3.3.",
     .thread_context = 48,
     .thread_native = 40,
     .thread_id = 16,
     .thread_blocking = 248,
     .frame_words = 7,
     .string_content = 3,
     .body_entries = 14,
     .body_entry_count = 16,
     .body_index = 17},
    {.version = "3.4.",
     .thread_context = 48,
     .thread_native = 40,
     .thread_id = 16,
     .thread_blocking = 248,
     .frame_words = 7,
     .string_content = 3,
     .body_entries = 14,
     .body_entry_count = 16,
     .body_index = 17},
};

static const struct ruby_layout *layout_of(const struct interpreter *ruby)
{
    return (const struct ruby_layout *)ruby->layout;
}

static bool take_layout(const struct elf_tables *tables, struct ruby_layout *layout)
{
    uint64_t size;
    char version[sizeof(layout->version) - 1];
    uintptr_t at = elf_tables_find_sized(tables, "ruby_version", &size);
    if (at == 0 || !elf_tables_peek(false, version, at, sizeof(version)))
        return false;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        if (memcmp(version, layouts[i].version, sizeof(version)) != 0)
            continue;
        *layout = layouts[i];
        return true;
    }
    return false;
}

static bool ruby_find(const struct module *module, struct interpreter *found)
{
    struct elf_tables tables;
    uint64_t loop_bytes = 0, reader_bytes = 0, size;
    if (!interpreter_open(module, &tables))
        return false;
    uintptr_t loop = elf_tables_find_sized(&tables, "rb_vm_exec", &loop_bytes);
    uintptr_t reader = elf_tables_find_sized(&tables, "rb_thread_current", &reader_bytes);
    if (elf_tables_find_sized(&tables, "ruby_version", &size) == 0 || (loop == 0 && reader == 0))
        return false;
    found->loop = (struct code_range){loop, loop + loop_bytes};
    found->places[RUBY_VM] = elf_tables_find_sized(&tables, "ruby_current_vm_ptr", &size);
    found->places[RUBY_THREAD_LOCAL] = elf_tables_thread_local(&tables, "ruby_current_ec");
    if (found->places[RUBY_THREAD_LOCAL] == 0)
        found->places[RUBY_THREAD_LOCAL] = arch_thread_local_of(reader, reader_bytes);
    found->supported = found->places[RUBY_THREAD_LOCAL] != 0 &&
                       take_layout(&tables, (struct ruby_layout *)found->layout);
    return true;
}

/* --- the thread's execution context --- */

/* Read the thread-local variable, without the loader: its code in the loop has read it before, so
 * the thread has the block. */
static bool read_variable(const struct interpreter *ruby, bool direct, uint64_t *context)
{
    const uint64_t *variable = (const uint64_t *)ruby->places[RUBY_THREAD_LOCAL];
    uint64_t count, block;
    uintptr_t blocks = arch_thread_blocks();
    return interpreter_copy_words(direct, blocks - 2 * sizeof(count), &count, 1) &&
           variable[0] != 0 && variable[0] <= count &&
           interpreter_copy_words(direct, blocks + variable[0] * 2 * sizeof(block), &block, 1) &&
           interpreter_copy_words(direct, block + variable[1], context, 1);
}

/* Find the context, and whether the thread has the global lock. Return false if in doubt. */
static bool find_context(const struct interpreter *ruby, bool direct, uint64_t *context,
                         bool *has_lock)
{
    const struct ruby_layout *layout = layout_of(ruby);
    uint64_t thread, native, machine, own_context, id, blocking;
    if (!read_variable(ruby, direct, context) ||
        !interpreter_copy_words(direct, *context + RUBY_CONTEXT_THREAD, &thread, 1) ||
        !interpreter_copy_words(direct, thread + RUBY_THREAD_VM, &machine, 1) ||
        !interpreter_copy_words(direct, thread + layout->thread_context, &own_context, 1) ||
        !interpreter_copy_words(direct, thread + layout->thread_blocking, &blocking, 1))
        return false;
    native = thread;
    if (layout->thread_native != 0 &&
        !interpreter_copy_words(direct, thread + layout->thread_native, &native, 1))
        return false;
    const uint64_t *known = (const uint64_t *)ruby->places[RUBY_VM];
    if (!interpreter_copy_words(direct, native + layout->thread_id, &id, 1) ||
        (known != NULL && machine != load_relaxed(known)) || own_context != *context ||
        arch_thread_pointer() - id >= THREAD_BYTES_MAX)
        return false;
    *has_lock = blocking == 0;
    return true;
}

/* --- code objects --- */

struct text {
    uintptr_t at;
    uint32_t length;
};

struct code {
    uint64_t body[RUBY_BODY_WORDS];
    struct text label, path;
};

static bool read_text(const struct ruby_layout *layout, bool direct, uintptr_t object,
                      uint32_t most, struct text *text)
{
    uint64_t words[RUBY_OBJECT_WORDS];
    if (!interpreter_copy_words(direct, object, words, RUBY_OBJECT_WORDS) ||
        (words[RUBY_OBJECT_FLAGS] & RUBY_TYPE) != RUBY_TYPE_STRING)
        return false;
    bool embedded = !(words[RUBY_OBJECT_FLAGS] & RUBY_NOT_EMBEDDED);
    /* Where the contents begin at the second word, there is no room for the length. */
    bool in_flags = embedded && layout->string_content == RUBY_STRING_LENGTH;
    uint64_t length =
        in_flags ? words[RUBY_OBJECT_FLAGS] >> RUBY_EMBEDDED_LENGTH_SHIFT & RUBY_EMBEDDED_LENGTH
                 : words[RUBY_STRING_LENGTH];
    text->at =
        embedded ? object + layout->string_content * sizeof(*words) : words[RUBY_STRING_BYTES];
    text->length = length < most ? (uint32_t)length : most;
    return true;
}

static bool read_path(const struct ruby_layout *layout, bool direct, uintptr_t object,
                      struct text *text)
{
    uint64_t words[RUBY_OBJECT_WORDS];
    if (!interpreter_copy_words(direct, object, words, RUBY_OBJECT_WORDS))
        return false;
    if ((words[RUBY_OBJECT_FLAGS] & RUBY_TYPE) == RUBY_TYPE_ARRAY) {
        bool embedded = words[RUBY_OBJECT_FLAGS] & RUBY_ARRAY_EMBEDDED;
        uint64_t first = words[RUBY_ARRAY_CONTENT];
        if (!embedded && !interpreter_copy_words(direct, words[RUBY_ARRAY_ITEMS], &first, 1))
            return false;
        object = first;
    }
    return read_text(layout, direct, object, RECORD_CODE_FILE_MAX, text);
}

static bool read_code(const struct ruby_layout *layout, bool direct, uintptr_t object,
                      struct code *code)
{
    uint64_t words[RUBY_CODE_BODY + 1];
    return interpreter_copy_words(direct, object, words, RUBY_CODE_BODY + 1) &&
           (words[RUBY_OBJECT_FLAGS] & RUBY_CODE_TYPE) == RUBY_CODE_OBJECT &&
           interpreter_copy_words(direct, words[RUBY_CODE_BODY], code->body, RUBY_BODY_WORDS) &&
           read_text(layout, direct, code->body[RUBY_BODY_LABEL], RECORD_CODE_NAME_MAX,
                     &code->label) &&
           read_path(layout, direct, code->body[RUBY_BODY_PATH], &code->path);
}

static bool hash_text(bool direct, struct text text, uint64_t factor, uint64_t *hash)
{
    *hash += interpreter_mix(text.length + 1, factor);
    for (uint32_t done = 0; done < text.length;) {
        uint8_t room[PIECE_BYTES];
        uint32_t more = text.length - done < PIECE_BYTES ? text.length - done : PIECE_BYTES;
        const uint8_t *view = interpreter_view(direct, text.at + done, room, more);
        if (view == NULL)
            return false;
        for (uint32_t i = 0; i < more; i += sizeof(uint64_t)) {
            uint64_t word = 0;
            memcpy(&word, view + i, more - i < sizeof(word) ? more - i : sizeof(word));
            *hash = interpreter_mix(*hash ^ word, factor);
        }
        done += more;
    }
    return true;
}

/* Compute the key of a function: a hash of its addresses, label and path. An object that has taken
 * a dead one's address has the same key only if all of these are equal. */
static bool hash_code(const struct ruby_layout *layout, bool direct, uintptr_t object,
                      const struct code *code, uint64_t *key)
{
    const uint64_t *body = code->body;
    uint64_t hash = interpreter_mix(object, UINT64_C(0x9e3779b97f4a7c15)) +
                    interpreter_mix(body[RUBY_BODY_CODE], UINT64_C(0xd6e8feb86659fd93)) +
                    interpreter_mix(body[RUBY_BODY_SIZE], UINT64_C(0xff51afd7ed558ccd)) +
                    interpreter_mix(body[RUBY_BODY_FIRST_LINE], UINT64_C(0x94d049bb133111eb)) +
                    interpreter_mix(body[layout->body_entries], UINT64_C(0xc4ceb9fe1a85ec53));
    if (!hash_text(direct, code->label, UINT64_C(0x2545f4914f6cdd1d), &hash) ||
        !hash_text(direct, code->path, UINT64_C(0xd1342543de82ef95), &hash))
        return false;
    hash = interpreter_mix(hash ^ hash >> 32, UINT64_C(0xe7037ed1a0b428db));
    *key = hash != 0 ? hash : 1;
    return true;
}

/* --- frames --- */

/* Find the function of the loop's core. */
static void find_core(struct interpreter *ruby, bool direct, const struct code *code)
{
    struct code_range found;
    uint64_t instruction;
    if (load_relaxed(&ruby->core.end) != 0 ||
        !interpreter_copy_words(direct, code->body[RUBY_BODY_CODE], &instruction, 1))
        return;
    if (!interpreter_function_at(ruby->module, instruction, &found.start, &found.end))
        found.start = found.end = 1;
    code_range_note(&ruby->core, found);
}

/* Find the loop, which has no symbol: it calls the core. */
static void find_loop(struct interpreter *ruby, const struct interpreter_stack *stack)
{
    struct code_range core = code_range_read(&ruby->core), found;
    for (unsigned i = 0; i + 1 < stack->frame_count; i++) {
        if (!code_range_has(core, stack->frames[i]) ||
            !interpreter_function_at(ruby->module, stack->frames[i + 1], &found.start, &found.end))
            continue;
        code_range_note(&ruby->loop, found);
        return;
    }
}

static bool add_frame(struct interpreter *ruby, struct interpreter_stack *stack,
                      const uint64_t *frame)
{
    struct code code;
    struct interpreter_item *item = &stack->items[stack->count];
    uint64_t line;
    const struct ruby_layout *layout = layout_of(ruby);
    if (!read_code(layout, stack->direct, frame[RUBY_FRAME_CODE], &code) ||
        !ruby_lines_find(layout, stack->direct, code.body, frame[RUBY_FRAME_PC], &line) ||
        !hash_code(layout, stack->direct, frame[RUBY_FRAME_CODE], &code, &item->key))
        return false;
    find_core(ruby, stack->direct, &code);
    item->frame = record_code_frame(RECORD_LANGUAGE_RUBY, item->key, line);
    item->code = frame[RUBY_FRAME_CODE];
    stack->count++;
    return true;
}

/* Add a frame, and the end of its group. Return false if something is wrong with it. */
static bool read_frame(struct interpreter *ruby, struct interpreter_stack *stack,
                       const uint64_t *frame, bool *ended)
{
    uint64_t flags;
    if (!interpreter_copy_words(stack->direct, frame[RUBY_FRAME_ENVIRONMENT], &flags, 1))
        return false;
    /* Without a pc, the frame stands for something in C, as the start of an extension. */
    if (frame[RUBY_FRAME_CODE] == 0 || frame[RUBY_FRAME_PC] == 0 ||
        (flags & RUBY_FRAME_IS_NATIVE) || (flags & RUBY_FRAME_KIND) == RUBY_FRAME_DUMMY)
        return true;
    if (!add_frame(ruby, stack, frame))
        return false;
    *ended = flags & RUBY_FRAME_IS_ENTRY;
    if (*ended)
        stack->items[stack->count++] = (struct interpreter_item){0};
    return true;
}

static bool read_frames(struct interpreter *ruby, struct interpreter_stack *stack,
                        uintptr_t context)
{
    const unsigned frame_words = layout_of(ruby)->frame_words;
    uint64_t place[3];
    bool ended = true;
    if (!interpreter_copy_words(stack->direct, context + RUBY_CONTEXT_STACK, place, 3) ||
        place[1] < frame_words || place[1] > STACK_WORDS_MAX)
        return false;
    /* The outermost frame stands for the thread or fiber itself. */
    const size_t frame_bytes = frame_words * sizeof(uint64_t);
    uintptr_t end = place[0] + place[1] * sizeof(uint64_t) - frame_bytes;
    if (place[2] < place[0] || place[2] > end || (end - place[2]) % frame_bytes != 0)
        return false;
    for (uintptr_t at = place[2]; at < end; at += frame_bytes) {
        uint64_t frame[RUBY_FRAME_WORDS];
        if (stack->count >= INTERPRETER_ITEMS_MAX - 2) {
            stack->cut = true;
            return true;
        }
        if (!interpreter_copy_words(stack->direct, at, frame, RUBY_FRAME_WORDS) ||
            !read_frame(ruby, stack, frame, &ended))
            return false;
    }
    return ended;
}

static enum interpreter_result ruby_read(struct interpreter *ruby, struct interpreter_stack *stack)
{
    /* Once a whole stack was right, so are the offsets. While the loop is not known, the thread may
     * not be in it, and not have the variable. */
    bool proven = load_relaxed(&ruby->proven) != 0 && stack->in_loop, has_lock;
    uint64_t context;
    if (!ruby->supported)
        return INTERPRETER_UNSUPPORTED;
    if (!find_context(ruby, proven, &context, &has_lock))
        return INTERPRETER_UNCERTAIN;
    stack->direct = proven && has_lock;
    if (!read_frames(ruby, stack, context))
        return INTERPRETER_UNCERTAIN;
    if (load_relaxed(&ruby->loop.end) == 0)
        find_loop(ruby, stack);
    if (!proven && stack->count != 0)
        store_relaxed(&ruby->proven, 1);
    return INTERPRETER_READ;
}

/* --- sending --- */

static void write_text(bool direct, struct text text, uint8_t *to)
{
    if (direct)
        memcpy(to, (const void *)text.at, text.length);
    else
        system_read_memory(to, text.at, text.length);
}

static bool ruby_send(struct ring_thread *thread, const struct interpreter *ruby,
                      const struct interpreter_stack *stack, const struct interpreter_item *item)
{
    const struct ruby_layout *layout = layout_of(ruby);
    struct code code;
    if (!read_code(layout, stack->direct, item->code, &code))
        return false;
    struct record_code *record = ring_writer_reserve(
        thread, (uint32_t)sizeof(*record) + code.label.length + code.path.length);
    if (record == NULL)
        return false;
    record->function = record_code_function(item->frame);
    record->first_line = (uint32_t)code.body[RUBY_BODY_FIRST_LINE] >> layout->first_line_shift;
    record->table_length = 0;
    record->name_length = (uint16_t)code.label.length;
    record->file_length = (uint16_t)code.path.length;
    record->lines = RECORD_LINES_NONE;
    record->flags = 0;
    memset(record->bytes, '?', code.label.length + code.path.length);
    write_text(stack->direct, code.label, record->bytes);
    write_text(stack->direct, code.path, record->bytes + code.label.length);
    return ring_writer_commit(thread, record, RECORD_CODE);
}

const struct interpreter_language interpreter_ruby = {
    .read_in_loop = true,
    .find = ruby_find,
    .read = ruby_read,
    .send = ruby_send,
};
