/* SPDX-License-Identifier: Apache-2.0 */
/* Follow the code of a function to its return, x86-64. */
#include "client/unwind/epilogue.h"

#include <stddef.h>
#include <string.h>

#include "wire/x86_instruction.h"

#define INSTRUCTIONS_MAX 4000u /* of all paths */
#define BRANCHES_MAX 24u       /* that a dead end goes back to */
#define VISITED_MAX 32u
#define FUNCTION_ALIGNMENT 16u

/* Registers as instructions number them. */
enum { RBX = 3, RSP = 4, RBP = 5, R12 = 12, R15 = 15, REGISTERS = 16 };

static const uint8_t dwarf_numbers[REGISTERS] = {0, 2, 1,  3,  7,  6,  4,  5,
                                                 8, 9, 10, 11, 12, 13, 14, 15};

/* What functions restore: rbx, rbp and r12 to r15. */
#define SAVED 6u

/* A point of a path. The stack pointer is `base` as it was at the beginning, plus `offset`. */
struct path {
    uintptr_t pc;
    int base; /* RSP or RBP */
    int64_t offset;
    int64_t pushed_until; /* below this offset, the path itself has written to the stack */
    /* Bit n: register n was loaded from base + places[saved_index(n)]. */
    uint32_t restored;
    int32_t places[SAVED];
    /* The same for rbp + fp_places, while the base is RSP. */
    uint32_t fp_restored;
    int32_t fp_places[SAVED];
};

struct search {
    const struct epilogue_code *code;
    unsigned instructions;
    /* Small, because this is on the program's stack: pc without the start of the code. */
    struct {
        uint32_t pc;
        int32_t offset : 31;
        uint32_t base_is_rbp : 1;
    } branches[BRANCHES_MAX];
    unsigned branch_count;
    uint32_t visited[VISITED_MAX]; /* targets of branches and of jumps backwards */
    unsigned visited_count;
};

enum step {
    STEP_ON,
    STEP_RETURN,    /* the stack pointer is at the return address */
    STEP_OUTERMOST, /* the function ends the program or its thread */
    STEP_DEAD,      /* this path does not lead to the return, or it is not known how */
};

static bool is_saved_register(unsigned number)
{
    return number == RBX || number == RBP || (number >= R12 && number <= R15);
}

static unsigned saved_index(unsigned number)
{
    return number == RBX ? 0 : number == RBP ? 1 : number - R12 + 2;
}

/* Note that a register was loaded from the stack. The last load before the return restores it. */
static void restore(struct path *path, unsigned number, int64_t place)
{
    if (!is_saved_register(number) || place < path->pushed_until || place % 8 != 0)
        return;
    path->restored |= 1u << number;
    path->places[saved_index(number)] = (int32_t)place;
}

/* mov displacement(%rsp or %rbp), register */
static void load(struct path *path, const struct x86_instruction *found)
{
    if (found->rm == RSP) {
        restore(path, found->reg, path->offset + found->displacement);
    } else if (found->rm == RBP && path->base == RBP) {
        restore(path, found->reg, found->displacement);
    } else if (found->rm == RBP && found->reg != RBP && is_saved_register(found->reg)) {
        path->fp_restored |= 1u << found->reg;
        path->fp_places[saved_index(found->reg)] = found->displacement;
    }
}

static enum step pop(struct path *path, unsigned number)
{
    restore(path, number, path->offset);
    path->offset += 8;
    return number == RSP ? STEP_DEAD : STEP_ON;
}

static enum step push(struct path *path)
{
    int64_t end = path->offset;
    path->offset -= 8;
    if (end > path->pushed_until)
        path->pushed_until = end;
    return STEP_ON;
}

