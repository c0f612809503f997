/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of CPython's support: python_find.c recognizes an interpreter, python_stack.c reads a
 * thread's frames, python_code.c sends a function.
 */
#ifndef HEAPPROFD_CLIENT_INTERP_PYTHON_H
#define HEAPPROFD_CLIENT_INTERP_PYTHON_H

#include "client/arch/unwind.h"
#include "client/interp/interpreter.h"
#include "client/interp/python_layout.h"

/* Members of struct interpreter.places. */
enum python_place {
    PYTHON_RUNTIME,      /* _PyRuntime */
    PYTHON_CODE_TYPE,    /* PyCode_Type */
    PYTHON_GET_SPECIFIC, /* the word through which it calls pthread_getspecific() */
    PYTHON_CURRENT,      /* PyThreadState_GetUnchecked() */
    PYTHON_OWN_STATE,    /* PyGILState_GetThisThreadState() */
};

_Static_assert(sizeof(struct python_layout) <= sizeof(((struct interpreter *)NULL)->layout),
               "a layout fits its place");

static inline const struct python_layout *python_layout_in(const struct interpreter *interpreter)
{
    return (const struct python_layout *)interpreter->layout;
}

/* Reads the interpreter's memory. */
struct python_memory {
    const struct python_layout *layout;
    uintptr_t code_type;
    bool direct; /* no copies: the memory cannot vanish */
};

/* interpreter_view(), inlined for memory that is read directly. */
static inline const uint8_t *python_view(const struct python_memory *memory, uintptr_t from,
                                         void *room, size_t bytes)
{
    if (likely(memory->direct))
        return likely(from >= 4096 && from >> ARCH_ADDRESS_BITS == 0) ? (const uint8_t *)from
                                                                      : NULL;
    return interpreter_view(false, from, room, bytes);
}

static inline uint64_t python_word(const uint8_t *view, size_t offset)
{
    uint64_t word;
    __builtin_memcpy(&word, view + offset, sizeof(word));
    return word;
}

static inline uint32_t python_half(const uint8_t *view, size_t offset)
{
    uint32_t half;
    __builtin_memcpy(&half, view + offset, sizeof(half));
    return half;
}

bool python_find(const struct module *module, struct interpreter *found);
enum interpreter_result python_read(struct interpreter *interpreter,
                                    struct interpreter_stack *stack);
bool python_send(struct ring_thread *thread, const struct interpreter *interpreter,
                 const struct interpreter_stack *stack, const struct interpreter_item *item);

#endif
