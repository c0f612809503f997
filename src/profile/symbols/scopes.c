/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the functions of addresses in a unit. The table of abbreviations gives the length of each
 * entry. It is compiled first, so that an entry is skipped by adding one number or following a few
 * steps. An inlined function is inside the function that it was inlined into. So inside a function
 * without wanted addresses, only entries of out-of-line functions are checked.
 */
#include "profile/symbols/scopes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/dwarf_bytes.h"
#include "util/array.h"
#include "util/sorted_search.h"

/* Link-time optimization shares one table of a few thousand among all units. */
#define CODES_MAX (1u << 18)
#define LEVELS_MAX 4096u
/* No entry has a longer fixed part. */
#define BYTES_MAX (1 << 24)

/* Values of a level besides indexes of scopes. */
#define LEVEL_OUTSIDE (UINT32_MAX - 1) /* not in a function yet */
#define LEVEL_UNUSED (UINT32_MAX - 2)  /* in a function without wanted addresses */

enum step_kind {
    STEP_BYTES, /* a fixed number */
    STEP_LEB,
    STEP_STRING,
    STEP_BLOCK_LEB,
    STEP_BLOCK1,
    STEP_BLOCK2,
    STEP_BLOCK4,
    STEP_INDIRECT,
};

struct skip_step {
    uint32_t kind, bytes;
};

enum entry_use { ENTRY_PLAIN, ENTRY_FUNCTION, ENTRY_INLINED };

struct abbreviation {
    bool known, children;
    uint8_t use;   /* enum entry_use */
    int32_t bytes; /* of all attributes; -1: varies, follow the steps */
    uint32_t first, steps;
    /* For ENTRY_FUNCTION and ENTRY_INLINED: offsets of low and high pc in their plain forms; -1:
     * none */
    int32_t low_at, high_at;
    uint8_t high_bytes;
};

/* --- forms --- */

/* Bytes of forms whose size depends on the unit. */
enum { ADDRESS_BYTES = 100, OFFSET_BYTES, REFERENCE_BYTES };

/* How a value of each form is skipped. GNU's forms are in form_bytes(). */
static const struct form_skip {
    uint8_t is_known, kind, bytes; /* kind: enum step_kind; bytes: of STEP_BYTES */
} form_skips[] = {
    [DW_FORM_flag_present] = {1, STEP_BYTES, 0},
    [DW_FORM_implicit_const] = {1, STEP_BYTES, 0},
    [DW_FORM_data1] = {1, STEP_BYTES, 1},
    [DW_FORM_ref1] = {1, STEP_BYTES, 1},
    [DW_FORM_flag] = {1, STEP_BYTES, 1},
    [DW_FORM_strx1] = {1, STEP_BYTES, 1},
    [DW_FORM_addrx1] = {1, STEP_BYTES, 1},
    [DW_FORM_data2] = {1, STEP_BYTES, 2},
    [DW_FORM_ref2] = {1, STEP_BYTES, 2},
    [DW_FORM_strx2] = {1, STEP_BYTES, 2},
    [DW_FORM_addrx2] = {1, STEP_BYTES, 2},
    [DW_FORM_strx3] = {1, STEP_BYTES, 3},
    [DW_FORM_addrx3] = {1, STEP_BYTES, 3},
    [DW_FORM_data4] = {1, STEP_BYTES, 4},
    [DW_FORM_ref4] = {1, STEP_BYTES, 4},
    [DW_FORM_ref_sup4] = {1, STEP_BYTES, 4},
    [DW_FORM_strx4] = {1, STEP_BYTES, 4},
    [DW_FORM_addrx4] = {1, STEP_BYTES, 4},
    [DW_FORM_data8] = {1, STEP_BYTES, 8},
    [DW_FORM_ref8] = {1, STEP_BYTES, 8},
    [DW_FORM_ref_sup8] = {1, STEP_BYTES, 8},
    [DW_FORM_ref_sig8] = {1, STEP_BYTES, 8},
    [DW_FORM_data16] = {1, STEP_BYTES, 16},
    [DW_FORM_addr] = {1, STEP_BYTES, ADDRESS_BYTES},
    [DW_FORM_strp] = {1, STEP_BYTES, OFFSET_BYTES},
    [DW_FORM_line_strp] = {1, STEP_BYTES, OFFSET_BYTES},
    [DW_FORM_strp_sup] = {1, STEP_BYTES, OFFSET_BYTES},
    [DW_FORM_sec_offset] = {1, STEP_BYTES, OFFSET_BYTES},
    [DW_FORM_ref_addr] = {1, STEP_BYTES, REFERENCE_BYTES},
    [DW_FORM_sdata] = {1, STEP_LEB, 0},
    [DW_FORM_udata] = {1, STEP_LEB, 0},
    [DW_FORM_ref_udata] = {1, STEP_LEB, 0},
    [DW_FORM_strx] = {1, STEP_LEB, 0},
    [DW_FORM_addrx] = {1, STEP_LEB, 0},
    [DW_FORM_loclistx] = {1, STEP_LEB, 0},
    [DW_FORM_rnglistx] = {1, STEP_LEB, 0},
    [DW_FORM_string] = {1, STEP_STRING, 0},
    [DW_FORM_block] = {1, STEP_BLOCK_LEB, 0},
    [DW_FORM_exprloc] = {1, STEP_BLOCK_LEB, 0},
    [DW_FORM_block1] = {1, STEP_BLOCK1, 0},
    [DW_FORM_block2] = {1, STEP_BLOCK2, 0},
    [DW_FORM_block4] = {1, STEP_BLOCK4, 0},
    [DW_FORM_indirect] = {1, STEP_INDIRECT, 0},
};

