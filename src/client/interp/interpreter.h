/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of interpreted languages. An interpreter's loop is one native function, whatever it
 * executes. So a native stack shows that a language runs, but not its functions. The language's own
 * frames are in memory of the interpreter, and belong to the thread that walks its stack now.
 *
 * A language is a pair of functions. `find` recognizes the interpreter in a module. `read` reads
 * the frames of the calling thread, innermost first, as groups: the frames that one activation of
 * the loop executes. Each group names an address inside the loop's native stack frame, if the
 * interpreter has such a place, so interpreters_merge() can put it exactly there. Otherwise the
 * groups and the loop's native frames must be equal in number.
 *
 * Nothing of an interpreter is touched unless the walk has a frame in its module, so the module
 * cannot be unloaded meanwhile. If anything is in doubt, the native frames stand.
 */
#ifndef HEAPPROFD_CLIENT_INTERP_INTERPRETER_H
#define HEAPPROFD_CLIENT_INTERP_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/elf_tables.h"
#include "client/modules/module.h"
#include "client/unwind/unwind.h"
#include "wire/barrier.h"
#include "wire/record.h"

/* Deeper stacks keep their innermost frames. */
#define INTERPRETER_ITEMS_MAX 1024u
#define INTERPRETER_MERGED_MAX (UNWIND_FRAMES_MAX + INTERPRETER_ITEMS_MAX)

/* Stacks that are read at the same time, and the notes of each: memory of the language, kept from
 * one stack to the next. Other threads may use it in between. */
#define INTERPRETER_STACKS 64u
#define INTERPRETER_NOTES_BYTES 28672u

/* A frame of the language, or the end of a group. */
struct interpreter_item {
    uint64_t frame; /* record_code_frame(); 0: the end of a group */
    union {
        uintptr_t code;   /* of a frame: the object that describes its function */
        uintptr_t anchor; /* of an end: an address in the loop's stack frame; 0: unknown */
    };
    uint64_t key; /* identifies the function's contents; the frame has a part of its bits */
};

struct interpreter_stack {
    unsigned count;
    bool cut;               /* there are more frames further out */
    bool direct;            /* the interpreter's memory cannot vanish, and is read directly */
    uintptr_t low, high;    /* the walk's part of the thread's stack */
    bool in_loop;           /* the walk has the loop */
    const uint64_t *frames; /* the walk's, innermost first */
    unsigned frame_count;
    struct interpreter_item items[INTERPRETER_ITEMS_MAX];
    void *notes; /* INTERPRETER_NOTES_BYTES, at first zeros; NULL: no memory */
};

enum interpreter_result {
    INTERPRETER_READ,
    INTERPRETER_UNCERTAIN,   /* the thread's state is in doubt */
    INTERPRETER_UNSUPPORTED, /* a version or a build of which the client knows nothing */
};

/* Code from start to end, exclusive. end 0: not known. */
struct code_range {
    uintptr_t start, end;
};

/* Return a range that other threads may find. */
static inline struct code_range code_range_read(const struct code_range *range)
{
    uintptr_t end = load_acquire(&range->end);
    return (struct code_range){end != 0 ? load_relaxed(&range->start) : 0, end};
}

/* Note a range that was found. The first thread decides. */
static inline void code_range_note(struct code_range *range, struct code_range found)
{
    uintptr_t unknown = 0;
    if (cas_acq_rel(&range->start, &unknown, found.start))
        store_release(&range->end, found.end);
}

static inline bool code_range_has(struct code_range range, uintptr_t address)
{
    return address - range.start < range.end - range.start;
}

/* An interpreter that was found in a module. */
struct interpreter {
    uint32_t state; /* enum: see interpreters.c */
    uint32_t generation;
    const struct interpreter_language *language;
    const struct module *module;
    struct code_range loop; /* not known as long as none without a symbol was seen on a stack */
    struct code_range part; /* of the loop: what the compiler has moved away, as rare */
    /* Code that only the loop calls, and that executes the functions in its place. Not known: the
     * loop itself may do so. */
    struct code_range core;
    uintptr_t places[6]; /* addresses that the language has found */
    /* The language's functions for small objects: to get, get zeroed, resize and free one. 0: it
     * has none, or others are in their place. */
    uintptr_t small_objects[4];
    bool supported;  /* `layout` is that of this version and build */
    uint32_t proven; /* it has been checked in a living thread */
    uint8_t layout[128] __attribute__((aligned(8))); /* the language's own offsets */
};

