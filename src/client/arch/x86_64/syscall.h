/* SPDX-License-Identifier: Apache-2.0 */
/* The system call instruction of x86-64: arguments in rdi, rsi, rdx, r10, r8,
 * r9, number and result in rax; rcx and r11 are lost. */
static inline long arch_system_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
