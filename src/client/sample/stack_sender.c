/* SPDX-License-Identifier: Apache-2.0 */
/* Remember which modules were sent, and send stacks and copies of unfinished ones. */
#include "client/sample/stack_sender.h"

#include <errno.h>
#include <string.h>

#include "client/client.h"
#include "client/interp/interpreter.h"
#include "client/modules/module.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sample.h"
#include "client/system.h"
#include "client/unwind/unwind_stack.h"
#include "wire/handshake.h"
#include "wire/record.h"

/* Table of the modules that the daemon has, by number. */
#define SENT_MODULES 8192u

/* Table of pages for which no module must be sent: the daemon has it, or the page has none. */
#define SEEN_PAGES 4096u
#define PAGE_SHIFT 12
/* An entry has all bits of a page and 28 or 29 of a generation. It could only be mistaken if it
 * stayed in the table for exactly 2^28 unloadings. */
#define SEEN_GENERATION_SHIFT (ARCH_ADDRESS_BITS - PAGE_SHIFT)

/* Code may use this much memory below its stack pointer (x86-64's red zone). */
#define RED_ZONE_BYTES 128u

static uint64_t *sent_modules; /* wiped on fork */
static uint64_t *seen_pages;   /* wiped on fork */

int stack_sender_init(void)
{
    sent_modules = system_map_wiped(SENT_MODULES * sizeof(*sent_modules));
    seen_pages = system_map_wiped(SEEN_PAGES * sizeof(*seen_pages));
    return sent_modules != NULL && seen_pages != NULL ? 0 : -ENOMEM;
}

void stack_sender_forget(void)
{
    system_wipe(sent_modules, SENT_MODULES * sizeof(*sent_modules));
    system_wipe(seen_pages, SEEN_PAGES * sizeof(*seen_pages));
}

/* Return a word that identifies the module in this generation: by all bits of both numbers. */
static uint64_t module_mark(uint32_t number, uint32_t generation)
{
    return (uint64_t)(generation + 1) << 32 | number;
}

static bool module_is_sent(uint64_t mark)
{
    return load_acquire(&sent_modules[mark % SENT_MODULES]) == mark;
}

/* Not inlined: its path would stay on the program's stack while interpreters are searched for. */
static __attribute__((noinline)) bool send_module(struct ring_thread *thread,
                                                  const struct module *module, bool in_use)
{
    char path[RECORD_PATH_MAX / 4];
    uint8_t build_id[MODULE_BUILD_ID_MAX];
    int length = module_path(module, in_use, path, sizeof(path));
    if (length < 0)
        length = 0;
    size_t id_length = module_build_id(module, in_use, build_id);
    if (id_length > RECORD_BUILD_ID_MAX)
        id_length = RECORD_BUILD_ID_MAX;
    uint32_t size = (uint32_t)(sizeof(struct record_module) + id_length + (size_t)length);
    struct record_module *record = ring_writer_reserve(thread, size);
    if (record == NULL)
        return false;
    record->start = module->start;
    record->end = module->end;
    record->file_offset = module->file_offset;
    record->load_bias = module->load_bias;
    record->build_id_length = (uint16_t)id_length;
    record->path_length = (uint16_t)length;
    memcpy(record->bytes, build_id, id_length);
    memcpy(record->bytes + id_length, path, (size_t)length);
    return ring_writer_commit(thread, record, RECORD_MODULE);
}

/* Send the module that was found for pc. in_use: as for module_find(). A module that might vanish
 * and may not be copied is not sent, nor one that is gone. Return false if there was no room. */
static bool send_module_once(struct ring_thread *thread, const struct module *module, uintptr_t pc,
                             bool in_use, uint32_t generation)
{
    struct module copy;
    if (module_is_sent(module_mark(module_number(module), generation)) ||
        !module_copy(module, pc, &copy))
        return true;
    in_use = in_use || copy.is_permanent;
    if (!in_use && !system_copies_memory())
        return true;
    if (!send_module(thread, &copy, in_use))
        return false;
    uint64_t mark = module_mark(copy.number, generation);
    store_release(&sent_modules[mark % SENT_MODULES], mark);
    if (in_use)
        interpreters_notice(module, generation);
    return true;
}

