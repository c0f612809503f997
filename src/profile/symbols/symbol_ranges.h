/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses that have one name each, from symbols, which may overlap. */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_SYMBOL_RANGES_H
#define HEAPPROFD_PROFILE_SYMBOLS_SYMBOL_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/symbols/symbol_table.h"

/* The name from this address up to the next range's address (NULL: unknown). */
struct symbol_range {
    uint64_t address;
    const char *name;
};

struct symbol_ranges {
    struct symbol_range *items;
    size_t count;
};

/*
 * Compare symbols at one address: the name that people know best wins. A function precedes a label,
 * a symbol with a size one without, global precedes weak, weak precedes local, fewer leading
 * underscores precede more (malloc, not __libc_malloc), and shorter names precede longer ones. The
 * letters decide at last, so that the choice is always the same.
 */
bool symbol_is_better(const struct symbol *a, const struct symbol *b);

/* Make the ranges of symbols in any order, which are changed. Return 0 or -ENOMEM. */
int symbol_ranges_make(struct symbol_ranges *ranges, struct symbol *symbols, size_t count);

/* Return the range that contains the address, or NULL. `last`: that of an address which is often a
 * little below this one, or NULL. */
const struct symbol_range *symbol_ranges_find(const struct symbol_ranges *ranges,
                                              const struct symbol_range *last, uint64_t address);

void symbol_ranges_free(struct symbol_ranges *ranges);

#endif
