/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes code of 32 bits in a process of 64 bits, as emulators do. Prints "running", and after
 * SIGTERM "ok". Exits with 77 if that is impossible here.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "truth.h"

#ifdef __x86_64__

enum { PLACE = 0x10000000, BYTES = 16384, FLAG = 8192, CODE_32 = 0x23, DATA = 0x2b };

static void end(int signal)
{
    (void)signal;
    *(volatile uint32_t *)(uintptr_t)(PLACE + FLAG) = 1;
}

/* Return whether the kernel has the segment for code of 32 bits. */
static int has_segment(void)
{
    unsigned rights, code_32 = CODE_32;
    unsigned char is_there;
    __asm__("lar %2, %0; setz %1" : "=r"(rights), "=qm"(is_there) : "r"(code_32) : "cc");
    return is_there;
}

int main(void)
{
    /* again: cmpl $0, FLAG; je again; ljmp $0x33, $back */
    static const uint8_t code[] = {0x83, 0x3d, 0x00, 0x20, 0x00, 0x10, 0x00, 0x74,
                                   0xf7, 0xea, 0x40, 0x00, 0x00, 0x10, 0x33, 0x00};
    static const uint8_t back[] = {0xc3}; /* ret, of 64 bits */
    uint8_t *place = mmap((void *)PLACE, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (!has_segment() || place != (void *)PLACE) {
        puts("no segment for code of 32 bits");
        return 77;
    }
    memcpy(place, code, sizeof(code));
    memcpy(place + 0x40, back, sizeof(back));
    require(signal(SIGTERM, end) != SIG_ERR);
    free(kept(malloc(10)));
    puts("running");
    fflush(stdout);
    /* On a stack that 32 bits reach: where to go on, then the far return into the code. */
    __asm__ volatile("mov %%rsp, %%r12\n\t"
                     "mov %[data], %%ds\n\t"
                     "mov %[stack], %%rsp\n\t"
                     "lea 1f(%%rip), %%rax\n\t"
                     "push %%rax\n\t"
                     "push %[segment]\n\t"
                     "push %[code]\n\t"
                     "lretq\n"
                     "1:\n\t"
                     "mov %%r12, %%rsp"
                     :
                     : [data] "r"(DATA), [stack] "r"((uint64_t)PLACE + BYTES),
                       [segment] "i"(CODE_32), [code] "r"((uint64_t)PLACE)
                     : "rax", "r12", "memory", "cc");
    puts("ok");
    return 0;
}

#else

int main(void)
{
    puts("only x86-64 has code of 32 bits in processes of 64 bits");
    return 77;
}

#endif
