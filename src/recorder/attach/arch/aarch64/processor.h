/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about aarch64 for processor.h. */
#include <elf.h>
#include <string.h>

/* Relocation that adds the image's address. */
#define PROCESSOR_RELATIVE R_AARCH64_RELATIVE

/* Largest page size of a kernel. */
#define PROCESSOR_PAGE_BYTES 65536u

/* Distance that a patched entry can jump by its short form, one instruction. */
#define PROCESSOR_JUMP_REACH (UINT64_C(1) << 27)
/* A longer form of it jumps to any address. */
#define PROCESSOR_HAS_FAR_JUMP true

/* Instructions begin at multiples of this. */
#define PROCESSOR_CODE_ALIGNMENT 4u

#define PROCESSOR_VDSO_CLOCK "__kernel_clock_gettime"

/* Bytes below the stack pointer that code may use. */
#define PROCESSOR_RED_ZONE_BYTES 0u

#define PROCESSOR_FRAME_WORDS 4u

/* Write a jump to any address, of at most TRAMPOLINE_FAR_BYTES: ldr x16, .+8; br x16; the address.
 */
static inline void processor_far_jump(uint8_t *code, uint64_t to)
{
    static const uint32_t jump[] = {0x58000050, 0xd61f0200};
    memcpy(code, jump, sizeof(jump));
    memcpy(code + sizeof(jump), &to, sizeof(to));
}

static inline uint64_t registers_pc(const struct user_regs_struct *registers)
{
    return registers->pc;
}

static inline uint64_t registers_sp(const struct user_regs_struct *registers)
{
    return registers->sp;
}

/* The kind of branch that led to the old place (BTI) does not matter at the new one. */
static inline void registers_set_pc(struct user_regs_struct *registers, uint64_t pc)
{
    const uint64_t branch_type = 0xc00;
    registers->pc = pc;
    registers->pstate &= ~branch_type;
}

/* Return the result of a system call. */
static inline long registers_result(const struct user_regs_struct *registers)
{
    return (long)registers->regs[0];
}