/* Make the stack pointer rbp + displacement: rbp is a frame pointer. */
static enum step leave_to_frame_pointer(struct path *path, int64_t displacement)
{
    if (path->base != RSP || (path->restored >> RBP & 1))
        return STEP_DEAD;
    path->base = RBP;
    path->offset = displacement;
    path->pushed_until = INT32_MIN;
    path->restored = path->fp_restored;
    memcpy(path->places, path->fp_places, sizeof(path->places));
    return STEP_ON;
}

/* Return whether a path from here was followed before: it was a loop or a dead end. */
static bool was_visited(struct search *search, uint32_t target)
{
    for (unsigned i = 0; i < search->visited_count; i++) {
        if (search->visited[i] == target)
            return true;
    }
    if (search->visited_count == VISITED_MAX)
        return true;
    search->visited[search->visited_count++] = target;
    return false;
}

static enum step jump(struct search *search, struct path *path, uintptr_t target)
{
    /* Another object's function, or a stub for one, returns to our caller. */
    if (target < search->code->start || target >= search->code->end)
        return STEP_RETURN;
    if (target < path->pc && was_visited(search, (uint32_t)(target - search->code->start)))
        return STEP_DEAD;
    path->pc = target;
    return STEP_ON;
}

/* Leave the other way of a conditional jump for later. */
static enum step branch(struct search *search, const struct path *path, uintptr_t target)
{
    if (path->restored != 0 || search->branch_count == BRANCHES_MAX)
        return STEP_ON;
    search->branches[search->branch_count].pc = (uint32_t)(target - search->code->start);
    search->branches[search->branch_count].offset = (int32_t)path->offset;
    search->branches[search->branch_count].base_is_rbp = path->base == RBP;
    search->branch_count++;
    return STEP_ON;
}

static bool is_padding(const struct x86_instruction *found)
{
    return (found->map == 0 && found->opcode == 0x90) || (found->map == 1 && found->opcode == 0x1f);
}

/* Return whether a function may begin here: after instructions that do nothing. */
static bool may_begin_function(const struct epilogue_code *code, uintptr_t pc)
{
    struct x86_instruction found;
    uintptr_t at = pc;
    while (at < code->end && at % FUNCTION_ALIGNMENT != 0) {
        if (!x86_instruction_decode(&found, (const uint8_t *)at, code->end - at) ||
            !is_padding(&found))
            return false;
        at += found.length;
    }
    return at > pc;
}

/* A compiler writes nothing after a call that does not return: the next function follows. */
static enum step epilogue_call(const struct search *search, const struct path *path,
                               uintptr_t target)
{
    const struct epilogue_code *code = search->code;
    if (target != 0 && (target == code->exit || target == code->pthread_exit))
        return STEP_OUTERMOST;
    return may_begin_function(code, path->pc) ? STEP_DEAD : STEP_ON;
}

/* sub, add, lea, mov and others that write to a register by ModRM. */
static enum step step_operand(struct path *path, const struct x86_instruction *found)
{
    uint8_t opcode = found->opcode;
    bool is_wide = (found->rex & 8) != 0;
    if ((opcode == 0x81 || opcode == 0x83) && found->mod == 3 && found->rm == RSP) {
        if (!is_wide || ((found->reg & 7) != 0 && (found->reg & 7) != 5))
            return found->reg == 7 ? STEP_ON : STEP_DEAD; /* cmp */
        path->offset += (found->reg & 7) == 0 ? found->immediate : -found->immediate;
        return STEP_ON;
    }
    if (opcode == 0x8d && found->reg == RSP) {
        if (!found->rm_is_plain || !is_wide)
            return STEP_DEAD;
        if (found->rm == RBP)
            return leave_to_frame_pointer(path, found->displacement);
        path->offset += found->displacement;
        return found->rm == RSP ? STEP_ON : STEP_DEAD;
    }
    if ((opcode == 0x89 && found->mod == 3 && found->rm == RSP && found->reg == RBP) ||
        (opcode == 0x8b && found->mod == 3 && found->reg == RSP && found->rm == RBP))
        return leave_to_frame_pointer(path, 0);
    if ((opcode == 0x89 && found->mod == 3 && found->rm == RSP) ||
        ((opcode == 0x8b || opcode == 0x03 || opcode == 0x2b) && found->reg == RSP))
        return STEP_DEAD;
    if (opcode == 0x8b && is_wide && found->rm_is_plain)
        load(path, found);
    if (opcode == 0x8f)
        path->offset += 8;
    return STEP_ON;
}

