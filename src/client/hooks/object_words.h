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

#if defined(__x86_64__)
#define RELOCATION_OF_CALL R_X86_64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_X86_64_GLOB_DAT
#define RELOCATION_OF_WORD R_X86_64_64
#define RELOCATION_OF_BASE R_X86_64_RELATIVE
#elif defined(__aarch64__)
#define RELOCATION_OF_CALL R_AARCH64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_AARCH64_GLOB_DAT
#define RELOCATION_OF_WORD R_AARCH64_ABS64
#define RELOCATION_OF_BASE R_AARCH64_RELATIVE
#endif

/* An object whose words are looked at. Nobody may unload it meanwhile. */
struct object {
    struct elf_tables tables;
    uintptr_t protected_start, protected_end; /* whole pages that the loader makes read-only */
    bool is_complete;                         /* the loader will not make them read-only any more */
    unsigned unwritten; /* words that should have another value, but could not be given it */
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

/* Return whether relocations of this type fill a word in with a symbol's address. */
static inline bool object_word_is_symbolic(unsigned type)
{
    return type == RELOCATION_OF_CALL || type == RELOCATION_OF_ADDRESS ||
           type == RELOCATION_OF_WORD;
}

/* Let `choose` decide on the words of all relocations with a symbol's address. A word that may not
 * be written stays, and is counted. */
HIDDEN void object_words_bind(struct object *object, object_word_choice *choose, void *context);

/* Set the pages of a segment that the loader makes read-only (PT_GNU_RELRO). */
HIDDEN void object_set_protected(struct object *object, uintptr_t start, size_t bytes);

#endif
