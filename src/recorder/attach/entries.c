/* SPDX-License-Identifier: Apache-2.0 */
/* Make trampolines, move threads out of entries, and patch these. */
#include "recorder/attach/entries.h"

#include <stddef.h>
#include <string.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/installed_client.h"

/* Bytes that are read of a function of unknown size. */
#define UNSIZED_BYTES 64u
#define FUNCTION_BYTES_MAX (16u << 10)

/* Room that a jump may miss of its reach: the image's own size, and the function's. */
#define REACH_MARGIN (1u << 20)

static bool is_used(const struct trampoline *trampoline)
{
    return trampoline->site.length > 0;
}

static bool is_due(const struct trampoline *trampoline)
{
    return is_used(trampoline) && !trampoline->is_patched;
}

static bool is_numbered(const struct trampoline *trampoline, uint32_t first, uint32_t end)
{
    return is_used(trampoline) && trampoline->site.function >= first &&
           trampoline->site.function < end;
}

static bool is_near(uint64_t address, uint64_t start, uint64_t end)
{
    uint64_t farthest = address < start ? end - address : address > end ? address - start : 0;
    return farthest < PROCESSOR_JUMP_REACH - REACH_MARGIN;
}

static bool needs_annex(const struct entries *entries, uint64_t address)
{
    return !is_near(address, entries->image, entries->image_end) && entries->annex != 0 &&
           is_near(address, entries->annex, entries->annex + ENTRIES_ANNEX_BYTES);
}

bool entries_reach(const struct entries *entries, uint64_t address)
{
    return is_near(address, entries->image, entries->image_end) || needs_annex(entries, address);
}

static bool overlaps_another(const struct entries *entries, const struct trampoline *made)
{
    for (unsigned i = 0; i < entries->count; i++) {
        const struct trampoline *other = &entries->trampolines[i];
        if (other != made && is_used(other) &&
            made->site.address < other->site.address + other->site.length &&
            other->site.address < made->site.address + made->site.length)
            return true;
    }
    return false;
}

uint64_t entries_add(struct entries *entries, const struct tracee *tracee,
                     const struct entry_function *function, const char **why)
{
    uint8_t code[FUNCTION_BYTES_MAX];
    unsigned place = 0;
    while (place < entries->count && is_used(&entries->trampolines[place]))
        place++;
    *why = "too many functions are patched";
    if (place == ATTACHED_SITES_MAX)
        return 0;
    size_t wanted = function->size > 0 ? function->size : UNSIZED_BYTES;
    if (wanted > sizeof(code))
        wanted = sizeof(code);
    size_t got = tracee_read_some(tracee, function->address, code, wanted);
    struct trampoline *trampoline = &entries->trampolines[place];
    bool is_far = needs_annex(entries, function->address);
    uint64_t at = is_far ? entries->annex + (uint64_t)place * ENTRIES_ANNEX_SLOT_BYTES
                         : entries->room + (uint64_t)place * TRAMPOLINE_BYTES;
    uint64_t hook = is_far ? at + TRAMPOLINE_BYTES : function->hook;
    bool is_made = trampoline_make(trampoline, function->address, code, got, hook, at, why) == 0;
    trampoline->far_hook = is_far ? function->hook : 0;
    if (is_made && overlaps_another(entries, trampoline)) {
        *why = "its first instructions are patched already";
        is_made = false;
    }
    if (!is_made) {
        *trampoline = (struct trampoline){0};
        return 0;
    }
    trampoline->site.function = function->number;
    if (place == entries->count)
        entries->count++;
    return at;
}

void entries_remove(struct entries *entries, uint32_t first, uint32_t end)
{
    for (unsigned i = 0; i < entries->count; i++) {
        if (is_numbered(&entries->trampolines[i], first, end))
            entries->trampolines[i] = (struct trampoline){0};
    }
}

unsigned entries_due(const struct entries *entries)
{
    unsigned due = 0;
    for (unsigned i = 0; i < entries->count; i++)
        due += is_due(&entries->trampolines[i]);
    return due;
}

bool entries_any_present(const struct entries *entries, const struct tracee *tracee, uint32_t first,
                         uint32_t end)
{
    for (unsigned i = 0; i < entries->count; i++) {
        const struct attached_site *site = &entries->trampolines[i].site;
        uint8_t bytes[ATTACHED_SITE_BYTES];
        if (is_numbered(&entries->trampolines[i], first, end) &&
            tracee_read(tracee, site->address, bytes, site->length) == 0 &&
            memcmp(bytes, site->patched, site->length) == 0)
            return true;
    }
    return false;
}

/* Write a trampoline's bytes. Return their number. */
static size_t write_slot(const struct trampoline *trampoline,
                         uint8_t slot[ENTRIES_ANNEX_SLOT_BYTES])
{
    memcpy(slot, trampoline->code, trampoline->code_bytes);
    if (trampoline->far_hook == 0)
        return trampoline->code_bytes;
    processor_far_jump(slot + TRAMPOLINE_BYTES, trampoline->far_hook);
    return ENTRIES_ANNEX_SLOT_BYTES;
}

void entries_fill(const struct entries *entries, uint8_t *room, uint8_t *annex)
{
    for (unsigned i = 0; i < entries->count; i++) {
        const struct trampoline *trampoline = &entries->trampolines[i];
        write_slot(trampoline, trampoline->far_hook != 0 ? annex + i * ENTRIES_ANNEX_SLOT_BYTES
                                                         : room + i * TRAMPOLINE_BYTES);
    }
}