/* Return the bytes of a form of fixed size, -1 with the step that skips a form of varying size, or
 * -2: unknown form. */
static int form_bytes(const struct scope_unit *unit, unsigned form, enum step_kind *kind)
{
    if (form == DW_FORM_GNU_ref_alt || form == DW_FORM_GNU_strp_alt)
        form = DW_FORM_sec_offset;
    else if (form == DW_FORM_GNU_addr_index || form == DW_FORM_GNU_str_index)
        form = DW_FORM_udata;
    if (form >= sizeof(form_skips) / sizeof(form_skips[0]) || !form_skips[form].is_known)
        return -2;
    *kind = form_skips[form].kind;
    if (*kind != STEP_BYTES)
        return -1;
    switch (form_skips[form].bytes) {
    case ADDRESS_BYTES:
        return (int)unit->address_bytes;
    case OFFSET_BYTES:
        return (int)unit->offset_bytes;
    case REFERENCE_BYTES:
        return (int)(unit->version <= 2 ? unit->address_bytes : unit->offset_bytes);
    default:
        return form_skips[form].bytes;
    }
}

/* --- compiling a table --- */

static int add_step(struct scope_scanner *scanner, struct abbreviation *into, enum step_kind kind,
                    uint32_t bytes)
{
    if (kind == STEP_BYTES && into->steps > 0) {
        struct skip_step *last = &scanner->steps[scanner->step_count - 1];
        if (last->kind == STEP_BYTES) {
            last->bytes += bytes;
            return 0;
        }
    }
    into->steps++;
    return ARRAY_ADD(&scanner->steps, &scanner->step_count, &scanner->step_capacity,
                     ((struct skip_step){kind, bytes}));
}

/* Record where low and high pc in their plain forms are, if the offset is fixed. They are read
 * without libdw. */
static void note_pc(struct abbreviation *into, uint64_t name, unsigned form, int bytes)
{
    if (name == DW_AT_low_pc && form == DW_FORM_addr && bytes == 8 && into->bytes >= 0)
        into->low_at = into->bytes;
    if (name == DW_AT_high_pc && into->bytes >= 0 &&
        (form == DW_FORM_data1 || form == DW_FORM_data2 || form == DW_FORM_data4 ||
         form == DW_FORM_data8)) {
        into->high_at = into->bytes;
        into->high_bytes = (uint8_t)bytes;
    }
}

/* Compile an entry's tag and attributes. Move *at past them. */
static int compile_one(struct scope_scanner *scanner, const struct scope_unit *unit,
                       const uint8_t **at, struct abbreviation *into)
{
    const uint8_t *end = unit->abbreviations_end;
    bool placed = false;
    uint64_t tag, name, form, constant;
    if (!dwarf_take_leb(at, end, &tag) || *at == end)
        return -EBADMSG;
    *into = (struct abbreviation){.known = true,
                                  .children = *(*at)++ != 0,
                                  .first = (uint32_t)scanner->step_count,
                                  .low_at = -1,
                                  .high_at = -1};
    for (;;) {
        enum step_kind kind;
        if (!dwarf_take_leb(at, end, &name) || !dwarf_take_leb(at, end, &form) || form > UINT16_MAX)
            return -EBADMSG;
        if (name == 0 && form == 0)
            break;
        if (form == DW_FORM_implicit_const && !dwarf_take_leb(at, end, &constant))
            return -EBADMSG;
        int bytes = form_bytes(unit, (unsigned)form, &kind);
        if (bytes < -1 || into->bytes > BYTES_MAX)
            return -EBADMSG;
        note_pc(into, name, (unsigned)form, bytes);
        placed |= name == DW_AT_low_pc || name == DW_AT_ranges;
        if (add_step(scanner, into, kind, bytes < 0 ? 0 : (uint32_t)bytes) < 0)
            return -ENOMEM;
        into->bytes = bytes < 0 || into->bytes < 0 ? -1 : into->bytes + bytes;
    }
    if (placed && tag == DW_TAG_subprogram)
        into->use = ENTRY_FUNCTION;
    else if (placed && tag == DW_TAG_inlined_subroutine)
        into->use = ENTRY_INLINED;
    return 0;
}

