/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time, without libc: the vdso's clock_gettime if there is one (a few ns, no
 * system call), else the system call.
 */
#ifndef HEAPPROFD_CLIENT_CLOCK_H
#define HEAPPROFD_CLIENT_CLOCK_H

#include <stdint.h>

/* Find the vdso's function. Call it once, before there are threads. */
void clock_init(void);

/* CLOCK_MONOTONIC_COARSE, which ticks every 1 to 4 ms: for timestamps. */
uint64_t clock_now_ms(void);

/* CLOCK_MONOTONIC: for waits, and for the begin and end of scopes. */
uint64_t clock_now_us(void);
uint64_t clock_now_ns(void); /* 0: it cannot be read */

#endif
