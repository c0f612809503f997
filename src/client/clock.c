/* SPDX-License-Identifier: Apache-2.0 */
/* Read clocks through the vdso, or else by a system call. */
#include "client/clock.h"

#include <stddef.h>
#include <time.h>

#include "client/elf_lookup.h"
#include "client/system.h"

#if defined(__x86_64__)
#define VDSO_CLOCK_GETTIME "__vdso_clock_gettime"
#else
#define VDSO_CLOCK_GETTIME "__kernel_clock_gettime"
#endif

static int (*vdso_clock_gettime)(clockid_t, struct timespec *);

void clock_init(void)
{
    vdso_clock_gettime = elf_lookup_vdso(VDSO_CLOCK_GETTIME);
}

static struct timespec clock_read(clockid_t clock)
{
    struct timespec now = {0};
    if (vdso_clock_gettime != NULL && vdso_clock_gettime(clock, &now) == 0)
        return now;
    if (clock == CLOCK_MONOTONIC)
        system_call(CALL_CLOCK, &now);
    else
        system_call(CALL_COARSE_CLOCK, &now);
    return now;
}

uint64_t clock_now_ms(void)
{
    struct timespec now = clock_read(CLOCK_MONOTONIC_COARSE);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t clock_now_us(void)
{
    return clock_now_ns() / 1000;
}

uint64_t clock_now_ns(void)
{
    struct timespec now = clock_read(CLOCK_MONOTONIC);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