/* Send the modules of the frames, of which the first `in_use` were reached by CFI. */
static bool send_modules_of(struct ring_thread *thread, const uint64_t *frames, unsigned count,
                            unsigned in_use, uint32_t generation)
{
    const struct module *last = NULL;
    for (unsigned i = 0; i < count; i++) {
        if (last != NULL && frames[i] >= last->start && frames[i] < last->end)
            continue;
        const struct module *module = module_find(frames[i], i < in_use);
        if (module == NULL) {
            if (unlikely(module_is_left_out(frames[i])))
                sample_lose(RING_LOST_MODULES);
            continue;
        }
        last = module;
        if (!send_module_once(thread, module, frames[i], i < in_use, generation))
            return false;
    }
    return true;
}

bool stack_sender_send_modules(struct ring_thread *thread, const struct unwind_walk *walk,
                               const uint64_t *frames, uint32_t generation)
{
    return send_modules_of(thread, frames, walk->count, walk->proven, generation);
}

/* Not inlined: samples of known stacks need less of the program's stack without it. */
__attribute__((noinline)) bool stack_sender_send(struct ring_thread *thread,
                                                 const struct unwind_walk *walk,
                                                 const uint64_t *frames)
{
    unsigned count = walk->count;
    bool truncated = walk->stop == UNWIND_TRUNCATED;
    uint32_t fit = (ring_writer_length_max() - (uint32_t)sizeof(struct record_stack)) / 8;
    if (count > fit) {
        count = fit;
        truncated = true;
    }
    struct record_stack *record =
        ring_writer_reserve(thread, (uint32_t)sizeof(*record) + count * 8);
    if (record == NULL)
        return false;
    record->hash = walk->hash;
    record->count = count;
    record->flags = truncated ? RECORD_STACK_TRUNCATED : 0;
    record->error = (uint16_t)(truncated ? UNWIND_OUTERMOST : walk->stop);
    memcpy(record->frames, frames, count * sizeof(frames[0]));
    return ring_writer_commit(thread, record, RECORD_STACK);
}

/* --- walks that the daemon finishes --- */

static bool ring_has_plenty_of_room(void)
{
    uint64_t used =
        load_relaxed(&client.control->reserved) - load_relaxed(&client.control->consumed);
    return used < (client.data_mask + 1) / 4;
}

enum ring_unwinding stack_sender_ask(uint32_t module)
{
    enum ring_unwinding known = RING_UNWINDING_UNKNOWN;
    if (likely(module < RING_MODULES_MAX)) {
        uint32_t word = load_relaxed(&client.control->unwinding[module / RING_UNWINDING_PER_WORD]);
        known = (enum ring_unwinding)(word >> module % RING_UNWINDING_PER_WORD * 2 & 3);
    }
    if (known == RING_UNWINDING_NONE)
        return known;
    /* A copy of a stack takes the room of a hundred samples, and the largest must fit. It must not
     * end a session that may not wait. */
    bool may_wait = (client.flags & HANDSHAKE_BLOCK_CLIENT) && client.block_timeout_us == 0;
    bool sends = ring_writer_length_max() >= RECORD_WALK_BYTES_MAX &&
                 (may_wait || ring_has_plenty_of_room());
    return sends ? RING_UNWINDING_FOUND : RING_UNWINDING_UNKNOWN;
}

/* The stack to be copied, [from, to). */
struct extent {
    uintptr_t from, to;
    bool direct; /* readable directly; else through the kernel, as far as it is mapped, if at all */
    bool cut;    /* the stack continues after `to` */
};

static struct extent extent_of(const struct unfinished_walk *unfinished, uint32_t bytes_max)
{
    uintptr_t sp = unfinished->registers[ARCH_STACK_POINTER];
    struct extent extent = {.from = sp & ~UINT64_C(7),
                            .to = sp & ~UINT64_C(7),
                            .direct = sp >= unfinished->stack_low && sp < unfinished->stack_high};
    /* An empty copy, which is not cut: the daemon counts an unreadable stack. */
    if (!extent.direct && !system_copies_memory())
        return extent;
    uintptr_t low = extent.direct ? unfinished->stack_low : 0;
    extent.from = (sp < low + RED_ZONE_BYTES ? low : sp - RED_ZONE_BYTES) & ~UINT64_C(7);
    extent.to = extent.from + bytes_max;
    if (extent.direct && extent.to >= unfinished->stack_high)
        extent.to = unfinished->stack_high & ~UINT64_C(7);
    else
        extent.cut = true;
    return extent;
}

