/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding on aarch64: AAPCS64, register numbers of its DWARF supplement. */

#define ARCH_REGISTERS 32
#define ARCH_FRAME_POINTER 29u
#define ARCH_STACK_POINTER 31u
#define ARCH_RETURN_ADDRESS 30u

/* A function that has not saved its return address has it in the register of that column. */
#define ARCH_HAS_LINK_REGISTER 1

/*
 * The signal trampoline, at the sp of the handler's caller: siginfo, ucontext, whose general
 * context has x0 to x30, sp and pc. Above them is a frame record with the interrupted x29 and x30.
 * The kernel's trampoline has no CFI (from Linux 5.8; before, it leads to the interrupted
 * function's caller), and it stays these two instructions: mov x8, #139 (rt_sigreturn); svc #0.
 */
#define ARCH_SIGNAL_REGISTERS 312u
#define ARCH_SIGNAL_FRAME_BYTES 4096u /* at least, from sp to the frame record */
#define ARCH_SIGNAL_RETURN UINT64_C(0xd4000001d2801168)

/* Distance from an address inside a call to its return address. */
#define ARCH_CALL_BYTES 4u

/* Return the function that the instruction at a frame's address calls directly; 0: it does not. */
static inline uintptr_t arch_called(uint64_t frame)
{
    uint32_t instruction = *(const uint32_t *)frame;
    int32_t distance = (int32_t)(instruction << 6) >> 4;
    return instruction >> 26 == 0x25 ? frame + (uintptr_t)(intptr_t)distance : 0;
}

/* Number of bits of a user address. */
#define ARCH_ADDRESS_BITS 48

/* Granularity of return addresses, as a shift. */
#define ARCH_CODE_SHIFT 2

static inline uintptr_t arch_thread_pointer(void)
{
    uintptr_t thread;
    __asm__("mrs %0, tpidr_el0" : "=r"(thread));
    return thread;
}

/* Return the C library's list of the thread's blocks of thread-local variables (glibc's "dtv"). */
static inline uintptr_t arch_thread_blocks(void)
{
    return *(const volatile uintptr_t *)arch_thread_pointer();
}

/* Return whether the function begins by reading a thread-local variable of the program itself, for
 * which nothing is called. */
static inline bool arch_reads_thread_local(uintptr_t function)
{
    const uint32_t *code = (const uint32_t *)function;
    if (code[0] == 0xd503245fu) /* bti c */
        code++;
    return (code[0] & ~UINT32_C(0x1f)) == 0xd53bd040u; /* mrs, tpidr_el0 */
}

/* Return 0: variables are read through descriptors, whose words are the loader's own. */
static inline uintptr_t arch_thread_local_of(uintptr_t function, uint64_t bytes)
{
    (void)function;
    (void)bytes;
    return 0;
}

/* Strip the authentication bits from a return address: xpaclri, which is a nop on
 * older processors. */
static inline uint64_t arch_strip(uint64_t address)
{
    register uint64_t x30 __asm__("x30") = address;
    __asm__("hint 7" : "+r"(x30));
    return x30;
}

/* Put the registers with which a walk begins into DWARF order. Return which are known.
 * x30 holds the pc: the hook has just returned to its caller. */
static inline uint64_t arch_registers_spread(const struct unwind_registers *from,
                                             uint64_t to[ARCH_REGISTERS])
{
    for (unsigned i = 0; i < 10; i++)
        to[19 + i] = from->x19_x28[i];
    to[29] = from->fp;
    to[30] = from->pc;
    to[31] = from->sp;
    return UINT64_C(0x1fff) << 19;
}

static inline uint64_t arch_frame_pointer(const struct unwind_registers *from)
{
    return from->fp;
}

/* Size of a frame record: the caller's frame pointer at 0, the return address at 8,
 * then the caller's stack. */
#define ARCH_FRAME_RECORD_BYTES 16u