void entries_list(const struct entries *entries, struct attached_params *params)
{
    params->site_count = entries->count;
    for (unsigned i = 0; i < entries->count; i++)
        params->sites[i] = entries->trampolines[i].site;
}

/* --- with all threads stopped --- */

bool entries_are_unchanged(const struct entries *entries, const struct tracee *tracee)
{
    for (unsigned i = 0; i < entries->count; i++) {
        const struct attached_site *site = &entries->trampolines[i].site;
        uint8_t bytes[ATTACHED_SITE_BYTES];
        if (is_due(&entries->trampolines[i]) &&
            (tracee_read(tracee, site->address, bytes, site->length) < 0 ||
             memcmp(bytes, site->original, site->length) != 0))
            return false;
    }
    return true;
}

/* Move a thread out of an entry. Return false if it cannot be moved. */
static bool clear_entry(const struct trampoline *trampoline, struct tracee *tracee,
                        struct tracee_thread *thread, bool may_return)
{
    struct user_regs_struct *registers = tracee_registers(thread);
    uint64_t start = trampoline->site.address, end = start + trampoline->site.length;
    if (may_return && handler_returns_to(tracee, registers, start + 1, end))
        return false;
    uint64_t pc = registers_pc(registers);
    if (pc <= start || pc >= end)
        return true;
    uint64_t to = trampoline_enter(trampoline, pc);
    if (to == 0)
        return false;
    registers_set_pc(registers, to);
    thread->moved = true;
    return true;
}

pid_t entries_clear(const struct entries *entries, struct tracee *tracee)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (unsigned i = 0; i < entries->count; i++) {
        const struct attached_site *site = &entries->trampolines[i].site;
        if (!is_due(&entries->trampolines[i]))
            continue;
        low = site->address < low ? site->address : low;
        high = site->address + site->length > high ? site->address + site->length : high;
    }
    for (size_t t = 0; t < tracee->thread_count; t++) {
        struct tracee_thread *thread = &tracee->threads[t];
        struct user_regs_struct *registers = tracee_registers(thread);
        if (registers == NULL)
            continue;
        /* Most threads return to no entry at all: check the whole range first. */
        bool may_return = handler_returns_to(tracee, registers, low, high);
        for (unsigned i = 0; i < entries->count; i++) {
            if (is_due(&entries->trampolines[i]) &&
                !clear_entry(&entries->trampolines[i], tracee, thread, may_return))
                return thread->tid;
        }
    }
    return 0;
}

int entries_write_trampolines(const struct entries *entries, const struct tracee *tracee)
{
    int code = 0;
    for (unsigned i = 0; i < entries->count && code == 0; i++) {
        const struct trampoline *trampoline = &entries->trampolines[i];
        uint8_t slot[ENTRIES_ANNEX_SLOT_BYTES] = {0};
        if (is_due(trampoline))
            code = tracee_write(tracee, trampoline->site.trampoline, slot,
                                write_slot(trampoline, slot));
    }
    return code;
}

int entries_patch(const struct entries *entries, const struct tracee *tracee)
{
    int code = 0;
    for (unsigned i = 0; i < entries->count && code == 0; i++) {
        const struct attached_site *site = &entries->trampolines[i].site;
        if (is_due(&entries->trampolines[i]))
            code = tracee_write(tracee, site->address, site->patched, site->length);
    }
    return code;
}

int entries_undo(const struct entries *entries, struct tracee *tracee)
{
    int code = 0;
    for (unsigned i = 0; i < entries->count; i++) {
        const struct trampoline *trampoline = &entries->trampolines[i];
        if (!is_due(trampoline))
            continue;
        int written = tracee_write(tracee, trampoline->site.address, trampoline->site.original,
                                   trampoline->site.length);
        code = code == 0 ? written : code;
        for (size_t t = 0; t < tracee->thread_count; t++) {
            struct user_regs_struct *registers = tracee_registers(&tracee->threads[t]);
            uint64_t to =
                registers != NULL ? trampoline_leave(trampoline, registers_pc(registers)) : 0;
            if (to == 0)
                continue;
            registers_set_pc(registers, to);
            tracee->threads[t].moved = true;
        }
    }
    tracee_move(tracee);
    return code;
}

/* Write what the parameters have from `families` to `sites`. */
static int write_lists(const struct tracee *tracee, uint64_t address,
                       const struct attached_params *params)
{
    const size_t first = offsetof(struct attached_params, families);
    return tracee_write(tracee, address + first, (const char *)params + first,
                        offsetof(struct attached_params, mapped) - first);
}

int entries_enter_later(const struct entries *entries, struct tracee *tracee, uint64_t address,
                        const struct attached_params *params)
{
    struct attached_params before;
    int code = tracee_read(tracee, address, &before, sizeof(before));
    if (code == 0)
        code = entries_write_trampolines(entries, tracee);
    if (code < 0)
        return code;
    code = write_lists(tracee, address, params);
    if (code == 0) {
        tracee_move(tracee);
        code = entries_patch(entries, tracee);
    }
    if (code == 0)
        return 0;
    entries_undo(entries, tracee);
    /* Who removes the client needs the site of an entry that has stayed patched. */
    if (entries_are_unchanged(entries, tracee))
        write_lists(tracee, address, &before);
    return code;
}

void entries_settle(struct entries *entries)
{
    for (unsigned i = 0; i < entries->count; i++)
        entries->trampolines[i].is_patched = is_used(&entries->trampolines[i]);
}
