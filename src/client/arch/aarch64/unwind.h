/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding on aarch64: AAPCS64, register numbers of its DWARF supplement. */

#define ARCH_REGISTERS 32
#define ARCH_FRAME_POINTER 29u
#define ARCH_STACK_POINTER 31u
#define ARCH_RETURN_ADDRESS 30u

/* A call's return address lies this far behind an address inside the call. */
#define ARCH_CALL_BYTES 4u

/* User addresses have this many bits. */
#define ARCH_ADDRESS_BITS 48

/* Granularity of return addresses, as a shift. */
#define ARCH_CODE_SHIFT 2

static inline uintptr_t arch_thread_pointer(void)
{
    uintptr_t thread;
    __asm__("mrs %0, tpidr_el0" : "=r"(thread));
    return thread;
}

/* A return address as it lies on the stack, without authentication bits: xpaclri,
 * which older processors take for a nop. */
static inline uint64_t arch_strip(uint64_t address)
{
    register uint64_t x30 __asm__("x30") = address;
    __asm__("hint 7" : "+r"(x30));
    return x30;
}

/* Puts the registers that a walk begins with into DWARF order; which are known.
 * x30 holds the pc: the hook's caller has just been returned to. */
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

/* How a frame record that the frame pointer leads to is laid out: the caller's
 * frame pointer at 0, the return address at 8, the caller's stack from here on. */
#define ARCH_FRAME_RECORD_BYTES 16u
