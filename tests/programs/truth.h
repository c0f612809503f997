/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the test programs: they print the figures that a profile at interval 1
 * must have, in lines
 *
 *   truth: FUNCTION BYTES CALLS
 *
 * which count all requests of FUNCTION itself (also through operator new); BYTES is
 * "-" if a library in between may round them. The output is the same in every run, so
 * that it can be compared with and without the profiler.
 */
#ifndef TESTS_PROGRAMS_TRUTH_H
#define TESTS_PROGRAMS_TRUTH_H

#include <stdio.h>
#include <stdlib.h>

/* A function that stays a callsite, whatever the optimizer does. */
#ifdef __clang__
#define CALLSITE __attribute__((noinline))
#else
#define CALLSITE __attribute__((noipa))
#endif

/* Hide from the optimizer that a block is unused. */
static inline void *kept(void *block)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static inline void truth(const char *function, unsigned long long bytes, unsigned long long calls)
{
    printf("truth: %s %llu %llu\n", function, bytes, calls);
}

static inline void truth_of_calls(const char *function, unsigned long long calls)
{
    printf("truth: %s - %llu\n", function, calls);
}

/* Abort if a condition of the test does not hold. */
#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
