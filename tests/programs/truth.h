/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test programs share: they tell on standard output what a profile at
 * interval 1 must say, in lines
 *
 *   truth: FUNCTION BYTES CALLS
 *
 * which count all requests that FUNCTION itself made (through operator new, too);
 * BYTES is "-" where a library in between may round them. Their output is the
 * same in every run, so that it can be compared with and without the profiler.
 */
#ifndef TESTS_PROGRAMS_TRUTH_H
#define TESTS_PROGRAMS_TRUTH_H

#include <stdio.h>
#include <stdlib.h>

/* A function that is a callsite of its own whatever the optimizer thinks. */
#ifdef __clang__
#define CALLSITE __attribute__((noinline))
#else
#define CALLSITE __attribute__((noipa))
#endif

/* Keeps the optimizer from seeing that a block is not used. */
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

/* For what must hold for the program to mean anything. */
#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