/* inc, dec, call, jmp, push by ModRM. */
static enum step step_group_ff(struct path *path, const struct x86_instruction *found)
{
    switch (found->reg & 7) {
    case 4: /* relative to rip: a stub's jump to another object; else by a table */
        return found->is_rip_relative ? STEP_RETURN : STEP_DEAD;
    case 6:
        return push(path);
    case 2:
        return STEP_ON;
    default:
        return (found->reg & 7) < 2 && found->mod == 3 && found->rm == RSP ? STEP_DEAD
               : (found->reg & 7) < 2                                      ? STEP_ON
                                                                           : STEP_DEAD;
    }
}

static enum step step_one_byte(struct search *search, struct path *path,
                               const struct x86_instruction *found)
{
    uint8_t opcode = found->opcode;
    unsigned number = (opcode & 7u) | (found->rex & 1u) << 3;
    uintptr_t target = path->pc + (uintptr_t)found->immediate;
    if (opcode >= 0x50 && opcode <= 0x57)
        return push(path);
    if (opcode >= 0x58 && opcode <= 0x5f)
        return pop(path, number);
    if ((opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3))
        return branch(search, path, target);
    switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c:
        return push(path);
    case 0x9d:
        path->offset += 8;
        return STEP_ON;
    case 0xc2:
    case 0xc3:
        return STEP_RETURN;
    case 0xc9:
        return leave_to_frame_pointer(path, 0) == STEP_ON ? pop(path, RBP) : STEP_DEAD;
    case 0xe8:
        return epilogue_call(search, path, target);
    case 0xe9:
    case 0xeb:
        return jump(search, path, target);
    case 0xf4: /* hlt */
    case 0xcc:
    case 0xcf:
        return STEP_DEAD;
    case 0xff:
        return step_group_ff(path, found);
    default:
        return found->has_modrm ? step_operand(path, found) : STEP_ON;
    }
}

static enum step epilogue_step(struct search *search, struct path *path)
{
    const struct epilogue_code *code = search->code;
    struct x86_instruction found;
    if (path->pc < code->start || path->pc >= code->end ||
        !x86_instruction_decode(&found, (const uint8_t *)path->pc, code->end - path->pc))
        return STEP_DEAD;
    path->pc += found.length;
    if (found.map == 0 && !found.is_vex)
        return step_one_byte(search, path, &found);
    if (found.map == 1 && !found.is_vex && found.opcode == 0x0b) /* ud2 */
        return STEP_DEAD;
    if (found.map == 1 && !found.is_vex && found.opcode >= 0x80 && found.opcode <= 0x8f)
        return branch(search, path, path->pc + (uintptr_t)found.immediate);
    return STEP_ON;
}

/* Go back to the latest branch. Return false if all were taken. */
static bool take_branch(struct search *search, struct path *path)
{
    while (search->branch_count > 0) {
        unsigned last = --search->branch_count;
        if (was_visited(search, search->branches[last].pc))
            continue;
        *path = (struct path){.pc = search->code->start + search->branches[last].pc,
                              .base = search->branches[last].base_is_rbp ? RBP : RSP,
                              .offset = search->branches[last].offset,
                              .pushed_until = INT32_MIN};
        return true;
    }
    return false;
}

static enum step epilogue_follow(struct search *search, struct path *path)
{
    while (search->instructions++ < INSTRUCTIONS_MAX) {
        enum step result = epilogue_step(search, path);
        if (result == STEP_DEAD && take_branch(search, path))
            result = STEP_ON;
        if (result != STEP_ON)
            return result;
    }
    return STEP_DEAD;
}

