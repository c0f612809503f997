/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read the calling thread's Python frames.
 *
 * The thread's state comes from a key of thread-specific data, where CPython keeps it. If the
 * thread has the GIL, nobody else changes or frees its state, its frames and their code: they are
 * read directly. A thread without the GIL (in a system call's wrapper, in a library that computes)
 * has frames that do not change either, but the end of the interpreter may free its state at any
 * time. So its memory is copied through the kernel.
 *
 * A program may pass a thread's state on to another thread, which runs Python with it meanwhile.
 * The state says then that it has the GIL, and this thread has not. So the thread is asked, from
 * 3.12 on by a variable of its own; before, by its stack: the state of who runs Python leads there.
 */
#include "client/arch/unwind.h"
#include "client/interp/python.h"
#include "client/interp/python_known.h"
#include "client/system.h"

/* A thread's own pthread_self() is this near to its thread pointer. */
#define THREAD_BYTES_MAX 8192u

/* Frames that are read before a list is taken for one without an end. A frame that has not begun is
 * no item, but unless it is the innermost, the next one inwards is: a finalizer's. */
#define FRAMES_MAX (4 * INTERPRETER_ITEMS_MAX)

static bool copy_word(uintptr_t from, uint64_t *word)
{
    return from >= 4096 && from >> ARCH_ADDRESS_BITS == 0 &&
           system_read_memory(word, from, sizeof(*word)) == sizeof(*word);
}

/* --- the thread's state --- */

static bool is_own_id(uint64_t id)
{
    return arch_thread_pointer() - id < THREAD_BYTES_MAX;
}

/* Return whether the state is the calling thread's, reading it through the kernel. */
static bool is_own_state(const struct python_layout *layout, uintptr_t state)
{
    uint64_t id;
    return state % 8 == 0 && copy_word(state + layout->thread_id, &id) && is_own_id(id);
}

/* Return the thread's state by CPython's key; 0: it has none. */
static uintptr_t state_of_key(const struct interpreter *python)
{
    const struct python_layout *layout = python_layout_in(python);
    if (layout->runtime_key == 0)
        return ((uintptr_t(*)(void))python->places[PYTHON_OWN_STATE])();
    const struct module *module = python->module;
    uintptr_t runtime = python->places[PYTHON_RUNTIME];
    const uint32_t *key = (const uint32_t *)(runtime + layout->runtime_key);
    uintptr_t function = load_relaxed((const uintptr_t *)python->places[PYTHON_GET_SPECIFIC]);
    /* Before its first call, it leads to the loader by way of the module. */
    if (load_acquire(&key[0]) != 1 ||
        (function >= module->object_start && function < module->object_end))
        return 0;
    return (uintptr_t)((void *(*)(unsigned))function)(load_relaxed(&key[1]));
}

/* Return whether the thread runs Python with the state. `stays`: nobody frees it meanwhile. */
static bool is_active(const struct interpreter *python, uintptr_t state, bool stays)
{
    uintptr_t at = state + python_layout_in(python)->thread_active;
    uintptr_t current = python->places[PYTHON_CURRENT];
    uint8_t status;
    if (stays)
        status = *(const volatile uint8_t *)at;
    else if (system_read_memory(&status, at, sizeof(status)) != sizeof(status))
        return false;
    /* The function only reads a thread-local variable, which the thread has set for this state. */
    return (status & PYTHON_THREAD_ACTIVE) != 0 && current != 0 &&
           ((uintptr_t(*)(void))current)() == state;
}

/* Find the state that the thread runs with, and whether it has the GIL. Return 0 if the thread has
 * no state; also if its state is in doubt, and then set *uncertain. */
static uintptr_t find_state(struct interpreter *python, bool *has_gil, bool *uncertain)
{
    const struct python_layout *layout = python_layout_in(python);
    uintptr_t state = state_of_key(python);
    *has_gil = false;
    *uncertain = false;
    if (layout->runtime_current != 0) {
        const uintptr_t *place =
            (const uintptr_t *)(python->places[PYTHON_RUNTIME] + layout->runtime_current);
        uintptr_t current = load_acquire(place);
        *has_gil = current != 0 && current == state;
        /* A subinterpreter runs with another state than that of the key. */
        if (!*has_gil && current != 0 && is_own_state(layout, current) &&
            load_acquire(place) == current) {
            state = current;
            *has_gil = true;
        }
    }
    if (state == 0)
        return 0;
    /* Once the offset was right, so is the state of each thread that has one. */
    bool ends = layout->runtime_finalizing != 0 &&
                load_acquire((const uintptr_t *)(python->places[PYTHON_RUNTIME] +
                                                 layout->runtime_finalizing)) != 0;
    bool stays = layout->thread_active != 0 ? !ends : *has_gil;
    if (load_relaxed(&python->proven) == 0 || !stays) {
        if (!is_own_state(layout, state)) {
            *uncertain = true;
            return 0;
        }
        store_relaxed(&python->proven, 1);
    }
    if (layout->thread_active != 0)
        *has_gil = is_active(python, state, stays);
    return state;
}

/* --- frames --- */

struct reading {
    struct python_memory memory;
    struct interpreter_stack *stack;
};

/* Random odd numbers, so that equal words in different places differ in a hash. */
#define MIX_0 UINT64_C(0x9e3779b97f4a7c15)
#define MIX_1 UINT64_C(0xd6e8feb86659fd93)
#define MIX_2 UINT64_C(0xff51afd7ed558ccd)
#define MIX_3 UINT64_C(0xc4ceb9fe1a85ec53)
#define MIX_4 UINT64_C(0x94d049bb133111eb)
#define MIX_5 UINT64_C(0xbf58476d1ce4e5b9)

/* Hash two words: the halves of their product, combined (W. Yi, wyhash). */
static inline uint64_t mix(uint64_t one, uint64_t other)
{
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The following functions are inlined for each way of reading, because there are dozens of frames
 * in a stack. */
#define INLINED static inline __attribute__((always_inline))

/* Hash what identifies a string without reading all of it: its length, and its own hash or, if it
 * has none, its last bytes. */
INLINED bool hash_text(const struct python_memory *memory, uintptr_t text, uint64_t *hash)
{
    uint8_t room[40], end_room[8];
    const uint8_t *head = python_view(memory, text, room, sizeof(room));
    if (text % 8 != 0 || head == NULL)
        return false;
    uint64_t length = python_word(head, PYTHON_TEXT_LENGTH);
    uint64_t own = python_word(head, PYTHON_TEXT_HASH), end = 0;
    uint32_t state = python_half(head, PYTHON_TEXT_STATE);
    bool is_ascii = (state & PYTHON_TEXT_LAYOUT) == PYTHON_TEXT_LAYOUT;
    if (unlikely(own == UINT64_MAX) && is_ascii && length < PYTHON_LENGTH_MAX) {
        /* With the terminating zero, so it begins inside the object's head if the text is short. */
        const uint8_t *view = python_view(
            memory, text + memory->layout->text_ascii + length + 1 - 8, end_room, sizeof(end_room));
        if (view == NULL)
            return false;
        end = python_word(view, 0);
    }
    *hash = mix(*hash ^ own ^ end, length ^ MIX_5);
    return true;
}

/* Hash the length of a table, its middle and its end. */
INLINED bool hash_table(const struct python_memory *memory, uintptr_t table, uint64_t *hash)
{
    uint8_t room[32], middle_room[8], end_room[8];
    const uint8_t *head = python_view(memory, table, room, sizeof(room));
    if (table % 8 != 0 || head == NULL)
        return false;
    uint64_t length = python_word(head, PYTHON_OBJECT_SIZE);
    if (length >= PYTHON_LENGTH_MAX)
        return false;
    uintptr_t end_at = table + PYTHON_BYTES_DATA + length + 1 - 8;
    const uint8_t *end = python_view(memory, end_at, end_room, sizeof(end_room));
    const uint8_t *middle =
        python_view(memory, end_at - length + length / 2, middle_room, sizeof(middle_room));
    if (end == NULL || middle == NULL)
        return false;
    *hash = mix(*hash ^ length ^ python_word(end, 0), python_word(middle, 0) ^ MIX_4);
    return true;
}

/* Compute the key of a function: a hash of the code object's address, members and names. An object
 * that has taken a dead one's address has the same key only if all of these are equal. */
INLINED bool hash_code(const struct python_memory *memory, uintptr_t code, const uint8_t *view,
                       uint64_t *key)
{
    const struct python_layout *layout = memory->layout;
    uintptr_t name = python_word(view, layout->code_name);
    uintptr_t file = python_word(view, layout->code_file);
    uintptr_t table = python_word(view, layout->code_table);
    uintptr_t qualified =
        layout->code_qualified_name != 0 ? python_word(view, layout->code_qualified_name) : name;
    uint64_t hash = mix(code ^ MIX_0, name ^ MIX_1) + mix(file ^ MIX_2, table ^ MIX_3) +
                    mix(python_half(view, layout->code_first_line) ^ MIX_4,
                        python_word(view, PYTHON_OBJECT_SIZE) ^ qualified ^ MIX_5);
    if (!hash_text(memory, name, &hash) || !hash_text(memory, file, &hash) ||
        !hash_table(memory, table, &hash) ||
        (qualified != name && !hash_text(memory, qualified, &hash)))
        return false;
    *key = hash != 0 ? hash : 1;
    return true;
}

/* The same, with a look at the functions of the last stacks. */
INLINED bool find_key(const struct python_memory *memory, struct interpreter_stack *stack,
                      uintptr_t code, const uint8_t *view, uint64_t *key)
{
    struct python_known_functions *functions = stack->notes;
    if (!memory->direct || functions == NULL)
        return hash_code(memory, code, view, key);
    const struct python_known *known = python_known_of(functions, code);
    if (likely(python_is_known(known, memory->layout, code, view))) {
        *key = known->key;
        return true;
    }
    if (!hash_code(memory, code, view, key))
        return false;
    python_know(functions, memory->layout, code, view, *key);
    return true;
}

/* Set the number of the frame's instruction, from 1 on. */
static bool find_place(const struct python_layout *layout, uintptr_t code, const uint8_t *code_view,
                       const uint8_t *frame, uint64_t *place)
{
    if (layout->code_instructions == 0) {
        int32_t last = (int32_t)python_half(frame, layout->frame_place);
        /* 3.9 counts bytes. */
        *place = last < 0 ? 0 : (uint32_t)last / (layout->minor == 9 ? 2 : 1) + 1;
        return true;
    }
    uintptr_t at = python_word(frame, layout->frame_place);
    uintptr_t first = code + layout->code_instructions;
    *place = at < first ? 0 : (at - first) / 2 + 1;
    return at + 2 >= first && *place <= python_word(code_view, PYTHON_OBJECT_SIZE);
}

/* Return whether Python itself does not show the frame: its function has not begun. */
static bool is_incomplete(const struct python_layout *layout, const uint8_t *code,
                          const uint8_t *frame, uint64_t place)
{
    return layout->code_first_traceable != 0 &&
           frame[layout->frame_owner] != PYTHON_OWNER_GENERATOR &&
           (int64_t)place <= (int32_t)python_half(code, layout->code_first_traceable);
}

INLINED bool add_frame_read(const struct python_memory *memory, struct interpreter_stack *stack,
                            const uint8_t *frame)
{
    const struct python_layout *layout = memory->layout;
    uint8_t room[PYTHON_CODE_BYTES];
    uintptr_t code = python_word(frame, layout->frame_code) & ~(uintptr_t)7;
    const uint8_t *view = python_view(memory, code, room, layout->code_bytes);
    uint64_t place;
    if (view == NULL || python_word(view, PYTHON_OBJECT_TYPE) != memory->code_type ||
        !find_place(layout, code, view, frame, &place))
        return false;
    if (is_incomplete(layout, view, frame, place))
        return true;
    if (stack->count >= INTERPRETER_ITEMS_MAX - 1) {
        stack->cut = true;
        return true;
    }
    struct interpreter_item *item = &stack->items[stack->count];
    if (!find_key(memory, stack, code, view, &item->key))
        return false;
    item->frame = record_code_frame(RECORD_LANGUAGE_PYTHON, item->key, place);
    item->code = code;
    stack->count++;
    return true;
}

/* Add a frame. Return false if something is wrong with it. */
static bool add_frame(struct reading *reading, const uint8_t *frame)
{
    struct python_memory memory = reading->memory;
    memory.direct = true;
    return likely(reading->memory.direct) ? add_frame_read(&memory, reading->stack, frame)
                                          : add_frame_read(&reading->memory, reading->stack, frame);
}

static void end_group(struct interpreter_stack *stack, uintptr_t anchor)
{
    stack->items[stack->count++] = (struct interpreter_item){.anchor = anchor};
}

/* Read frame objects. Each belongs to one activation, whose CFrame, if there are such, is as deep
 * in its own list. */
static bool read_objects(struct reading *reading, uintptr_t frame, uintptr_t cframe)
{
    const struct python_layout *layout = reading->memory.layout;
    struct interpreter_stack *stack = reading->stack;
    while (frame != 0) {
        uint8_t room[PYTHON_FRAME_BYTES], cframe_room[16];
        const uint8_t *view = python_view(&reading->memory, frame, room, sizeof(room));
        if (stack->count >= INTERPRETER_ITEMS_MAX - 2) {
            stack->cut = true;
            return true;
        }
        if (frame % 8 != 0 || view == NULL || !add_frame(reading, view))
            return false;
        end_group(stack, cframe);
        frame = python_word(view, layout->frame_previous);
        if (layout->thread_cframe == 0)
            continue;
        const uint8_t *next = python_view(&reading->memory, cframe, cframe_room, 16);
        if (next == NULL || (cframe = python_word(next, layout->cframe_previous)) == 0)
            return false;
    }
    return true;
}

/* Read a group: frames up to the one that the loop was entered with. Set *frame to the next outer
 * one. */
static bool read_group(struct reading *reading, uintptr_t *frame)
{
    const struct python_layout *layout = reading->memory.layout;
    bool entry = false;
    for (unsigned i = 0; !entry; i++) {
        uint8_t room[PYTHON_FRAME_BYTES];
        const uint8_t *view = python_view(&reading->memory, *frame, room, sizeof(room));
        if (i >= FRAMES_MAX || *frame % 8 != 0 || view == NULL || !add_frame(reading, view))
            return false;
        if (reading->stack->cut)
            return true;
        entry = view[layout->frame_entry] != 0;
        *frame = python_word(view, layout->frame_previous);
    }
    return true;
}

/* Read the frames of each CFrame. The outermost one, in the thread's state, has none. */
static bool read_cframes(struct reading *reading, uintptr_t cframe)
{
    const struct python_layout *layout = reading->memory.layout;
    uint64_t outer = UINT64_MAX;
    for (;;) {
        uint8_t room[24];
        const uint8_t *view = python_view(&reading->memory, cframe, room, sizeof(room));
        if (cframe % 8 != 0 || view == NULL)
            return false;
        uintptr_t frame = python_word(view, layout->cframe_frame);
        uintptr_t previous = python_word(view, layout->cframe_previous);
        if (outer != UINT64_MAX && frame != outer)
            return false;
        if (previous == 0)
            return true;
        /* A loop that is about to leave has popped its last frame. */
        if (!read_group(reading, &frame))
            return false;
        if (reading->stack->cut || reading->stack->count >= INTERPRETER_ITEMS_MAX - 1) {
            reading->stack->cut = true;
            return true;
        }
        end_group(reading->stack, cframe);
        outer = frame;
        cframe = previous;
    }
}

/* Read one list of frames, in which those on the C stack separate the activations. It ends with
 * `base`. */
static bool read_shims(struct reading *reading, uintptr_t frame, uintptr_t base)
{
    const struct python_layout *layout = reading->memory.layout;
    bool ended = true;
    for (unsigned i = 0; frame != 0 && frame != base; i++) {
        uint8_t room[PYTHON_FRAME_BYTES];
        const uint8_t *view = python_view(&reading->memory, frame, room, sizeof(room));
        if (i >= FRAMES_MAX || frame % 8 != 0 || view == NULL)
            return false;
        ended = view[layout->frame_owner] == layout->shim_owner;
        if (view[layout->frame_owner] > layout->shim_owner || (!ended && !add_frame(reading, view)))
            return false;
        if (reading->stack->cut || reading->stack->count >= INTERPRETER_ITEMS_MAX - 1) {
            reading->stack->cut = true;
            return true;
        }
        if (ended)
            end_group(reading->stack, frame);
        frame = python_word(view, layout->frame_previous);
    }
    return ended;
}

/* Read a word of the thread's state. */
static bool read_state(struct reading *reading, uintptr_t at, uintptr_t *word)
{
    uint8_t room[8];
    const uint8_t *view = python_view(&reading->memory, at, room, sizeof(room));
    *word = view != NULL ? load_relaxed((const uintptr_t *)view) : 0;
    return view != NULL;
}

static bool read_frames(struct reading *reading, uintptr_t state)
{
    const struct python_layout *layout = reading->memory.layout;
    const struct interpreter_stack *stack = reading->stack;
    uintptr_t cframe = 0, frame = 0, again = 0, base = 0;
    if (layout->thread_frame != 0 && !read_state(reading, state + layout->thread_frame, &frame))
        return false;
    if (layout->thread_cframe != 0) {
        if (!read_state(reading, state + layout->thread_cframe, &cframe) || cframe == 0)
            return false;
        /* Another thread's frames come and go. Under its frames, this thread's own do not. */
        if (reading->memory.direct && cframe - stack->low >= stack->high - stack->low)
            return false;
    }
    if (layout->thread_frame != 0 &&
        (!read_state(reading, state + layout->thread_frame, &again) || again != frame))
        return false;
    switch (layout->frames) {
    case PYTHON_CFRAMES:
        return read_cframes(reading, cframe);
    case PYTHON_SHIMS:
        if (layout->thread_cframe != 0 &&
            !read_state(reading, cframe + layout->cframe_frame, &frame))
            return false;
        if (layout->thread_base != 0 && !read_state(reading, state + layout->thread_base, &base))
            return false;
        return read_shims(reading, frame, base);
    default:
        return read_objects(reading, frame, cframe);
    }
}

enum interpreter_result python_read(struct interpreter *interpreter,
                                    struct interpreter_stack *stack)
{
    if (!interpreter->supported)
        return INTERPRETER_UNSUPPORTED;
    bool has_gil, uncertain;
    uintptr_t state = find_state(interpreter, &has_gil, &uncertain);
    if (state == 0)
        return uncertain ? INTERPRETER_UNCERTAIN : INTERPRETER_READ;
    struct reading reading = {
        .memory = {.layout = python_layout_in(interpreter),
                   .code_type = interpreter->places[PYTHON_CODE_TYPE],
                   .direct = has_gil},
        .stack = stack,
    };
    stack->direct = has_gil;
    return read_frames(&reading, state) ? INTERPRETER_READ : INTERPRETER_UNCERTAIN;
}

const struct interpreter_language interpreter_python = {
    .find = python_find,
    .read = python_read,
    .send = python_send,
};
