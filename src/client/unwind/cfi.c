/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a pc to its row: the binary search table of .eh_frame_hdr, CIE and FDE,
 * and the program of call frame instructions, run up to the pc.
 */
#include "client/unwind/cfi.h"

#include "client/system.h"
#include "client/unwind/cfi_reader.h"

/* Deeper nesting of remember_state is refused; compilers emit 1. */
#define REMEMBERED_MAX 4

/* A linear search stops after this many entries (objects without the table). */
#define LINEAR_ENTRIES_MAX 100000

struct entry {
    uint64_t code_align;
    int64_t data_align;
    uint32_t return_column;
    uint8_t pointer_encoding;
    bool augmented, signal_frame;
    struct cfi_reader program;
};

struct function {
    uintptr_t start, end;
    struct cfi_reader program;
};

uint64_t cfi_read_pointer(struct cfi_reader *reader, uint8_t encoding, uint64_t datarel)
{
    if (encoding == CFI_POINTER_OMITTED)
        return 0;
    uint64_t base = 0, value = 0;
    switch (encoding & CFI_POINTER_BASE) {
    case 0:
        break;
    case CFI_POINTER_PCREL:
        base = (uintptr_t)reader->at + reader->address_delta;
        break;
    case CFI_POINTER_DATAREL:
        base = datarel;
        break;
    default:
        reader->failed = true;
        return 0;
    }
    switch (encoding & CFI_POINTER_FORMAT) {
    case CFI_POINTER_ABSOLUTE:
    case CFI_POINTER_UDATA8:
    case CFI_POINTER_SDATA8:
        value = cfi_read_u64(reader);
        break;
    case CFI_POINTER_ULEB128:
        value = cfi_read_uleb(reader);
        break;
    case CFI_POINTER_SLEB128:
        value = (uint64_t)cfi_read_sleb(reader);
        break;
    case CFI_POINTER_UDATA2:
        value = cfi_read_u16(reader);
        break;
    case CFI_POINTER_SDATA2:
        value = (uint64_t)(int16_t)cfi_read_u16(reader);
        break;
    case CFI_POINTER_UDATA4:
        value = cfi_read_u32(reader);
        break;
    case CFI_POINTER_SDATA4:
        value = (uint64_t)(int32_t)cfi_read_u32(reader);
        break;
    default:
        reader->failed = true;
        return 0;
    }
    return base + value;
}

/* Open a reader over [address, address + bytes) of the source. If there is a buffer, copy the bytes
 * there first. Return false if they are outside the source, or gone. */
static bool source_read(const struct cfi_source *source, uintptr_t address, size_t bytes,
                        uint8_t *buffer, struct cfi_reader *reader)
{
    if (address < source->low || address > source->high || bytes > source->high - address)
        return false;
    const uint8_t *at = (const uint8_t *)(address - source->delta);
    if (buffer != NULL) {
        if (system_read_memory(buffer, (uintptr_t)at, bytes) != (long)bytes)
            return false;
        at = buffer;
    }
    *reader =
        (struct cfi_reader){.at = at, .end = at + bytes, .address_delta = address - (uintptr_t)at};
    return true;
}

/* Open a reader over the entry (CIE or FDE) at address, after its length, and set *next to the
 * address of the next entry. Return CFI_NONE for a length of 0, which ends .eh_frame. */
static enum cfi_result entry_open(const struct cfi_source *source, uintptr_t address,
                                  uint8_t *buffer, size_t buffer_bytes, struct cfi_reader *reader,
                                  uintptr_t *next)
{
    uint8_t head[12];
    struct cfi_reader length_reader;
    if (!source_read(source, address, 4, buffer ? head : NULL, &length_reader))
        return CFI_BAD;
    uint64_t length = cfi_read_u32(&length_reader);
    uintptr_t body = address + 4;
    if (length == 0)
        return CFI_NONE;
    if (length == UINT32_MAX) {
        if (!source_read(source, body, 8, buffer ? head : NULL, &length_reader))
            return CFI_BAD;
        length = cfi_read_u64(&length_reader);
        body += 8;
    }
    if (length < 4 || length > source->high - source->low || (buffer && length > buffer_bytes))
        return CFI_BAD;
    if (!source_read(source, body, length, buffer, reader))
        return CFI_BAD;
    if (next != NULL)
        *next = body + length;
    return CFI_FOUND;
}

