/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding on x86-64: System V ABI, register numbers of its DWARF section. */

#define ARCH_REGISTERS 17
#define ARCH_FRAME_POINTER 6u
#define ARCH_STACK_POINTER 7u
#define ARCH_RETURN_ADDRESS 16u

/* Each call saves its return address. */
#define ARCH_HAS_LINK_REGISTER 0

/* Distance from an address inside a call to its return address. */
#define ARCH_CALL_BYTES 1u

/* Return the function that the instruction at a frame's address calls directly; 0: it does not. */
static inline uintptr_t arch_called(uint64_t frame)
{
    const uint8_t *end = (const uint8_t *)(frame + ARCH_CALL_BYTES);
    int32_t distance;
    __builtin_memcpy(&distance, end - sizeof(distance), sizeof(distance));
    return end[-5] == 0xe8 ? (uintptr_t)end + (uintptr_t)(intptr_t)distance : 0;
}

/* Number of bits of a user address. */
#define ARCH_ADDRESS_BITS 47

/* Granularity of return addresses, as a shift. */
#define ARCH_CODE_SHIFT 0

static inline uintptr_t arch_thread_pointer(void)
{
    uintptr_t thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    return thread;
}

/* Return the C library's list of the thread's blocks of thread-local variables (glibc's "dtv"). */
static inline uintptr_t arch_thread_blocks(void)
{
    uintptr_t blocks;
    __asm__ volatile("mov %%fs:8, %0" : "=r"(blocks));
    return blocks;
}

/* Return whether the function begins by reading a thread-local variable of the program itself, for
 * which nothing is called. The stack protector's canary does not count. */
static inline bool arch_reads_thread_local(uintptr_t function)
{
    const uint8_t *code = (const uint8_t *)function;
    if (__builtin_memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
        code += 4;
    return __builtin_memcmp(code, "\x64\x48\x8b\x04\x25", 5) == 0 &&
           __builtin_memcmp(code + 5, "\x28\0\0\0", 4) != 0;
}

/* Return where the two words of a thread-local variable are, its module and its offset, from the
 * function that begins by reading it: the psABI fixes the bytes of a call of __tls_get_addr(). 0:
 * the function does not. */
static inline uintptr_t arch_thread_local_of(uintptr_t function, uint64_t bytes)
{
    const uint8_t *code = (const uint8_t *)function;
    for (unsigned i = 0; i < 20 && i + 12 <= bytes; i++) {
        int32_t distance;
        if (__builtin_memcmp(code + i, "\x66\x48\x8d\x3d", 4) != 0 ||
            __builtin_memcmp(code + i + 8, "\x66\x66\x48\xe8", 4) != 0)
            continue;
        __builtin_memcpy(&distance, code + i + 4, sizeof(distance));
        return function + i + 8 + (uintptr_t)(intptr_t)distance;
    }
    return 0;
}

/* Return addresses have no authentication bits. */
static inline uint64_t arch_strip(uint64_t address)
{
    return address;
}

/* Put the registers with which a walk begins into DWARF order. Return which are known. */
static inline uint64_t arch_registers_spread(const struct unwind_registers *from,
                                             uint64_t to[ARCH_REGISTERS])
{
    to[3] = from->rbx;
    to[6] = from->rbp;
    to[7] = from->sp;
    to[12] = from->r12;
    to[13] = from->r13;
    to[14] = from->r14;
    to[15] = from->r15;
    to[16] = from->pc;
    return 1u << 3 | 1u << 6 | 1u << 7 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15 | 1u << 16;
}

static inline uint64_t arch_frame_pointer(const struct unwind_registers *from)
{
    return from->rbp;
}

/* Size of a frame record: the caller's frame pointer at 0, the return address at 8,
 * then the caller's stack. */
#define ARCH_FRAME_RECORD_BYTES 16u
