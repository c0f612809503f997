/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about x86-64 for processor.h. */
#include <elf.h>
#include <string.h>

/* Relocation that adds the image's address. */
#define PROCESSOR_RELATIVE R_X86_64_RELATIVE

/* Largest page size of a kernel. */
#define PROCESSOR_PAGE_BYTES 4096u

/* Distance that a patched entry can jump. */
#define PROCESSOR_JUMP_REACH (UINT64_C(1) << 31)
#define PROCESSOR_HAS_FAR_JUMP false

/* Instructions begin at multiples of this. */
#define PROCESSOR_CODE_ALIGNMENT 1u

#define PROCESSOR_VDSO_CLOCK "__vdso_clock_gettime"

/* Bytes below the stack pointer that code may use. */
#define PROCESSOR_RED_ZONE_BYTES 128u

#define PROCESSOR_FRAME_WORDS 3u

/* Write a jump to any address, of at most TRAMPOLINE_FAR_BYTES: jmp *0(%rip), and the address. */
static inline void processor_far_jump(uint8_t *code, uint64_t to)
{
    static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(code, jump, sizeof(jump));
    memcpy(code + sizeof(jump), &to, sizeof(to));
}

static inline uint64_t registers_pc(const struct user_regs_struct *registers)
{
    return registers->rip;
}

static inline uint64_t registers_sp(const struct user_regs_struct *registers)
{
    return registers->rsp;
}

static inline void registers_set_pc(struct user_regs_struct *registers, uint64_t pc)
{
    registers->rip = pc;
}

/* Return the result of a system call. */
static inline long registers_result(const struct user_regs_struct *registers)
{
    return (long)registers->rax;
}