/* Read the augmentation data that the letters after 'z' describe. */
static void cie_augmentation(struct cfi_reader *reader, const uint8_t *letters, struct entry *cie)
{
    uint64_t bytes = cfi_read_uleb(reader);
    struct cfi_reader data = *reader;
    if (!cfi_reader_take(reader, bytes))
        return;
    data.end = reader->at;
    for (; *letters != 0; letters++) {
        switch (*letters) {
        case 'L':
            cfi_read_u8(&data);
            break;
        case 'P': {
            uint8_t encoding = cfi_read_u8(&data);
            cfi_read_pointer(&data, encoding & ~CFI_POINTER_BASE & ~CFI_POINTER_INDIRECT, 0);
            break;
        }
        case 'R':
            cie->pointer_encoding = cfi_read_u8(&data);
            break;
        case 'S':
            cie->signal_frame = true;
            break;
        case 'B': /* return addresses are signed with the B key: stripped like others */
        case 'G': /* tagged stack */
            break;
        default: /* unknown, and so is the length of its data: skip the rest */
            return;
        }
        if (data.failed) {
            reader->failed = true;
            return;
        }
    }
}

static enum cfi_result cie_parse(const struct cfi_source *source, uintptr_t address,
                                 struct cfi_copy *copy, struct entry *cie)
{
    struct cfi_reader reader;
    enum cfi_result opened =
        entry_open(source, address, copy ? copy->cie : NULL, sizeof(copy->cie), &reader, NULL);
    if (opened != CFI_FOUND)
        return CFI_BAD;
    *cie = (struct entry){.pointer_encoding = CFI_POINTER_ABSOLUTE};
    if (cfi_read_u32(&reader) != 0)
        return CFI_BAD;
    uint8_t version = cfi_read_u8(&reader);
    if (version != 1 && version != 3 && version != 4)
        return CFI_BAD;
    const uint8_t *letters = reader.at;
    while (cfi_read_u8(&reader) != 0)
        ;
    if (reader.failed)
        return CFI_BAD;
    if (version == 4 && (cfi_read_u8(&reader) != 8 || cfi_read_u8(&reader) != 0))
        return CFI_BAD;
    cie->code_align = cfi_read_uleb(&reader);
    cie->data_align = cfi_read_sleb(&reader);
    cie->return_column = version == 1 ? cfi_read_u8(&reader) : (uint32_t)cfi_read_uleb(&reader);
    if (letters[0] == 'z') {
        cie->augmented = true;
        cie_augmentation(&reader, letters + 1, cie);
    } else if (letters[0] != 0) {
        return CFI_BAD;
    }
    cie->program = reader;
    return reader.failed ? CFI_BAD : CFI_FOUND;
}

/* Parse the FDE at address and its CIE. Return CFI_NONE if it is a CIE or does not cover pc, and,
 * if `next` is given, CFI_OUTERMOST at the end of .eh_frame. */
static enum cfi_result fde_parse(const struct cfi_source *source, uintptr_t address, uintptr_t pc,
                                 struct cfi_copy *copy, struct entry *cie,
                                 struct function *function, uintptr_t *next)
{
    struct cfi_reader reader;
    enum cfi_result opened =
        entry_open(source, address, copy ? copy->fde : NULL, sizeof(copy->fde), &reader, next);
    if (opened != CFI_FOUND)
        return opened == CFI_NONE && next != NULL ? CFI_OUTERMOST : CFI_BAD;
    uintptr_t field = (uintptr_t)reader.at + reader.address_delta;
    uint32_t back = cfi_read_u32(&reader);
    if (back == 0)
        return CFI_NONE;
    if (back > field - source->low)
        return CFI_BAD;
    enum cfi_result parsed = cie_parse(source, field - back, copy, cie);
    if (parsed != CFI_FOUND)
        return parsed;
    if (cie->pointer_encoding & CFI_POINTER_INDIRECT)
        return CFI_BAD;
    function->start = cfi_read_pointer(&reader, cie->pointer_encoding, source->eh_frame_hdr);
    uint64_t bytes = cfi_read_pointer(&reader, cie->pointer_encoding & CFI_POINTER_FORMAT, 0);
    function->end = function->start + bytes;
    if (cie->augmented)
        cfi_reader_take(&reader, cfi_read_uleb(&reader));
    if (reader.failed || function->end < function->start)
        return CFI_BAD;
    function->program = reader;
    return pc >= function->start && pc < function->end ? CFI_FOUND : CFI_NONE;
}

