/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the last stacks with their keys, and all that a key is computed from. Successive
 * stacks have mostly the same functions, and to compare is faster than to hash.
 */
#ifndef HEAPPROFD_CLIENT_INTERP_PYTHON_KNOWN_H
#define HEAPPROFD_CLIENT_INTERP_PYTHON_KNOWN_H

#include "client/interp/python.h"
#include "wire/barrier.h"

#define PYTHON_KNOWN_BITS 5u /* sets of two functions, the newer one first */

struct python_known_text {
    uintptr_t at;
    uint64_t hash;        /* Python's own; UINT64_MAX: not computed yet */
    uint64_t length, end; /* without a hash: the length and the last bytes */
    uintptr_t end_at;     /* address of the last bytes; 0: they do not count */
};

struct python_known {
    uintptr_t code; /* the first member; 0: none */
    struct python_known_text name, file, qualified;
    uintptr_t table;
    uint64_t table_length, table_middle, table_end;
    uint64_t size;
    uint32_t first_line;
    uint64_t key;
};

_Static_assert(2 * sizeof(struct python_known) << PYTHON_KNOWN_BITS <= INTERPRETER_NOTES_BYTES,
               "the functions fit into the notes");

/* Return the set in which the function is, if it is known. */
static inline struct python_known *python_known_set(struct interpreter_stack *stack, uintptr_t code)
{
    struct python_known *all = (struct python_known *)(void *)stack->notes;
    return &all[2 * (code * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PYTHON_KNOWN_BITS))];
}

static inline uint64_t python_word_at(uintptr_t address)
{
    return python_word((const uint8_t *)address, 0);
}

static inline bool python_is_known_text(const struct python_known_text *text)
{
    return python_word_at(text->at + PYTHON_TEXT_HASH) == text->hash &&
           (likely(text->hash != UINT64_MAX) ||
            (python_word_at(text->at + PYTHON_TEXT_LENGTH) == text->length &&
             (text->end_at == 0 || python_word_at(text->end_at) == text->end)));
}

/* Return the address of a table's last bytes, or with half its length of those in its middle. */
static inline uintptr_t python_table_bytes(uintptr_t table, uint64_t length)
{
    return table + PYTHON_BYTES_DATA + 1 - 8 + length;
}

/*
 * Return whether the code object at `code`, which `view` shows, is the known function. A frame of
 * the calling thread, which has the GIL, executes the object. So it is alive, and so are the
 * objects that it points to: where they are the same, they can be read.
 */
static inline bool python_is_known(const struct python_known *known,
                                   const struct python_layout *layout, uintptr_t code,
                                   const uint8_t *view)
{
    uintptr_t table = known->table;
    bool is_same = known->code == code && known->name.at == python_word(view, layout->code_name) &&
                   known->file.at == python_word(view, layout->code_file) &&
                   table == python_word(view, layout->code_table) &&
                   known->size == python_word(view, PYTHON_OBJECT_SIZE) &&
                   known->first_line == python_half(view, layout->code_first_line) &&
                   (layout->code_qualified_name == 0 ||
                    known->qualified.at == python_word(view, layout->code_qualified_name));
    return likely(is_same) && python_is_known_text(&known->name) &&
           python_is_known_text(&known->file) && python_is_known_text(&known->qualified) &&
           python_word_at(table + PYTHON_OBJECT_SIZE) == known->table_length &&
           python_word_at(python_table_bytes(table, known->table_length / 2)) ==
               known->table_middle &&
           python_word_at(python_table_bytes(table, known->table_length)) == known->table_end;
}

/* Put a function into its set. Its key has just been computed from memory that is read directly. */
void python_know(struct python_known *set, const struct python_layout *layout, uintptr_t code,
                 const uint8_t *view, uint64_t key);

#endif
