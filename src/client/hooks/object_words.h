/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that the loader has filled in for an object's relocations. To give one another value
 * redirects the object's calls of a function.
 */
#ifndef HEAPPROFD_CLIENT_HOOKS_OBJECT_WORDS_H
#define HEAPPROFD_CLIENT_HOOKS_OBJECT_WORDS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "client/elf_tables.h"

/* An object whose words are looked at. Nobody may unload it meanwhile. */
struct object {
    struct elf_tables tables;
    uintptr_t protected_start, protected_end; /* whole pages that are read-only now */
};

struct object_word {
    uintptr_t at;
    uint64_t value;
    const char *name; /* of its symbol */
    bool is_for_call; /* not of a pointer that the program can read */
    bool is_imported; /* the object does not define the symbol itself */
};

/* Return the word's new value; 0: it stays. */
typedef uint64_t object_word_choice(void *context, const struct object_word *word);

/* Let `choose` decide on the words of all relocations with a symbol's address. A word that may not
 * be written stays. Return the number of words that have a new value. */
HIDDEN unsigned object_words_bind(const struct object *object, object_word_choice *choose,
                                  void *context);

/* Set the pages of a segment that the loader has made read-only (PT_GNU_RELRO). */
HIDDEN void object_set_protected(struct object *object, uintptr_t start, size_t bytes);

#endif