/* Send the module of a word of the stack, if the word is an address of code. */
static bool send_module_of_word(struct ring_thread *thread, uint64_t word, uint32_t generation)
{
    uint64_t page = word >> PAGE_SHIFT;
    if (page == 0 || word >> ARCH_ADDRESS_BITS != 0)
        return true;
    uint64_t mark = page | (uint64_t)(generation + 1) << SEEN_GENERATION_SHIFT;
    uint64_t *seen = &seen_pages[page % SEEN_PAGES];
    if (likely(load_acquire(seen) == mark))
        return true;
    if (!module_may_exist(word))
        return true;
    const struct module *module = module_find(word, false);
    if (module != NULL && !send_module_once(thread, module, word, false, generation))
        return false;
    store_release(seen, mark);
    return true;
}

/* Copy the stack in [from, from + bytes), a multiple of 8. Return the number of bytes copied. */
static uint32_t copy_stack(uint64_t *to, uintptr_t from, uint32_t bytes, bool direct)
{
    if (!direct) {
        long got = system_read_memory(to, from, bytes);
        return got > 0 ? (uint32_t)got & ~7u : 0;
    }
    /* Word by word: the target's memcpy may be instrumented and complain about reads of stacks. */
    for (uint32_t i = 0; i < bytes / 8; i++)
        store_relaxed(&to[i], unwind_stack_load(from + i * 8));
    return bytes;
}

/* Send the modules of all words of the stack. `room` has at least 64 words, for copies of memory
 * that cannot be read directly. */
static bool send_modules_of_stack(struct ring_thread *thread, const struct extent *extent,
                                  uint64_t *room, uint32_t words, uint32_t generation)
{
    for (uintptr_t at = extent->from; at < extent->to;) {
        uintptr_t left = extent->to - at;
        uint32_t bytes = left < words * 8 ? (uint32_t)left : words * 8;
        if (!extent->direct)
            bytes = copy_stack(room, at, bytes, false);
        for (uint32_t i = 0; i < bytes / 8; i++) {
            uint64_t word = extent->direct ? unwind_stack_load(at + i * 8) : room[i];
            if (!send_module_of_word(thread, arch_strip(word), generation))
                return false;
        }
        if (bytes == 0)
            break;
        at += bytes;
    }
    return true;
}

static void fill_walk(struct record_walk *record, const struct unwind_walk *walk,
                      const uint64_t *frames, const struct unfinished_walk *unfinished,
                      const struct extent *extent)
{
    uint64_t *words = record->words;
    record->pc = unfinished->pc;
    record->known = unfinished->known;
    record->stack_address = extent->from;
    record->module = unfinished->module;
    record->register_count = ARCH_REGISTERS;
    record->frame_count = (uint16_t)walk->count;
    record->flags = (unfinished->interrupted ? RECORD_WALK_INTERRUPTED : 0) |
                    (extent->cut ? RECORD_WALK_CUT : 0);
    memcpy(words, unfinished->registers, sizeof(unfinished->registers));
    words += ARCH_REGISTERS;
    memcpy(words, frames, walk->count * sizeof(frames[0]));
    words += walk->count;
    record->stack_bytes =
        copy_stack(words, extent->from, (uint32_t)(extent->to - extent->from), extent->direct);
}

uint64_t stack_sender_send_walk(struct ring_thread *thread, const struct unwind_walk *walk,
                                uint64_t *frames, const struct unfinished_walk *unfinished,
                                uint32_t generation)
{
    uint32_t fixed =
        (uint32_t)(sizeof(struct record_walk) + sizeof(unfinished->registers) + walk->count * 8);
    uint32_t most = ring_writer_length_max();
    uint32_t bytes = most > fixed ? (most - fixed) & ~7u : 0;
    const struct extent extent = extent_of(
        unfinished, bytes < RECORD_WALK_STACK_BYTES_MAX ? bytes : RECORD_WALK_STACK_BYTES_MAX);
    if (fixed > most || !send_modules_of(thread, frames, walk->count, walk->proven, generation) ||
        !send_modules_of(thread, &unfinished->pc, 1, unfinished->proven ? 1 : 0, generation))
        return 0;
    /* The walk's frames fill the front of the buffer; the rest is free. */
    uint32_t free_words = UNWIND_FRAMES_MAX - walk->count;
    if (free_words >= 64 &&
        !send_modules_of_stack(thread, &extent, frames + walk->count, free_words, generation))
        return 0;
    struct record_walk *record =
        ring_writer_reserve(thread, fixed + (uint32_t)(extent.to - extent.from));
    if (record == NULL)
        return 0;
    /* Its position in the ring, which no other record gets before this thread's ALLOC follows it.
     */
    uint64_t token = (uint64_t)((uint8_t *)record - client.data) + 1;
    fill_walk(record, walk, frames, unfinished, &extent);
    record->token = token;
    return ring_writer_commit(thread, record, RECORD_WALK) ? token : 0;
}
