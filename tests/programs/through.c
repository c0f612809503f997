/*
 * A library that others call through: it calls back. Built without .eh_frame, so that what there is
 * to unwind it by stands elsewhere, or nowhere; its frame pointer leads nowhere in any case.
 * THROUGH: the name of its function.
 */
#include <stddef.h>
#include <stdint.h>

void *THROUGH(void *(*call)(size_t size), size_t size);

/* What the frame pointer's register holds while others are called: no address. */
#define SPOILED 0x11u

/* Frames of a size that nobody would guess, all registers in use. */
static __attribute__((noinline)) void *inner(void *(*call)(size_t size), size_t size, int depth)
{
    volatile char room[200 + 40];
    room[0] = (char)depth;
    void *result;
    if (depth > 0)
        result = inner(call, size, depth - 1);
    else
        result = call(size);
    room[1] = room[0];
    return result;
}

void *THROUGH(void *(*call)(size_t size), size_t size)
{
    void *result;
#if defined(__x86_64__)
    register uintptr_t spoiled __asm__("rbp") = SPOILED;
#elif defined(__aarch64__)
    register uintptr_t spoiled __asm__("x29") = SPOILED;
#endif
    __asm__ volatile("" : "+r"(spoiled));
    result = inner(call, size, 2);
    __asm__ volatile("" : : "r"(spoiled));
    return result;
}
