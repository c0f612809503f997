/* SPDX-License-Identifier: Apache-2.0 */
/* Find interpreters in modules, and put a language's frames among the native ones. */
#include "client/interp/interpreter.h"

#include <elf.h>
#include <errno.h>

#include "client/arch/unwind.h"
#include "client/sample/ring_writer.h"
#include "client/system.h"
#include "client/unwind/cfi.h"
#include "wire/barrier.h"

#define FOUND_MAX 8u
#define PROGRAM_HEADERS_MAX 64u

/* Sets of eight keys, as in the stack cache. */
#define SETS 1024u
#define WAYS 8u

/* A native stack frame is smaller than this. A larger distance is that of two stacks. */
#define STACK_FRAME_BYTES_MAX (1u << 20)

/* What is left of a loop that was moved away has up to 2,400 bytes, a whole one 57,000. */
#define LOOP_REST_BYTES_MAX 16384u

#define HASH_STEP UINT64_C(0xd1342543de82ef95)

enum found_state {
    FOUND_FREE = 0,
    FOUND_FILLING = 1,
    FOUND_READY = 2,
};

static const struct interpreter_language *const languages[] = {&interpreter_python,
                                                               &interpreter_ruby, &interpreter_php};

static struct interpreter found[FOUND_MAX];
static uint32_t found_count; /* number of times that one was found */

static uint64_t (*sent)[WAYS]; /* wiped on fork; 0: free */

/* Mapped when an interpreter is found, if there is room: a program may have a limit of address
 * space. Wiped on fork. */
static uint8_t (*notes)[INTERPRETER_NOTES_BYTES];

int interpreters_init(void)
{
    sent = system_map_wiped(SETS * sizeof(*sent));
    return sent != NULL ? 0 : -ENOMEM;
}

void interpreters_forget(void)
{
    system_wipe(sent, SETS * sizeof(*sent));
}

uint32_t interpreters_known(void)
{
    return load_acquire(&found_count);
}

