/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of x86-64. The slot of the return address is CFA - 8.
 *
 *   15..0   CFA offset / 8, up to 512 KiB; 16 bits are widened in one instruction
 *   21..17  slot of the caller's rbp: CFA - 8 * this
 *   22      rbp is unchanged: it has no slot
 *   23      the CFA is relative to rbp, not rsp
 */
#define RULE_OFFSET_BITS 16u
#define RULE_SLOT_SHIFT 17u
#define RULE_SLOT_MASK 31u
#define RULE_FP_KEPT (1u << 22)
#define RULE_FROM_FP (1u << 23)

static inline bool arch_rule_make(const struct cfi_columns *columns, uint32_t *rule)
{
    int64_t offset = cfi_cell_value(columns->cfa);
    if (cfi_cell_rule(columns->cfa) != CFI_RULE_REGISTER || offset < 8 || offset % 8 != 0 ||
        offset / 8 >= 1 << RULE_OFFSET_BITS)
        return false;
    if (columns->cfa_register != ARCH_STACK_POINTER && columns->cfa_register != ARCH_FRAME_POINTER)
        return false;
    if (columns->cells[ARCH_RETURN_ADDRESS] != cfi_cell_make(CFI_RULE_OFFSET, -8) ||
        columns->cells[ARCH_STACK_POINTER] != 0)
        return false;
    uint32_t made = (uint32_t)(offset / 8);
    if (columns->cfa_register == ARCH_FRAME_POINTER)
        made |= RULE_FROM_FP;

    cfi_cell fp = columns->cells[ARCH_FRAME_POINTER];
    int64_t slot = -cfi_cell_value(fp);
    if (fp == 0) {
        made |= RULE_FP_KEPT | 1u << RULE_SLOT_SHIFT;
    } else if (cfi_cell_rule(fp) == CFI_RULE_OFFSET && slot > 8 && slot % 8 == 0 &&
               slot / 8 <= RULE_SLOT_MASK &&
               (columns->cfa_register == ARCH_FRAME_POINTER || slot <= offset)) {
        made |= (uint32_t)(slot / 8) << RULE_SLOT_SHIFT;
    } else {
        return false;
    }
    *rule = made;
    return true;
}

static inline __attribute__((always_inline)) bool
arch_rule_apply(uint32_t rule, struct rule_frame *frame, uintptr_t high, struct unwind_stack *stack,
                struct rule_slots *slots)
{
    uintptr_t cfa = frame->sp + (uintptr_t)(uint16_t)rule * 8;
    uintptr_t slot = (rule >> RULE_SLOT_SHIFT & RULE_SLOT_MASK) * 8;
    if (rule & RULE_FROM_FP) {
        cfa += frame->fp - frame->sp;
        if (unlikely(cfa - slot < frame->sp))
            return false;
    }
    if (unlikely(cfa <= frame->sp || cfa > high))
        return false;
    uint64_t fp, address;
    if (stack == NULL) {
        fp = unwind_stack_load(cfa - slot);
        address = unwind_stack_load(cfa - 8);
    } else if (!unwind_stack_read(stack, cfa - slot, &fp) ||
               !unwind_stack_read(stack, cfa - 8, &address)) {
        return false;
    }
    slots->return_address = cfa - 8;
    slots->fp = rule & RULE_FP_KEPT ? 0 : cfa - slot;
    frame->fp = rule & RULE_FP_KEPT ? frame->fp : fp;
    frame->address = address;
    frame->sp = cfa;
    return true;
}
