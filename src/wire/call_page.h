/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page that the attacher maps into a process with CPython, and that stays there. The
 * interpreter's tables of functions name the page's four calls, and each call jumps to its target:
 * the attached client's function, or pymalloc's own after the session.
 *
 * A thread that was stopped may have read a function's address from a table and not called it yet,
 * and the program may have copied a table to any place. So the addresses that the tables had stay
 * valid until the process ends. The next session that attaches uses the same page again.
 */
#ifndef HEAPPROFD_WIRE_CALL_PAGE_H
#define HEAPPROFD_WIRE_CALL_PAGE_H

#include <stdint.h>

#include "wire/pymalloc_words.h"

#define CALL_PAGE_MAGIC UINT64_C(0x73636c6c65617064)
#define CALL_PAGE_CODE_BYTES 16u

/* Name of the mapping in /proc/PID/maps. */
#define CALL_PAGE_MEMFD_NAME "heapprofd_calls"

/* Read-only in the process; the attacher writes it while all threads are stopped. */
struct call_page {
    uint8_t code[PYMALLOC_WORDS][CALL_PAGE_CODE_BYTES];
    uint64_t targets[PYMALLOC_WORDS];
    uint64_t functions[PYMALLOC_WORDS]; /* pymalloc's */
    uint64_t magic;
};

/* Fill in the addresses of the page's calls. */
static inline void call_page_calls(uint64_t page, uint64_t calls[PYMALLOC_WORDS])
{
    for (unsigned i = 0; i < PYMALLOC_WORDS; i++)
        calls[i] = page + i * CALL_PAGE_CODE_BYTES;
}

#endif