bool interpreter_open(const struct module *module, struct elf_tables *tables)
{
    Elf64_Ehdr header;
    if (!elf_tables_peek(false, &header, module->header, sizeof(header)) ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (unsigned i = 0; i < header.e_phnum && i < PROGRAM_HEADERS_MAX; i++) {
        Elf64_Phdr segment;
        uintptr_t at = module->header + header.e_phoff + i * sizeof(segment);
        if (!elf_tables_peek(false, &segment, at, sizeof(segment)))
            return false;
        if (segment.p_type == PT_DYNAMIC)
            /* Without DT_GNU_HASH, each look-up would copy all symbols, one after the other. */
            return elf_tables_read(false, module->load_address,
                                   module->load_address + segment.p_vaddr, tables) &&
                   tables->gnu_hash != 0;
    }
    return false;
}

bool interpreter_function_at(const struct module *module, uintptr_t address, uintptr_t *start,
                             uintptr_t *end)
{
    const struct cfi_source source = {
        .low = module->cfi_low,
        .high = module->cfi_high,
        .eh_frame_hdr = (uintptr_t)module->eh_frame_hdr,
    };
    struct cfi_row row;
    if (module->eh_frame_hdr == NULL || address < module->start || address >= module->end ||
        cfi_find_row(&source, address, NULL, &row) != CFI_FOUND)
        return false;
    *start = row.start;
    *end = row.end;
    return true;
}

const uint8_t *interpreter_view(bool direct, uintptr_t from, void *room, size_t bytes)
{
    if (from < 4096 || from >> ARCH_ADDRESS_BITS != 0)
        return NULL;
    if (direct)
        return (const uint8_t *)from;
    return system_read_memory(room, from, bytes) == (long)bytes ? room : NULL;
}

static void map_notes(void)
{
    const size_t bytes = INTERPRETER_STACKS * sizeof(*notes);
    uint8_t(*none)[INTERPRETER_NOTES_BYTES] = NULL;
    if (load_acquire(&notes) != NULL)
        return;
    uint8_t(*mapped)[INTERPRETER_NOTES_BYTES] = system_map_wiped(bytes);
    if (mapped != NULL && !cas_acq_rel(&notes, &none, mapped))
        system_unmap(mapped, bytes);
}

static void *notes_of(const struct interpreter_merge *merge)
{
    uint8_t(*mapped)[INTERPRETER_NOTES_BYTES] = load_acquire(&notes);
    return mapped != NULL ? mapped[merge->number] : NULL;
}

/* --- finding --- */

/* Return whether the module's interpreter is known. If it was found in an earlier generation of
 * modules, it is still there: the loader cannot replace an object that is in use. */
static bool is_noticed(const struct module *module, uint32_t generation)
{
    for (unsigned i = 0; i < FOUND_MAX; i++) {
        if (load_acquire(&found[i].state) != FOUND_READY || found[i].module != module)
            continue;
        store_release(&found[i].generation, generation);
        interpreter_noticed(&found[i]);
        return true;
    }
    return false;
}

void interpreters_notice(const struct module *module, uint32_t generation)
{
    if (is_noticed(module, generation)) {
        add_relaxed(&found_count, 1);
        return;
    }
    struct interpreter candidate = {.module = module, .generation = generation};
    const struct interpreter_language *language = NULL;
    for (unsigned i = 0; i < sizeof(languages) / sizeof(*languages) && language == NULL; i++) {
        if (languages[i]->find(module, &candidate))
            language = languages[i];
    }
    for (unsigned i = 0; i < FOUND_MAX && language != NULL; i++) {
        uint32_t state = FOUND_FREE;
        if (!cas_acquire(&found[i].state, &state, FOUND_FILLING))
            continue;
        map_notes();
        module_keep(module);
        candidate.state = FOUND_FILLING;
        candidate.language = language;
        found[i] = candidate;
        store_release(&found[i].state, FOUND_READY);
        interpreter_noticed(&found[i]);
        add_relaxed(&found_count, 1);
        return;
    }
}

/* Return the interpreter in whose module a frame of the walk is. */
static struct interpreter *interpreter_of(const struct unwind_walk *walk, const uint64_t *frames,
                                          uint32_t generation)
{
    for (unsigned i = 0; i < FOUND_MAX; i++) {
        struct interpreter *known = &found[i];
        if (load_acquire(&known->state) != FOUND_READY ||
            load_acquire(&known->generation) != generation)
            continue;
        /* The outermost frames are mostly its own: it has called everything else. */
        uintptr_t start = known->module->start, bytes = known->module->end - start;
        for (unsigned j = walk->proven; j-- > 0;) {
            if (frames[j] - start < bytes)
                return known;
        }
    }
    return NULL;
}

/* --- merging --- */

struct merging {
    struct interpreter_merge *merge;
    const struct interpreter *interpreter;
    struct code_range loop, part, core; /* of the interpreter */
    const uint64_t *frames;
    unsigned frame_count, next; /* the walk's frames, and the first that is not merged yet */
    unsigned loops;             /* number of those merged that are in the loop and have no group */
    uint64_t hash;
};

/* Take the ranges as far as they are known now: other threads find some, too. */
static void take_ranges(struct merging *merging)
{
    const struct interpreter *interpreter = merging->interpreter;
    merging->loop = code_range_read(&interpreter->loop);
    merging->part = code_range_read(&interpreter->part);
    merging->core = code_range_read(&interpreter->core);
}

/* Return whether a frame is of the code that executes functions in the place of the loop, which
 * called it. */
static bool is_core(const struct merging *merging, unsigned frame)
{
    return code_range_has(merging->core, merging->frames[frame]);
}

/* The loop without a symbol may have several parts; what calls the core is one. */
static bool is_in_loop(const struct merging *merging, unsigned frame)
{
    return code_range_has(merging->loop, merging->frames[frame]) ||
           code_range_has(merging->part, merging->frames[frame]) ||
           (frame > 0 && is_core(merging, frame - 1));
}

/* Return the walk's frame that executes the group, or frame_count. */
static unsigned frame_of_group(const struct merging *merging, uintptr_t anchor)
{
    const uintptr_t *places = merging->merge->places;
    unsigned i = merging->next, count = merging->frame_count;
    if (anchor == 0) {
        while (i < count && !is_in_loop(merging, i))
            i++;
        return i;
    }
    for (; i < count; i++) {
        uintptr_t end = places[i + 1] & ~UNWIND_PLACE_GUESSED;
        if (unlikely(anchor < end) && anchor >= places[i] &&
            end - places[i] < STACK_FRAME_BYTES_MAX)
            break;
    }
    /* The loop's frame may be one that a guess has skipped. */
    return i < count && (places[i] & UNWIND_PLACE_GUESSED) ? count : i;
}

/* Return the frame before which the functions of a loop's frame belong. */
static unsigned start_of_loop(const struct merging *merging, unsigned loop)
{
    return loop > merging->next && is_core(merging, loop - 1) ? loop - 1 : loop;
}

/* Append native frames up to `end`. */
static void merge_native(struct merging *merging, unsigned end)
{
    unsigned first = merging->next, loops = 0;
    const uint64_t *frames = merging->frames;
    uint64_t *to = merging->merge->frames + merging->merge->count;
    for (unsigned i = first; i < end; i++) {
        loops += is_in_loop(merging, i);
        *to++ = frames[i];
    }
    if (end > first) {
        merging->loops += loops;
        merging->merge->count += end - first;
        merging->next = end;
    }
}

static void merge_items(struct merging *merging, const struct interpreter_item *items,
                        const struct interpreter_item *end)
{
    struct interpreter_merge *merge = merging->merge;
    for (; items < end; items++) {
        merge->frames[merge->count++] = items->frame;
        merging->hash = (merging->hash ^ items->frame ^ items->key) * HASH_STEP;
    }
}

/* Append the frames of a group and then the loop's. Return false if the loop is not in the walk. */
static bool merge_group(struct merging *merging, const struct interpreter_item *items,
                        const struct interpreter_item *end)
{
    struct interpreter_merge *merge = merging->merge;
    unsigned loop = frame_of_group(merging, end->anchor);
    if (loop == merging->frame_count)
        return false;
    merge_native(merging, start_of_loop(merging, loop));
    merge_items(merging, items, end);
    merging->hash = (merging->hash ^ loop) * HASH_STEP;
    while (merging->next <= loop)
        merge->frames[merge->count++] = merging->frames[merging->next++];
    return true;
}

/* Append the frames of the group that is only begun, and end the stack there. */
static void merge_cut(struct merging *merging, const struct interpreter_item *items,
                      const struct interpreter_item *end, struct unwind_walk *walk)
{
    merge_native(merging, start_of_loop(merging, frame_of_group(merging, 0)));
    merge_items(merging, items, end);
    walk->stop = UNWIND_TRUNCATED;
}

/* Merge all groups. Return whether the result is certain. */
static bool merge_all(struct merging *merging, struct unwind_walk *walk)
{
    const struct interpreter_stack *stack = &merging->merge->stack;
    unsigned first = 0;
    bool all = true, ordered = false;
    for (unsigned i = 0; i < stack->count && all; i++) {
        if (stack->items[i].frame != 0)
            continue;
        ordered |= stack->items[i].anchor == 0;
        all = merge_group(merging, &stack->items[first], &stack->items[i]);
        first = i + 1;
    }
    if (stack->count == 0)
        merge_native(merging, merging->frame_count);
    /* Between the groups, each activation of the loop must have one. */
    if (merging->loops > 0)
        return false;
    /* A guess may have skipped loops. Groups without a place are then those of other loops, unless
     * there are as many. */
    bool in_doubt = ordered && walk->proven < walk->count;
    if (!all)
        merge_native(merging, merging->frame_count);
    if (!all || stack->count == 0)
        return all || (walk->stop != UNWIND_OUTERMOST && !in_doubt);
    if (stack->cut && in_doubt)
        return false;
    if (stack->cut) {
        merge_cut(merging, &stack->items[first], &stack->items[stack->count], walk);
        return true;
    }
    merge_native(merging, merging->frame_count);
    /* Loops further out may be those of a suspended coroutine (greenlet) under which this one was
     * started. Groups without a place must be all there are. */
    return !ordered || merging->loops == 0;
}

/*
 * Find the part of the loop that the compiler has moved away: of gcc 16's CPython nearly all of it.
 * It has no dynamic symbol. A frame is in it, or in the loop, if its caller calls the loop. A few
 * callers do so by a pointer; the first other one on a stack leads to the part.
 */
static void find_part(struct interpreter *interpreter, const uint64_t *frames, unsigned count)
{
    const struct module *module = interpreter->module;
    struct code_range loop = code_range_read(&interpreter->loop), range;
    if (load_relaxed(&interpreter->part.end) != 0 || loop.end == 0 ||
        module->eh_frame_hdr == NULL || loop.end - loop.start > LOOP_REST_BYTES_MAX)
        return;
    for (unsigned i = 0; i + 1 < count; i++) {
        uint64_t frame = frames[i], caller = frames[i + 1];
        if (code_range_has(loop, frame) || caller - module->start >= module->end - module->start ||
            arch_called(caller) != loop.start ||
            !interpreter_function_at(module, frame, &range.start, &range.end))
            continue;
        code_range_note(&interpreter->part, range);
        return;
    }
}

static bool has_loop(const struct merging *merging, const struct unwind_walk *walk)
{
    for (unsigned i = 0; i < walk->proven; i++) {
        if (is_in_loop(merging, i))
            return true;
    }
    return false;
}

/* Not inlined: its variables would be on the stack while other samples are unwound. */
static __attribute__((noinline)) void merge_interpreter(struct interpreter_merge *merge,
                                                        struct unwind_walk *walk,
                                                        const uint64_t *frames,
                                                        struct interpreter *interpreter)
{
    struct merging merging = {
        .merge = merge,
        .interpreter = interpreter,
        .frames = frames,
        .frame_count = walk->count,
    };
    find_part(interpreter, frames, walk->proven);
    take_ranges(&merging);
    bool wants_loop = interpreter->language->read_in_loop;
    bool in_loop = wants_loop && has_loop(&merging, walk);
    if (wants_loop && merging.loop.end != 0 && !in_loop)
        return;
    merge->count = 0;
    merge->stack.count = 0;
    merge->stack.cut = false;
    merge->stack.notes = notes_of(merge);
    merge->stack.low = merge->places[0] & ~UNWIND_PLACE_GUESSED;
    merge->stack.high = merge->places[walk->count] & ~UNWIND_PLACE_GUESSED;
    merge->stack.in_loop = in_loop;
    merge->stack.frames = frames;
    merge->stack.frame_count = walk->proven;
    enum interpreter_result result = INTERPRETER_UNCERTAIN;
    if (walk->stop != UNWIND_FOR_DAEMON && !walk->signalled)
        result = interpreter->language->read(interpreter, &merge->stack);
    take_ranges(&merging);
    if (result == INTERPRETER_READ && merge_all(&merging, walk)) {
        if (merging.hash == 0)
            return;
        walk->hash = (walk->hash ^ merging.hash) * HASH_STEP;
        walk->hash += walk->hash == 0;
        merge->interpreter = interpreter;
        return;
    }
    merge_native(&merging, merging.frame_count);
    /* A loop that is not known may be on any stack. */
    bool may_have_loop = merging.loop.end == 0 && result == INTERPRETER_UNSUPPORTED;
    if (merging.loops > 0 || merge->stack.count > 0 || may_have_loop)
        add_relaxed(
            &client.control->lost[result == INTERPRETER_UNSUPPORTED ? RING_LOST_INTERPRETER_UNKNOWN
                                                                    : RING_LOST_INTERPRETER_STATE],
            1);
}

void interpreters_merge(struct interpreter_merge *merge, struct unwind_walk *walk,
                        const uint64_t *frames, uint32_t generation)
{
    merge->interpreter = NULL;
    struct interpreter *interpreter = interpreter_of(walk, frames, generation);
    if (interpreter != NULL)
        merge_interpreter(merge, walk, frames, interpreter);
}

/* --- sending --- */

static bool is_sent(uint64_t key)
{
    const uint64_t *set = sent[key % SETS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (load_acquire(&set[i]) == key)
            return true;
    }
    return false;
}

static void note_sent(uint64_t key)
{
    uint64_t *set = sent[key % SETS];
    for (unsigned i = 0; i < WAYS; i++) {
        if (load_relaxed(&set[i]) == 0) {
            store_release(&set[i], key);
            return;
        }
    }
    store_release(&set[(key >> 32) % WAYS], key);
}

bool interpreters_send(struct ring_thread *thread, const struct interpreter_merge *merge)
{
    const struct interpreter *interpreter = merge->interpreter;
    for (unsigned i = 0; i < merge->stack.count; i++) {
        const struct interpreter_item *item = &merge->stack.items[i];
        if (item->frame == 0 || is_sent(item->key))
            continue;
        if (!interpreter->language->send(thread, interpreter, &merge->stack, item))
            return false;
        note_sent(item->key);
    }
    return true;
}