struct interpreter_language {
    /* The thread's state is sure to be alive only while the loop is on its stack. */
    bool read_in_loop;
    /* Return whether the module has the language's interpreter, and fill in its members from the
     * loop on. The module cannot be unloaded meanwhile. */
    bool (*find)(const struct module *module, struct interpreter *found);
    enum interpreter_result (*read)(struct interpreter *interpreter,
                                    struct interpreter_stack *stack);
    /* Send a CODE for the frame's function. Return false if there was no room. */
    bool (*send)(struct ring_thread *thread, const struct interpreter *interpreter,
                 const struct interpreter_stack *stack, const struct interpreter_item *item);
};

/* Read the dynamic symbols of a module with a frame on the stack. Return false if it has none. */
bool interpreter_open(const struct module *module, struct elf_tables *tables);

/* Find the range of the function, or of the part of one, that contains the address, by the module's
 * unwind table. Return false if the module does not contain it, or the table has no such range. */
bool interpreter_function_at(const struct module *module, uintptr_t address, uintptr_t *start,
                             uintptr_t *end);

/* Return a pointer to the bytes at `from`: if `direct`, themselves, or else a copy of them in
 * `room`. NULL: they cannot be read. */
const uint8_t *interpreter_view(bool direct, uintptr_t from, void *room, size_t bytes);

/* Copy words from an aligned address. Return false if they cannot be read. */
static inline bool interpreter_copy_words(bool direct, uintptr_t from, uint64_t *words,
                                          unsigned count)
{
    const uint8_t *view = interpreter_view(direct, from, words, count * sizeof(*words));
    if (from % sizeof(*words) != 0 || view == NULL)
        return false;
    if (direct)
        __builtin_memcpy(words, view, count * sizeof(*words));
    return true;
}

/* Return a part of a hash, which is the sum of such parts with different factors. */
static inline uint64_t interpreter_mix(uint64_t value, uint64_t factor)
{
    value *= factor | 1;
    return value ^ value >> 29;
}

/* Map the table of sent functions. Return 0 or -ENOMEM. */
int interpreters_init(void);

/* Forget which functions a daemon knows. */
void interpreters_forget(void);

/* Look for interpreters in a module that a frame of this thread returns into. Tell
 * interpreter_noticed(). */
void interpreters_notice(const struct module *module, uint32_t generation);

#if defined(HEAPPROFD_ATTACHED) || defined(HEAPPROFD_NO_HOOKS)
static inline void interpreter_noticed(const struct interpreter *interpreter)
{
    (void)interpreter;
}
#else
/* Use what was found for a heap (heaps/python_object.c). The thread is inside the client, and the
 * module cannot be unloaded meanwhile. */
void interpreter_noticed(const struct interpreter *interpreter);
#endif

/* Return a number that changes when an interpreter is found. 0: no interpreter is known. */
uint32_t interpreters_known(void);

/* A stack with the frames of a language among the native ones. */
struct interpreter_merge {
    unsigned number;                       /* of this buffer, below INTERPRETER_STACKS */
    const struct interpreter *interpreter; /* NULL: no frames of a language, or in doubt */
    unsigned count;
    uint64_t frames[INTERPRETER_MERGED_MAX];
    uintptr_t places[UNWIND_FRAMES_MAX + 1]; /* of the walk's frames: see unwind_callstack() */
    struct interpreter_stack stack;
};

/* Insert the frames of the language that executes on the walk's stack. Set merge->interpreter, and
 * if it is not NULL, merge->frames and the walk's hash. Count stacks that are in doubt. */
void interpreters_merge(struct interpreter_merge *merge, struct unwind_walk *walk,
                        const uint64_t *frames, uint32_t generation);

/* Send the functions of a merged stack that the daemon does not know. Return false if there was no
 * room. */
bool interpreters_send(struct ring_thread *thread, const struct interpreter_merge *merge);

extern const struct interpreter_language interpreter_python;
extern const struct interpreter_language interpreter_ruby;
extern const struct interpreter_language interpreter_php;

#endif
