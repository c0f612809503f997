/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library through which the program calls. Built without .eh_frame: its unwind information is
 * elsewhere or missing, and the frame pointer is invalid. THROUGH: the name of its function.
 */
#include <stddef.h>
#include <stdint.h>

#include "truth.h"

#if defined(__x86_64__)
#define FRAME_POINTER "rbp"
#elif defined(__aarch64__)
#define FRAME_POINTER "x29"
#endif

void *THROUGH(void *(*call)(size_t size), size_t size);

/* A frame of an unusual size. */
static CALLSITE void *step_inwards(void *(*call)(size_t size), size_t size, int depth)
{
    volatile char room[200];
    room[depth] = 1;
    void *result = kept(depth > 0 ? step_inwards(call, size, depth - 1) : call(size));
    room[0] = room[depth];
    return result;
}

void *THROUGH(void *(*call)(size_t size), size_t size)
{
    register uintptr_t spoiled __asm__(FRAME_POINTER) = 0x11;
    __asm__ volatile("" : "+r"(spoiled));
    void *result = step_inwards(call, size, 2);
    __asm__ volatile("" : : "r"(spoiled));
    return result;
}
