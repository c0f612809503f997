/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of aarch64: the return address is saved anywhere in the frame, usually
 * beside the caller's frame pointer.
 *
 *   11..0   CFA offset / 16, up to 64 KiB
 *   21..12  slot of the return address: CFA - 8 * this
 *   22      the frame pointer is unchanged; else its slot is 8 below the return address
 *   23      the CFA is relative to the frame pointer, not the stack pointer
 */
#define RULE_OFFSET_BITS 12u
#define RULE_SLOT_SHIFT 12u
#define RULE_SLOT_MASK 1023u
#define RULE_FP_KEPT (1u << 22)
#define RULE_FROM_FP (1u << 23)

static inline bool arch_rule_make(const struct cfi_columns *columns, uint32_t *rule)
{
    int64_t offset = cfi_cell_value(columns->cfa);
    if (cfi_cell_rule(columns->cfa) != CFI_RULE_REGISTER || offset < 16 || offset % 16 != 0 ||
        offset / 16 >= 1 << RULE_OFFSET_BITS)
        return false;
    if (columns->cfa_register != ARCH_STACK_POINTER && columns->cfa_register != ARCH_FRAME_POINTER)
        return false;
    cfi_cell saved = columns->cells[ARCH_RETURN_ADDRESS];
    cfi_cell fp = columns->cells[ARCH_FRAME_POINTER];
    int64_t slot = -cfi_cell_value(saved);
    if (cfi_cell_rule(saved) != CFI_RULE_OFFSET || slot < 8 || slot % 8 != 0 ||
        slot / 8 > RULE_SLOT_MASK || columns->cells[ARCH_STACK_POINTER] != 0)
        return false;
    uint32_t made = (uint32_t)(offset / 16) | (uint32_t)(slot / 8) << RULE_SLOT_SHIFT;
    if (columns->cfa_register == ARCH_FRAME_POINTER)
        made |= RULE_FROM_FP;
    if (fp == 0)
        made |= RULE_FP_KEPT;
    else if (fp != cfi_cell_make(CFI_RULE_OFFSET, -slot - 8))
        return false;
    *rule = made;
    return true;
}

static inline __attribute__((always_inline)) bool
arch_rule_apply(uint32_t rule, struct rule_frame *frame, uintptr_t high, struct unwind_stack *stack,
                struct rule_slots *slots)
{
    uintptr_t from = rule & RULE_FROM_FP ? frame->fp : frame->sp;
    uintptr_t cfa = from + (rule & ((1u << RULE_OFFSET_BITS) - 1)) * 16;
    uintptr_t slot = cfa - (rule >> RULE_SLOT_SHIFT & RULE_SLOT_MASK) * 8;
    bool kept = rule & RULE_FP_KEPT;
    uintptr_t lowest = kept ? slot : slot - 8;
    if (unlikely(cfa <= frame->sp || cfa > high || lowest < frame->sp || slot > cfa - 8))
        return false;
    uint64_t fp = frame->fp, address;
    if (stack == NULL) {
        address = unwind_stack_load(slot);
        if (!kept)
            fp = unwind_stack_load(slot - 8);
    } else if (!unwind_stack_read(stack, slot, &address) ||
               (!kept && !unwind_stack_read(stack, slot - 8, &fp))) {
        return false;
    }
    slots->return_address = slot;
    slots->fp = kept ? 0 : slot - 8;
    frame->fp = fp;
    frame->address = arch_strip(address);
    frame->sp = cfa;
    return true;
}