/* Read an entry of the search table, a pair of int32. */
static bool table_entry(const struct cfi_source *source, uintptr_t table, uint64_t index,
                        bool copying, uintptr_t *start, uintptr_t *fde)
{
    uint8_t bytes[8];
    struct cfi_reader reader;
    if (!source_read(source, table + index * 8, 8, copying ? bytes : NULL, &reader))
        return false;
    *start = source->eh_frame_hdr + (uintptr_t)(intptr_t)(int32_t)cfi_read_u32(&reader);
    *fde = source->eh_frame_hdr + (uintptr_t)(intptr_t)(int32_t)cfi_read_u32(&reader);
    return true;
}

static enum cfi_result table_search(const struct cfi_source *source, uintptr_t table,
                                    uint64_t count, uintptr_t pc, bool copying, uintptr_t *fde)
{
    uint64_t low = 0, high = count; /* all entries below low start at or before pc */
    uintptr_t start, found = 0;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uintptr_t address;
        if (!table_entry(source, table, middle, copying, &start, &address))
            return CFI_BAD;
        if (start <= pc) {
            found = address;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *fde = found;
    return found != 0 ? CFI_FOUND : CFI_NONE;
}

static enum cfi_result linear_search(const struct cfi_source *source, uintptr_t address,
                                     uintptr_t pc, struct cfi_copy *copy, struct entry *cie,
                                     struct function *function)
{
    for (unsigned i = 0; i < LINEAR_ENTRIES_MAX && address < source->high; i++) {
        uintptr_t next = source->high;
        enum cfi_result parsed = fde_parse(source, address, pc, copy, cie, function, &next);
        if (parsed == CFI_OUTERMOST)
            return CFI_NONE;
        if (parsed != CFI_NONE)
            return parsed;
        address = next;
    }
    return CFI_NONE;
}

static enum cfi_result find_function(const struct cfi_source *source, uintptr_t pc,
                                     struct cfi_copy *copy, struct entry *cie,
                                     struct function *function)
{
    struct cfi_reader reader;
    uint8_t head[32];
    size_t most = source->eh_frame_hdr <= source->high ? source->high - source->eh_frame_hdr : 0;
    if (!source_read(source, source->eh_frame_hdr, most < sizeof(head) ? most : sizeof(head),
                     copy ? head : NULL, &reader))
        return CFI_BAD;
    if (cfi_read_u8(&reader) != 1)
        return CFI_BAD;
    uint8_t frame_encoding = cfi_read_u8(&reader);
    uint8_t count_encoding = cfi_read_u8(&reader);
    uint8_t table_encoding = cfi_read_u8(&reader);
    uintptr_t eh_frame = cfi_read_pointer(&reader, frame_encoding, source->eh_frame_hdr);
    uint64_t count = cfi_read_pointer(&reader, count_encoding, source->eh_frame_hdr);
    uintptr_t table = (uintptr_t)reader.at + reader.address_delta;
    if (reader.failed)
        return CFI_BAD;
    if (table_encoding != (CFI_POINTER_DATAREL | CFI_POINTER_SDATA4) || count == 0)
        return linear_search(source, eh_frame, pc, copy, cie, function);
    if (count > (source->high - source->low) / 8)
        return CFI_BAD;
    uintptr_t fde;
    enum cfi_result searched = table_search(source, table, count, pc, copy != NULL, &fde);
    if (searched != CFI_FOUND)
        return searched;
    return fde_parse(source, fde, pc, copy, cie, function, NULL);
}

/* A running program of call frame instructions. */
struct run {
    const struct entry *cie;
    struct cfi_reader *reader;
    struct cfi_columns *columns;
    const struct cfi_columns *initial; /* for DW_CFA_restore; NULL inside the CIE */
    struct cfi_columns remembered[REMEMBERED_MAX];
    unsigned remembered_count;
    uintptr_t location;
    uint64_t datarel;
};

static void run_set(struct run *run, uint64_t column, enum cfi_rule rule, int64_t value)
{
    if (column < ARCH_REGISTERS)
        run->columns->cells[column] = cfi_cell_make(rule, value);
}

static void run_offset(struct run *run, uint64_t column, enum cfi_rule rule, int64_t factored)
{
    run_set(run, column, rule, (int64_t)((uint64_t)factored * (uint64_t)run->cie->data_align));
}

static void run_restore(struct run *run, uint64_t column)
{
    if (column < ARCH_REGISTERS)
        run->columns->cells[column] = run->initial ? run->initial->cells[column] : 0;
}

static void run_cfa_register(struct run *run, uint64_t column)
{
    if (column >= ARCH_REGISTERS || cfi_cell_rule(run->columns->cfa) != CFI_RULE_REGISTER)
        run->reader->failed = true;
    else
        run->columns->cfa_register = (uint32_t)column;
}

static void run_cfa(struct run *run, uint64_t column, int64_t offset)
{
    run->columns->cfa = cfi_cell_make(CFI_RULE_REGISTER, offset);
    run_cfa_register(run, column);
}

/* Skip the block at the cursor and return its address. */
static int64_t run_block(struct run *run)
{
    const uint8_t *block = run->reader->at;
    cfi_reader_take(run->reader, cfi_read_uleb(run->reader));
    return (int64_t)(intptr_t)block;
}

static void run_remember(struct run *run)
{
    if (run->remembered_count == REMEMBERED_MAX)
        run->reader->failed = true;
    else
        run->remembered[run->remembered_count++] = *run->columns;
}

static void run_recall(struct run *run)
{
    if (run->remembered_count == 0)
        run->reader->failed = true;
    else
        *run->columns = run->remembered[--run->remembered_count];
}

/* Run an instruction that defines the CFA, or saves or restores all rules. Return false if it is
 * another one. */
static bool run_row(struct run *run, uint8_t operation)
{
    struct cfi_reader *reader = run->reader;
    uint64_t column, align = (uint64_t)run->cie->data_align;
    switch (operation) {
    case 0x0a: /* remember_state */
        run_remember(run);
        return true;
    case 0x0b: /* restore_state */
        run_recall(run);
        return true;
    case 0x0c: /* def_cfa */
        column = cfi_read_uleb(reader);
        run_cfa(run, column, (int64_t)cfi_read_uleb(reader));
        return true;
    case 0x0d: /* def_cfa_register */
        run_cfa_register(run, cfi_read_uleb(reader));
        return true;
    case 0x0e: /* def_cfa_offset */
        run->columns->cfa = cfi_cell_make(CFI_RULE_REGISTER, (int64_t)cfi_read_uleb(reader));
        return true;
    case 0x0f: /* def_cfa_expression */
        run->columns->cfa = cfi_cell_make(CFI_RULE_VALUE_EXPRESSION, run_block(run));
        return true;
    case 0x12: /* def_cfa_sf */
        column = cfi_read_uleb(reader);
        run_cfa(run, column, (int64_t)((uint64_t)cfi_read_sleb(reader) * align));
        return true;
    case 0x13: /* def_cfa_offset_sf */
        run->columns->cfa =
            cfi_cell_make(CFI_RULE_REGISTER, (int64_t)((uint64_t)cfi_read_sleb(reader) * align));
        return true;
    default:
        return false;
    }
}

/* Run an instruction that sets the rule of a register, or does nothing. */
static void run_register(struct run *run, uint8_t operation)
{
    struct cfi_reader *reader = run->reader;
    uint64_t column;
    switch (operation) {
    case 0x00: /* nop */
        break;
    case 0x05: /* offset_extended */
        column = cfi_read_uleb(reader);
        run_offset(run, column, CFI_RULE_OFFSET, (int64_t)cfi_read_uleb(reader));
        break;
    case 0x06: /* restore_extended */
        run_restore(run, cfi_read_uleb(reader));
        break;
    case 0x07: /* undefined */
        run_set(run, cfi_read_uleb(reader), CFI_RULE_UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        run_set(run, cfi_read_uleb(reader), CFI_RULE_SAME, 0);
        break;
    case 0x09: /* register */
        column = cfi_read_uleb(reader);
        run_set(run, column, CFI_RULE_REGISTER, (int64_t)cfi_read_uleb(reader));
        break;
    case 0x10: /* expression */
        column = cfi_read_uleb(reader);
        run_set(run, column, CFI_RULE_EXPRESSION, run_block(run));
        break;
    case 0x11: /* offset_extended_sf */
        column = cfi_read_uleb(reader);
        run_offset(run, column, CFI_RULE_OFFSET, cfi_read_sleb(reader));
        break;
    case 0x14: /* val_offset */
        column = cfi_read_uleb(reader);
        run_offset(run, column, CFI_RULE_VALUE_OFFSET, (int64_t)cfi_read_uleb(reader));
        break;
    case 0x15: /* val_offset_sf */
        column = cfi_read_uleb(reader);
        run_offset(run, column, CFI_RULE_VALUE_OFFSET, cfi_read_sleb(reader));
        break;
    case 0x16: /* val_expression */
        column = cfi_read_uleb(reader);
        run_set(run, column, CFI_RULE_VALUE_EXPRESSION, run_block(run));
        break;
    case 0x2c: /* AARCH64_negate_ra_state_with_pc */
    case 0x2d: /* AARCH64_negate_ra_state, GNU_window_save: return addresses are always stripped */
        break;
    case 0x2e: /* GNU_args_size */
        cfi_read_uleb(reader);
        break;
    case 0x2f: /* GNU_negative_offset_extended */
        column = cfi_read_uleb(reader);
        run_offset(run, column, CFI_RULE_OFFSET, -(int64_t)(cfi_read_uleb(reader) & INT64_MAX));
        break;
    default:
        reader->failed = true;
    }
}

/* Run an instruction that moves the location. Return false if it is another one. */
static bool run_advance(struct run *run, uint8_t operation)
{
    uint64_t align = run->cie->code_align;
    switch (operation) {
    case 0x01: /* set_loc */
        run->location = cfi_read_pointer(run->reader, run->cie->pointer_encoding, run->datarel);
        return true;
    case 0x02: /* advance_loc1 */
        run->location += cfi_read_u8(run->reader) * align;
        return true;
    case 0x03: /* advance_loc2 */
        run->location += cfi_read_u16(run->reader) * align;
        return true;
    case 0x04: /* advance_loc4 */
        run->location += cfi_read_u32(run->reader) * align;
        return true;
    case 0x1d: /* MIPS_advance_loc8 */
        run->location += cfi_read_u64(run->reader) * align;
        return true;
    default:
        if ((operation & 0xc0) != 0x40)
            return false;
        run->location += (operation & 0x3f) * align;
        return true;
    }
}

/* Run to the end of the program, or until its location has passed pc. */
static bool run_program(struct run *run, uintptr_t pc)
{
    struct cfi_reader *reader = run->reader;
    while (!reader->failed && reader->at < reader->end) {
        uint8_t operation = cfi_read_u8(reader);
        if (run_advance(run, operation)) {
            if (run->location > pc)
                break;
        } else if ((operation & 0xc0) == 0x80) {
            run_offset(run, operation & 0x3f, CFI_RULE_OFFSET, (int64_t)cfi_read_uleb(reader));
        } else if ((operation & 0xc0) == 0xc0) {
            run_restore(run, operation & 0x3f);
        } else if (!run_row(run, operation)) {
            run_register(run, operation);
        }
    }
    return !reader->failed;
}

/* Out of line: the remembered states are large and need stack only while this runs. */
static __attribute__((noinline)) enum cfi_result make_row(struct entry *cie,
                                                          struct function *function,
                                                          uint64_t datarel, uintptr_t pc,
                                                          struct cfi_row *row)
{
    struct run run;
    struct cfi_columns initial;
    run.cie = cie;
    run.columns = &row->columns;
    run.remembered_count = 0;
    run.datarel = datarel;

    run.reader = &cie->program;
    run.initial = NULL;
    run.location = 0;
    if (!run_program(&run, UINTPTR_MAX))
        return CFI_BAD;

    initial = row->columns;
    run.reader = &function->program;
    run.initial = &initial;
    run.location = function->start;
    return run_program(&run, pc) ? CFI_FOUND : CFI_BAD;
}

enum cfi_result cfi_find_row(const struct cfi_source *source, uintptr_t pc, struct cfi_copy *copy,
                             struct cfi_row *row)
{
    struct entry cie;
    struct function function;
    enum cfi_result found = find_function(source, pc, copy, &cie, &function);
    if (found != CFI_FOUND)
        return found < 0 ? found : CFI_NONE;
    if (cie.return_column >= ARCH_REGISTERS)
        return CFI_BAD;
    __builtin_memset(row, 0, sizeof(*row));
    row->columns.cfa = cfi_cell_make(CFI_RULE_UNDEFINED, 0);
    row->start = function.start;
    row->end = function.end;
    row->return_column = cie.return_column;
    row->signal_frame = cie.signal_frame;
    return make_row(&cie, &function, source->eh_frame_hdr, pc, row);
}
