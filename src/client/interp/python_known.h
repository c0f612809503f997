/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the last stacks with their keys, and what tells whether they are still the same.
 * Successive stacks have mostly the same functions, and to compare is faster than to hash.
 */
#ifndef HEAPPROFD_CLIENT_INTERP_PYTHON_KNOWN_H
#define HEAPPROFD_CLIENT_INTERP_PYTHON_KNOWN_H

#include "client/interp/python.h"
#include "wire/barrier.h"

#define PYTHON_KNOWN_BITS 6u
#define PYTHON_KNOWN_SETS (1u << PYTHON_KNOWN_BITS)

struct python_known_text {
    uintptr_t at;
    uint64_t hash;        /* Python's own; UINT64_MAX: not computed yet */
    uint64_t length, end; /* without a hash: the length and the last bytes */
    uintptr_t end_at;     /* address of the last bytes; 0: they do not count */
    uint32_t state;       /* of its layout, PYTHON_TEXT_LAYOUT */
};

struct python_known {
    uintptr_t code; /* the first member; 0: none */
    const struct python_layout *layout;
    struct python_known_text name, file, qualified;
    uintptr_t table;
    uint64_t table_length, table_middle, table_end;
    uint64_t size;
    uint32_t first_line;
    uint64_t key;
};

/* Zeros are an empty one. */
struct python_known_functions {
    uint32_t misses;
    struct python_known sets[PYTHON_KNOWN_SETS][2];
};

_Static_assert(sizeof(struct python_known_functions) <= INTERPRETER_NOTES_BYTES,
               "the functions fit into the notes");

static inline unsigned python_known_set(uintptr_t code)
{
    return (unsigned)(code * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PYTHON_KNOWN_BITS));
}

static inline uint64_t python_word_at(uintptr_t address)
{
    return python_word((const uint8_t *)address, 0);
}

static inline bool python_is_known_text(const struct python_known_text *text)
{
    const uint8_t *head = (const uint8_t *)text->at;
    return python_word(head, PYTHON_TEXT_HASH) == text->hash &&
           (likely(text->hash != UINT64_MAX) ||
            (python_word(head, PYTHON_TEXT_LENGTH) == text->length &&
             (python_half(head, PYTHON_TEXT_STATE) & PYTHON_TEXT_LAYOUT) == text->state &&
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
    bool is_same = known->code == code && known->layout == layout &&
                   known->name.at == python_word(view, layout->code_name) &&
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

/* Return the known function in whose place the one at `code` is, if it is known. */
static inline const struct python_known *
python_known_of(const struct python_known_functions *functions, uintptr_t code)
{
    const struct python_known *set = functions->sets[python_known_set(code)];
    return &set[likely(set[0].code == code) ? 0 : 1];
}

/* Remember a function. Its key has just been computed from memory that is read directly. */
void python_know(struct python_known_functions *functions, const struct python_layout *layout,
                 uintptr_t code, const uint8_t *view, uint64_t key);

#endif