static int compile_table(struct scope_scanner *scanner, const struct scope_unit *unit)
{
    const uint8_t *at = unit->abbreviations_begin, *end = unit->abbreviations_end;
    unsigned shape = unit->version << 16 | unit->address_bytes << 8 | unit->offset_bytes;
    if (unit->abbreviations >= (uint64_t)(end - at))
        return -EBADMSG;
    at += unit->abbreviations;
    if (scanner->table == at && scanner->table_shape == shape)
        return 0;
    scanner->table = NULL;
    scanner->abbreviation_count = scanner->step_count = 0;
    const uint8_t *begin = at;
    for (;;) {
        uint64_t code;
        if (!dwarf_take_leb(&at, end, &code) || code >= CODES_MAX)
            return -EBADMSG;
        if (code == 0)
            break;
        size_t used = scanner->abbreviation_count;
        if (code >= used) {
            size_t more = (size_t)code + 1 - used;
            if (ARRAY_RESERVE(&scanner->abbreviations, &scanner->abbreviation_capacity, used,
                              more) < 0)
                return -ENOMEM;
            memset(&scanner->abbreviations[used], 0, more * sizeof(struct abbreviation));
            scanner->abbreviation_count = used + more;
        }
        int result = compile_one(scanner, unit, &at, &scanner->abbreviations[code]);
        if (result < 0)
            return result;
    }
    scanner->table = begin;
    scanner->table_shape = shape;
    return 0;
}

/* --- skipping entries --- */

/* Return the end of an entry, or NULL if it is beyond the unit. */
static const uint8_t *follow_steps(const struct scope_scanner *scanner,
                                   const struct scope_unit *unit,
                                   const struct abbreviation *abbreviation, const uint8_t *at,
                                   const uint8_t *end)
{
    uint64_t value;
    for (uint32_t i = 0; i < abbreviation->steps; i++) {
        struct skip_step step = scanner->steps[abbreviation->first + i];
        while (step.kind == STEP_INDIRECT) {
            enum step_kind kind;
            if (!dwarf_take_leb(&at, end, &value) || value > UINT32_MAX)
                return NULL;
            int bytes = form_bytes(unit, (unsigned)value, &kind);
            if (bytes < -1)
                return NULL;
            step = (struct skip_step){kind, bytes < 0 ? 0 : (uint32_t)bytes};
        }
        uint64_t bytes = step.bytes;
        if (step.kind == STEP_STRING) {
            const uint8_t *zero = memchr(at, 0, (size_t)(end - at));
            if (zero == NULL)
                return NULL;
            bytes = (uint64_t)(zero - at) + 1;
        } else if (step.kind == STEP_LEB || step.kind == STEP_BLOCK_LEB) {
            if (!dwarf_take_leb(&at, end, &value))
                return NULL;
            bytes = step.kind == STEP_LEB ? 0 : value;
        } else if (step.kind >= STEP_BLOCK1) {
            unsigned width = 1u << (step.kind - STEP_BLOCK1);
            if ((size_t)(end - at) < width)
                return NULL;
            bytes = 0;
            memcpy(&bytes, at, width); /* little-endian, like the file */
            at += width;
        }
        if (bytes > (uint64_t)(end - at))
            return NULL;
        at += bytes;
    }
    return at;
}

/* --- functions --- */

struct search {
    struct scope_scanner *scanner;
    const struct scope_unit *unit;
    const uint64_t *addresses;
    size_t count;
    uint32_t *innermost;
};

/* Assign the addresses in [low, high) to a scope. The first of them adds the scope. */
static int claim(struct search *search, uint64_t low, uint64_t high, const uint8_t *entry,
                 uint32_t parent, uint32_t *scope)
{
    struct scope_scanner *scanner = search->scanner;
    size_t at = SORTED_SEARCH(search->count, i, search->addresses[i] < low);
    for (; at < search->count && search->addresses[at] < high; at++) {
        if (scanner->work_left == 0)
            return -E2BIG;
        scanner->work_left--;
        if (*scope == SCOPE_NONE) {
            if (scanner->count >= LEVEL_UNUSED)
                return -E2BIG;
            if (ARRAY_RESERVE(&scanner->scopes, &scanner->capacity, scanner->count, 1) < 0)
                return -ENOMEM;
            *scope = (uint32_t)scanner->count;
            scanner->scopes[scanner->count++] = (struct scope){
                .die = {.addr = (void *)entry, .cu = search->unit->die.cu}, .parent = parent};
        }
        search->innermost[at] = *scope;
    }
    return 0;
}

