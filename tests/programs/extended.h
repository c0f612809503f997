/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs that call each extended function of an allocator in the profiler's table
 * (src/wire/allocator_functions.h). They abort if a row of the table has no call here. The input
 * "calls" makes all calls. It is answered with the figures that a profile at interval 1 must have,
 *
 *   truth: FUNCTION BYTES CALLS LIVE_BYTES
 *
 * and "ok". FUNCTION is the caller. BASE is what allocates and releases for them.
 */
#ifndef TESTS_PROGRAMS_EXTENDED_H
#define TESTS_PROGRAMS_EXTENDED_H

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"
#include "wire/allocator_functions.h"

#ifndef BASE_MALLOC
#define BASE_MALLOC malloc
#define BASE_FREE free
#endif

enum { BASE_BYTES = 100, NAMES_MAX = 256 };

static const char *table_names[NAMES_MAX];
static bool is_called[NAMES_MAX];
static unsigned table_size;
static unsigned long base_calls, base_live;

#define TABLE_NAME(name, ...) table_names[table_size++] = #name;

static inline void note_call(const char *name)
{
    for (unsigned i = 0; i < table_size; i++)
        is_called[i] |= strcmp(table_names[i], name) == 0;
}

static CALLSITE void *base_block(void)
{
    base_calls++;
    base_live++;
    return kept(BASE_MALLOC(BASE_BYTES));
}

/* The block of base_block() is gone, or another function's. */
static inline void base_is_gone(void)
{
    base_live--;
}

static inline void print_truth(const char *function, unsigned long bytes, unsigned long calls,
                               unsigned long live_bytes)
{
    printf("truth: %s %lu %lu %lu\n", function, bytes, calls, live_bytes);
}

/*
 * A call of the function `name`, in a function of its own. The expression returns a block, which
 * has that size. If it needs a block to resize, that is `block`. Twice: one block stays, the other
 * is released by the standard's function.
 */
#define DEFINE_ALLOCATION(name, needs_block, size, expression)                                     \
    static CALLSITE void *call_##name(void *block)                                                 \
    {                                                                                              \
        (void)block;                                                                               \
        return kept(expression);                                                                   \
    }
#define MAKE_ALLOCATION(name, needs_block, size, expression)                                       \
    for (int i = 0; i < 2; i++) {                                                                  \
        void *result = call_##name(needs_block ? base_block() : NULL);                             \
        require(result != NULL);                                                                   \
        memset(result, 1, (size));                                                                 \
        if (needs_block)                                                                           \
            base_is_gone();                                                                        \
        if (i == 1)                                                                                \
            BASE_FREE(result);                                                                     \
    }                                                                                              \
    note_call(#name);                                                                              \
    print_truth("call_" #name, 2ul * (size), 2, (size));

/* The block that a form of posix_memalign returns. */
#define STORED(function, alignment, size)                                                          \
    ({                                                                                             \
        void *stored = NULL;                                                                       \
        require(function(&stored, alignment, size) == 0);                                          \
        stored;                                                                                    \
    })

/* The same function releases a block. */
#define MAKE_RELEASE(name, expression)                                                             \
    {                                                                                              \
        void *block = base_block();                                                                \
        expression;                                                                                \
        base_is_gone();                                                                            \
        note_call(#name);                                                                          \
    }

/* A resize that fails: the block is as live as before. */
#define MAKE_FAILURE(name, expression)                                                             \
    {                                                                                              \
        void *block = base_block();                                                                \
        require(expression);                                                                       \
        BASE_FREE(kept(block));                                                                    \
        base_is_gone();                                                                            \
        block = base_block();                                                                      \
        require(expression);                                                                       \
    }

static inline void check_that_all_are_called(void)
{
    for (unsigned i = 0; i < table_size; i++) {
        if (!is_called[i])
            fprintf(stderr, "%s is not called\n", table_names[i]);
        require(is_called[i]);
    }
    print_truth("base_block", base_calls * BASE_BYTES, base_calls, base_live * BASE_BYTES);
}

/* Read a line, of which the first letter is kept. Return false at the end of the input. Without
 * stdio, which would allocate. */
static inline bool next_line(char *first)
{
    char byte = 0;
    for (int i = 0; byte != '\n'; i++) {
        if (read(STDIN_FILENO, &byte, 1) != 1)
            return false;
        if (i == 0)
            *first = byte;
    }
    return true;
}

static inline void buffer_output(void)
{
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

/* Answer each line. "calls" makes them. */
static inline int answer_lines(void (*make_calls)(void))
{
    char first;
    buffer_output();
    BASE_FREE(kept(BASE_MALLOC(1)));
    while (next_line(&first)) {
        if (first == 'c')
            make_calls();
        printf("ok\n");
        fflush(stdout);
    }
    return 0;
}

#endif