static void make_row(const struct epilogue_code *code, const struct path *path, struct cfi_row *row)
{
    struct cfi_columns *columns = &row->columns;
    int64_t cfa = path->offset + 8;
    columns->cfa = cfi_cell_make(CFI_RULE_REGISTER, cfa);
    columns->cfa_register = path->base == RSP ? ARCH_STACK_POINTER : ARCH_FRAME_POINTER;
    columns->cells[ARCH_RETURN_ADDRESS] = cfi_cell_make(CFI_RULE_OFFSET, -8);
    for (unsigned i = 0; i < REGISTERS; i++) {
        if (path->restored >> i & 1)
            columns->cells[dwarf_numbers[i]] =
                cfi_cell_make(CFI_RULE_OFFSET, path->places[saved_index(i)] - cfa);
    }
    row->start = code->start;
    row->end = code->end;
}

/* The kernel's frame of a signal: where struct ucontext, to which the stack pointer leads, keeps
 * the registers, by their DWARF numbers. */
static const uint8_t ucontext_offsets[ARCH_REGISTERS] = {144, 136, 152, 128, 112, 104, 120, 160, 40,
                                                         48,  56,  64,  72,  80,  88,  96,  168};

/* mov $15, %rax; syscall */
static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

static bool is_sigreturn(uintptr_t start, uintptr_t end, uintptr_t pc)
{
    return pc >= start && pc < end && end - pc >= sizeof(sigreturn) &&
           memcmp((const void *)pc, sigreturn, sizeof(sigreturn)) == 0;
}

static void make_signal_row(struct cfi_row *row)
{
    row->columns.cfa = cfi_cell_make(CFI_RULE_REGISTER, 0);
    row->columns.cfa_register = ARCH_STACK_POINTER;
    for (unsigned i = 0; i < ARCH_REGISTERS; i++)
        row->columns.cells[i] = cfi_cell_make(CFI_RULE_OFFSET, ucontext_offsets[i]);
    row->signal_frame = true;
}

enum cfi_result epilogue_find_row(const struct epilogue_code *code, uintptr_t pc,
                                  struct cfi_row *row)
{
    struct search search = {.code = code};
    struct path path = {.pc = pc, .base = RSP, .pushed_until = INT32_MIN};
    memset(row, 0, sizeof(*row));
    row->return_column = ARCH_RETURN_ADDRESS;
    if (is_sigreturn(code->start, code->end, pc)) {
        make_signal_row(row);
        return CFI_FOUND;
    }
    enum step result = epilogue_follow(&search, &path);
    if (result == STEP_DEAD || (result == STEP_RETURN && path.offset < 0 && path.base == RSP))
        return CFI_NONE;
    make_row(code, &path, row);
    if (result == STEP_OUTERMOST)
        row->columns.cells[ARCH_RETURN_ADDRESS] = cfi_cell_make(CFI_RULE_UNDEFINED, 0);
    return CFI_FOUND;
}

/* call rel32 has 5 bytes. An indirect call is FF /2 with 2 to 7 bytes, without the prefix REX. */
bool epilogue_is_return_address(uintptr_t start, uintptr_t end, uintptr_t address)
{
    if (address < start || address >= end)
        return false;
    if (is_sigreturn(start, end, address))
        return true;
    const uint8_t *code = (const uint8_t *)address;
    uintptr_t before = address - start;
    if (before >= 5 && code[-5] == 0xe8)
        return true;
    for (uintptr_t bytes = 2; bytes <= 7 && bytes <= before; bytes++) {
        struct x86_instruction found;
        if (code[-(intptr_t)bytes] == 0xff && x86_instruction_decode(&found, code - bytes, bytes) &&
            found.length == bytes && (found.reg & 7) == 2)
            return true;
    }
    return false;
}