static int claim_split(struct search *search, Dwarf_Die *die, uint32_t parent, uint32_t *scope)
{
    struct split_ranges ranges;
    uint64_t low, high;
    int result = 0;
    split_ranges_begin(&ranges, search->unit->split, die);
    while (result == 0 && split_ranges_next(&ranges, &low, &high)) {
        if (search->scanner->work_left == 0)
            return -E2BIG;
        search->scanner->work_left--;
        result = claim(search, low, high, die->addr, parent, scope);
    }
    return result;
}

static int claim_libdw(struct search *search, Dwarf_Die *die, uint32_t parent, uint32_t *scope)
{
    Dwarf_Addr base = 0, low, high;
    ptrdiff_t offset = 0;
    int result = 0;
    while (result == 0 && (offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
        if (search->scanner->work_left == 0)
            return -E2BIG;
        search->scanner->work_left--;
        result = claim(search, low, high, die->addr, parent, scope);
    }
    return result;
}

/* Process an entry that describes code. Set *level to the scope of its children. */
static int scopes_take_entry(struct search *search, const struct abbreviation *abbreviation,
                             const uint8_t *entry, const uint8_t *attributes, uint32_t *level)
{
    uint32_t parent = abbreviation->use == ENTRY_INLINED ? *level : SCOPE_NONE;
    uint32_t scope = SCOPE_NONE;
    uint64_t low, high;
    int result = 0;
    if (abbreviation->use == ENTRY_INLINED && *level >= LEVEL_UNUSED)
        return 0;
    if (abbreviation->low_at >= 0 && abbreviation->high_at >= 0) {
        uint64_t length = 0;
        memcpy(&low, attributes + abbreviation->low_at, sizeof(low));
        memcpy(&length, attributes + abbreviation->high_at, abbreviation->high_bytes);
        if (!__builtin_add_overflow(low, length, &high))
            result = claim(search, low, high, entry, parent, &scope);
    } else {
        Dwarf_Die die = {.addr = (void *)entry, .cu = search->unit->die.cu};
        result = search->unit->split != NULL ? claim_split(search, &die, parent, &scope)
                                             : claim_libdw(search, &die, parent, &scope);
    }
    *level = scope == SCOPE_NONE ? LEVEL_UNUSED : scope;
    return result;
}

static int pass_over(struct search *search, const uint8_t *at, const uint8_t *end)
{
    struct scope_scanner *scanner = search->scanner;
    size_t depth = 0;
    scanner->levels[0] = LEVEL_OUTSIDE;
    while (at < end) {
        const uint8_t *entry = at;
        uint64_t code = *at++;
        if (code >= 0x80) {
            at = entry;
            if (!dwarf_take_leb(&at, end, &code))
                return -EBADMSG;
        }
        if (code == 0) {
            if (depth-- <= 1)
                return 0;
            continue;
        }
        if (code >= scanner->abbreviation_count || !scanner->abbreviations[code].known)
            return -EBADMSG;
        const struct abbreviation *abbreviation = &scanner->abbreviations[code];
        const uint8_t *attributes = at;
        if (abbreviation->bytes >= 0)
            at = abbreviation->bytes <= end - at ? at + abbreviation->bytes : NULL;
        else
            at = follow_steps(scanner, search->unit, abbreviation, at, end);
        if (at == NULL)
            return -EBADMSG;
        uint32_t level = scanner->levels[depth];
        if (abbreviation->use != ENTRY_PLAIN) {
            int result = scopes_take_entry(search, abbreviation, entry, attributes, &level);
            if (result < 0)
                return result;
        }
        if (!abbreviation->children)
            continue;
        if (++depth >= LEVELS_MAX)
            return -EBADMSG;
        scanner->levels[depth] = level;
    }
    return 0;
}

int scopes_find(struct scope_scanner *scanner, const struct scope_unit *unit,
                const uint64_t *addresses, size_t count, uint32_t *innermost)
{
    struct search search = {scanner, unit, addresses, count, innermost};
    scanner->count = 0;
    for (size_t i = 0; i < count; i++)
        innermost[i] = SCOPE_NONE;
    if (scanner->levels == NULL &&
        ARRAY_RESERVE(&scanner->levels, &scanner->level_capacity, 0, LEVELS_MAX) < 0)
        return -ENOMEM;
    int result = compile_table(scanner, unit);
    if (result < 0)
        return result;
    Dwarf_Die die = unit->die;
    Dwarf_Off offset = dwarf_dieoffset(&die);
    if (offset < unit->offset || offset >= unit->end)
        return -EBADMSG;
    const uint8_t *at = die.addr;
    return pass_over(&search, at, at + (unit->end - offset));
}

void scopes_clear(struct scope_scanner *scanner)
{
    free(scanner->scopes);
    free(scanner->abbreviations);
    free(scanner->steps);
    free(scanner->levels);
    *scanner = (struct scope_scanner){0};
}
